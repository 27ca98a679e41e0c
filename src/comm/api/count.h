/* A group without peers, for counting what a program sends before anything runs: it has a size, its calls are checked
 * as in every group, and instead of moving data each is told to a function. There is no world and no MPI. */
#ifndef TRINE_COMM_API_COUNT_H
#define TRINE_COMM_API_COUNT_H

#include "comm/api/comm.h"

/* One collective of `count` elements, as comm_bytes counts it; started: the caller goes on and waits for it later.
 * Errors end the call. */
typedef trine_status (*comm_count_call)(void *context, trine_tally_kind kind, size_t count, trine_dtype type,
                                        bool started);

/* This process is rank 0 of `size`. All-reduce, all-gather and reduce-scatter only; other calls are
 * TRINE_EUNSUPPORTED. *comm is the caller's. Errors: TRINE_ENOMEM. Not collective. */
trine_status comm_count_create(trine_comm **comm, trine_group group, int size, comm_count_call call, void *context);
void comm_count_destroy(trine_comm **comm);

#endif
