/* The MPI-3 transport. Every call is non-blocking and every wait is one poll loop, which yields the
 * core (ranks may outnumber cores) and lets the watchdog check the time.
 *
 * All messages are bytes. A message that exceeds the message limit becomes one element of a derived
 * datatype: still one MPI message and one request, but no count or displacement overflows an int.
 * Posted messages and segments have their own tags, so that a reduction never matches a message
 * that comm_send_start left in progress on the same communicator. */
#include "comm/transport/mpi/mpi.h"
#include "comm/group/world.h"
#include "comm/reduce/rank_order.h"
#include "comm/reduce/started.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/transport/shm/shm.h"
#include "comm/watch/watchdog.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define TAG_MESSAGE 0
#define TAG_POSTED  1
#define TAG_SEGMENT 2
#define TAG_GPU     3
#define TAG_STARTED 4

/* Polls before the first yield: enough if the peer is already there. */
#define SPINS 64

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "comm_request.handle must hold a request");

trine_status mpi_raise(int code, const char *file, int line, const char *func, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return status_raise(TRINE_EMPI, file, line, func, "%s: %s", call, text);
}

static mpi_state *state_of(const trine_comm *comm) {
    return comm->state;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static trine_status poll_all(trine_world *world, int count, MPI_Request *requests,
                             MPI_Status *statuses) {
    double waited = 0;
    for (unsigned polls = 1;; polls++) {
        int done = 0;
        TRY_MPI(MPI_Testall(count, requests, &done, statuses));
        if (done) return TRINE_OK;
        if (polls >= SPINS) {
            TRY(shm_advance(world));
            sched_yield();
        }
        watchdog_polled(world, polls, &waited);
    }
}

static trine_status poll_one(trine_comm *comm, MPI_Request *request) {
    MPI_Status status;
    return poll_all(comm->world, 1, request, &status);
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
        TRY(shm_advance(comm->world));
        if (request->mover == STARTED_DONE) return TRINE_OK;
        if (polls >= SPINS) sched_yield();
        watchdog_polled(comm->world, polls, &waited);
    }
    return TRINE_OK;
}

static trine_status mpi_wait(trine_comm *comm, comm_request *request) {
    if (request->mover != STARTED_NOT) return wait_reduction(comm, request);
    MPI_Request own = handle_get(request);
    TRY(poll_one(comm, &own));
    comm->world->mpi_pending--;
    return TRINE_OK;
}

trine_status mpi_test(trine_comm *comm, comm_request *request, bool *done) {
    MPI_Request own = handle_get(request);
    int flag = 0;
    TRY_MPI(MPI_Test(&own, &flag, MPI_STATUS_IGNORE));
    handle_set(request, own);
    *done = flag != 0;
    if (flag) comm->world->mpi_pending--;
    return TRINE_OK;
}

static trine_status mpi_wait_received(trine_comm *comm, comm_request *request, size_t bytes) {
    MPI_Request own = handle_get(request);
    MPI_Status status;
    MPI_Count received = 0;
    TRY(poll_all(comm->world, 1, &own, &status));
    comm->world->mpi_pending--;
    TRY_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &received));
    CHECK((uint64_t)received == bytes, TRINE_EMPI,
          "recv over group %s of %d: rank %d sent %lld bytes, this rank expects %zu",
          comm_group_name(comm->group), comm->size, comm->members[status.MPI_SOURCE],
          (long long)received, bytes);
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

static trine_status send_start(trine_comm *comm, const void *buf, size_t bytes, int peer, int tag,
                               comm_request *request) {
    MPI_Request own;
    TRY(isend(comm, buf, bytes, peer, tag, &own));
    handle_set(request, own);
    comm->world->mpi_pending++;
    return TRINE_OK;
}

static trine_status recv_start(trine_comm *comm, void *buf, size_t bytes, int peer, int tag,
                               comm_request *request) {
    MPI_Request own;
    TRY(irecv(comm, buf, bytes, peer, tag, &own));
    handle_set(request, own);
    comm->world->mpi_pending++;
    return TRINE_OK;
}

static trine_status mpi_send_start(trine_comm *comm, const void *buf, size_t bytes, int peer,
                                   comm_request *request) {
    return send_start(comm, buf, bytes, peer, TAG_MESSAGE, request);
}

static trine_status mpi_recv_start(trine_comm *comm, void *buf, size_t bytes, int peer,
                                   comm_request *request) {
    return recv_start(comm, buf, bytes, peer, TAG_MESSAGE, request);
}

trine_status mpi_segment_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                              comm_request *request) {
    return send_start(comm, buf, bytes, peer, TAG_SEGMENT, request);
}

trine_status mpi_segment_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                              comm_request *request) {
    return recv_start(comm, buf, bytes, peer, TAG_SEGMENT, request);
}

trine_status mpi_gpu_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                          comm_request *request) {
    return send_start(comm, buf, bytes, peer, TAG_GPU, request);
}

trine_status mpi_gpu_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                          comm_request *request) {
    return recv_start(comm, buf, bytes, peer, TAG_GPU, request);
}

/* Open MPI and MPICH have it; in a library without it the address is NULL. */
extern int MPIX_Query_cuda_support(void) __attribute__((weak));

bool mpi_reaches_gpus(void) {
    return MPIX_Query_cuda_support && MPIX_Query_cuda_support() == 1;
}

static trine_status mpi_post_send(trine_comm *comm, const void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->posted < 2 * comm->size);
    return isend(comm, buf, bytes, peer, TAG_POSTED, &s->requests[s->posted++]);
}

static trine_status mpi_post_recv(trine_comm *comm, void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->posted < 2 * comm->size);
    return irecv(comm, buf, bytes, peer, TAG_POSTED, &s->requests[s->posted++]);
}

static trine_status mpi_flush(trine_comm *comm) {
    mpi_state *s = state_of(comm);
    int posted = s->posted;
    s->posted = 0;
    return poll_all(comm->world, posted, s->requests, s->statuses);
}

/* ---- Started reductions ---------------------------------------------------------------------- */

trine_status mpi_started_send(trine_comm *comm, const void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->started_count < 2 * comm->size);
    return isend(comm, buf, bytes, peer, TAG_STARTED, &s->started[s->started_count++]);
}

trine_status mpi_started_recv(trine_comm *comm, void *buf, size_t bytes, int peer) {
    mpi_state *s = state_of(comm);
    if (!bytes) return TRINE_OK;
    ASSERT(s->started_count < 2 * comm->size);
    return irecv(comm, buf, bytes, peer, TAG_STARTED, &s->started[s->started_count++]);
}

trine_status mpi_started_arrived(trine_comm *comm, bool *arrived) {
    mpi_state *s = state_of(comm);
    int done = 0;
    TRY_MPI(MPI_Testall(s->started_count, s->started, &done, MPI_STATUSES_IGNORE));
    if (done) s->started_count = 0;
    *arrived = done != 0;
    return TRINE_OK;
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
    return shm_advance(comm->world);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static trine_status mpi_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                         comm_request *request) {
    MPI_Request started = MPI_REQUEST_NULL;
    const char *own = (const char *)dst + (size_t)comm->rank * part;
    span b;
    if (part) {
        TRY(span_make(&b, comm, part, comm->size));
        TRY_MPI(MPI_Iallgather(src == own ? MPI_IN_PLACE : src, b.count, b.type, dst, b.count,
                               b.type, state_of(comm)->comm, &started));
        TRY(span_free(&b));
    }
    handle_set(request, started);
    comm->world->mpi_pending++;
    return TRINE_OK;
}

static trine_status mpi_broadcast(trine_comm *comm, void *buf, size_t bytes, int root) {
    MPI_Request request;
    span b;
    if (!bytes) return TRINE_OK;
    TRY(span_make(&b, comm, bytes, 1));
    TRY_MPI(MPI_Ibcast(buf, b.count, b.type, root, state_of(comm)->comm, &request));
    TRY(span_free(&b));
    return poll_one(comm, &request);
}

static trine_status mpi_barrier(trine_comm *comm) {
    MPI_Request request;
    TRY_MPI(MPI_Ibarrier(state_of(comm)->comm, &request));
    return poll_one(comm, &request);
}

static trine_status mpi_scatter(trine_comm *comm, void *dst, const void *src, size_t part,
                                int root) {
    const char *parts = src;
    if (comm->rank != root) {
        TRY(mpi_post_recv(comm, dst, part, root));
        return mpi_flush(comm);
    }
    for (int r = 0; r < comm->size; r++)
        if (r != root) TRY(mpi_post_send(comm, parts + (size_t)r * part, part, r));
    const char *own = parts + (size_t)root * part;
    if (part && own != dst) memcpy(dst, own, part);
    return mpi_flush(comm);
}

static trine_status mpi_gather(trine_comm *comm, void *dst, const void *src, size_t part,
                               int root) {
    char *parts = dst;
    if (comm->rank != root) {
        TRY(mpi_post_send(comm, src, part, root));
        return mpi_flush(comm);
    }
    for (int r = 0; r < comm->size; r++)
        if (r != root) TRY(mpi_post_recv(comm, parts + (size_t)r * part, part, r));
    char *own = parts + (size_t)root * part;
    if (part && own != src) memcpy(own, src, part);
    return mpi_flush(comm);
}

/* Exchanges `bytes` bytes at the start of src's parts: dst part j = rank j's. Starts with the
 * neighbours, so that not all ranks start with rank 0. */
static trine_status exchange(trine_comm *comm, char *dst, size_t dst_part, const char *src,
                             size_t src_part, size_t bytes) {
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        TRY(mpi_post_recv(comm, dst + (size_t)from * dst_part, bytes, from));
        TRY(mpi_post_send(comm, src + (size_t)to * src_part, bytes, to));
    }
    return mpi_flush(comm);
}

/* In place: incoming data waits in the scratch until the data it replaces has been sent. */
static trine_status swap_parts(trine_comm *comm, char *buf, size_t part) {
    char *scratch = comm->world->scratch;
    size_t step = comm_scratch_bytes(comm->world->size) / (size_t)comm->size;
    for (size_t at = 0; at < part; at += step) {
        size_t bytes = part - at < step ? part - at : step;
        TRY(exchange(comm, scratch, step, buf + at, part, bytes));
        for (size_t r = 0; r < (size_t)comm->size; r++)
            if ((int)r != comm->rank) memcpy(buf + r * part + at, scratch + r * step, bytes);
    }
    return TRINE_OK;
}

static trine_status mpi_all_to_all(trine_comm *comm, void *dst, const void *src, size_t part) {
    size_t own = (size_t)comm->rank * part;
    if (!part) return TRINE_OK;
    if (dst == src) return swap_parts(comm, dst, part);
    memcpy((char *)dst + own, (const char *)src + own, part);
    return exchange(comm, dst, part, src, part, part);
}

/* ---- Communicators --------------------------------------------------------------------------- */

/* Takes ownership of `comm`, also on failure. */
static trine_status state_create(void **state, MPI_Comm comm) {
    int size = 0;
    TRY_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_size(comm, &size));
    mpi_state *s = calloc(1, sizeof *s);
    if (!s) MPI_Comm_free(&comm);
    CHECK(s, TRINE_ENOMEM, "no memory for a group of %d", size);
    s->comm = comm;
    s->requests = calloc(2 * (size_t)size, sizeof *s->requests);
    s->statuses = calloc(2 * (size_t)size, sizeof *s->statuses);
    s->started = calloc(2 * (size_t)size, sizeof *s->started);
    *state = s;
    if (s->requests && s->statuses && s->started) return TRINE_OK;
    mpi_free(state);
    return RAISE(TRINE_ENOMEM, "no memory for the requests of a group of %d", size);
}

trine_status mpi_duplicate(void **state) {
    MPI_Comm comm;
    TRY_MPI_BLOCKING(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    return state_create(state, comm);
}

trine_status mpi_split(trine_world *world, int color, void **state) {
    *state = NULL;
    if (world->size == 1) return TRINE_OK;
    MPI_Comm comm;
    TRY_MPI_BLOCKING(MPI_Comm_split(state_of(world->comm)->comm, color < 0 ? MPI_UNDEFINED : color,
                                    world->rank, &comm));
    return comm == MPI_COMM_NULL ? TRINE_OK : state_create(state, comm);
}

trine_status mpi_node_leader(trine_world *world, int *leader) {
    *leader = world->rank;
    if (world->size == 1) return TRINE_OK;
    MPI_Comm node;
    TRY_MPI_BLOCKING(MPI_Comm_split_type(state_of(world->comm)->comm, MPI_COMM_TYPE_SHARED,
                                         world->rank, MPI_INFO_NULL, &node));
    TRY_MPI_BLOCKING(MPI_Bcast(leader, 1, MPI_INT, 0, node));
    TRY_MPI_BLOCKING(MPI_Comm_free(&node));
    return TRINE_OK;
}

void mpi_free(void **state) {
    mpi_state *s = *state;
    if (!s) return;
    watch_enter("MPI_Comm_free");
    MPI_Comm_free(&s->comm);
    watch_leave();
    free(s->requests);
    free(s->statuses);
    free(s->started);
    free(s);
    *state = NULL;
}

static void mpi_destroy(trine_comm *comm) {
    mpi_free(&comm->state);
}

const comm_transport mpi_transport = {
    .name = "mpi",
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
