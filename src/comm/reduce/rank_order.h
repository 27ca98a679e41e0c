/* Additions in rank order, and the reductions of transports that only move data. The transport passes the addresses
 * of the addends; they are added here, element by element, ((r0 + r1) + r2) + ... or in a tree, so the bits depend
 * neither on the algorithm nor on the message size nor on which rank owns which slice.
 *
 * 16-bit numbers are added in fp32 and rounded once, after the last addend (half.c). A partial sum that is passed
 * on, as from node to node, is therefore passed on in fp32.
 * Invariant: every transport adds with these functions.
 * Cost: each addend is read once, each result written once; nothing is allocated. */
#ifndef TRINE_COMM_REDUCE_RANK_ORDER_H
#define TRINE_COMM_REDUCE_RANK_ORDER_H

#include "comm/api/comm.h"
#include "comm/reduce/stream.h"

/* ---- Additions (reduce_kernels.h) ------------------------------------------------------------ */

/* dst (count) = the sum or maximum of the addends (`ranks` pointers to count elements), in order, or in the tree of
 * TRINE_SUM_TREE; dst may be one of them. */
void rank_order_combine(void *dst, const void *const *addends, int ranks, size_t count,
                        trine_dtype type, trine_reduction op);
/* Several destinations of one result, and whether it is larger than any cache (stream.h). */
typedef struct {
    void *const *dsts;
    int copies;
    bool streamed;
} rank_order_target;
void rank_order_combine_to(const rank_order_target *to, const void *const *addends, int ranks,
                           size_t count, trine_dtype type, trine_reduction op);

/* The input of a reduction: the partial result of earlier ranks (count floats; NULL: none), then this rank's
 * addends. `before` is used only if rank_order_widens. */
typedef struct {
    const float *before;
    const void *const *addends;
    int ranks;
} rank_order_terms;

/* Whether partial results are fp32 instead of `type`: sums of 16-bit numbers. */
bool rank_order_widens(trine_dtype type, trine_reduction op);
/* dst (count floats) = a partial sum of 16-bit numbers; dst may be terms->before. */
void rank_order_partial(float *dst, const rank_order_terms *terms, size_t count, trine_dtype type);
/* The complete sum, or a maximum, rounded. */
void rank_order_half_to(const rank_order_target *to, const rank_order_terms *terms, size_t count,
                        trine_dtype type, trine_reduction op);

/* ---- Slices ---------------------------------------------------------------------------------- */

/* Elements of a slice if `count` elements are divided among `size` ranks: the last slices may be shorter. */
size_t rank_order_slice_size(size_t count, int size);
/* Whether an all-reduce of `bytes` bytes over `size` ranks gathers all addends on all ranks (one exchange) instead
 * of reducing slices and gathering them (two exchanges, but less data). */
bool rank_order_is_small(uint64_t bytes, int size);
/* Of `count` elements in slices of `slice`, how many `rank` has in [at, at + limit) of its slice: the last slices
 * are shorter, or empty. */
size_t rank_order_segment(size_t count, size_t slice, int rank, size_t at, size_t limit);
/* Elements of the slice that `rank` reduces in a large all-reduce of `count`. */
size_t rank_order_slice(size_t count, int size, int rank);

/* ---- Reductions of transports that only move. Scratch is the world's -------------------------- */

trine_status rank_order_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op);
trine_status rank_order_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op, int root);
trine_status rank_order_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op);

#endif
