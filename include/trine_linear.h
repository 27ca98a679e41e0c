/* A single tensor-parallel linear layer: a building block for programs that do not use the trainer. The
 * conventions are those of trine.h. */
#ifndef TRINE_LINEAR_H
#define TRINE_LINEAR_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A linear layer, y = x w^T + bias, whose weight is split over the ranks of a tp group (Shoeybi et
 * al., "Megatron-LM", 2019, section 3). Both forms compute the function of the unsharded layer; both
 * read x on tp rank 0 and write y on every rank:
 *
 *   TRINE_COLUMN  rank t holds output features [t O/P, (t+1) O/P) of weight and bias.
 *                 forward: broadcast x, multiply, all-gather the columns of y;
 *                 backward: select this rank's columns of dy, multiply, reduce dx to rank 0
 *   TRINE_ROW     rank t holds input features [t I/P, (t+1) I/P) of the weight, and the full bias.
 *                 forward: scatter the columns of x, multiply, all-reduce y, add the bias once;
 *                 backward: multiply dy, gather the columns of dx on rank 0
 *
 * dy is the gradient of y, which every rank holds, so dy must be the same on every rank; dbias of
 * TRINE_ROW is then the same on every rank, too. */
typedef enum { TRINE_COLUMN, TRINE_ROW } trine_linear_split;

typedef struct trine_linear trine_linear;

typedef struct {
    trine_linear_split split;
    size_t in, out;     /* I, O: features of the unsharded layer; tp divides the split one */
    size_t max_rows;    /* the largest number of rows in one call */
    const char *device; /* "cpu" or "ref": all pointers are to host memory */
    int threads;        /* of the device; 0 means 1 */
    uint64_t seed;      /* of the initial values */
    const char *name;   /* keys the initial values; at most 24 bytes */
} trine_linear_config;

/* The shard of a layer that one rank holds. Owned by the layer and valid until it is destroyed. The caller may
 * write to it: set weights, zero gradients, apply an optimizer. */
typedef struct {
    size_t rows, cols;             /* of the weight shard: (O/P, I) or (O, I/P) */
    size_t first_row, first_col;   /* its first element in the full (O, I) */
    float *weight, *weight_grad;   /* (rows, cols) */
    float *bias, *bias_grad;       /* (rows) */
} trine_linear_shard;

/* Creates a layer over the ranks of `tp`, which must outlive it, with all the scratch that its calls
 * need. Weights are normal with standard deviation 0.02, as functions of (seed, name, global element), so
 * that the shards together equal the weight of the unsharded layer; biases and gradients are zero.
 * Errors: TRINE_EINVAL, before anything is sent, if a size is 0, if tp does not divide the split
 * features, if the device is unknown or the name too long; TRINE_EUNSUPPORTED for device cuda;
 * TRINE_ENOMEM, TRINE_EMATH.
 * Not collective, but every rank must pass the same configuration. *linear is owned by the
 * caller. */
trine_status trine_linear_create(trine_linear **linear, trine_comm *tp,
                                 const trine_linear_config *config);
/* Not collective. */
void trine_linear_destroy(trine_linear **linear);

/* This rank's shard of the layer. Not collective. */
trine_linear_shard trine_linear_local(const trine_linear *linear);

/* y (rows, O) on every rank = x (rows, I) w^T + bias; x is read on tp rank 0 and may be NULL
 * elsewhere. A copy of x is kept for the backward pass.
 * Errors: TRINE_EINVAL if rows is not in 1..max_rows or x is missing; the collectives' own.
 * Collective over: tp. */
trine_status trine_linear_forward(trine_linear *linear, float *y, const float *x, size_t rows);

/* dx (rows, I) on tp rank 0 = dy (rows, O) w; dx may be NULL elsewhere. weight_grad and bias_grad
 * += this rank's part. Consumes the kept copy of x: one backward call per forward call.
 * Errors: TRINE_EINVAL if `rows` differs from that of the preceding forward call, or dx is missing; the
 * collectives' own. Collective over: tp. */
trine_status trine_linear_backward(trine_linear *linear, float *dx, const float *dy, size_t rows);

#ifdef __cplusplus
}
#endif

#endif
