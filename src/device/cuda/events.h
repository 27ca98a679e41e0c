/* What measuring asks of the cuda device beside its tables (bench, and src/profile/spans.h): when
 * the queue came where, and what the maths library itself can do. Part of the seam: no CUDA type
 * stands here. Nothing of it is called in a run that is not measured.
 *
 * Marks are events of the compute stream, made once and used again. A mark's time is the GPU's
 * own, to half a microsecond (CUDA Runtime API, cudaEventElapsedTime); setting one costs the host
 * about a microsecond, and the queue as much, which a benchmark measures (bench/gpu_step.c).
 *
 * A library product is one of a linear layer's matmuls by cuBLASLt alone, by the heuristic's
 * answer number `choice`: the limit of what the device's own products reach. It is not their code,
 * it may split sums as the library likes, and its fastest choice is found by timing, which the
 * device never does. It computes in the device's types and precision, and uses its workspace. */
#ifndef TRINE_DEVICE_CUDA_EVENTS_H
#define TRINE_DEVICE_CUDA_EVENTS_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_marks cuda_marks;
typedef struct cuda_product cuda_product;

typedef enum {
    CUDA_PRODUCT_Y,      /* out (T, N) = left x (T, K), right w (N, K)^T, + bias (N) */
    CUDA_PRODUCT_DX,     /* out (T, K) = left dy (T, N), right w (N, K) */
    CUDA_PRODUCT_DW_ADD, /* out (N, K) += left dy (T, N)^T, right x (T, K) */
    CUDA_PRODUCT_DW_SET  /* out (N, K) = the same */
} cuda_product_kind;

typedef struct {
    cuda_product_kind kind;
    bool biased; /* of CUDA_PRODUCT_Y */
    size_t T, N, K;
    int choice; /* from 0 */
} cuda_product_config;

typedef struct {
    /* `count` marks of d's queue, owned by the caller until marks_destroy, which comes before the
     * device's close. Errors: TRINE_ENOMEM, TRINE_EMATH. */
    trine_status (*marks_create)(device *d, cuda_marks **m, int count);
    void (*marks_destroy)(cuda_marks **m);
    /* Sets mark i behind all work that is in the queue. Errors: TRINE_EMATH. */
    trine_status (*mark)(cuda_marks *m, int i);
    /* Whether the queue has come past mark i; never waits. */
    bool (*passed)(const cuda_marks *m, int i);
    /* Seconds from mark `from` to mark `to`, which was set later; waits for it.
     * Errors: TRINE_EMATH, also those of earlier work in the queue. */
    trine_status (*between)(const cuda_marks *m, int from, int to, double *seconds);

    /* *p is NULL when the heuristic has no answer of that number. Owned by the caller until
     * product_destroy. Errors: TRINE_ENOMEM, TRINE_EMATH. */
    trine_status (*product_create)(device *d, cuda_product **p, const cuda_product_config *config);
    void (*product_destroy)(cuda_product **p);
    /* Pointers are the device's, multiples of 256 bytes; bias NULL unless `biased`. In the queue.
     * Errors: TRINE_EMATH. */
    trine_status (*product_run)(cuda_product *p, void *out, const void *left, const void *right,
                                const void *bias);
} cuda_measure;

#ifdef __cplusplus
}
#endif

#endif
