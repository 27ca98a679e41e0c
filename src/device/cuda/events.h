/* Measuring functions of the cuda device (for bench and src/profile/spans.h): times in the queue, and
 * the speed of the maths library. Part of the interface of backend.h: this header contains no CUDA
 * type. These functions are called in measured runs only.
 *
 * Marks are events of the compute stream, created once and reused. The time of a mark is measured by
 * the GPU, to half a microsecond (CUDA Runtime API, cudaEventElapsedTime); setting a mark costs the
 * host about a microsecond, and the queue as much, which a benchmark measures (bench/gpu_step.c).
 *
 * A library product is one of the matmuls of a linear layer by cuBLASLt alone, with the heuristic's
 * answer number `choice`. It is the limit for the device's own matmuls. It does not share their code,
 * may split sums in any way, and its fastest choice is found by timing, which the device never does.
 * It computes in the device's types and precision, and uses its workspace. */
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
    /* Creates `count` marks for d's queue, owned by the caller until marks_destroy, which must be called
     * before the device is closed. Errors: TRINE_ENOMEM, TRINE_EMATH. */
    trine_status (*marks_create)(device *d, cuda_marks **m, int count);
    void (*marks_destroy)(cuda_marks **m);
    /* Sets mark i after all work in the queue. Errors: TRINE_EMATH. */
    trine_status (*mark)(cuda_marks *m, int i);
    /* Whether the queue has passed mark i; never waits. */
    bool (*passed)(const cuda_marks *m, int i);
    /* Seconds from mark `from` to mark `to`, which was set later; waits for it.
     * Errors: TRINE_EMATH, also those of earlier work in the queue. */
    trine_status (*between)(const cuda_marks *m, int from, int to, double *seconds);

    /* *p is NULL if the heuristic has no answer with that number. Owned by the caller until
     * product_destroy. Errors: TRINE_ENOMEM, TRINE_EMATH. */
    trine_status (*product_create)(device *d, cuda_product **p, const cuda_product_config *config);
    void (*product_destroy)(cuda_product **p);
    /* Pointers are to device memory and 256-byte aligned; bias is NULL unless `biased`. Queued.
     * Errors: TRINE_EMATH. */
    trine_status (*product_run)(cuda_product *p, void *out, const void *left, const void *right,
                                const void *bias);
} cuda_measure;

#ifdef __cplusplus
}
#endif

#endif
