/* The matmuls of a training step, run by oneDNN alone, on a GPU by cuBLASLt alone: the limit for a step.
 *
 * A step of a model with L blocks runs, for each linear layer of a block L times and for the logits
 * once: y = x w^T (with the bias where the model fuses it), dx = dy w, and dw from dy and x. The
 * gradients are both added (+=) and set (=), because a step with one micro-batch may do either; the
 * sum uses the faster one. Likewise each of the library's implementations is run, and the fastest one counts.
 *
 * All operands have the device's type, fp32 or bf16, except dw, which is fp32.
 * Each product has so many copies of its operands that they exceed four times the
 * last-level cache (at most L, as in the model), so that operands come from memory. Numbers
 * are random. A pass runs each product once over all its copies; on a GPU also the device's own linear
 * operators, for comparison with the limit.
 * Cost: for each implementation a pass takes about 4/3 of a step's matmuls if all layers have copies of their own,
 * otherwise less; memory up to twice that of the logits and their weight. */
#ifndef TRINE_BENCH_PRODUCTS_H
#define TRINE_BENCH_PRODUCTS_H

#include "bench.h"
#include "device/device.h"
#include "onednn.h"

#define LAYERS 8 /* most linear layers of a block, and the logits */

typedef struct {
    const char *name; /* in the model's list */
    size_t T, N, K;   /* rows, outputs, inputs */
    bool biased;    /* its forward matmul adds the bias */
    int times;      /* in a forward pass */
} layer_shape;

typedef struct products products;

/* Creates primitives and buffers for a micro-batch of `rows` tokens, on a device of its own.
 * Errors: the device's; TRINE_ENOMEM, TRINE_EMATH. *p is owned by the caller. */
trine_status products_create(products **p, const trine_model *model, size_t rows,
                             const device_config *config);
/* Bytes of device memory. */
uint64_t products_bytes(const products *p);
void products_destroy(products **p);

/* Runs everything once. PASS_KEEP adds to the samples; the first pass should be PASS_WARM.
 * Errors: TRINE_EMATH. */
typedef enum { PASS_WARM, PASS_KEEP } products_pass_kind;
trine_status products_pass(products *p, products_pass_kind kind);

/* Number of layers: those of a block in the order of its list, then the logits. */
int products_layers(const products *p);
/* The layer's shape; samples (seconds of one execution) and name of the fastest implementation. */
const layer_shape *products_layer(const products *p, int layer);
const bench_samples *products_samples(const products *p, int layer, product_kind kind);
const char *products_implementation(const products *p, int layer, product_kind kind);
/* On a GPU: samples of the device's own operator; elsewhere empty. */
const bench_samples *products_own(const products *p, int layer, product_kind kind);
double products_flops(const products *p, int layer); /* of one execution of any kind: 2 T N K */

/* Seconds of all matmuls of a step, with dw added or set, from the samples' medians or minima. */
double products_median(const products *p, product_kind dw);
double products_best(const products *p, product_kind dw);
/* The seconds with the faster dw, and the flops of all matmuls: 6 N T. */
double products_limit(const products *p, double (*seconds)(const products *, product_kind));
double products_step_flops(const products *p);

#endif
