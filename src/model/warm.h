/* Every operator once, in a step's shapes, before memory is counted on: what a GPU's library loads and takes at a
 * first use is then there (train/warm_up.h). Operands lie at the beginning of one scratch. The lists of layers are
 * walked twice: first nothing is run, and `most` is how much the largest operator needs. */
#ifndef TRINE_MODEL_WARM_H
#define TRINE_MODEL_WARM_H

#include "base/arena.h"
#include "device/ops.h"
#include "model/shape.h"

typedef struct {
    device *d;
    const gpt_shape *s;
    void *base; /* NULL at first */
    size_t most;
    arena a; /* of the operator that is next */
} warm_state;

/* The next operator's operands: bytes, numbers of the compute type, gradients of parameters, tokens, all 0. */
void warm_begin(warm_state *w);
void *warm_bytes(warm_state *w, size_t n);
void *warm_numbers(warm_state *w, size_t n);
void *warm_gradients(warm_state *w, size_t n);
float *warm_floats(warm_state *w, size_t n);
int32_t *warm_tokens_of(warm_state *w, size_t n);
/* N: rows of a micro-batch. Pure. */
size_t warm_rows(const warm_state *w);

/* The product (T, K) (N, K)^T of a layer, forwards and backwards, with what is added to it: a bias by the product
 * itself, or where one rank has the layer alone a bias and the residual stream; the gradient of either bias comes with
 * the weight's. Errors: the device's. Not collective. */
typedef enum { WARM_NO_BIAS, WARM_COLUMN, WARM_ROW } warm_bias;
trine_status warm_product(warm_state *w, warm_bias bias, size_t T, size_t N, size_t K);

#endif
