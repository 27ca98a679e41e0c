/* What operators (ops.h) take beside tensors and sizes: who only passes it on does not depend on their list. */
#ifndef TRINE_DEVICE_OP_ARGS_H
#define TRINE_DEVICE_OP_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exact_sum.h"

#ifdef __cplusplus
extern "C" {
#endif

/* AdamW, decoupled weight decay: Loshchilov and Hutter, "Decoupled weight decay regularization",
 * ICLR 2019, algorithm 2. `step` counts from 1. The gradient is first multiplied by `scale`
 * (clipping). */
typedef struct {
    float lr, beta1, beta2, eps, decay, scale;
    int64_t step;
} adamw_args;

/* The elements that a dropout drops (Srivastava et al., "Dropout", JMLR 2014; section 10 for the scaling
 * of kept elements). They are a function of the dropout's name and of global positions only, so they do
 * not depend on layout, micro-batch size or recomputation.
 *
 *   sample    of row i of a micro-batch's (B, T, C): sample + i / T, numbered over the whole run
 *   element   within the tensor of its sample: t C + c; for the probabilities of attention
 *             (h T + q) T + k, where h is the head among those of all tp ranks
 *   word      Philox4x32-10 (base/rng.h) with key `key` and counter {element / 4, low and high half,
 *             sample, low and high half}, word element % 4 of the result
 *   kept      if word >= dropout_threshold(p); the element is then multiplied by 1 / (1 - p), in fp32 */
typedef struct {
    float p;         /* in (0, 1) */
    uint64_t key;    /* rng_key(seed, the dropout's name) */
    uint64_t sample; /* of the micro-batch's row 0 */
    size_t first;    /* number of the call's row 0 in the micro-batch; attention: number of the call's
                        head 0 among all heads */
    size_t T;        /* rows per sample; attention has it as an argument */
    size_t width, column; /* of `dropout`: C, if the call's rows are columns of it from `column` on; 0: its own N */
} dropout_args;

static inline uint32_t dropout_threshold(float p) {
    return (uint32_t)((double)p * 4294967296.0);
}
/* Number of element 0 of a call's row within its sample; its rows have N columns. */
static inline uint64_t dropout_row(const dropout_args *drop, uint64_t row, size_t N) {
    return row % drop->T * (drop->width ? drop->width : N) + drop->column;
}
static inline float dropout_scale(float p) {
    return (float)(1.0 / (1.0 - (double)p));
}

/* Documents. starts (B, T), in device memory: starts[b T + t] <= t is the position in sample b at which the document
 * of token t begins, the same for all of its tokens; within a sample it does not decrease. Token t attends to the
 * keys from starts[b T + t] to t, and its position is t - starts[b T + t]. NULL: a sample is one document. Attention
 * and positions take it independently of each other. The work of an operator (below) is counted as for NULL. */

/* A target without a loss: it adds nothing to the sum, and its row of the gradient is 0. */
#define OPS_NO_TARGET (-1)

/* Whether a gradient is added to its buffer or replaces the contents, which GRAD_SET does not read. */
typedef enum { GRAD_ADD, GRAD_SET } grad_mode;

/* Elements [at, at + n) of a range, usually a tensor, counted from the operator's pointers. Parts are
 * in ascending order and do not overlap. Elements between parts are not visited. */
typedef struct {
    size_t at, n;
    bool decays; /* adamw: whether args->decay applies to it */
} ops_part;
#define OPS_PARTS 32 /* most parts of a call: the tensors of a range */

/* sum_squares adds in runs ("blocks") of this many elements, each in a fixed order, so that the
 * result depends neither on the number of threads nor on the vector width. */
#define SUM_SQUARES_BLOCK 4096

/* sum_squares_exact adds blocks of this many elements, which start at multiples of it from x, in double: lane j is
 * the sum of the squares of elements j, j + EXACT_LANES, ..., in this order; then lane j + 4 is added to lane j, lane
 * j + 2, and lane 1 to lane 0. An element outside of the part counts as zero. */
#define EXACT_BLOCK    64
#define EXACT_LANES    8
#define SQUARES_DIGITS EXACT_WORDS /* base/exact_sum.h */

/* The number of elements in all parts, and the number from the pointers to the end of the last part. */
static inline size_t ops_parts_sum(const ops_part *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].n;
    return sum;
}
static inline size_t ops_parts_end(const ops_part *parts, int count) {
    return count ? parts[count - 1].at + parts[count - 1].n : 0;
}

#ifdef __cplusplus
}
#endif

#endif
