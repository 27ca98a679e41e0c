/* The public operations. Each describes itself as a comm_call and enters: the arguments are checked
 * before anything is sent, audit mode compares the call over the group, the tally counts it, and
 * the watchdog records what this rank may wait in. Then the transport executes it. */
#include "comm/api/audit.h"
#include "comm/api/one_thread.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"
#include "comm/watch/tally.h"
#include "comm/watch/watchdog.h"
#include "base/live.h"
#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

#define CALL(...) (&(comm_call){__VA_ARGS__})

/* The begin of a public function. */
#define ENTER(comm)                                                                                \
    CHECK_LIVE(comm, #comm, LIVE_COMM);                                                            \
    ONE_THREAD((comm)->counts ? NULL : (comm)->world, __func__)

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool is_message(trine_tally_kind kind) {
    return kind == TRINE_TALLY_SEND || kind == TRINE_TALLY_RECV;
}

static bool is_reduction(trine_tally_kind kind) {
    return kind == TRINE_TALLY_ALL_REDUCE || kind == TRINE_TALLY_REDUCE ||
           kind == TRINE_TALLY_REDUCE_SCATTER;
}

/* Every rank holds one P-th of the full buffer. */
static bool is_split(trine_tally_kind kind) {
    return kind == TRINE_TALLY_ALL_GATHER || kind == TRINE_TALLY_SCATTER ||
           kind == TRINE_TALLY_GATHER || kind == TRINE_TALLY_REDUCE_SCATTER ||
           kind == TRINE_TALLY_ALL_TO_ALL;
}

static trine_status refuse(const trine_comm *comm, const comm_call *call, const char *why) {
    return RAISE(TRINE_EINVAL, "%s of %zu elements over group %s of %d: %s",
                 tally_kind_text(call->kind), call->count, comm_group_name(comm->group), comm->size,
                 why);
}

static trine_status check_peer(const trine_comm *comm, const comm_call *call) {
    bool legal = call->peer >= 0 && call->peer < comm->size;
    if (tally_kind_has_root(call->kind)) {
        CHECK(legal, TRINE_EINVAL, "%s over group %s of %d: invalid root %d (valid: 0 to %d)",
              tally_kind_text(call->kind), comm_group_name(comm->group), comm->size, call->peer,
              comm->size - 1);
    } else if (is_message(call->kind)) {
        CHECK(legal, TRINE_EINVAL, "%s over group %s of %d: invalid peer %d (valid: 0 to %d)",
              tally_kind_text(call->kind), comm_group_name(comm->group), comm->size, call->peer,
              comm->size - 1);
        CHECK(call->peer != comm->rank, TRINE_EINVAL,
              "%s over group %s of %d: peer %d is this rank", tally_kind_text(call->kind),
              comm_group_name(comm->group), comm->size, call->peer);
    }
    return TRINE_OK;
}

static trine_status check_call(const trine_comm *comm, const comm_call *call) {
    size_t element = trine_dtype_bytes(call->type);
    CHECK(element, TRINE_EINVAL, "%s over group %s: invalid type %d", tally_kind_text(call->kind),
          comm_group_name(comm->group), (int)call->type);
    if (is_reduction(call->kind) && call->type == TRINE_U8)
        return refuse(comm, call, "u8 only moves bytes and cannot be reduced");
    if (call->count > (size_t)PTRDIFF_MAX / element)
        return refuse(comm, call, "the buffer is larger than the address space");
    if (call->count >= MATCH_COUNTS)
        return refuse(comm, call, "a call must have fewer than 2^40 elements");
    if (is_split(call->kind) && call->count % (size_t)comm->size)
        return refuse(comm, call, "the count must be a multiple of the group's size");
    return check_peer(comm, call);
}

static bool has_one_buffer(trine_tally_kind kind) {
    return kind == TRINE_TALLY_BROADCAST || is_message(kind);
}

/* A buffer of no elements may be NULL. */
static trine_status refuse_null(const trine_comm *comm, const comm_call *call, const char *name) {
    char function[32];
    snprintf(function, sizeof function, "trine_%s", tally_kind_text(call->kind));
    for (char *at = function; *at; at++)
        if (*at == '-') *at = '_';
    CHECK(!call->count, TRINE_EINVAL, "%s: %s is NULL (%zu elements over group %s of %d)", function,
          name, call->count, comm_group_name(comm->group), comm->size);
    return TRINE_OK;
}

/* ---- Entering -------------------------------------------------------------------------------- */

static bool is_audited(const trine_comm *comm) {
    return comm->world->audit || comm->world->audit_wanted;
}

static bool is_observed(const trine_comm *comm, const comm_call *call) {
    return comm->world->observer && comm->size > 1 &&
           (call->count || call->kind == TRINE_TALLY_BARRIER);
}

/* Tells that a call begins; `outcome` tells that it ends. */
static void tell_begin(const trine_comm *comm, const comm_call *call, uint64_t number, bool waits) {
    const comm_observer *o = comm->world->observer;
    if (!is_observed(comm, call)) return;
    const comm_called called = {.group = comm->group,
                                .kind = call->kind,
                                .bytes = call->count * trine_dtype_bytes(call->type),
                                .peer = call->peer < 0 ? -1 : comm->members[call->peer],
                                .number = number,
                                .part = waits          ? COMM_CALL_WAIT
                                        : call->starts ? COMM_CALL_START
                                                       : COMM_CALL_WHOLE};
    o->begins(o->context, &called);
}

/* A call of a group that only counts (api/count.h). */
static trine_status count_call(const trine_comm *comm, const comm_call *call) {
    bool known = call->kind == TRINE_TALLY_ALL_REDUCE || call->kind == TRINE_TALLY_ALL_GATHER ||
                 call->kind == TRINE_TALLY_REDUCE_SCATTER;
    CHECK(known, TRINE_EUNSUPPORTED, "a group that counts has no %s", tally_kind_text(call->kind));
    return comm->counts(comm->counter, call->kind, call->count, call->type,
                        call->starts && !call->waits);
}

/* After the checks, before the transport. */
static trine_status enter(trine_comm *comm, const comm_call *call) {
    comm->calls++;
    if (comm->counts) return count_call(comm, call);
    watchdog_note(comm, call);
    TRY(match_usable(comm));
    if (!is_message(call->kind) && comm->size > 1) {
        if (is_audited(comm)) TRY(audit_compare(comm, call));
        TRY(match_enter(comm, call));
    }
    tally_count(comm, call);
    if (!is_message(call->kind)) tell_begin(comm, call, comm->calls, false);
    return TRINE_OK;
}

static trine_status begin(trine_comm *comm, const comm_call *call, const void *dst, bool dst_needed,
                          const void *src, bool src_needed) {
    TRY(check_call(comm, call));
    if (!dst && dst_needed)
        TRY(refuse_null(comm, call, has_one_buffer(call->kind) ? "buf" : "dst"));
    if (!src && src_needed) TRY(refuse_null(comm, call, "src"));
    return enter(comm, call);
}

/* COMM_SUM_ONTO is no operation that a caller may name. */
static trine_status begin_reduction(trine_comm *comm, const comm_call *call, const void *dst,
                                    bool dst_needed, const void *src) {
    if ((unsigned)call->op > TRINE_SUM_TREE)
        return refuse(comm, call,
                      "invalid reduction (valid: TRINE_SUM, TRINE_MAX, TRINE_SUM_TREE)");
    return begin(comm, call, dst, dst_needed, src, true);
}

/* What a call returns. In a group whose ranks make different calls no request may stay in a list: their
 * memory is the caller's. */
static trine_status outcome(trine_comm *comm, trine_status status) {
    const comm_observer *o = comm->counts ? NULL : comm->world->observer;
    if (o) o->ends(o->context);
    if (status == TRINE_OK || match_usable(comm) == TRINE_OK) return status;
    started_abandon(comm);
    shm_abandon(comm);
    return status;
}

static size_t part_bytes(const trine_comm *comm, size_t count, trine_dtype type) {
    return count / (size_t)comm->size * trine_dtype_bytes(type);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

trine_status trine_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op) {
    ENTER(comm);
    const comm_call *call = CALL(.kind = TRINE_TALLY_ALL_REDUCE, .count = count, .type = type,
                                 .op = op, .peer = NO_PEER);
    TRY(begin_reduction(comm, call, dst, true, src));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm, comm->transport->all_reduce(comm, dst, src, count, type, op));
}

trine_status trine_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, trine_reduction op, int root) {
    ENTER(comm);
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_REDUCE, .count = count, .type = type, .op = op, .peer = root);
    TRY(begin_reduction(comm, call, dst, comm->rank == root, src));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm, comm->transport->reduce(comm, dst, src, count, type, op, root));
}

trine_status trine_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op) {
    ENTER(comm);
    const comm_call *call = CALL(.kind = TRINE_TALLY_REDUCE_SCATTER, .count = count, .type = type,
                                 .op = op, .peer = NO_PEER);
    TRY(begin_reduction(comm, call, dst, true, src));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm, comm->transport->reduce_scatter(comm, dst, src, count, type, op));
}

trine_status trine_broadcast(trine_comm *comm, void *buf, size_t count, trine_dtype type,
                             int root) {
    ENTER(comm);
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_BROADCAST, .count = count, .type = type, .peer = root);
    TRY(begin(comm, call, buf, true, NULL, false));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm,
                   comm->transport->broadcast(comm, buf, count * trine_dtype_bytes(type), root));
}

trine_status trine_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                           trine_dtype type, int root) {
    ENTER(comm);
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_SCATTER, .count = count, .type = type, .peer = root);
    TRY(begin(comm, call, dst, true, src, comm->rank == root));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm,
                   comm->transport->scatter(comm, dst, src, part_bytes(comm, count, type), root));
}

trine_status trine_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, int root) {
    ENTER(comm);
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_GATHER, .count = count, .type = type, .peer = root);
    TRY(begin(comm, call, dst, comm->rank == root, src, true));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm,
                   comm->transport->gather(comm, dst, src, part_bytes(comm, count, type), root));
}

trine_status trine_all_to_all(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type) {
    ENTER(comm);
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_ALL_TO_ALL, .count = count, .type = type, .peer = NO_PEER);
    TRY(begin(comm, call, dst, true, src, true));
    if (!count) return comm->transport->barrier(comm);
    return outcome(comm,
                   comm->transport->all_to_all(comm, dst, src, part_bytes(comm, count, type)));
}

trine_status trine_barrier(trine_comm *comm) {
    ENTER(comm);
    TRY(enter(comm, CALL(.kind = TRINE_TALLY_BARRIER, .peer = NO_PEER)));
    return outcome(comm, comm->transport->barrier(comm));
}

/* Allocates nothing, because a lack of memory is one of the errors that ranks agree on. */
trine_status trine_world_agree(trine_world *world, trine_status status) {
    CHECK_LIVE(world, "world", LIVE_WORLD);
    ONE_THREAD(world, __func__);
    if ((unsigned)status > TRINE_EBUSY)
        status = RAISE(TRINE_EINVAL, "%s: status is %d, which is not a trine_status", __func__,
                       (int)status);
    /* The largest value is that of the lowest rank that failed. */
    int64_t fault = status == TRINE_OK ? 0 : (int64_t)(world->size - world->rank) << 8 | status;
    TRY(trine_all_reduce(world->comm, &fault, &fault, 1, TRINE_I64, TRINE_MAX));
    int lowest = world->size - (int)(fault >> 8);
    if (lowest < world->rank) status_clear();
    return (trine_status)(fault & 0xff);
}

trine_status comm_world_broadcast(trine_world *world, void *data, size_t bytes) {
    return trine_broadcast(world->comm, data, bytes, TRINE_U8, 0);
}

/* ---- Messages and requests ------------------------------------------------------------------- */

static void request_begin(comm_request *request, trine_comm *comm, const comm_call *call) {
    ASSERT(!request->active);
    *request = (comm_request){.active = true,
                              .comm = comm,
                              .kind = call->kind,
                              .type = call->type,
                              .op = call->op,
                              .count = call->count,
                              .peer = call->peer,
                              .call = comm->calls,
                              .waits = call->waits,
                              .chain = comm->trail->chain};
    if (!is_message(call->kind)) return;
    size_t to = call->kind == TRINE_TALLY_SEND ? 0 : (size_t)comm->size;
    request->chain = comm->messages[to + (size_t)call->peer]++;
    tell_begin(comm, call, request->chain, false);
    /* In shared memory the receiver sees count and type of each message. */
    if (call->kind == TRINE_TALLY_SEND && !comm->shm) match_sent(comm, request);
}

/* If the start fails, the request is idle. */
static trine_status request_started(comm_request *request, trine_status status) {
    if (status != TRINE_OK) request->active = false;
    return outcome(request->comm, status);
}

static trine_status start_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                                 trine_dtype type, comm_request *request, bool waits) {
    const comm_call *call = CALL(.kind = TRINE_TALLY_ALL_GATHER, .count = count, .type = type,
                                 .peer = NO_PEER, .starts = true, .waits = waits);
    TRY(begin(comm, call, dst, true, src, true));
    request_begin(request, comm, call);
    return request_started(request, comm->transport->all_gather_start(
                                        comm, dst, src, part_bytes(comm, count, type), request));
}

trine_status comm_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, comm_request *request) {
    return start_gather(comm, dst, src, count, type, request, false);
}

trine_status trine_all_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type) {
    ENTER(comm);
    comm_request request = {0};
    if (!count) {
        TRY(begin(comm, CALL(.kind = TRINE_TALLY_ALL_GATHER, .type = type, .peer = NO_PEER), dst,
                  false, src, false));
        return outcome(comm, comm->transport->barrier(comm));
    }
    TRY(start_gather(comm, dst, src, count, type, &request, true));
    return comm_wait(&request);
}

trine_status comm_all_reduce_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op, comm_request *request) {
    const comm_call *call = CALL(.kind = TRINE_TALLY_ALL_REDUCE, .count = count, .type = type,
                                 .op = op, .peer = NO_PEER, .starts = true);
    TRY(begin_reduction(comm, call, dst, true, src));
    request_begin(request, comm, call);
    return request_started(
        request, comm->transport->all_reduce_start(comm, dst, src, count, type, op, request));
}

trine_status comm_reduce_scatter_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op,
                                       comm_request *request) {
    const comm_call *call = CALL(.kind = TRINE_TALLY_REDUCE_SCATTER, .count = count, .type = type,
                                 .op = op, .peer = NO_PEER, .starts = true);
    TRY(begin_reduction(comm, call, dst, true, src));
    request_begin(request, comm, call);
    return request_started(
        request, comm->transport->reduce_scatter_start(comm, dst, src, count, type, op, request));
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

trine_status comm_reduce_scatter_onto_start(trine_comm *comm, void *dst, const void *src,
                                            size_t count, trine_dtype type, comm_request *request) {
    const comm_call *call = CALL(.kind = TRINE_TALLY_REDUCE_SCATTER, .count = count, .type = type,
                                 .op = COMM_SUM_ONTO, .peer = NO_PEER, .starts = true);
    TRY(begin(comm, call, dst, true, src, true));
    ASSERT(!overlap(dst, part_bytes(comm, count, type), src, count * trine_dtype_bytes(type)));
    request_begin(request, comm, call);
    return request_started(request, comm->transport->reduce_scatter_start(
                                        comm, dst, src, count, type, COMM_SUM_ONTO, request));
}

bool comm_reducing(const trine_world *world) {
    return started_first(world) != NULL;
}

/* In the name of the oldest one, whose group's clock counts it. */
trine_status comm_progress(trine_world *world) {
    const comm_request *r = started_first(world);
    if (!r) return started_advance(world);
    world->noted = r->kind;
    return r->comm->transport->progress(r->comm);
}

trine_status comm_send_start(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                             int peer, comm_request *request) {
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_SEND, .count = count, .type = type, .peer = peer, .starts = true);
    if (comm->size == 1) return TRINE_OK;
    TRY(begin(comm, call, buf, true, NULL, false));
    request_begin(request, comm, call);
    return request_started(request, comm->transport->send_start(
                                        comm, buf, count * trine_dtype_bytes(type), peer, request));
}

trine_status comm_recv_start(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer,
                             comm_request *request) {
    const comm_call *call =
        CALL(.kind = TRINE_TALLY_RECV, .count = count, .type = type, .peer = peer, .starts = true);
    if (comm->size == 1) return TRINE_OK;
    TRY(begin(comm, call, buf, true, NULL, false));
    request_begin(request, comm, call);
    return request_started(request, comm->transport->recv_start(
                                        comm, buf, count * trine_dtype_bytes(type), peer, request));
}

trine_status comm_wait(comm_request *request) {
    if (!request->active) return TRINE_OK;
    trine_comm *comm = request->comm;
    request->active = false;
    TRY(outcome(comm, match_usable(comm)));
    const comm_call *call = CALL(.kind = request->kind, .count = request->count,
                                 .type = request->type, .peer = request->peer);
    watchdog_note_number(comm, call, request->call);
    tell_begin(comm, call, is_message(call->kind) ? request->chain : request->call, true);
    if (request->kind == TRINE_TALLY_RECV)
        return outcome(comm, comm->transport->wait_received(
                                 comm, request, request->count * trine_dtype_bytes(request->type)));
    return outcome(comm, comm->transport->wait(comm, request));
}

trine_status trine_send(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                        int peer) {
    ENTER(comm);
    comm_request request = {0};
    if (count) CHECK_GIVEN(buf, "buf");
    TRY(check_peer(comm, CALL(.kind = TRINE_TALLY_SEND, .peer = peer)));
    TRY(comm_send_start(comm, buf, count, type, peer, &request));
    return comm_wait(&request);
}

trine_status trine_recv(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer) {
    ENTER(comm);
    comm_request request = {0};
    if (count) CHECK_GIVEN(buf, "buf");
    TRY(check_peer(comm, CALL(.kind = TRINE_TALLY_RECV, .peer = peer)));
    TRY(comm_recv_start(comm, buf, count, type, peer, &request));
    return comm_wait(&request);
}
