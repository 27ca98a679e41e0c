/* Messages between two ranks of a node. The sender posts its buffer's place in the outbox that it
 * keeps for the receiver; the receiver copies from there, in its wait or while it advances other
 * requests, and counts the message as taken, which completes the send. A short message travels in
 * the outbox itself, and its send is complete at once. A buffer outside of the windows is sent
 * through MPI, but announced in the outbox all the same, so that messages of both kinds stay in
 * order. */
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"

#include <string.h>

static shm_message *place_of(const trine_comm *comm, const comm_request *r, uint64_t number) {
    bool sends = r->kind == TRINE_TALLY_SEND;
    int from = sends ? comm->rank : r->peer, to = sends ? r->peer : comm->rank;
    return &shm_outbox_of(comm->shm, from, to)->ring[number % SHM_MESSAGES];
}

static shm_counter *taken(const trine_comm *comm, const comm_request *r) {
    bool sends = r->kind == TRINE_TALLY_SEND;
    return shm_taken_of(comm->shm, sends ? r->peer : comm->rank, sends ? comm->rank : r->peer);
}

static uint64_t shape_of(const comm_request *r) {
    return (uint64_t)r->count << 3 | (uint64_t)r->type;
}

static uint64_t look(const shm_counter *counter) {
    return atomic_load_explicit(counter, memory_order_acquire);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static trine_status post(trine_comm *comm, comm_request *r) {
    shm_message *m = place_of(comm, r, r->number);
    m->shape = shape_of(r);
    if (r->bytes <= SHM_EAGER) {
        m->src = (shm_place){SHM_PAYLOAD, 0};
        if (r->bytes) memcpy(m->data, r->src, r->bytes);
        r->state = SHM_DONE;
    } else {
        m->src = shm_find(comm->shm->node, r->src, r->bytes);
        r->state = SHM_POSTED;
    }
    if (m->src.window == SHM_NOWHERE) {
        TRY(mpi_transport.send_start(comm, r->src, r->bytes, r->peer, r));
        r->state = SHM_MPI;
    }
    atomic_store_explicit(&m->posted, r->number + 1, memory_order_release);
    shm_wake(comm->shm, r->peer);
    return TRINE_OK;
}

/* The number of messages that the peer has taken, read again only if the last known number is not
 * more than `enough`. */
static uint64_t count_taken(trine_comm *comm, const comm_request *r, uint64_t enough) {
    uint64_t *known = &comm->shm->taken[r->peer];
    if (*known <= enough) *known = look(taken(comm, r));
    return *known;
}

/* Messages are posted in the order of their start. */
static bool is_next(const trine_comm *comm, const comm_request *r) {
    return r->number == 0 || look(&place_of(comm, r, r->number - 1)->posted) >= r->number;
}

static trine_status move_send(trine_comm *comm, comm_request *r) {
    if (r->state == SHM_QUEUED && is_next(comm, r)) {
        uint64_t places = SHM_MESSAGES;
        if (r->number < places || count_taken(comm, r, r->number - places) > r->number - places)
            return post(comm, r);
    }
    if (r->state == SHM_POSTED && count_taken(comm, r, r->number) > r->number) r->state = SHM_DONE;
    return TRINE_OK;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static void take(trine_comm *comm, comm_request *r, int state) {
    r->state = state;
    atomic_store_explicit(taken(comm, r), r->number + 1, memory_order_release);
    shm_wake(comm->shm, r->peer);
}

static trine_status receive(trine_comm *comm, comm_request *r) {
    const shm_message *m = place_of(comm, r, r->number);
    if (m->shape != shape_of(r))
        return match_message(comm, r, (size_t)(m->shape >> 3), (trine_dtype)(m->shape & 7));
    if (m->src.window == SHM_NOWHERE) {
        TRY(mpi_transport.recv_start(comm, r->dst, r->bytes, r->peer, r));
        take(comm, r, SHM_MPI);
        return TRINE_OK;
    }
    const void *from = m->src.window == SHM_PAYLOAD
                           ? m->data
                           : shm_at(comm->shm->node, comm->shm->index[r->peer], m->src);
    if (r->bytes) memcpy(r->dst, from, r->bytes);
    take(comm, r, SHM_DONE);
    return TRINE_OK;
}

/* Messages are received in the order of their start: an earlier receive from the same rank has
 * another number. */
static trine_status move_recv(trine_comm *comm, comm_request *r) {
    bool next = look(taken(comm, r)) == r->number;
    if (next && look(&place_of(comm, r, r->number)->posted) > r->number) return receive(comm, r);
    return TRINE_OK;
}

/* ---- Sends and receives ---------------------------------------------------------------------- */

trine_status shm_move_message(trine_comm *comm, comm_request *r) {
    bool done = false;
    if (r->state == SHM_MPI) {
        TRY(mpi_test(comm, r, &done));
        if (done) r->state = SHM_DONE;
        return TRINE_OK;
    }
    return r->kind == TRINE_TALLY_SEND ? move_send(comm, r) : move_recv(comm, r);
}

const shm_counter *shm_message_counter(trine_comm *comm, const comm_request *r, uint64_t *target) {
    if (r->state == SHM_MPI) return NULL;
    *target = r->number + 1;
    if (r->kind == TRINE_TALLY_RECV) return &place_of(comm, r, r->number)->posted;
    if (r->state == SHM_QUEUED) *target = r->number + 1 - SHM_MESSAGES;
    return taken(comm, r);
}

trine_status shm_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                            comm_request *r) {
    r->kind = TRINE_TALLY_SEND;
    r->peer = peer;
    r->src = buf;
    r->bytes = bytes;
    r->number = comm->shm->sent[peer]++;
    r->state = SHM_QUEUED;
    TRY(move_send(comm, r));
    if (r->state != SHM_DONE) shm_enlist(comm->shm, r);
    return TRINE_OK;
}

trine_status shm_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer, comm_request *r) {
    r->kind = TRINE_TALLY_RECV;
    r->peer = peer;
    r->dst = buf;
    r->bytes = bytes;
    r->number = comm->shm->received[peer]++;
    r->state = SHM_POSTED;
    TRY(move_recv(comm, r));
    if (r->state != SHM_DONE) shm_enlist(comm->shm, r);
    return TRINE_OK;
}
