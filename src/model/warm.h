/* Runs every operator once, in the shapes of a step, before device memory is planned: GPU libraries load code and
 * allocate memory at first use (train/warm_up.h). Operands are placed at the start of one scratch buffer. The lists
 * of layers are walked twice; the first walk prepares the products, runs nothing, and finds in `most` the bytes of
 * the largest operator. */
#ifndef TRINE_MODEL_WARM_H
#define TRINE_MODEL_WARM_H

#include "base/arena.h"
#include "device/op_args.h"
#include "model/shape.h"

typedef struct {
    device *d;
    const gpt_shape *s;
    void *base; /* NULL in the first walk */
    size_t most;
    arena a; /* of the next operator */
} warm_state;

/* Operands of the next operator: bytes, numbers of the compute type, gradients of parameters, tokens, all 0. */
void warm_begin(warm_state *w);
void *warm_bytes(warm_state *w, size_t n);
void *warm_numbers(warm_state *w, size_t n);
void *warm_gradients(warm_state *w, size_t n);
float *warm_floats(warm_state *w, size_t n);
int32_t *warm_tokens_of(warm_state *w, size_t n);
/* Where documents start, for n tokens; NULL if the step does not reset what reads it. */
const int32_t *warm_starts(warm_state *w, bool resets, size_t n);
/* N: rows of a micro-batch. Pure. */
size_t warm_rows(const warm_state *w);

/* The matmul (T, K) (N, K)^T of a layer, forward and backward. WARM_COLUMN: with a bias. WARM_ROW: with bias and
 * residual if tp is 1; WARM_ROW_NO_BIAS: with the residual alone. The gradient of the bias is computed with that of
 * the weight. Errors: the device's. Not collective. */
typedef enum { WARM_NO_BIAS, WARM_COLUMN, WARM_ROW, WARM_ROW_NO_BIAS } warm_bias;
trine_status warm_product(warm_state *w, warm_bias bias, size_t T, size_t N, size_t K);

#endif
