/* What a rank records before it may wait, and what its waits call (watchdog.c). */
#ifndef TRINE_COMM_WATCH_WATCHDOG_H
#define TRINE_COMM_WATCH_WATCHDOG_H

#include "comm/group/group.h"

/* Records the call that this rank may wait in from now on: the last call of its group, or the one with this
 * number. */
void watchdog_note(const trine_comm *comm, const comm_call *call);
void watchdog_note_number(const trine_comm *comm, const comm_call *call, uint64_t number);
/* Records this rank's coordinate in the mesh that was made last. */
void watchdog_note_mesh(const trine_world *world);
/* Called periodically inside a wait; *waited is 0 when the wait starts, then its observed seconds. Does not return
 * if the wait has become too long, unless a rank is found that waits for its file system or moves. */
void watchdog_check(trine_world *world, double *waited);
/* The same after each poll of a wait, the first of which is number 1: looks at every 32nd poll and, if polls are
 * long because they yield and other processes have the processor, every 20 ms. */
void watchdog_polled(trine_world *world, unsigned polls, double *waited);

/* Of ranks that fail at about the same time (all ranks of a tp group read the same bad token, say) only one prints:
 * the first, or the lowest of those that fail together. Returns true there, and false elsewhere, after a delay in
 * which that rank should have aborted the job. Not collective. */
bool watchdog_is_reporter(const trine_world *world);
/* Receives pending messages of other ranks, and returns when all ranks have: a communicator must not be freed with
 * messages in it (MPICH 5 aborts the job otherwise). Collective over: world. */
void watchdog_leave(trine_world *world);

#endif
