/* 16-bit numbers in rank order: combined in fp32, in registers, and rounded after the last addend.
 * A partial sum that several nodes make is passed on in fp32, so that it is rounded only once,
 * too. */
#include "base/half_line.h"
#include "comm/reduce/reduce_kernels.h"

#include <string.h>

/* Elements rounded before they are stored: fits in the first-level cache. */
#define TILE 1024

static const uint16_t *addend(const rank_order_terms *t, int r, size_t i) {
    return (const uint16_t *)t->addends[r] + i;
}

/* A maximum is one of the numbers, or a NaN: as in rank_order.c. */
static inline void add_line(half_line *sum, const half_line *x) {
    *sum += *x;
}

static inline void larger_line(half_line *most, const half_line *x) {
    const half_words take = (half_words)(*x > *most) | (half_words)(*x != *x);
    *most = (half_line)((take & (half_words)*x) | (~take & (half_words)*most));
}

/* Two vectors at a time, a cache line of each addend. */
#define DEFINE_COMBINE(name, half, combine_line, combine)                                          \
    static inline void name##_lines(half_line sum[2], const rank_order_terms *t, size_t i) {       \
        half_line x[2];                                                                            \
        if (t->before)                                                                             \
            memcpy(sum, t->before + i, sizeof x);                                                  \
        else                                                                                       \
            for (size_t k = 0; k < 2; k++)                                                         \
                half##_load_line(&sum[k], addend(t, 0, i + k * HALF_LINE));                        \
        for (int r = t->before ? 0 : 1; r < t->ranks; r++)                                         \
            for (size_t k = 0; k < 2; k++) {                                                       \
                half##_load_line(&x[k], addend(t, r, i + k * HALF_LINE));                          \
                combine_line(&sum[k], &x[k]);                                                      \
            }                                                                                      \
    }                                                                                              \
    static inline float name##_one(const rank_order_terms *t, size_t i) {                          \
        float sum = t->before ? t->before[i] : half##_load(*addend(t, 0, i));                      \
        for (int r = t->before ? 0 : 1; r < t->ranks; r++)                                         \
            sum = combine(sum, half##_load(*addend(t, r, i)));                                     \
        return sum;                                                                                \
    }                                                                                              \
    /* out (end - begin) = elements [begin, end), rounded. */                                      \
    static void name(uint16_t *out, const rank_order_terms *t, size_t begin, size_t end) {         \
        size_t i = begin;                                                                          \
        for (; i + 2 * HALF_LINE <= end; i += 2 * HALF_LINE) {                                     \
            half_line sum[2];                                                                      \
            name##_lines(sum, t, i);                                                               \
            for (size_t k = 0; k < 2; k++)                                                         \
                half##_store_line(out + (i - begin) + k * HALF_LINE, &sum[k]);                     \
        }                                                                                          \
        for (; i < end; i++) out[i - begin] = half##_store(name##_one(t, i));                      \
    }

#define DEFINE_PARTIAL(name, sum)                                                                  \
    static void name(float *dst, const rank_order_terms *t, size_t count) {                        \
        size_t i = 0;                                                                              \
        for (; i + 2 * HALF_LINE <= count; i += 2 * HALF_LINE) {                                   \
            half_line lines[2];                                                                    \
            sum##_lines(lines, t, i);                                                              \
            memcpy(dst + i, lines, sizeof lines);                                                  \
        }                                                                                          \
        for (; i < count; i++) dst[i] = sum##_one(t, i);                                           \
    }

DEFINE_COMBINE(sum_bf16, bf16, add_line, ORDERED_ADD)
DEFINE_COMBINE(sum_f16, f16, add_line, ORDERED_ADD)
DEFINE_COMBINE(max_bf16, bf16, larger_line, ORDERED_LARGER_OR_NAN)
DEFINE_COMBINE(max_f16, f16, larger_line, ORDERED_LARGER_OR_NAN)
DEFINE_PARTIAL(partial_bf16, sum_bf16)
DEFINE_PARTIAL(partial_f16, sum_f16)

static void combine(uint16_t *out, const rank_order_terms *t, size_t begin, size_t end,
                    trine_dtype type, trine_reduction op) {
    if (type == TRINE_BF16)
        (op == TRINE_MAX ? max_bf16 : sum_bf16)(out, t, begin, end);
    else
        (op == TRINE_MAX ? max_f16 : sum_f16)(out, t, begin, end);
}

/* A tile of elements is kept apart until it is complete: one of the addends may be a dst. */
void reduce_half_to(const rank_order_target *to, const rank_order_terms *terms, size_t count,
                    trine_dtype type, trine_reduction op) {
    uint16_t out[TILE];
    for (size_t at = 0; at < count; at += TILE) {
        size_t n = count - at < TILE ? count - at : TILE;
        combine(out, terms, at, at + n, type, op);
        for (int c = 0; c < to->copies; c++)
            reduce_store(to, (uint16_t *)to->dsts[c] + at, out, n * sizeof *out);
    }
    if (to->streamed) stream_fence();
}

void reduce_partial(float *dst, const rank_order_terms *terms, size_t count, trine_dtype type) {
    (type == TRINE_BF16 ? partial_bf16 : partial_f16)(dst, terms, count);
}
