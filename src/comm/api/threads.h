/* The number of threads of a rank. Every processor in the rank's affinity mask is divided among the ranks of the
 * node that may run on it: no processor is counted twice, whether mpirun binds ranks or not. */
#ifndef TRINE_COMM_API_THREADS_H
#define TRINE_COMM_API_THREADS_H

#include "trine_types.h"

/* *threads >= 1; *cpu_limited: this rank's mask has fewer processors than its share of the node. Errors:
 * TRINE_ENOMEM, the collectives' own. Collective over: node. */
trine_status threads_share(trine_comm *node, int *threads, bool *cpu_limited);

#endif
