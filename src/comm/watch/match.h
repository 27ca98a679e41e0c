/* Whether the ranks of a group make the same calls. Every collective has a signature, one word of its kind, count,
 * type, operation and root, and every rank keeps a hash of all signatures so far, the chain of its calls. A transport
 * sends the chain with what it sends anyway: shm adds it to the counter of arrivals, mpi matches messages by it.
 * Ranks whose calls differ so find different chains, or wait for a message that never matches. Then they exchange the
 * signatures that they have kept, on the watchdog's communicator, and every rank of the group has the first two that
 * differ for its error.
 *
 * Invariant: after a difference every call of the group is refused, and no data of a different call has been used.
 * A rank that does not wait in a call (the root of a short broadcast, a sender) finds the difference in a later one.
 * Cost: some instructions a call, a look at the watchdog's communicator every MATCH_LOOKS calls; a wait sends two
 * messages of 250 bytes after MATCH_PATIENCE, and again whenever its time has doubled. */
#ifndef TRINE_COMM_WATCH_MATCH_H
#define TRINE_COMM_WATCH_MATCH_H

#include "comm/group/group.h"

/* Seconds after which a waiting rank shows its calls to its neighbours in the group, or to the sender of its
 * message. */
#define MATCH_PATIENCE 0.05
#define MATCH_LOOKS    32
/* Elements of a call that a signature can tell apart: fewer than 2^40. Roots are compared modulo 2^15. */
#define MATCH_COUNTS ((uint64_t)1 << 40)

/* A world's room for what it tells of its calls. make: NULL: out of memory. free: before the watchdog's communicator
 * is; what has not been received stays, since MPI may still read it. */
typedef struct match_room match_room;
match_room *match_room_make(void);
void match_room_free(match_room *room);
/* The calls of a new group. `world` counts its meshes; ranks of the group have the same `members` (n). */
void match_begin(trine_comm *comm);
/* Adds a collective to the group's chain, or refuses any call of a group in which a difference was found. Errors:
 * TRINE_EAUDIT. */
trine_status match_enter(trine_comm *comm, const comm_call *call);
trine_status match_refuse(const trine_comm *comm);
static inline trine_status match_usable(const trine_comm *comm) {
    return comm->trail->found.known ? match_refuse(comm) : TRINE_OK;
}
/* To be called in a wait of `waited` seconds: TRINE_EAUDIT if a difference has been found by any rank. The second is
 * for the wait for a message. */
trine_status match_wait(trine_comm *comm, double waited);
trine_status match_wait_message(trine_comm *comm, const comm_request *r, double waited);

/* Remembers a message that is sent. */
void match_sent(trine_comm *comm, const comm_request *r);
/* Of its count and type, in the high bits. Pure. */
uint64_t match_message_hash(size_t count, trine_dtype type);
/* Whether two members (places in the group) make the same call, by the marks that they have sent: if not, informs all
 * ranks and raises TRINE_EAUDIT. */
trine_status match_marks(trine_comm *comm, const int members[2], const call_mark marks[2]);
/* The message that receive `r` matches has another count or type: informs all ranks. Raises TRINE_EAUDIT. */
trine_status match_message(trine_comm *comm, const comm_request *r, size_t count, trine_dtype type);
/* The chains differ, and nothing else is known: finds the two calls. Raises TRINE_EAUDIT. */
trine_status match_differs(trine_comm *comm);

/* Receives what other ranks have sent; false: nothing. */
bool match_take(trine_world *world);

#endif
