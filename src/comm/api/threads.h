/* Threads for a rank. Every processor in its affinity mask is divided among the ranks of the node
 * that may run on it, too: whether mpirun binds ranks or not, no processor is promised twice. */
#ifndef TRINE_COMM_API_THREADS_H
#define TRINE_COMM_API_THREADS_H

#include "trine.h"

/* *threads >= 1; *narrow: this rank's mask has fewer processors than its share of the node's.
 * Errors: TRINE_ENOMEM, the collectives' own. Collective over: node. */
trine_status threads_share(trine_comm *node, int *threads, bool *narrow);

#endif
