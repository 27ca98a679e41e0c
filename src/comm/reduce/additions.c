/* Reductions element by element: the loops over addends, for all types but 16-bit ones (half.c) and trees (tree.c). */
#include "base/levels.h"
#include "base/status.h"
#include "comm/reduce/reduce_kernels.h"

/* Elements summed before they are stored: fits in the first-level cache. */
#define TILE 1024
/* Elements of a cache line. */
#define LANES(type) (64 / sizeof(type))

/* The sum of a cache line's elements stays in a register while all addends are read, side by side:
 * the hardware prefetches every addend, and the caches see one pass over each. A tile of elements
 * is kept apart until it is complete: one of the addends may be a dst. */
#define DEFINE_REDUCE(name, type, combine)                                                         \
    static void name(const rank_order_target *to, const void *const *addends, int ranks,           \
                     size_t count) {                                                               \
        for (size_t at = 0; at < count; at += TILE) {                                              \
            size_t n = count - at < TILE ? count - at : TILE, i = 0;                               \
            type acc[TILE];                                                                        \
            for (; i + LANES(type) <= n; i += LANES(type)) {                                       \
                type sum[LANES(type)], x[LANES(type)];                                             \
                memcpy(sum, (const type *)addends[0] + at + i, sizeof sum);                        \
                for (int r = 1; r < ranks; r++) {                                                  \
                    memcpy(x, (const type *)addends[r] + at + i, sizeof x);                        \
                    for (size_t k = 0; k < LANES(type); k++) sum[k] = combine(sum[k], x[k]);       \
                }                                                                                  \
                memcpy(acc + i, sum, sizeof sum);                                                  \
            }                                                                                      \
            for (; i < n; i++) {                                                                   \
                acc[i] = ((const type *)addends[0])[at + i];                                       \
                for (int r = 1; r < ranks; r++)                                                    \
                    acc[i] = combine(acc[i], ((const type *)addends[r])[at + i]);                  \
            }                                                                                      \
            for (int c = 0; c < to->copies; c++)                                                   \
                reduce_store(to, (type *)to->dsts[c] + at, acc, n * sizeof(type));                 \
        }                                                                                          \
        if (to->streamed) stream_fence();                                                          \
    }

#define LARGER(a, b) ((b) > (a) ? (b) : (a))

DEFINE_REDUCE(sum_f32, float, ORDERED_ADD)
DEFINE_REDUCE(sum_f64, double, ORDERED_ADD)
/* Unsigned, so that an overflow wraps instead of being undefined. */
DEFINE_REDUCE(sum_i32, uint32_t, ORDERED_ADD)
DEFINE_REDUCE(sum_i64, uint64_t, ORDERED_ADD)
DEFINE_REDUCE(max_f32, float, ORDERED_LARGER_OR_NAN)
DEFINE_REDUCE(max_f64, double, ORDERED_LARGER_OR_NAN)
DEFINE_REDUCE(max_i32, int32_t, LARGER)
DEFINE_REDUCE(max_i64, int64_t, LARGER)

static void combine_to(const rank_order_target *to, const void *const *addends, int ranks,
                       size_t count, trine_dtype type, trine_reduction op) {
    bool sum = op != TRINE_MAX;
    if (op == TRINE_SUM_TREE && ranks > REDUCE_TREE) {
        reduce_tree_to(to, addends, ranks, count, type);
        return;
    }
    switch (type) {
    case TRINE_F32: (sum ? sum_f32 : max_f32)(to, addends, ranks, count); return;
    case TRINE_F64: (sum ? sum_f64 : max_f64)(to, addends, ranks, count); return;
    case TRINE_I32:
        if (sum)
            sum_i32(to, addends, ranks, count);
        else
            max_i32(to, addends, ranks, count);
        return;
    case TRINE_I64:
        if (sum)
            sum_i64(to, addends, ranks, count);
        else
            max_i64(to, addends, ranks, count);
        return;
    case TRINE_BF16:
    case TRINE_F16:
        reduce_half_to(to, &(rank_order_terms){NULL, addends, ranks}, count, type, op);
        return;
    case TRINE_U8: break;
    }
    ASSERT(type != TRINE_U8); /* refused by calls.c */
}

const reduce_kernels LEVEL_NAME(reduce_kernels) = {
    .combine_to = combine_to, .half_to = reduce_half_to, .partial = reduce_partial};
