/* One matmul of a linear layer, by oneDNN alone: the limit for the trainer. The code is separate from the device's,
 * so that the limit does not change with it. Strides are the model's (dense, row-major), the post-op is the model's
 * accumulation. The library has several implementations, of which the preferred one need not be the fastest: each can
 * be selected. C API of versions 2 and 3. Cost: that of the library, and one call. */
#ifndef TRINE_BENCH_ONEDNN_H
#define TRINE_BENCH_ONEDNN_H

#include "trine.h"

#define PRODUCT_LIST(X)                                                                            \
    X(PRODUCT_Y, "y = x w^T")        /* out (T, N) = left x (T, K), right w (N, K)^T, + bias (N) */\
    X(PRODUCT_DX, "dx = dy w")       /* out (T, K) = left dy (T, N), right w (N, K) */             \
    X(PRODUCT_DW_ADD, "dw += dy^T x") /* out (N, K) += left dy (T, N)^T, right x (T, K) */         \
    X(PRODUCT_DW_SET, "dw = dy^T x")

typedef enum {
#define PRODUCT_ENUM(name, text) name,
    PRODUCT_LIST(PRODUCT_ENUM)
#undef PRODUCT_ENUM
    PRODUCT_KINDS
} product_kind;

const char *product_text(product_kind kind);

typedef struct onednn onednn;   /* an engine and a stream */
typedef struct product product; /* a primitive */

/* Errors: TRINE_ENOMEM, TRINE_EMATH. What is created is owned by the caller. */
trine_status onednn_open(onednn **o);
void onednn_close(onednn **o);
/* The type, fp32 or bf16, is that of all operands except dw, which is fp32, as in the model without --grad-dtype. */
typedef struct {
    product_kind kind;
    trine_dtype type;
    bool biased;
    size_t T, N, K;
} product_config;

/* Creates the primitive for OpenMP's current number of threads, with the library's implementation number `choice`;
 * 0 is the preferred one. *p is NULL if there are no more except plain loops. */
trine_status product_create(product **p, onednn *o, const product_config *config, int choice);
/* The library's name of the implementation. */
const char *product_implementation(const product *p);
void product_destroy(product **p);
/* Runs it and waits. bias is NULL unless `biased`. Errors: TRINE_EMATH. */
trine_status product_run(product *p, void *out, const void *left, const void *right,
                         const void *bias);

#endif
