/* Collectives over NCCL: NCCL's own, and those that it lacks: exchanges, and additions in a fixed
 * order. */
#include "comm/transport/nccl/group.cuh"
#include "device/cuda/combine.h"

/* An ordered all-reduce of at most this many bytes over all ranks gathers all addends on all ranks:
 * one exchange instead of two. */
#define SMALL_BYTES ((size_t)256 << 10)

/* ---- Exchanges --------------------------------------------------------------------------------- */

static trine_status open_exchange(nccl_group *g) {
    ASSERT(!g->r->fusing);
    TRY_NCCL(g, GroupStart);
    g->r->open++;
    return TRINE_OK;
}

static trine_status close_exchange(nccl_group *g) {
    g->r->open--;
    TRY_NCCL(g, GroupEnd);
    return TRINE_OK;
}

static trine_status send_bytes(nccl_group *g, const void *buf, size_t bytes, int peer) {
    if (bytes) TRY_NCCL(g, Send, buf, bytes, ncclUint8, peer, g->comm, g->stream);
    return TRINE_OK;
}

static trine_status recv_bytes(nccl_group *g, void *buf, size_t bytes, int peer) {
    if (bytes) TRY_NCCL(g, Recv, buf, bytes, ncclUint8, peer, g->comm, g->stream);
    return TRINE_OK;
}

static trine_status copy(nccl_group *g, void *dst, const void *src, size_t bytes) {
    if (bytes && dst != src)
        TRY_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, g->stream));
    return TRINE_OK;
}

/* ---- Additions in a fixed order: as comm/reduce/rank_order.c, with a chunk of NCCL_SCRATCH --------------- */

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
    bool integers = type == TRINE_I32 || type == TRINE_I64;
    return !integers && (g->r->ordered || op != TRINE_SUM);
}

/* Elements of rank's slice in [at, at + limit) of it. */
static size_t segment(size_t count, size_t slice, int rank, size_t at, size_t limit) {
    size_t first = (size_t)rank * slice + at, left = first < count ? count - first : 0;
    if (left > slice - at) left = slice - at;
    return left < limit ? left : limit;
}

/* dst = the sum of `first` (NULL: nothing), the addends in the scratch, `stride` elements a rank, and own. */
static trine_status add_up(nccl_group *g, void *dst, const void *first, const void *own,
                           size_t stride, size_t count, trine_dtype type, trine_reduction op) {
    const combine_addends addends = {g->scratch, own, stride, g->rank, g->size, first};
    return cuda_combine(g->r->dev, g->stream, dst, &addends, count, type, op);
}

static trine_status exchange_chunk(nccl_group *g, const char *src, size_t count, size_t slice,
                                   size_t at, size_t step, size_t element) {
    size_t own = segment(count, slice, g->rank, at, step);
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        size_t theirs = segment(count, slice, to, at, step);
        TRY(recv_bytes(g, g->scratch + (size_t)from * step * element, own * element, from));
        TRY(send_bytes(g, src + ((size_t)to * slice + at) * element, theirs * element, to));
    }
    return close_exchange(g);
}

/* `onto`: the first addend is what dst has. */
static trine_status reduce_slices(nccl_group *g, char *dst, bool onto, const char *src,
                                  size_t count, size_t slice, trine_dtype type,
                                  trine_reduction op) {
    size_t element = element_bytes(type), step = g->chunk / element;
    for (size_t at = 0; at < slice; at += step) {
        TRY(exchange_chunk(g, src, count, slice, at, step, element));
        size_t n = segment(count, slice, g->rank, at, step);
        const char *own = src + ((size_t)g->rank * slice + at) * element;
        char *to = dst + at * element;
        if (n) TRY(add_up(g, to, onto ? to : NULL, own, step, n, type, op));
    }
    return TRINE_OK;
}

static trine_status gather_slices(nccl_group *g, char *buf, size_t count, size_t slice,
                                  size_t element) {
    size_t own = segment(count, slice, g->rank, 0, slice) * element;
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        size_t theirs = segment(count, slice, from, 0, slice) * element;
        TRY(recv_bytes(g, buf + (size_t)from * slice * element, theirs, from));
        TRY(send_bytes(g, buf + (size_t)g->rank * slice * element, own, to));
    }
    return close_exchange(g);
}

static trine_status rank_order_all_reduce(nccl_group *g, char *dst, const char *src, size_t count,
                                          trine_dtype type, trine_reduction op) {
    size_t element = element_bytes(type), bytes = count * element, size = (size_t)g->size;
    size_t slice = count / size + (count % size != 0);
    if (bytes * size <= SMALL_BYTES) {
        TRY_NCCL(g, AllGather, src, g->scratch, bytes, ncclUint8, g->comm, g->stream);
        return add_up(g, dst, NULL, g->scratch + (size_t)g->rank * bytes, count, count, type, op);
    }
    char *own = dst + (size_t)g->rank * slice * element;
    TRY(reduce_slices(g, own, false, src, count, slice, type, op));
    return gather_slices(g, dst, count, slice, element);
}

static trine_status rank_order_reduce(nccl_group *g, char *dst, const char *src, size_t count,
                                      trine_dtype type, trine_reduction op, int root) {
    size_t element = element_bytes(type), step = g->chunk / element;
    for (size_t at = 0; at < count; at += step) {
        size_t n = count - at < step ? count - at : step;
        const char *own = src + at * element;
        TRY(open_exchange(g));
        if (g->rank != root) TRY(send_bytes(g, own, n * element, root));
        for (int r = 0; g->rank == root && r < g->size; r++)
            if (r != root)
                TRY(recv_bytes(g, g->scratch + (size_t)r * step * element, n * element, r));
        TRY(close_exchange(g));
        if (g->rank == root) TRY(add_up(g, dst + at * element, NULL, own, step, n, type, op));
    }
    return TRINE_OK;
}

/* Maxima have no order, but a NaN must win: all addends on all ranks, a piece at a time, without messages, for which
 * NCCL would connect ranks that exchange nothing else. dst is set where `wanted`. */
static trine_status gather_maxima(nccl_group *g, char *dst, const char *src, size_t count,
                                  trine_dtype type, bool wanted) {
    size_t element = element_bytes(type), step = g->chunk / element;
    for (size_t at = 0; at < count; at += step) {
        size_t n = count - at < step ? count - at : step, bytes = n * element;
        TRY_NCCL(g, AllGather, src + at * element, g->scratch, bytes, ncclUint8, g->comm,
                 g->stream);
        const char *own = g->scratch + (size_t)g->rank * bytes;
        if (wanted) TRY(add_up(g, dst + at * element, NULL, own, n, n, type, TRINE_MAX));
    }
    return TRINE_OK;
}

/* ---- Reductions -------------------------------------------------------------------------------- */

static bool is_maximum(const nccl_group *g, trine_dtype type, trine_reduction op) {
    return op == TRINE_MAX && keeps_order(g, type, op);
}

static ncclDataType_t type_of(trine_dtype type) {
    switch (type) {
    case TRINE_F32: return ncclFloat32;
    case TRINE_F64: return ncclFloat64;
    case TRINE_I32: return ncclInt32;
    case TRINE_I64: return ncclInt64;
    case TRINE_BF16: return ncclBfloat16;
    case TRINE_F16: return ncclFloat16;
    case TRINE_U8: break;
    }
    return ncclUint8;
}

static ncclRedOp_t op_of(trine_reduction op) {
    return op == TRINE_MAX ? ncclMax : ncclSum;
}

static trine_status all_reduce(nccl_group *g, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op) {
    ASSERT(g->scratch && !g->r->fusing);
    TRY(nccl_before(g));
    if (is_maximum(g, type, op))
        TRY(gather_maxima(g, (char *)dst, (const char *)src, count, type, true));
    else if (keeps_order(g, type, op))
        TRY(rank_order_all_reduce(g, (char *)dst, (const char *)src, count, type, op));
    else
        TRY_NCCL(g, AllReduce, src, dst, count, type_of(type), op_of(op), g->comm, g->stream);
    return TRINE_OK;
}

trine_status nccl_all_reduce(nccl_group *g, void *dst, const void *src, size_t count,
                             trine_dtype type, trine_reduction op) {
    TRY(all_reduce(g, dst, src, count, type, op));
    return nccl_after(g);
}

trine_status nccl_all_reduce_start(nccl_group *g, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op, uint64_t *ticket) {
    TRY(all_reduce(g, dst, src, count, type, op));
    return nccl_give_ticket(g, ticket);
}

trine_status nccl_reduce(nccl_group *g, void *dst, const void *src, size_t count, trine_dtype type,
                         trine_reduction op, int root) {
    ASSERT(g->scratch);
    TRY(nccl_before(g));
    if (is_maximum(g, type, op))
        TRY(gather_maxima(g, (char *)dst, (const char *)src, count, type, g->rank == root));
    else if (keeps_order(g, type, op))
        TRY(rank_order_reduce(g, (char *)dst, (const char *)src, count, type, op, root));
    else
        TRY_NCCL(g, Reduce, src, dst, count, type_of(type), op_of(op), root, g->comm, g->stream);
    return nccl_after(g);
}

static trine_status reduce_scatter(nccl_group *g, void *dst, const void *src, size_t part,
                                   trine_dtype type, trine_reduction op) {
    size_t count = part * (size_t)g->size, bytes = part * element_bytes(type);
    ASSERT(g->scratch && !g->r->fusing);
    TRY(nccl_before(g));
    if (is_maximum(g, type, op)) {
        for (int r = 0; r < g->size; r++)
            TRY(gather_maxima(g, (char *)dst, (const char *)src + (size_t)r * bytes, part, type,
                              r == g->rank));
        return TRINE_OK;
    }
    if (keeps_order(g, type, op))
        TRY(reduce_slices(g, (char *)dst, false, (const char *)src, count, part, type, op));
    else
        TRY_NCCL(g, ReduceScatter, src, dst, part, type_of(type), op_of(op), g->comm, g->stream);
    return TRINE_OK;
}

trine_status nccl_reduce_scatter(nccl_group *g, void *dst, const void *src, size_t part,
                                 trine_dtype type, trine_reduction op) {
    TRY(reduce_scatter(g, dst, src, part, type, op));
    return nccl_after(g);
}

trine_status nccl_reduce_scatter_start(nccl_group *g, void *dst, const void *src, size_t part,
                                       trine_dtype type, trine_reduction op, uint64_t *ticket) {
    TRY(reduce_scatter(g, dst, src, part, type, op));
    return nccl_give_ticket(g, ticket);
}

trine_status nccl_reduce_scatter_onto_start(nccl_group *g, void *dst, const void *src, size_t part,
                                            trine_dtype type, uint64_t *ticket) {
    ASSERT(g->scratch && !g->r->fusing);
    TRY(nccl_before(g));
    TRY(reduce_slices(g, (char *)dst, true, (const char *)src, part * (size_t)g->size, part, type,
                      TRINE_SUM));
    return nccl_give_ticket(g, ticket);
}

/* ---- Movement ---------------------------------------------------------------------------------- */

trine_status nccl_broadcast(nccl_group *g, void *buf, size_t bytes, int root) {
    TRY(nccl_before(g));
    TRY_NCCL(g, Broadcast, buf, buf, bytes, ncclUint8, root, g->comm, g->stream);
    return nccl_after(g);
}

trine_status nccl_scatter(nccl_group *g, void *dst, const void *src, size_t part, int root) {
    const char *parts = (const char *)src;
    TRY(nccl_before(g));
    TRY(open_exchange(g));
    if (g->rank != root) TRY(recv_bytes(g, dst, part, root));
    for (int r = 0; g->rank == root && r < g->size; r++)
        if (r != root) TRY(send_bytes(g, parts + (size_t)r * part, part, r));
    TRY(close_exchange(g));
    if (g->rank == root) TRY(copy(g, dst, parts + (size_t)root * part, part));
    return nccl_after(g);
}

trine_status nccl_gather(nccl_group *g, void *dst, const void *src, size_t part, int root) {
    char *parts = (char *)dst;
    TRY(nccl_before(g));
    TRY(open_exchange(g));
    if (g->rank != root) TRY(send_bytes(g, src, part, root));
    for (int r = 0; g->rank == root && r < g->size; r++)
        if (r != root) TRY(recv_bytes(g, parts + (size_t)r * part, part, r));
    TRY(close_exchange(g));
    if (g->rank == root) TRY(copy(g, parts + (size_t)root * part, src, part));
    return nccl_after(g);
}

/* Exchanges `bytes` bytes of every part: dst part j = rank j's. */
static trine_status exchange_parts(nccl_group *g, char *dst, size_t dst_part, const char *src,
                                   size_t src_part, size_t bytes) {
    TRY(open_exchange(g));
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank - k + g->size) % g->size;
        TRY(recv_bytes(g, dst + (size_t)from * dst_part, bytes, from));
        TRY(send_bytes(g, src + (size_t)to * src_part, bytes, to));
    }
    return close_exchange(g);
}

/* In place: incoming data waits in the scratch until the data it replaces has been sent. */
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

trine_status nccl_all_to_all(nccl_group *g, void *dst, const void *src, size_t part) {
    size_t own = (size_t)g->rank * part;
    TRY(nccl_before(g));
    if (dst == src) {
        TRY(swap_parts(g, (char *)dst, part));
        return nccl_after(g);
    }
    TRY(copy(g, (char *)dst + own, (const char *)src + own, part));
    TRY(exchange_parts(g, (char *)dst, part, (const char *)src, part, part));
    return nccl_after(g);
}

trine_status nccl_all_gather(nccl_group *g, void *dst, const void *src, size_t part,
                             uint64_t *ticket) {
    ASSERT(!g->r->fusing);
    TRY(nccl_before(g));
    TRY_NCCL(g, AllGather, src, dst, part, ncclUint8, g->comm, g->stream);
    return nccl_give_ticket(g, ticket);
}

/* ---- The first calls --------------------------------------------------------------------------- */

/* NCCL chooses an algorithm by the size of a call. */
static const size_t warm_sizes[] = {4, (size_t)64 << 10, (size_t)1 << 20, (size_t)8 << 20};

#define WARM_UNKNOWN ((size_t)8 << 20) /* the largest call, if it is not known */
#define WARM_SEGMENT ((size_t)16)      /* bytes to a peer */

/* Calls on vectors of `bytes`, at least a number of each rank. */
static trine_status sum_and_gather(nccl_group *g, char *buf, size_t bytes) {
    size_t count = bytes / sizeof(float), part = count / (size_t)g->size;
    if (part < 1) part = 1;
    char *own = buf + (size_t)g->rank * part * sizeof(float);
    TRY_NCCL(g, AllReduce, buf, buf, count, ncclFloat32, ncclSum, g->comm, g->stream);
    TRY_NCCL(g, ReduceScatter, buf, own, part, ncclFloat32, ncclSum, g->comm, g->stream);
    TRY_NCCL(g, AllGather, own, buf, part, ncclFloat32, g->comm, g->stream);
    return TRINE_OK;
}

static trine_status warm_sums(nccl_group *g, char *buf, size_t largest) {
    for (size_t bytes : warm_sizes)
        if (bytes < largest) TRY(sum_and_gather(g, buf, bytes));
    return sum_and_gather(g, buf, largest);
}

/* Whether the group sends messages: lanes and tie do, and sums in a fixed order. */
static bool sends_messages(const nccl_group *g) {
    return !g->scratch || g->r->ordered;
}

static trine_status make_each_call(nccl_group *g, char *buf, size_t bytes, size_t largest) {
    TRY_CUDA(cudaMemsetAsync(buf, 0, bytes, g->stream));
    if (g->scratch) TRY(cuda_combine_load(g->r->dev, g->stream, g->scratch));
    if (g->scratch) TRY(warm_sums(g, buf, largest));
    if (sends_messages(g))
        TRY(exchange_parts(g, buf, WARM_SEGMENT, buf + bytes / 2, WARM_SEGMENT, WARM_SEGMENT));
    return nccl_await(g->r, g->stream);
}

trine_status nccl_warm_up(nccl_group *g) {
    size_t largest = g->largest ? g->largest : WARM_UNKNOWN;
    size_t bytes = 2 * WARM_SEGMENT * (size_t)g->size;
    char *buf;
    if (largest < sizeof(float)) largest = sizeof(float);
    if (g->scratch && bytes < largest) bytes = largest;
    TRY(nccl_take(g, &buf, bytes, "largest call"));
    TRY(make_each_call(g, buf, bytes, largest));
    TRY_CUDA(cudaFree(buf));
    return TRINE_OK;
}
