/* Groups of ranks with a GPU each, over NCCL; a part of libtrine_cuda.so. nccl.h says how. */
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl.h"
#include "device/cuda/combine.h"

/* An ordered all-reduce of so many bytes over all ranks gathers everything everywhere: one exchange
 * instead of two. */
#define SMALL_BYTES ((size_t)256 << 10)
/* Looks at the device between two at the communicators' errors. */
#define CHECK_EVERY 16

static_assert(NCCL_ID == NCCL_UNIQUE_ID_BYTES, "an id is a ncclUniqueId");

struct nccl_group {
    nccl_rank *r;
    nccl_group *next;
    ncclComm_t comm;
    cudaStream_t stream;
    char name[24];
    int size, rank;
    char *scratch; /* (size, chunk) addends; NULL in a group that does not add */
    size_t chunk;  /* bytes, for each rank */
    cudaEvent_t tickets[NCCL_TICKETS];
    uint64_t started, recorded; /* tickets given; those whose event is on the stream */
    bool fused;                 /* has messages in the ncclGroup that is open */
};

struct nccl_rank {
    device *dev;
    char gpu[64];
    bool ordered, failed, fusing;
    int open; /* ncclGroupStart without its end */
    void (*waits)(void *context, double *since);
    void *context;
    cudaEvent_t ready, done;
    nccl_group *first, *last;
};

/* ---- Errors and waiting ------------------------------------------------------------------------ */

static void abort_all(nccl_rank *r) {
    r->failed = true;
    for (; r->open > 0; r->open--) (void)ncclGroupEnd();
    for (nccl_group *g = r->first; g; g = g->next) {
        if (g->comm) (void)ncclCommAbort(g->comm);
        g->comm = NULL;
    }
}

/* `call` may have arguments, which say nothing to a reader. */
static trine_status fail(nccl_group *g, ncclResult_t result, const char *call) {
    char detail[512];
    const char *last = ncclGetLastError(g->comm);
    snprintf(detail, sizeof detail, "%s", last ? last : "");
    abort_all(g->r);
    return RAISE(TRINE_ENCCL, "group %s of %d, rank %d of it, on GPU %s: %.*s: %s%s%s", g->name,
                 g->size, g->rank, g->r->gpu, (int)strcspn(call, "("), call,
                 ncclGetErrorString(result), *detail ? ": " : "", detail);
}

/* Waits until NCCL has taken what it was given. */
static trine_status settle(nccl_group *g, ncclResult_t result, const char *call) {
    double since = 0;
    while (result == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(g->comm, &result);
        if (asked != ncclSuccess) result = asked;
        if (result == ncclInProgress) g->r->waits(g->r->context, &since);
    }
    return result == ncclSuccess ? TRINE_OK : fail(g, result, call);
}

/* Inside an ncclGroup calls are only noted. */
static trine_status noted(nccl_group *g, ncclResult_t result, const char *call) {
    return result == ncclSuccess || result == ncclInProgress ? TRINE_OK : fail(g, result, call);
}

#define TRY_NCCL(g, call)  TRY(settle((g), (call), #call))
#define TRY_NOTED(g, call) TRY(noted((g), (call), #call))

static trine_status check_errors(nccl_rank *r) {
    for (nccl_group *g = r->first; g; g = g->next) {
        if (!g->comm) continue;
        ncclResult_t state = ncclSuccess, asked = ncclCommGetAsyncError(g->comm, &state);
        if (asked != ncclSuccess) state = asked;
        TRY(noted(g, state, "asynchronously"));
    }
    return TRINE_OK;
}

static trine_status await_stream(nccl_rank *r, cudaStream_t stream) {
    double since = 0;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    for (unsigned polls = 1;; polls++) {
        cudaError_t e = cudaStreamQuery(stream);
        if (e == cudaSuccess) return TRINE_OK;
        if (e != cudaErrorNotReady) {
            abort_all(r);
            return RAISE(TRINE_EMATH, "GPU %s: %s", r->gpu, cudaGetErrorString(e));
        }
        (void)cudaGetLastError(); /* "not ready" is remembered like an error */
        if (polls % CHECK_EVERY == 0) TRY(check_errors(r));
        r->waits(r->context, &since);
    }
}

static trine_status rank_await(nccl_rank *r) {
    return await_stream(r, cuda_of(r->dev)->compute);
}

/* ---- The two streams --------------------------------------------------------------------------- */

/* The group's stream goes on behind the work that the compute stream has been given. */
static trine_status before(nccl_group *g) {
    nccl_rank *r = g->r;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    TRY_CUDA(cudaEventRecord(r->ready, cuda_of(r->dev)->compute));
    TRY_CUDA(cudaStreamWaitEvent(g->stream, r->ready, 0));
    return TRINE_OK;
}

/* And the compute stream behind the group's. */
static trine_status after(nccl_group *g) {
    TRY_CUDA(cudaEventRecord(g->r->done, g->stream));
    TRY_CUDA(cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, g->r->done, 0));
    return TRINE_OK;
}

static trine_status record_tickets(nccl_group *g) {
    while (g->recorded < g->started)
        TRY_CUDA(cudaEventRecord(g->tickets[++g->recorded % NCCL_TICKETS], g->stream));
    return TRINE_OK;
}

/* What was just started; in a fused group it is on the stream only when that ends. */
static trine_status give_ticket(nccl_group *g, uint64_t *ticket) {
    *ticket = ++g->started;
    return g->r->fusing ? TRINE_OK : record_tickets(g);
}

static trine_status group_finish(nccl_group *g, uint64_t ticket) {
    ASSERT(!g->r->fusing && g->started - ticket < NCCL_TICKETS);
    TRY_CUDA(
        cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, g->tickets[ticket % NCCL_TICKETS], 0));
    return TRINE_OK;
}

/* ---- Exchanges --------------------------------------------------------------------------------- */

static trine_status open_exchange(nccl_group *g) {
    ASSERT(!g->r->fusing);
    TRY_NOTED(g, ncclGroupStart());
    g->r->open++;
    return TRINE_OK;
}

static trine_status close_exchange(nccl_group *g) {
    g->r->open--;
    TRY_NCCL(g, ncclGroupEnd());
    return TRINE_OK;
}

static trine_status put(nccl_group *g, const void *buf, size_t bytes, int peer) {
    if (bytes) TRY_NOTED(g, ncclSend(buf, bytes, ncclUint8, peer, g->comm, g->stream));
    return TRINE_OK;
}

static trine_status take(nccl_group *g, void *buf, size_t bytes, int peer) {
    if (bytes) TRY_NOTED(g, ncclRecv(buf, bytes, ncclUint8, peer, g->comm, g->stream));
    return TRINE_OK;
}

static trine_status copy(nccl_group *g, void *dst, const void *src, size_t bytes) {
    if (bytes && dst != src)
        TRY_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, g->stream));
    return TRINE_OK;
}

/* ---- Additions in rank order: as comm/ordered.c, with a chunk of NCCL_SCRATCH ------------------ */

static size_t element_bytes(trine_dtype type) {
    switch (type) {
#define TYPE_CASE(name, text, bytes)                                                               \
    case name: return bytes;
        TRINE_DTYPE_LIST(TYPE_CASE)
#undef TYPE_CASE
    }
    return 0;
}

static bool keeps_order(const nccl_group *g, trine_dtype type, trine_reduction op) {
    bool floats = type == TRINE_F32 || type == TRINE_F64;
    return floats && (g->r->ordered || op == TRINE_MAX);
}

/* Elements of rank's slice in [at, at + limit) of it. */
static size_t piece(size_t count, size_t slice, int rank, size_t at, size_t limit) {
    size_t first = (size_t)rank * slice + at, left = first < count ? count - first : 0;
    if (left > slice - at) left = slice - at;
    return left < limit ? left : limit;
}

/* dst = what arrived in the scratch, `stride` elements a rank, and own. */
static trine_status add_up(nccl_group *g, void *dst, const void *own, size_t stride, size_t count,
                           trine_dtype type, trine_reduction op) {
    const combine_addends addends = {g->scratch, own, stride, g->rank, g->size};
    return cuda_combine(g->r->dev, g->stream, dst, &addends, count, type, op);
}

static trine_status exchange_chunk(nccl_group *g, const char *src, size_t count, size_t slice,
                                   size_t at, size_t step, size_t element) {
    size_t own = piece(count, slice, g->rank, at, step);
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        size_t theirs = piece(count, slice, to, at, step);
        TRY(take(g, g->scratch + (size_t)from * step * element, own * element, from));
        TRY(put(g, src + ((size_t)to * slice + at) * element, theirs * element, to));
    }
    return close_exchange(g);
}

static trine_status reduce_slices(nccl_group *g, char *dst, const char *src, size_t count,
                                  size_t slice, trine_dtype type, trine_reduction op) {
    size_t element = element_bytes(type), step = g->chunk / element;
    for (size_t at = 0; at < slice; at += step) {
        TRY(exchange_chunk(g, src, count, slice, at, step, element));
        size_t n = piece(count, slice, g->rank, at, step);
        const char *own = src + ((size_t)g->rank * slice + at) * element;
        if (n) TRY(add_up(g, dst + at * element, own, step, n, type, op));
    }
    return TRINE_OK;
}

static trine_status gather_slices(nccl_group *g, char *buf, size_t count, size_t slice,
                                  size_t element) {
    size_t own = piece(count, slice, g->rank, 0, slice) * element;
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        size_t theirs = piece(count, slice, from, 0, slice) * element;
        TRY(take(g, buf + (size_t)from * slice * element, theirs, from));
        TRY(put(g, buf + (size_t)g->rank * slice * element, own, to));
    }
    return close_exchange(g);
}

static trine_status ordered_all_reduce(nccl_group *g, char *dst, const char *src, size_t count,
                                       trine_dtype type, trine_reduction op) {
    size_t element = element_bytes(type), bytes = count * element, size = (size_t)g->size;
    size_t slice = count / size + (count % size != 0);
    if (bytes * size <= SMALL_BYTES) {
        TRY_NCCL(g, ncclAllGather(src, g->scratch, bytes, ncclUint8, g->comm, g->stream));
        return add_up(g, dst, g->scratch + (size_t)g->rank * bytes, count, count, type, op);
    }
    TRY(reduce_slices(g, dst + (size_t)g->rank * slice * element, src, count, slice, type, op));
    return gather_slices(g, dst, count, slice, element);
}

static trine_status ordered_reduce(nccl_group *g, char *dst, const char *src, size_t count,
                                   trine_dtype type, trine_reduction op, int root) {
    size_t element = element_bytes(type), step = g->chunk / element;
    for (size_t at = 0; at < count; at += step) {
        size_t n = count - at < step ? count - at : step;
        const char *own = src + at * element;
        TRY(open_exchange(g));
        if (g->rank != root) TRY(put(g, own, n * element, root));
        for (int r = 0; g->rank == root && r < g->size; r++)
            if (r != root) TRY(take(g, g->scratch + (size_t)r * step * element, n * element, r));
        TRY(close_exchange(g));
        if (g->rank == root) TRY(add_up(g, dst + at * element, own, step, n, type, op));
    }
    return TRINE_OK;
}

/* ---- Reductions -------------------------------------------------------------------------------- */

static ncclDataType_t type_of(trine_dtype type) {
    switch (type) {
    case TRINE_F32: return ncclFloat32;
    case TRINE_F64: return ncclFloat64;
    case TRINE_I32: return ncclInt32;
    case TRINE_I64: return ncclInt64;
    case TRINE_U8: break;
    }
    return ncclUint8;
}

static ncclRedOp_t op_of(trine_reduction op) {
    return op == TRINE_SUM ? ncclSum : ncclMax;
}

static trine_status group_all_reduce(nccl_group *g, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op) {
    ASSERT(g->scratch);
    TRY(before(g));
    if (keeps_order(g, type, op))
        TRY(ordered_all_reduce(g, (char *)dst, (const char *)src, count, type, op));
    else
        TRY_NCCL(g, ncclAllReduce(src, dst, count, type_of(type), op_of(op), g->comm, g->stream));
    return after(g);
}

static trine_status group_reduce(nccl_group *g, void *dst, const void *src, size_t count,
                                 trine_dtype type, trine_reduction op, int root) {
    ASSERT(g->scratch);
    TRY(before(g));
    if (keeps_order(g, type, op))
        TRY(ordered_reduce(g, (char *)dst, (const char *)src, count, type, op, root));
    else
        TRY_NCCL(g,
                 ncclReduce(src, dst, count, type_of(type), op_of(op), root, g->comm, g->stream));
    return after(g);
}

static trine_status group_reduce_scatter(nccl_group *g, void *dst, const void *src, size_t part,
                                         trine_dtype type, trine_reduction op) {
    size_t count = part * (size_t)g->size;
    ASSERT(g->scratch);
    TRY(before(g));
    if (keeps_order(g, type, op))
        TRY(reduce_slices(g, (char *)dst, (const char *)src, count, part, type, op));
    else
        TRY_NCCL(g,
                 ncclReduceScatter(src, dst, part, type_of(type), op_of(op), g->comm, g->stream));
    return after(g);
}

/* ---- Movement ---------------------------------------------------------------------------------- */

static trine_status group_broadcast(nccl_group *g, void *buf, size_t bytes, int root) {
    TRY(before(g));
    TRY_NCCL(g, ncclBroadcast(buf, buf, bytes, ncclUint8, root, g->comm, g->stream));
    return after(g);
}

static trine_status group_scatter(nccl_group *g, void *dst, const void *src, size_t part,
                                  int root) {
    const char *parts = (const char *)src;
    TRY(before(g));
    TRY(open_exchange(g));
    if (g->rank != root) TRY(take(g, dst, part, root));
    for (int r = 0; g->rank == root && r < g->size; r++)
        if (r != root) TRY(put(g, parts + (size_t)r * part, part, r));
    TRY(close_exchange(g));
    if (g->rank == root) TRY(copy(g, dst, parts + (size_t)root * part, part));
    return after(g);
}

static trine_status group_gather(nccl_group *g, void *dst, const void *src, size_t part, int root) {
    char *parts = (char *)dst;
    TRY(before(g));
    TRY(open_exchange(g));
    if (g->rank != root) TRY(put(g, src, part, root));
    for (int r = 0; g->rank == root && r < g->size; r++)
        if (r != root) TRY(take(g, parts + (size_t)r * part, part, r));
    TRY(close_exchange(g));
    if (g->rank == root) TRY(copy(g, parts + (size_t)root * part, src, part));
    return after(g);
}

/* Bytes [at, at + bytes) of every part: dst part j = rank j's. */
static trine_status exchange_parts(nccl_group *g, char *dst, size_t dst_part, const char *src,
                                   size_t src_part, size_t bytes) {
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        TRY(take(g, dst + (size_t)from * dst_part, bytes, from));
        TRY(put(g, src + (size_t)to * src_part, bytes, to));
    }
    return close_exchange(g);
}

/* In place what arrives waits in the scratch until what it replaces has left. */
static trine_status swap_parts(nccl_group *g, char *buf, size_t part) {
    ASSERT(g->scratch);
    for (size_t at = 0; at < part; at += g->chunk) {
        size_t bytes = part - at < g->chunk ? part - at : g->chunk;
        TRY(exchange_parts(g, g->scratch, g->chunk, buf + at, part, bytes));
        for (int r = 0; r < g->size; r++)
            if (r != g->rank)
                TRY(copy(g, buf + (size_t)r * part + at, g->scratch + (size_t)r * g->chunk, bytes));
    }
    return TRINE_OK;
}

static trine_status group_all_to_all(nccl_group *g, void *dst, const void *src, size_t part) {
    size_t own = (size_t)g->rank * part;
    TRY(before(g));
    if (dst == src) {
        TRY(swap_parts(g, (char *)dst, part));
        return after(g);
    }
    TRY(copy(g, (char *)dst + own, (const char *)src + own, part));
    TRY(exchange_parts(g, (char *)dst, part, (const char *)src, part, part));
    return after(g);
}

static trine_status group_all_gather(nccl_group *g, void *dst, const void *src, size_t part,
                                     uint64_t *ticket) {
    ASSERT(!g->r->fusing);
    TRY(before(g));
    TRY_NCCL(g, ncclAllGather(src, dst, part, ncclUint8, g->comm, g->stream));
    return give_ticket(g, ticket);
}

/* ---- Messages ---------------------------------------------------------------------------------- */

/* Alone, or one of those that travel together. */
static trine_status message(nccl_group *g, ncclResult_t result, const char *call,
                            uint64_t *ticket) {
    if (g->r->fusing) {
        g->fused = true;
        TRY(noted(g, result, call));
    } else {
        TRY(settle(g, result, call));
    }
    return give_ticket(g, ticket);
}

static trine_status group_send(nccl_group *g, const void *buf, size_t bytes, int peer,
                               uint64_t *ticket) {
    TRY(before(g));
    return message(g, ncclSend(buf, bytes, ncclUint8, peer, g->comm, g->stream), "ncclSend",
                   ticket);
}

static trine_status group_recv(nccl_group *g, void *buf, size_t bytes, int peer, uint64_t *ticket) {
    TRY(before(g));
    return message(g, ncclRecv(buf, bytes, ncclUint8, peer, g->comm, g->stream), "ncclRecv",
                   ticket);
}

static trine_status rank_begin(nccl_rank *r) {
    ASSERT(!r->fusing && r->first);
    TRY_NOTED(r->first, ncclGroupStart());
    r->open++;
    r->fusing = true;
    return TRINE_OK;
}

static trine_status rank_end(nccl_rank *r) {
    ASSERT(r->fusing);
    r->fusing = false;
    r->open--;
    ncclResult_t result = ncclGroupEnd();
    if (result != ncclInProgress) TRY(noted(r->first, result, "ncclGroupEnd"));
    for (nccl_group *g = r->first; g; g = g->next) {
        if (!g->fused) continue;
        g->fused = false;
        TRY(settle(g, result, "ncclGroupEnd"));
        TRY(record_tickets(g));
    }
    return TRINE_OK;
}

/* ---- Making and ending ------------------------------------------------------------------------- */

static trine_status make_events(nccl_rank *r) {
    TRY_CUDA(cudaEventCreateWithFlags(&r->ready, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming));
    return TRINE_OK;
}

static trine_status rank_open(nccl_rank **out, const nccl_setting *setting) {
    nccl_rank *r = *out = (nccl_rank *)calloc(1, sizeof *r);
    CHECK(r, TRINE_ENOMEM, "no memory for NCCL's groups");
    r->dev = setting->dev;
    r->ordered = setting->ordered;
    r->waits = setting->waits;
    r->context = setting->context;
    snprintf(r->gpu, sizeof r->gpu, "%s", setting->gpu);
    return make_events(r);
}

/* The peers come, too; who does not is the watchdog's. */
static void finalize(nccl_group *g) {
    if (!g->comm || g->r->failed) return;
    if (await_stream(g->r, g->stream) != TRINE_OK) return;
    if (settle(g, ncclCommFinalize(g->comm), "ncclCommFinalize") != TRINE_OK) return;
    (void)ncclCommDestroy(g->comm);
    g->comm = NULL;
}

static void free_group(nccl_group *g) {
    for (int i = 0; i < NCCL_TICKETS; i++)
        if (g->tickets[i]) (void)cudaEventDestroy(g->tickets[i]);
    if (g->scratch) (void)cudaFree(g->scratch);
    if (g->stream) (void)cudaStreamDestroy(g->stream);
    free(g);
}

static void rank_close(nccl_rank **out) {
    nccl_rank *r = *out;
    if (!r) return;
    for (nccl_group *g = r->first; g; g = g->next) finalize(g);
    for (nccl_group *g = r->first, *next; g; g = next) {
        next = g->next;
        free_group(g);
    }
    if (r->ready) (void)cudaEventDestroy(r->ready);
    if (r->done) (void)cudaEventDestroy(r->done);
    free(r);
    *out = NULL;
}

static trine_status rank_make_id(nccl_rank *r, char id[NCCL_ID]) {
    ncclUniqueId made;
    ncclResult_t result = ncclGetUniqueId(&made);
    CHECK(result == ncclSuccess, TRINE_ENCCL, "GPU %s: ncclGetUniqueId: %s", r->gpu,
          ncclGetErrorString(result));
    memcpy(id, &made, NCCL_ID);
    return TRINE_OK;
}

/* The highest priority: what peers wait for comes before what only this rank waits for. */
static trine_status take_from_device(nccl_group *g, bool adds) {
    int least, greatest;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY_CUDA(cudaStreamCreateWithPriority(&g->stream, cudaStreamNonBlocking, greatest));
    for (int i = 0; i < NCCL_TICKETS; i++)
        TRY_CUDA(cudaEventCreateWithFlags(&g->tickets[i], cudaEventDisableTiming));
    g->chunk = NCCL_SCRATCH / (size_t)g->size / 256 * 256;
    if (adds) TRY_CUDA(cudaMalloc((void **)&g->scratch, NCCL_SCRATCH));
    return TRINE_OK;
}

static void append(nccl_rank *r, nccl_group *g) {
    if (r->last)
        r->last->next = g;
    else
        r->first = g;
    r->last = g;
}

static trine_status rank_join(nccl_rank *r, nccl_group **out, const char id[NCCL_ID],
                              const nccl_place *place) {
    ncclUniqueId name;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    nccl_group *g = *out = (nccl_group *)calloc(1, sizeof *g);
    CHECK(g, TRINE_ENOMEM, "no memory for group %s", place->name);
    g->r = r;
    g->size = place->size;
    g->rank = place->rank;
    snprintf(g->name, sizeof g->name, "%s", place->name);
    append(r, g);
    TRY(take_from_device(g, place->adds));
    memcpy(&name, id, NCCL_ID);
    config.blocking = 0;
    TRY_NCCL(g, ncclCommInitRankConfig(&g->comm, g->size, name, g->rank, &config));
    return TRINE_OK;
}

/* ---- The table --------------------------------------------------------------------------------- */

static const comm_nccl table = {
    NCCL_ABI,         rank_open,        rank_close,
    abort_all,        rank_make_id,     rank_join,
    group_all_reduce, group_reduce,     group_reduce_scatter,
    group_broadcast,  group_scatter,    group_gather,
    group_all_to_all, group_all_gather, group_send,
    group_recv,       group_finish,     rank_begin,
    rank_end,         rank_await,       check_errors,
};

const void *cuda_nccl_table(void) {
    return &table;
}

int cuda_nccl_version(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}
