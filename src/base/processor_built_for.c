/* The extensions that this file, and every other but processor.c, is compiled for: the compiler defines a
 * macro as 1 for each. Only data, so that reading it is safe on any processor. */
#include "base/processor.h"

/* 1 for a macro defined as 1, else 0: only COMMA_1 contains a comma, which moves the 1 to the second
 * argument. */
#define COMMA_1                     0,
#define SECOND(first, second, ...)  second
#define SECOND_OF(comma)            SECOND(comma 1, 0, 0)
#define IS_ONE(value)               SECOND_OF(COMMA_##value)
#define IS_ON(id, name, macro, ...) [PROCESSOR_##id] = IS_ONE(macro),

const bool processor_built_for[PROCESSOR_FEATURES] = {PROCESSOR_LIST(IS_ON)};
