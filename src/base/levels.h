/* The levels of processors that the kernels of this build are compiled for (trine_cpu_level).
 *
 * A kernel is a file that loops over numbers (KERNELS in the Makefile). In a build for one processor it is
 * compiled once, like all others; with MARCH=any once for each row of LEVEL_LIST. The objects of a row become one,
 * of which only the names of its tables are seen from outside: cpu_kernels_v3, reduce_kernels_v3. Everything else
 * is compiled for the first row. Who uses a table picks its row once (levels_row).
 *
 * Invariant: a row has the code of a build for that level, and so its bits. Cost: one more call for each
 * reduction of a collective. */
#ifndef TRINE_BASE_LEVELS_H
#define TRINE_BASE_LEVELS_H

#include "base/processor.h"

/* ROW(name, level). `built`: that of processor_built_for. */
#if defined(EVERY_LEVEL)
#define LEVEL_LIST(ROW)                                                                            \
    ROW(v2, TRINE_CPU_V2)                                                                          \
    ROW(v3, TRINE_CPU_V3)                                                                          \
    ROW(v4, TRINE_CPU_V4)                                                                          \
    ROW(v4_bf16, TRINE_CPU_V4_BF16)
#else
#define LEVEL_LIST(ROW) ROW(built, TRINE_CPU_AUTO)
#endif

/* In a kernel: the row that it is compiled for, and the name of a table of this row. */
#if !defined(LEVEL)
#define LEVEL built
#endif
#define LEVEL_PASTE(name, level) name##_##level
#define LEVEL_EXPAND(name, level) LEVEL_PASTE(name, level)
#define LEVEL_NAME(name)          LEVEL_EXPAND(name, LEVEL)

/* Whether the build has kernels for a level. V4_AMX has those of V4_BF16. Pure. */
bool levels_built(trine_cpu_level level);
/* Whether the build and this processor have it. Not collective. */
bool levels_here(trine_cpu_level level);
/* The highest that levels_here has. Not collective. */
trine_cpu_level levels_highest(void);
/* The place in LEVEL_LIST of the kernels of a level that the build has; for others, for plans, of any. Pure. */
int levels_row(trine_cpu_level level);
/* Whether MARCH=any. Pure. */
bool levels_several(void);

/* "v4-bf16". Pure. */
const char *levels_name(trine_cpu_level level);

/* Checks a level that the user has asked for. Errors: TRINE_EUNSUPPORTED with the level and what the build, or this
 * processor, has. Not collective. */
trine_status levels_check(trine_cpu_level level);

#endif
