/* The matmuls of a training step, run by oneDNN alone, on a GPU by cuBLASLt alone: the limit that a
 * step is held against.
 *
 * A step of a GPT with L layers runs, for each of qkv, proj, fc and out L times and for the logits
 * once: y = x w^T (with the bias where the model fuses it), dx = dy w, and dw from dy and x. The
 * gradients are both added (+=) and set (=), because a step with one micro-batch may do either; the
 * sum takes whichever is faster, so that the limit is a limit. For the same reason each of the
 * library's implementations is run, and the one with the best time is the product's.
 *
 * All of it in the device's type, fp32 or bf16, but for dw, which is fp32.
 * Each product has as many copies of its operands as it takes to be larger than four times the
 * last-level cache (at most L, as in the model): what is read was not touched just before. Numbers
 * are random. A pass runs each of them once over all its copies; on a GPU the device's own linear
 * operators too, so that they stand beside their limit.
 * Cost: a pass takes about 4/3 of a step's matmuls where all layers have copies of their own, less
 * elsewhere, for each implementation; memory up to the logits, their weight, and both again. */
#ifndef TRINE_BENCH_PRODUCTS_H
#define TRINE_BENCH_PRODUCTS_H

#include "bench.h"
#include "device/device.h"
#include "onednn.h"

#define LAYER_LIST(X) X(LAYER_QKV, "qkv") X(LAYER_PROJ, "proj") X(LAYER_FC, "fc")                  \
    X(LAYER_OUT, "out") X(LAYER_LOGITS, "logits")

typedef enum {
#define LAYER_ENUM(name, text) name,
    LAYER_LIST(LAYER_ENUM)
#undef LAYER_ENUM
    LAYERS
} layer;

typedef struct {
    const char *name;
    size_t T, N, K; /* rows, outputs, inputs */
    bool biased;    /* its forward matmul adds the bias */
    int times;      /* in a forward pass */
} layer_shape;

typedef struct products products;

/* Makes primitives and buffers for a micro-batch of `rows` tokens, on a device of its own.
 * Errors: the device's; TRINE_ENOMEM, TRINE_EMATH. *p is owned by the caller. */
trine_status products_create(products **p, const trine_model *model, size_t rows,
                             const device_config *config);
/* Bytes that it takes of the device. */
uint64_t products_bytes(const products *p);
void products_destroy(products **p);

/* Runs everything once. Only a pass with `keep` adds to the samples: the first one is to warm up.
 * Errors: TRINE_EMATH. */
typedef enum { PASS_WARM, PASS_KEEP } products_pass_kind;
trine_status products_pass(products *p, products_pass_kind kind);

/* Facts, and of the fastest implementation its samples, seconds of one execution, and its name. */
const layer_shape *products_layer(const products *p, layer l);
const bench_samples *products_samples(const products *p, layer l, product_kind kind);
const char *products_implementation(const products *p, layer l, product_kind kind);
/* On a GPU: those of the device's own operator; no samples elsewhere. */
const bench_samples *products_own(const products *p, layer l, product_kind kind);
double products_flops(const products *p, layer l); /* of one execution of any kind: 2 T N K */

/* Seconds of all matmuls of a step, with dw as said, from the samples' medians or minima. */
double products_median(const products *p, product_kind dw);
double products_best(const products *p, product_kind dw);
/* The faster of both dw, and the flops of all of them: 6 N T. */
double products_limit(const products *p, double (*seconds)(const products *, product_kind));
double products_step_flops(const products *p);

#endif
