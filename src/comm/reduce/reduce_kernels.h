/* The loops that add, for the processors of one level (base/levels.h): additions.c, tree.c and half.c.
 * rank_order.c has one of their tables and calls it.
 * Invariant: every level has the same bits: each element is added alone, in rank_order.h's order, without fused
 * operations. (A NaN may come out with another payload.) */
#ifndef TRINE_COMM_REDUCE_REDUCE_KERNELS_H
#define TRINE_COMM_REDUCE_REDUCE_KERNELS_H

#include "comm/reduce/rank_order.h"

/* As rank_order_combine_to, rank_order_half_to and rank_order_partial. */
typedef struct {
    void (*combine_to)(const rank_order_target *to, const void *const *addends, int ranks, size_t count,
                       trine_dtype type, trine_reduction op);
    void (*half_to)(const rank_order_target *to, const rank_order_terms *terms, size_t count, trine_dtype type,
                    trine_reduction op);
    void (*partial)(float *dst, const rank_order_terms *terms, size_t count, trine_dtype type);
} reduce_kernels;

/* Up to this many addends are added in the same order by the tree. */
#define REDUCE_TREE 3
/* The tree's sum of any number of addends. */
void reduce_tree_to(const rank_order_target *to, const void *const *addends, int ranks, size_t count,
                    trine_dtype type);
void reduce_half_to(const rank_order_target *to, const rank_order_terms *terms, size_t count,
                    trine_dtype type, trine_reduction op);
void reduce_partial(float *dst, const rank_order_terms *terms, size_t count, trine_dtype type);

#define ORDERED_ADD(a, b) ((a) + (b))
/* A NaN on either side wins: it must not be lost. */
#define ORDERED_LARGER_OR_NAN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

static inline void reduce_store(const rank_order_target *to, void *dst, const void *src, size_t bytes) {
    if (to->streamed)
        stream_copy(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

#endif
