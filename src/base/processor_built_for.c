/* What this file was compiled for, and with it all others but processor.c: the compiler defines a macro
 * as 1 for each extension that it may use. Data alone, so that looking at it is safe anywhere. */
#include "base/processor.h"

/* 1 for a macro that is 1, 0 for one that is none: only COMMA_1 has a comma in it, which moves the 1 to the
 * second place. */
#define COMMA_1                     0,
#define SECOND(first, second, ...)  second
#define SECOND_OF(comma)            SECOND(comma 1, 0, 0)
#define IS_ONE(value)               SECOND_OF(COMMA_##value)
#define IS_ON(id, name, macro, ...) [PROCESSOR_##id] = IS_ONE(macro),

const bool processor_built_for[PROCESSOR_FEATURES] = {PROCESSOR_LIST(IS_ON)};
