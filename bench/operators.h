/* The operators of a step other than matmuls, ready to be called repeatedly on the model's own sizes: buffers in the
 * device's memory, and the bytes that each call moves.
 *
 * Buffers are pools of at least four times the last-level cache (the GPU's own on a GPU): each call uses other
 * operands in them than the previous one. Bytes are those that memory must move if each operand is read or
 * written once; on the CPU operands that are only written count twice, because their lines are read first
 * (write-allocate), on a GPU once. */
#ifndef TRINE_BENCH_OPERATORS_H
#define TRINE_BENCH_OPERATORS_H

#include "bench_options.h"

#define POOLS 5 /* the first also has the logits */

typedef struct {
    device *dev;
    size_t B, T, C, H, F, V, L, rows; /* rows = B T */
    size_t block;                     /* parameters of a block */
    size_t element;                   /* bytes of an element of the device's type */
    float *pool[POOLS];               /* of either type: see bench_gpu_fill */
    size_t count[POOLS];              /* elements of 4 bytes */
    int32_t *tokens; /* several texts of (rows) */
    int32_t *starts; /* (B, T): a sample has OPERATORS_DOCUMENTS documents of equal length, or T if that is less */
    float *max, *sums, *stat, *norms, *lse;
    float *angles; /* (T, C / H): cosines and sines */
    double *sum;
    int64_t *digits; /* (SQUARES_DIGITS) */
    void *work; /* of attention */
    size_t work_bytes;
} place;

/* One call, on the operands at element `at` of the pools. Activations and parameters are of the
 * device's type, gradients of parameters, moments and statistics fp32. */
typedef trine_status run_kernel(place *p, size_t at);

typedef struct {
    const char *name, *shape;
    run_kernel *run;
    size_t stride;  /* elements from one copy of the operands to the next */
    double touched; /* bytes that memory moves: see above */
    double times;   /* calls in a step of one micro-batch, scaled to the elements of the step */
} kernel;

#define OPERATORS 25 /* memory-bound operators; not all of them are in a step of GPT-2 */

/* Opens the device and makes the buffers for k->batch samples of T tokens. *p is closed with
 * operators_close. Errors: the device's; TRINE_ENOMEM. */
trine_status operators_open(place *p, const bench_options *k, size_t T);
void operators_close(place *p);

void operators_list(const place *p, kernel list[OPERATORS]);
/* Compute-bound: 2 B T^2 C flops forward, and twice that backward; their operands have 3 rows C elements. */
run_kernel operators_attention_forward, operators_attention_backward;
/* With a dropout of 0.1. */
run_kernel operators_attention_forward_dropout, operators_attention_backward_dropout;
/* Over documents: their triangles are 1 / OPERATORS_DOCUMENTS of the whole. */
#define OPERATORS_DOCUMENTS 8
run_kernel operators_attention_forward_documents, operators_attention_backward_documents;

#endif
