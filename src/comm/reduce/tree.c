/* TRINE_SUM_TREE: n addends are cut at the largest power of two below n, and the sum of the left part is added to that
 * of the right one. The addends are read in order, four at a time, and a stack keeps the sums of complete subtrees, the
 * largest first: after so many fours one of 2^b for each bit b of their number.
 *
 * As in rank_order.c a cache line's sum stays in registers while all addends are read, and a tile is kept apart until
 * it is complete. 16-bit numbers are added in fp32 and rounded at the root. */
#include "base/half_line.h"
#include "base/status.h"
#include "comm/reduce/reduce_kernels.h"

#include <string.h>

/* Elements summed before they are stored: fits in the first-level cache. */
#define TILE 1024
/* Subtrees on the stack: more than an int has bits above those of four. */
#define DEPTH 32

typedef float f32_line __attribute__((vector_size(64)));
typedef double f64_line __attribute__((vector_size(64)));
/* Unsigned, so that an overflow wraps instead of being undefined. */
typedef uint32_t i32_line __attribute__((vector_size(64)));
typedef uint64_t i64_line __attribute__((vector_size(64)));

/* ---- One line, or one number ----------------------------------------------------------------- */

#define LOAD(x, from)      memcpy(x, from, sizeof *(x))
#define LOAD_BF16(x, from) (*(x) = bf16_load(*(from)))
#define LOAD_F16(x, from)  (*(x) = f16_load(*(from)))

/* *sum = that of element i, and those behind it if `type` is a line, of n addends. */
#define DEFINE_TREE(name, type, element, load)                                                     \
    static inline void name##_of_four(type *sum, const void *const *addends, int n, size_t i) {    \
        type b, c, d;                                                                              \
        load(sum, (const element *)addends[0] + i);                                                \
        if (n > 1) {                                                                               \
            load(&b, (const element *)addends[1] + i);                                             \
            *sum = *sum + b;                                                                       \
        }                                                                                          \
        if (n > 2) {                                                                               \
            load(&c, (const element *)addends[2] + i);                                             \
            if (n > 3) {                                                                           \
                load(&d, (const element *)addends[3] + i);                                         \
                c = c + d;                                                                         \
            }                                                                                      \
            *sum = *sum + c;                                                                       \
        }                                                                                          \
    }                                                                                              \
    static inline void name(type *sum, const void *const *addends, int n, size_t i) {              \
        type stack[DEPTH];                                                                         \
        int top = 0, r = 0;                                                                        \
        for (; r + 4 < n; r += 4) {                                                                \
            name##_of_four(sum, addends + r, 4, i);                                                \
            for (int fours = r / 4; fours % 2; fours /= 2) *sum = stack[--top] + *sum;             \
            stack[top++] = *sum;                                                                   \
        }                                                                                          \
        name##_of_four(sum, addends + r, n - r, i);                                                \
        while (top) *sum = stack[--top] + *sum;                                                    \
    }

DEFINE_TREE(f32_lines, f32_line, float, LOAD)
DEFINE_TREE(f32_one, float, float, LOAD)
DEFINE_TREE(f64_lines, f64_line, double, LOAD)
DEFINE_TREE(f64_one, double, double, LOAD)
DEFINE_TREE(i32_lines, i32_line, uint32_t, LOAD)
DEFINE_TREE(i32_one, uint32_t, uint32_t, LOAD)
DEFINE_TREE(i64_lines, i64_line, uint64_t, LOAD)
DEFINE_TREE(i64_one, uint64_t, uint64_t, LOAD)
DEFINE_TREE(bf16_lines, half_line, uint16_t, bf16_load_line)
DEFINE_TREE(bf16_one, float, uint16_t, LOAD_BF16)
DEFINE_TREE(f16_lines, half_line, uint16_t, f16_load_line)
DEFINE_TREE(f16_one, float, uint16_t, LOAD_F16)

/* ---- All elements ---------------------------------------------------------------------------- */

#define STORE(to, x)      memcpy(to, x, sizeof *(x))
#define STORE_BF16(to, x) (*(to) = bf16_store(*(x)))
#define STORE_F16(to, x)  (*(to) = f16_store(*(x)))

#define DEFINE_SUM(name, element, line, store_line, number, store)                                 \
    static void sum_##name(const rank_order_target *to, const void *const *addends, int ranks,     \
                           size_t count) {                                                         \
        const size_t lanes = sizeof(line) / sizeof(number);                                        \
        for (size_t at = 0; at < count; at += TILE) {                                              \
            size_t n = count - at < TILE ? count - at : TILE, i = 0;                               \
            element acc[TILE];                                                                     \
            for (; i + lanes <= n; i += lanes) {                                                   \
                line sum;                                                                          \
                name##_lines(&sum, addends, ranks, at + i);                                        \
                store_line(acc + i, &sum);                                                         \
            }                                                                                      \
            for (; i < n; i++) {                                                                   \
                number sum;                                                                        \
                name##_one(&sum, addends, ranks, at + i);                                          \
                store(acc + i, &sum);                                                              \
            }                                                                                      \
            for (int c = 0; c < to->copies; c++)                                                   \
                reduce_store(to, (element *)to->dsts[c] + at, acc, n * sizeof(element));           \
        }                                                                                          \
        if (to->streamed) stream_fence();                                                          \
    }

DEFINE_SUM(f32, float, f32_line, STORE, float, STORE)
DEFINE_SUM(f64, double, f64_line, STORE, double, STORE)
DEFINE_SUM(i32, uint32_t, i32_line, STORE, uint32_t, STORE)
DEFINE_SUM(i64, uint64_t, i64_line, STORE, uint64_t, STORE)
DEFINE_SUM(bf16, uint16_t, half_line, bf16_store_line, float, STORE_BF16)
DEFINE_SUM(f16, uint16_t, half_line, f16_store_line, float, STORE_F16)

void reduce_tree_to(const rank_order_target *to, const void *const *addends, int ranks,
                    size_t count, trine_dtype type) {
    switch (type) {
    case TRINE_F32: sum_f32(to, addends, ranks, count); return;
    case TRINE_F64: sum_f64(to, addends, ranks, count); return;
    case TRINE_I32: sum_i32(to, addends, ranks, count); return;
    case TRINE_I64: sum_i64(to, addends, ranks, count); return;
    case TRINE_BF16: sum_bf16(to, addends, ranks, count); return;
    case TRINE_F16: sum_f16(to, addends, ranks, count); return;
    case TRINE_U8: break;
    }
    ASSERT(type != TRINE_U8); /* refused by calls.c */
}
