/* The MPI-3 transport. Every call is non-blocking and every wait is one poll loop, which yields the
 * core (ranks may outnumber cores) and lets the watchdog check the time.
 *
 * Everything is sent as messages between two ranks, because their tags can tell calls apart: a
 * message of a collective carries as many bits of the chain of calls (watch/match.h) as MPI's tags
 * have, so that it matches only in the same call with the same arguments; a message of the user's
 * carries those of its number, count and type. Ranks whose calls differ wait for messages that do not come, and find
 * out; MPI's own collectives would mix the data.
 *
 * All messages are bytes. A message that exceeds the message limit becomes one element of a derived
 * datatype: still one MPI message and one request, but no count or displacement overflows an int.
 * Posted messages and segments have their own tags, so that a reduction never matches a message
 * that comm_send_start left in progress on the same communicator. */
#include "comm/transport/mpi/mpi.h"
#include "comm/group/world.h"
#include "comm/reduce/rank_order.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TAG_KINDS   MPI_TAG_KINDS
#define TAG_NUMBERS 4 /* bits of a message's number, after these */

/* A broadcast of CHAIN_FROM bytes and more is sent along a chain, in segments of CHAIN_BYTES, except in
 * small groups. */
#define CHAIN_FROM  ((size_t)64 * 1024)
#define CHAIN_BYTES ((size_t)32 * 1024)

/* Polls before the first yield: enough if the peer is already there. */
#define SPINS 64

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "comm_request.handle must hold a request");

static mpi_state *state_of(const trine_comm *comm) {
    return comm->state;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* The code of the first message that failed. */
static int code_of(int code, int count, const MPI_Status *statuses) {
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++)
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    return code;
}

/* Nothing may arrive in a buffer that the caller gets back. What has been sent stays with MPI: a send is not
 * cancelled, which MPI 4.0 (section 3.8.4) deprecates, and of which MPICH 5 dies in UCX. */
static void cancel_all(const mpi_posted *list) {
    for (int i = 0; i < list->count; i++) {
        if (list->requests[i] == MPI_REQUEST_NULL) continue;
        if (list->receives[i]) MPI_Cancel(&list->requests[i]);
        MPI_Request_free(&list->requests[i]);
    }
}

static trine_status poll_until(trine_comm *comm, const mpi_posted *list, MPI_Status *statuses) {
    double waited = 0;
    for (unsigned polls = 1;; polls++) {
        int done = 0, code = MPI_Testall(list->count, list->requests, &done, statuses);
        if (code != MPI_SUCCESS) TRY_MPI(code_of(code, list->count, statuses));
        if (done) return TRINE_OK;
        if (polls >= SPINS) {
            TRY(started_advance(comm->world));
            world_give_way(comm->world, polls - SPINS);
        }
        watchdog_polled(comm->world, polls, &waited);
        TRY(match_wait(comm, waited));
    }
}

static trine_status poll_all(trine_comm *comm, const mpi_posted *list, MPI_Status *statuses) {
    trine_status status = poll_until(comm, list, statuses);
    if (status != TRINE_OK) cancel_all(list);
    TRY(status);
    return TRINE_OK;
}

static trine_status poll_one(trine_comm *comm, MPI_Request *request, bool receives) {
    MPI_Status status;
    return poll_all(comm, &(mpi_posted){request, &receives, 1}, &status);
}

/* The bytes of the MPI_Request: an int in MPICH, a pointer in Open MPI. */
static void handle_set(comm_request *request, MPI_Request own) {
    memcpy(&request->handle, &own, sizeof own);
}

static MPI_Request handle_get(const comm_request *request) {
    MPI_Request own;
    memcpy(&own, &request->handle, sizeof own);
    return own;
}

/* Until the reduction and all older ones are complete. */
static trine_status wait_reduction(trine_comm *comm, const comm_request *request) {
    double waited = 0;
    for (unsigned polls = 1; request->mover != STARTED_DONE; polls++) {
        TRY(started_advance(comm->world));
        if (request->mover == STARTED_DONE) return TRINE_OK;
        if (polls >= SPINS) world_give_way(comm->world, polls - SPINS);
        watchdog_polled(comm->world, polls, &waited);
        TRY(match_wait(comm, waited));
    }
    return TRINE_OK;
}

static void exchange_end(trine_comm *comm, comm_request *request) {
    struct mpi_exchange *x = request->exchange, **free_ones = &state_of(comm)->exchanges;
    request->exchange = NULL;
    x->next = *free_ones;
    *free_ones = x;
    comm->world->mpi_pending--;
}

static trine_status wait_exchange(trine_comm *comm, comm_request *request) {
    struct mpi_exchange *x = request->exchange;
    trine_status status = poll_all(comm, &x->messages, state_of(comm)->statuses);
    exchange_end(comm, request);
    TRY(status);
    return TRINE_OK;
}

static trine_status mpi_wait(trine_comm *comm, comm_request *request) {
    if (request->mover != STARTED_NOT) return wait_reduction(comm, request);
    if (request->exchange) return wait_exchange(comm, request);
    MPI_Request own = handle_get(request);
    trine_status status = poll_one(comm, &own, request->receives);
    comm->world->mpi_pending--;
    TRY(status);
    return TRINE_OK;
}

trine_status mpi_test(trine_comm *comm, comm_request *request, bool *done) {
    struct mpi_exchange *x = request->exchange;
    MPI_Request own = handle_get(request);
    int flag = 0;
    if (x) {
        TRY_MPI(
            MPI_Testall(x->messages.count, x->messages.requests, &flag, state_of(comm)->statuses));
        if (flag) exchange_end(comm, request);
        *done = flag != 0;
        return TRINE_OK;
    }
    TRY_MPI(MPI_Test(&own, &flag, MPI_STATUS_IGNORE));
    handle_set(request, own);
    *done = flag != 0;
    if (flag) comm->world->mpi_pending--;
    return TRINE_OK;
}

/* ---- Long messages --------------------------------------------------------------------------- */

/* `bytes` bytes as `count` elements of `type`. */
typedef struct {
    int count;
    MPI_Datatype type;
    bool derived;
} span;

static trine_status span_derive(span *b, size_t bytes, size_t limit) {
    size_t segments = bytes / limit, rest = bytes % limit;
    CHECK(segments <= INT_MAX, TRINE_EINVAL, "message of %zu bytes exceeds the limit of %zu bytes",
          bytes, limit);
    MPI_Datatype segment, full;
    TRY_MPI(MPI_Type_contiguous((int)limit, MPI_BYTE, &segment));
    int counts[2] = {(int)segments, (int)rest};
    MPI_Aint places[2] = {0, (MPI_Aint)(segments * limit)};
    MPI_Datatype types[2] = {segment, MPI_BYTE};
    TRY_MPI(MPI_Type_create_struct(rest ? 2 : 1, counts, places, types, &full));
    TRY_MPI(MPI_Type_free(&segment));
    TRY_MPI(MPI_Type_commit(&full));
    *b = (span){1, full, true};
    return TRINE_OK;
}

/* `copies`: how many such spans one call places side by side. */
static trine_status span_make(span *b, const trine_comm *comm, size_t bytes, int copies) {
    size_t limit = comm->world->message_limit;
    if (bytes > limit / (size_t)copies) return span_derive(b, bytes, limit);
    *b = (span){(int)bytes, MPI_BYTE, false};
    return TRINE_OK;
}

/* MPI keeps the type for as long as a call in progress needs it. */
static trine_status span_free(span *b) {
    if (b->derived) TRY_MPI(MPI_Type_free(&b->type));
    return TRINE_OK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static trine_status isend(trine_comm *comm, const void *buf, size_t bytes, int peer, int tag,
                          MPI_Request *request) {
    span b;
    TRY(span_make(&b, comm, bytes, 1));
    TRY_MPI(MPI_Isend(buf, b.count, b.type, peer, tag, state_of(comm)->comm, request));
    return span_free(&b);
}

static trine_status irecv(trine_comm *comm, void *buf, size_t bytes, int peer, int tag,
                          MPI_Request *request) {
    span b;
    TRY(span_make(&b, comm, bytes, 1));
    TRY_MPI(MPI_Irecv(buf, b.count, b.type, peer, tag, state_of(comm)->comm, request));
    return span_free(&b);
}

static trine_status post_send(trine_comm *comm, const void *buf, size_t bytes, int peer, int tag,
                              mpi_posted *list) {
    TRY(isend(comm, buf, bytes, peer, tag, &list->requests[list->count]));
    list->receives[list->count++] = false;
    return TRINE_OK;
}

static trine_status post_recv(trine_comm *comm, void *buf, size_t bytes, int peer, int tag,
                              mpi_posted *list) {
    TRY(irecv(comm, buf, bytes, peer, tag, &list->requests[list->count]));
    list->receives[list->count++] = true;
    return TRINE_OK;
}

/* The high bits of a chain depend on all calls. */
static int chain_tag(const trine_comm *comm, mpi_tag_kind kind, uint64_t chain) {
    return (int)(chain >> (64 - state_of(comm)->tag_bits)) << TAG_KINDS | (int)kind;
}

static int call_tag(const trine_comm *comm, mpi_tag_kind kind) {
    return chain_tag(comm, kind, comm->trail->chain);
}

/* The lowest bits of a message's number, and a hash of its count and type: a message with others must
 * not match, because MPI may write more than a buffer has. */
static int message_tag(const trine_comm *comm, mpi_tag_kind kind, uint64_t number, size_t count,
                       trine_dtype type) {
    int numbers = TAG_NUMBERS, bits = state_of(comm)->tag_bits - numbers;
    uint64_t shape = match_message_hash(count, type) >> (64 - bits);
    uint64_t low = number & ((UINT64_C(1) << numbers) - 1);
    return (int)(shape << numbers | low) << TAG_KINDS | (int)kind;
}

static int tag_of(const comm_request *r, mpi_tag_kind kind) {
    if (kind == TAG_SEGMENT || kind == TAG_OFFER) return call_tag(r->comm, kind);
    return message_tag(r->comm, kind, r->chain, r->count, r->type);
}

trine_status mpi_send_as(trine_comm *comm, const void *buf, size_t bytes, int peer,
                         mpi_tag_kind kind, comm_request *request) {
    MPI_Request own;
    TRY(isend(comm, buf, bytes, peer, tag_of(request, kind), &own));
    handle_set(request, own);
    request->receives = false;
    comm->world->mpi_pending++;
    return TRINE_OK;
}

trine_status mpi_recv_as(trine_comm *comm, void *buf, size_t bytes, int peer, mpi_tag_kind kind,
                         comm_request *request) {
    MPI_Request own;
    TRY(irecv(comm, buf, bytes, peer, tag_of(request, kind), &own));
    handle_set(request, own);
    request->receives = true;
    comm->world->mpi_pending++;
    return TRINE_OK;
}

static trine_status mpi_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                   comm_request *request) {
    return mpi_send_as(comm, buf, bytes, peer, TAG_MESSAGE, request);
}

static trine_status mpi_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                   comm_request *request) {
    return mpi_recv_as(comm, buf, bytes, peer, TAG_MESSAGE, request);
}

/* Open MPI and MPICH have it; in a library without it the address is NULL. */
extern int MPIX_Query_cuda_support(void) __attribute__((weak));

bool mpi_reaches_gpus(void) {
    return MPIX_Query_cuda_support && MPIX_Query_cuda_support() == 1;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* If the first message from this peer that matches no receive has the number of the one that is waited for,
 * it is this message, with another count or type. (A message with another number is a later one, whose
 * receive has not been posted.) */
static trine_status look_for_other(trine_comm *comm, const comm_request *r) {
    const int low = (1 << (TAG_KINDS + TAG_NUMBERS)) - 1;
    MPI_Status status;
    MPI_Count bytes = 0;
    int there = 0;
    TRY_MPI(MPI_Iprobe(r->peer, MPI_ANY_TAG, state_of(comm)->comm, &there, &status));
    mpi_tag_kind kind =
        there ? (mpi_tag_kind)(status.MPI_TAG & ((1 << TAG_KINDS) - 1)) : TAG_MESSAGE;
    int own = tag_of(r, kind);
    bool other = there && (kind == TAG_MESSAGE || kind == TAG_GPU) &&
                 (status.MPI_TAG & low) == (own & low) && status.MPI_TAG != own;
    if (!other) return TRINE_OK;
    TRY_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
    for (int t = 0; trine_dtype_bytes((trine_dtype)t); t++) {
        size_t count = (size_t)bytes / trine_dtype_bytes((trine_dtype)t);
        if (message_tag(comm, kind, r->chain, count, (trine_dtype)t) == status.MPI_TAG)
            return match_message(comm, r, count, (trine_dtype)t);
    }
    return TRINE_OK;
}

/* The error of a receive that has waited names the message that came instead. */
static trine_status poll_receive(trine_comm *comm, const comm_request *r, MPI_Request *own,
                                 MPI_Status *status) {
    double waited = 0;
    for (unsigned polls = 1;; polls++) {
        int done = 0;
        TRY_MPI(MPI_Test(own, &done, status));
        if (done) return TRINE_OK;
        if (polls >= SPINS) {
            TRY(started_advance(comm->world));
            world_give_way(comm->world, polls - SPINS);
        }
        watchdog_polled(comm->world, polls, &waited);
        if (waited > MATCH_PATIENCE) TRY(look_for_other(comm, r));
        TRY(match_wait_message(comm, r, waited));
    }
}

static trine_status mpi_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    MPI_Request own = handle_get(request);
    MPI_Status status;
    MPI_Count received = 0;
    trine_status outcome = poll_receive(comm, request, &own, &status);
    comm->world->mpi_pending--;
    if (outcome != TRINE_OK) cancel_all(&(mpi_posted){&own, &request->receives, 1});
    TRY(outcome);
    TRY_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &received));
    size_t count = (size_t)received / trine_dtype_bytes(request->type);
    return (uint64_t)received == bytes ? TRINE_OK
                                       : match_message(comm, request, count, request->type);
}

/* ---- Posted messages ------------------------------------------------------------------------- */

static trine_status mpi_post_send(trine_comm *comm, const void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->posted.count < 2 * comm->size);
    return post_send(comm, buf, bytes, peer, call_tag(comm, TAG_POSTED), &s->posted);
}

static trine_status mpi_post_recv(trine_comm *comm, void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->posted.count < 2 * comm->size);
    return post_recv(comm, buf, bytes, peer, call_tag(comm, TAG_POSTED), &s->posted);
}

static trine_status mpi_flush(trine_comm *comm) {
    mpi_state *s = state_of(comm);
    mpi_posted posted = s->posted;
    s->posted.count = 0;
    return poll_all(comm, &posted, s->statuses);
}

/* ---- Started reductions ---------------------------------------------------------------------- */

static int started_tag(const comm_request *r) {
    return chain_tag(r->comm, TAG_STARTED, r->chain);
}

trine_status mpi_started_send(const comm_request *r, const void *buf, size_t bytes, int peer) {
    trine_comm *comm = r->comm;
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->started.count < 2 * comm->size);
    return post_send(comm, buf, bytes, peer, started_tag(r), &s->started);
}

trine_status mpi_started_recv(const comm_request *r, void *buf, size_t bytes, int peer) {
    trine_comm *comm = r->comm;
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->started.count < 2 * comm->size);
    return post_recv(comm, buf, bytes, peer, started_tag(r), &s->started);
}

trine_status mpi_started_arrived(trine_comm *comm, bool *arrived) {
    mpi_state *s = state_of(comm);
    int done = 0, code = MPI_Testall(s->started.count, s->started.requests, &done, s->statuses);
    if (code != MPI_SUCCESS) TRY_MPI(code_of(code, s->started.count, s->statuses));
    if (done) s->started.count = 0;
    *arrived = done != 0;
    return TRINE_OK;
}

void mpi_started_cancel(trine_comm *comm) {
    mpi_state *s = state_of(comm);
    cancel_all(&s->started);
    s->started.count = 0;
}

/* all-reduce and reduce-scatter */
static trine_status mpi_reduction_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                        trine_dtype type, trine_reduction op,
                                        comm_request *request) {
    (void)count, (void)type, (void)op; /* calls.c has set them */
    started_add(request, dst, src, STARTED_MESSAGES);
    return started_move(comm->world);
}

static trine_status mpi_progress(trine_comm *comm) {
    return started_advance(comm->world);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static struct mpi_exchange *exchange_new(size_t messages) {
    struct mpi_exchange *x =
        malloc(sizeof *x + messages * (sizeof *x->requests + sizeof *x->messages.receives));
    if (x) x->messages = (mpi_posted){x->requests, (bool *)(x->requests + messages), 0};
    return x;
}

/* The requests of a gather that is started: from a list of those that are free. */
static trine_status exchange_begin(trine_comm *comm, comm_request *request) {
    mpi_state *s = state_of(comm);
    struct mpi_exchange *x = s->exchanges;
    if (x)
        s->exchanges = x->next;
    else
        x = exchange_new(2 * (size_t)comm->size);
    CHECK(x, TRINE_ENOMEM, "no memory for the messages of a gather over %d ranks", comm->size);
    x->messages.count = 0;
    request->exchange = x;
    comm->world->mpi_pending++;
    return TRINE_OK;
}

/* Every rank sends its part to all others, its neighbours first. */
static trine_status exchange_parts(trine_comm *comm, char *dst, const void *src, size_t part,
                                   const comm_request *request) {
    struct mpi_exchange *x = request->exchange;
    int tag = chain_tag(comm, TAG_GATHER, request->chain ? request->chain : comm->trail->chain);
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        TRY(post_recv(comm, dst + (size_t)from * part, part, from, tag, &x->messages));
        TRY(post_send(comm, src, part, to, tag, &x->messages));
    }
    return TRINE_OK;
}

static trine_status mpi_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                         comm_request *request) {
    char *own = (char *)dst + (size_t)comm->rank * part;
    TRY(exchange_begin(comm, request));
    if (!part) return TRINE_OK;
    trine_status status = exchange_parts(comm, dst, src, part, request);
    if (status != TRINE_OK) {
        cancel_all(&((struct mpi_exchange *)request->exchange)->messages);
        exchange_end(comm, request);
    }
    TRY(status);
    if (src != own) memcpy(own, src, part);
    return TRINE_OK;
}

/* A chain, a segment at a time: a rank receives one while it passes on the one before. */
static trine_status broadcast_chain(trine_comm *comm, void *whole, size_t bytes, int root) {
    int place = (comm->rank - root + comm->size) % comm->size; /* the root is the first */
    int from = (comm->rank - 1 + comm->size) % comm->size, to = (comm->rank + 1) % comm->size;
    int tag = call_tag(comm, TAG_POSTED);
    char *buf = whole;
    MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
    for (size_t at = 0; at < bytes; at += CHAIN_BYTES) {
        size_t n = bytes - at < CHAIN_BYTES ? bytes - at : CHAIN_BYTES;
        if (place) {
            TRY(irecv(comm, buf + at, n, from, tag, &in));
            TRY(poll_one(comm, &in, true));
        }
        TRY(poll_one(comm, &out, false));
        if (place + 1 < comm->size) TRY(isend(comm, buf + at, n, to, tag, &out));
    }
    return poll_one(comm, &out, false);
}

static trine_status mpi_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    bool chain = comm->size > MPI_FLAT_SIZE && bytes >= CHAIN_FROM;
    return (chain ? broadcast_chain : mpi_broadcast_tree)(comm, buf, bytes, root);
}

/* Dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988). */
static trine_status mpi_barrier(trine_comm *comm) {
    int tag = call_tag(comm, TAG_POSTED);
    for (int step = 1; step < comm->size; step <<= 1) {
        MPI_Request requests[2];
        bool receives[2];
        mpi_posted both = {requests, receives, 0};
        MPI_Status statuses[2];
        TRY(post_recv(comm, NULL, 0, (comm->rank - step + comm->size) % comm->size, tag, &both));
        TRY(post_send(comm, NULL, 0, (comm->rank + step) % comm->size, tag, &both));
        TRY(poll_all(comm, &both, statuses));
    }
    return TRINE_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void mpi_destroy(trine_comm *comm) {
    mpi_leave(comm);
}

const comm_transport mpi_transport = {
    .name = "mpi",
    .order = COMM_ORDER_RANKS,
    .broadcast = mpi_broadcast,
    .scatter = mpi_scatter,
    .gather = mpi_gather,
    .all_to_all = mpi_all_to_all,
    .barrier = mpi_barrier,
    .progress = mpi_progress,
    .all_reduce = rank_order_all_reduce,
    .reduce = rank_order_reduce,
    .reduce_scatter = rank_order_reduce_scatter,
    .all_reduce_start = mpi_reduction_start,
    .reduce_scatter_start = mpi_reduction_start,
    .all_gather_start = mpi_all_gather_start,
    .send_start = mpi_send_start,
    .recv_start = mpi_recv_start,
    .wait = mpi_wait,
    .wait_received = mpi_wait_received,
    .post_send = mpi_post_send,
    .post_recv = mpi_post_recv,
    .flush = mpi_flush,
    .destroy = mpi_destroy,
};
