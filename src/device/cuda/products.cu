/* The library's own matmuls (events.h). This code is separate from matmul.cu, so that the measured limit
 * does not change when matmul.cu gets slower or faster. */
#include "device/cuda/matmul.h"

#include <stdlib.h>

#define CHOICES 16 /* answers requested from the heuristic */

struct cuda_product {
    device *d;
    cublasLtHandle_t handle; /* the device's */
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t A, B, D;
    cublasLtMatmulAlgo_t algo;
    bool biased;
    float beta;
};

#define TRY_LIBRARY(call)                                                                          \
    do {                                                                                           \
        cublasStatus_t try_library_ = (call);                                                      \
        if (try_library_ != CUBLAS_STATUS_SUCCESS)                                                 \
            return RAISE(TRINE_EMATH, "cuBLASLt: %s: %s", #call,                                   \
                         cublasLtGetStatusName(try_library_));                                     \
    } while (0)

void cuda_product_destroy(cuda_product **out) {
    cuda_product *p = *out;
    if (!p) return;
    if (p->A) cublasLtMatrixLayoutDestroy(p->A);
    if (p->B) cublasLtMatrixLayoutDestroy(p->B);
    if (p->D) cublasLtMatrixLayoutDestroy(p->D);
    if (p->operation) cublasLtMatmulDescDestroy(p->operation);
    free(p);
    *out = NULL;
}

/* Our row-major matrix (rows, columns) is the library's (columns, rows). */
static trine_status layout(cublasLtMatrixLayout_t *to, trine_dtype type, size_t rows,
                           size_t columns) {
    TRY_LIBRARY(
        cublasLtMatrixLayoutCreate(to, cuda_matmul_type(type), columns, rows, (int64_t)columns));
    return TRINE_OK;
}

/* D^T = right^T left^T: A is the right factor, B the left one. */
static trine_status make_layouts(cuda_product *p, const cuda_product_config *c) {
    const trine_dtype type = p->d->compute;
    switch (c->kind) {
    case CUDA_PRODUCT_Y:
        TRY(layout(&p->A, type, c->N, c->K));
        TRY(layout(&p->B, type, c->T, c->K));
        return layout(&p->D, type, c->T, c->N);
    case CUDA_PRODUCT_DX:
        TRY(layout(&p->A, type, c->N, c->K));
        TRY(layout(&p->B, type, c->T, c->N));
        return layout(&p->D, type, c->T, c->K);
    case CUDA_PRODUCT_DW_ADD:
    case CUDA_PRODUCT_DW_SET: break;
    }
    TRY(layout(&p->A, type, c->T, c->K));
    TRY(layout(&p->B, type, c->T, c->N));
    return layout(&p->D, p->d->grads, c->N, c->K);
}

static trine_status set(cuda_product *p, cublasLtMatmulDescAttributes_t what, const void *value,
                        size_t bytes) {
    TRY_LIBRARY(cublasLtMatmulDescSetAttribute(p->operation, what, value, bytes));
    return TRINE_OK;
}

/* The bias pointer is set for each run; the heuristic only uses the alignment of this one. */
static trine_status make_operation(cuda_product *p, const cuda_product_config *c) {
    const bool forward = c->kind == CUDA_PRODUCT_Y, weight = !forward && c->kind != CUDA_PRODUCT_DX;
    const cublasOperation_t a = forward ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t b = weight ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY_LIBRARY(cublasLtMatmulDescCreate(&p->operation, cuda_matmul_compute(p->d), CUDA_R_32F));
    TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a));
    TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b));
    if (!p->biased) return TRINE_OK;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *bias = cuda_of(p->d)->workspace;
    TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static trine_status ask(cuda_product *p, cublasLtMatmulPreference_t preference, int choice,
                        bool *there) {
    cublasLtMatmulHeuristicResult_t results[CHOICES];
    const uint64_t workspace = CUDA_WORKSPACE;
    int found = 0;
    TRY_LIBRARY(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    TRY_LIBRARY(cublasLtMatmulAlgoGetHeuristic(p->handle, p->operation, p->A, p->B, p->D, p->D,
                                               preference, CHOICES, results, &found));
    *there = choice < found && results[choice].state == CUBLAS_STATUS_SUCCESS;
    if (*there) p->algo = results[choice].algo;
    return TRINE_OK;
}

static trine_status fill(cuda_product *p, const cuda_product_config *c, bool *there) {
    p->handle = (cublasLtHandle_t)cuda_matmuls_library(p->d);
    TRY(make_layouts(p, c));
    TRY(make_operation(p, c));
    cublasLtMatmulPreference_t preference;
    TRY_LIBRARY(cublasLtMatmulPreferenceCreate(&preference));
    trine_status status = ask(p, preference, c->choice, there);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

trine_status cuda_product_create(device *d, cuda_product **out, const cuda_product_config *c) {
    cuda_product *p = *out = (cuda_product *)calloc(1, sizeof *p);
    bool there = false;
    CHECK(p, TRINE_ENOMEM, "no memory for a matmul");
    p->d = d;
    p->biased = c->biased && c->kind == CUDA_PRODUCT_Y;
    p->beta = c->kind == CUDA_PRODUCT_DW_ADD ? 1.0f : 0.0f;
    trine_status status = fill(p, c, &there);
    if (status != TRINE_OK || !there) cuda_product_destroy(out);
    return status;
}

trine_status cuda_product_run(cuda_product *p, void *out, const void *left, const void *right,
                              const void *bias) {
    const cuda_state *s = cuda_of(p->d);
    const float one = 1.0f;
    if (p->biased) TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    TRY_LIBRARY(cublasLtMatmul(p->handle, p->operation, &one, right, p->A, left, p->B, &p->beta,
                               out, p->D, out, p->D, &p->algo, s->workspace, CUDA_WORKSPACE,
                               s->compute));
    return TRINE_OK;
}
