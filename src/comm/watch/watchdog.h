/* What a rank notes before it may wait, and what its waits call (watchdog.c). */
#ifndef TRINE_COMM_WATCH_WATCHDOG_H
#define TRINE_COMM_WATCH_WATCHDOG_H

#include "comm/group/group.h"

/* Notes the call that this rank may wait in from now on, the last of its group or another one. */
void watchdog_note(const trine_comm *comm, const comm_call *call);
void watchdog_note_number(const trine_comm *comm, const comm_call *call, uint64_t number);
/* Notes this rank's place in the mesh that was made last. */
void watchdog_note_mesh(const trine_world *world);
/* Called from inside a wait now and then; *waited is 0 when the wait starts, and the seconds that were
 * watched of it. Does not return when the wait has become too long and no rank is found that waits for
 * its file system. */
void watchdog_check(trine_world *world, double *waited);
/* The same after each poll of a wait, the first of which is number 1: looks at every 32nd and, where a poll
 * is long, because it yields and others have the processor, every 20 ms. */
void watchdog_polled(trine_world *world, unsigned polls, double *waited);

/* Of ranks that fail at about the same time (all ranks of a tp group read the same bad token, say)
 * the first to come speaks, or the lowest of those who come together; it returns true there. False
 * elsewhere, after a time in which that rank should have ended the job. Not collective. */
bool watchdog_speaks(const trine_world *world);
/* Receives what others have told this rank and it has not looked at, and returns when all have: a communicator
 * is freed without messages in it (MPICH 5 ends the job otherwise). Collective over: world. */
void watchdog_leave(trine_world *world);

#endif
