/* The level of processors (base/levels.h) that all ranks of a job compute at. */
#ifndef TRINE_COMM_API_AGREE_LEVEL_H
#define TRINE_COMM_API_AGREE_LEVEL_H

#include "trine_comm.h"
#include "trine_types.h"

typedef struct {
    trine_cpu_level level;   /* of all ranks */
    trine_cpu_level highest; /* of one rank; above `level` where others lack it, or where the user asked for less */
} comm_level;

/* *out = `asked`, or for AUTO the highest level that the builds and processors of all ranks have; `asked` is the
 * same on all ranks. One all-reduce of 56 bytes. Errors: TRINE_EUNSUPPORTED if a rank lacks the level, or if ranks
 * of different builds have none in common; the collectives' own. Collective over: world. */
trine_status comm_agree_level(trine_world *world, trine_cpu_level asked, comm_level *out);
/* The same on a rank that has the levels `has`, of which one at least is true; AUTO at 0 is not read. */
trine_status comm_common_level(trine_world *world, trine_cpu_level asked, const bool has[TRINE_CPU_LEVELS],
                               comm_level *out);

#endif
