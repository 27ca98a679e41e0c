/* Reductions that a rank has started and not finished, of all groups of a world, in the order of their start. Those
 * whose addends travel in messages are moved here, one at a time, the oldest first: its messages are posted, and the
 * addends are added in rank order (reduce/rank_order.h) once they have arrived. What is posted needs a place where it
 * arrives, so a reduction moves in chunks of world->arrivals; no blocking call uses those. A transport that moves a
 * reduction itself (shm) lists it as well: all ranks then pass the same ones to messages in the same order.
 * Invariant: the reductions of a group move in the order of their start, the same on all ranks.
 * Cost: the bytes and additions of the blocking call. */
#ifndef TRINE_COMM_TRANSPORT_MPI_STARTED_H
#define TRINE_COMM_TRANSPORT_MPI_STARTED_H

#include "comm/group/world.h"

/* comm_request.mover: no started reduction; not known before all ranks have arrived; the transport itself; messages;
 * nobody any more, it is complete and no longer in the list. */
enum { STARTED_NOT, STARTED_UNKNOWN, STARTED_TRANSPORT, STARTED_MESSAGES, STARTED_DONE };

/* The list's memory, empty. *world->started is owned by the world. Errors: TRINE_ENOMEM. Not collective. */
trine_status started_create(trine_world *world);
void started_destroy(trine_world *world);
/* The memory where addends arrive, for groups of up to group_size ranks; see comm_arrival_bytes. No reduction may be
 * in progress. Errors: TRINE_ENOMEM. Not collective, but all ranks need the same size, or their chunks differ. */
trine_status started_size(trine_world *world, int group_size);

/* Sets the request's buffers and appends it; kind, op, type and count are those of calls.c. */
void started_add(comm_request *r, void *dst, const void *src, int mover);
/* Removes a reduction that its transport has completed. */
void started_remove(comm_request *r);
/* Forgets all of a group that cannot be used any more. */
void started_abandon(trine_comm *comm);
/* The oldest; NULL: none. */
comm_request *started_first(const trine_world *world);

/* Moves the reductions that messages move, as far as messages have arrived. Never waits. */
trine_status started_move(trine_world *world);
/* Advances all that this rank has in progress: its requests in shared memory, of all groups, then these reductions.
 * Every wait calls it. Never waits. Errors: also those of the requests. */
trine_status started_advance(trine_world *world);

#endif
