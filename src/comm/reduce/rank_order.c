/* Reductions in a fixed order: which kernels add, and the exchange of the addends.
 *
 * reduce-scatter: each rank receives all ranks' addends for its own part, a chunk at a time.
 * all-reduce: small ones send all addends to all ranks in one exchange; large ones are a
 * reduce-scatter over slices and a gather of the slices (Rabenseifner, "Optimization of Collective
 * Reduction Operations", 2004, with direct exchanges instead of halving). reduce: the root
 * receives. */
#include "comm/reduce/rank_order.h"
#include "base/levels.h"
#include "base/status.h"
#include "comm/group/group.h"
#include "comm/group/world.h"
#include "comm/reduce/reduce_kernels.h"

#include <string.h>

/* All ranks' addends together, up to which all of them are sent to all ranks: below this size one
 * exchange's latency costs less than the extra traffic, and the addends are still in the
 * second-level cache when they are added. */
#define SMALL_BYTES (64 * 1024)
/* Scratch: at least this much in all, and at least a chunk for each rank. More is of no use: a
 * chunk is added while it lies in the second-level cache. */
#define SCRATCH_BYTES (1024 * 1024)
#define CHUNK_BYTES   (64 * 1024)
/* ---- Additions ------------------------------------------------------------------------------- */

#define ROW(name, level) extern const reduce_kernels reduce_kernels_##name;
LEVEL_LIST(ROW)
#undef ROW

/* Of the highest level that this processor has, whatever the level of the job: no bit depends on it. */
static const reduce_kernels *kernels;

__attribute__((constructor)) static void choose(void) {
#define ROW(name, level) &reduce_kernels_##name,
    static const reduce_kernels *const all[] = {LEVEL_LIST(ROW)};
#undef ROW
    kernels = all[levels_row(levels_highest())];
}

bool rank_order_widens(trine_dtype type, trine_reduction op) {
    return op != TRINE_MAX && (type == TRINE_BF16 || type == TRINE_F16);
}

void rank_order_partial(float *dst, const rank_order_terms *terms, size_t count, trine_dtype type) {
    ASSERT(rank_order_widens(type, TRINE_SUM));
    kernels->partial(dst, terms, count, type);
}

void rank_order_half_to(const rank_order_target *to, const rank_order_terms *terms, size_t count,
                        trine_dtype type, trine_reduction op) {
    kernels->half_to(to, terms, count, type, op);
}

void rank_order_combine_to(const rank_order_target *to, const void *const *addends, int ranks,
                           size_t count, trine_dtype type, trine_reduction op) {
    kernels->combine_to(to, addends, ranks, count, type, op);
}

void rank_order_combine(void *dst, const void *const *addends, int ranks, size_t count,
                        trine_dtype type, trine_reduction op) {
    const rank_order_target to = {.dsts = &dst, .copies = 1};
    rank_order_combine_to(&to, addends, ranks, count, type, op);
}

/* The addends in the scratch, `stride` bytes apart, except this rank's own, which lies at `own`. */
static const void *const *addends_at(trine_comm *comm, size_t stride, const void *own) {
    const void **addends = comm->world->addends;
    for (int r = 0; r < comm->size; r++)
        addends[r] = r == comm->rank ? own : comm->world->scratch + (size_t)r * stride;
    return addends;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* A chunk for each rank of a group. */
static size_t chunks_bytes(int group_size) {
    size_t chunks = (size_t)group_size * CHUNK_BYTES;
    return chunks > SCRATCH_BYTES ? chunks : SCRATCH_BYTES;
}

size_t comm_scratch_bytes(int world_size) {
    return world_size == 1 ? 0 : chunks_bytes(world_size);
}

size_t comm_arrival_bytes(int world_size, int group_size) {
    int least = world_size / (CHUNK_BYTES / (int)sizeof(int64_t)) + 1;
    return world_size == 1 ? 0 : chunks_bytes(group_size > least ? group_size : least);
}

bool rank_order_is_small(uint64_t bytes, int size) {
    return bytes <= SMALL_BYTES / (uint64_t)size;
}

size_t rank_order_slice_size(size_t count, int size) {
    return count / (size_t)size + (count % (size_t)size != 0);
}

size_t rank_order_segment(size_t count, size_t slice, int rank, size_t at, size_t limit) {
    size_t first = (size_t)rank * slice + at;
    size_t left = first < count ? count - first : 0;
    size_t in_slice = slice - at;
    if (left > in_slice) left = in_slice;
    return left < limit ? left : limit;
}

size_t rank_order_slice(size_t count, int size, int rank) {
    size_t slice = rank_order_slice_size(count, size);
    return rank_order_segment(count, slice, rank, 0, slice);
}

/* Elements of a chunk if one for each rank must fit in the scratch. */
static size_t chunk_of(const trine_comm *comm, size_t element) {
    return comm_scratch_bytes(comm->world->size) / (size_t)comm->size / element;
}

/* ---- Reductions ------------------------------------------------------------------------------ */

/* One chunk: sends the other ranks their addends and receives those for this rank. */
static trine_status exchange_chunk(trine_comm *comm, const char *src, size_t count, size_t slice,
                                   size_t at, size_t step, size_t element) {
    size_t own = rank_order_segment(count, slice, comm->rank, at, step);
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        size_t theirs = rank_order_segment(count, slice, to, at, step);
        const char *segment = theirs ? src + ((size_t)to * slice + at) * element : src;
        char *arrival = comm->world->scratch + (size_t)from * step * element;
        TRY(comm->transport->post_recv(comm, arrival, own * element, from));
        TRY(comm->transport->post_send(comm, segment, theirs * element, to));
    }
    return comm->transport->flush(comm);
}

/* dst = this rank's slice of the reduction of src (count). dst may be that slice of src: it is
 * never sent, and is read before it is written. */
static trine_status reduce_slices(trine_comm *comm, char *dst, const char *src, size_t count,
                                  size_t slice, trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), step = chunk_of(comm, element);
    for (size_t at = 0; at < slice; at += step) {
        TRY(exchange_chunk(comm, src, count, slice, at, step, element));
        size_t n = rank_order_segment(count, slice, comm->rank, at, step);
        if (!n) continue;
        const char *own = src + ((size_t)comm->rank * slice + at) * element;
        rank_order_combine(dst + at * element, addends_at(comm, step * element, own), comm->size, n,
                           type, op);
    }
    return TRINE_OK;
}

/* Sends every rank's slice of buf (count) to all ranks. */
static trine_status gather_slices(trine_comm *comm, char *buf, size_t count, size_t slice,
                                  size_t element) {
    size_t own = rank_order_segment(count, slice, comm->rank, 0, slice);
    for (int k = 1; k < comm->size; k++) {
        int to = (comm->rank + k) % comm->size;
        int from = (comm->rank - k + comm->size) % comm->size;
        size_t theirs = rank_order_segment(count, slice, from, 0, slice);
        char *arrival = theirs ? buf + (size_t)from * slice * element : buf;
        char *mine = own ? buf + (size_t)comm->rank * slice * element : buf;
        TRY(comm->transport->post_recv(comm, arrival, theirs * element, from));
        TRY(comm->transport->post_send(comm, mine, own * element, to));
    }
    return comm->transport->flush(comm);
}

static trine_status all_reduce_small(trine_comm *comm, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op) {
    size_t bytes = count * trine_dtype_bytes(type);
    comm_request request = {0};
    TRY(comm->transport->all_gather_start(comm, comm->world->scratch, src, bytes, &request));
    TRY(comm->transport->wait(comm, &request));
    rank_order_combine(dst, addends_at(comm, bytes, src), comm->size, count, type, op);
    return TRINE_OK;
}

trine_status rank_order_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op) {
    size_t element = trine_dtype_bytes(type), slice = rank_order_slice_size(count, comm->size);
    if (!count) return TRINE_OK;
    if (rank_order_is_small(count * element, comm->size))
        return all_reduce_small(comm, dst, src, count, type, op);
    char *own = (char *)dst;
    if (rank_order_slice(count, comm->size, comm->rank))
        own += (size_t)comm->rank * slice * element;
    TRY(reduce_slices(comm, own, src, count, slice, type, op));
    return gather_slices(comm, dst, count, slice, element);
}

trine_status rank_order_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op) {
    return reduce_slices(comm, dst, src, count, count / (size_t)comm->size, type, op);
}

trine_status rank_order_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op, int root) {
    size_t element = trine_dtype_bytes(type), step = chunk_of(comm, element);
    for (size_t at = 0; at < count; at += step) {
        size_t n = count - at < step ? count - at : step;
        const char *own = (const char *)src + at * element;
        if (comm->rank != root) {
            TRY(comm->transport->post_send(comm, own, n * element, root));
            TRY(comm->transport->flush(comm));
            continue;
        }
        for (int r = 0; r < comm->size; r++) {
            char *arrival = comm->world->scratch + (size_t)r * step * element;
            if (r != root) TRY(comm->transport->post_recv(comm, arrival, n * element, r));
        }
        TRY(comm->transport->flush(comm));
        rank_order_combine((char *)dst + at * element, addends_at(comm, step * element, own),
                           comm->size, n, type, op);
    }
    return TRINE_OK;
}
