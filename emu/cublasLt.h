/* The functions of cuBLASLt that src/device/cuda/matmul.cu calls, on the CPU: a test double,
 * never shipped. It checks what the library checks (sizes of attributes, shapes against leading
 * dimensions, types, workspace) and what the library must trust (the claimed
 * alignment, device memory behind every pointer, a bias that exists), and returns the
 * library's status, or ends the process where the library would compute a wrong result.
 *
 * Products are computed when the stream reaches them, in fp32 in the algorithm's order.
 * As in the library, an algorithm is a function of the shape and of what the preference allows: a long sum
 * is split if the result is small and the workspace holds the parts; parts that are reduced INPLACE are added in
 * random order, so that a caller that allows it gets other bits in another run; parts reduced in the OUTPUT_TYPE
 * are rounded to its 16 bits; FAST_TF32 rounds the factors; sums of 16-bit products are truncated as in an
 * A100's tensor cores (`core_step`). Types go together as in the
 * documentation's table: both factors fp32, bf16 or fp16, the output of their type or fp32, the
 * bias of the output's type. With TRINE_EMU_BLAS (0) 1, 2 or 3 there is no algorithm for some products
 * whose rows are not a multiple of 16 bytes (`lacking`), as in the library. Invariant: with the same algorithm and
 * inputs, equal bits. Cost: a multiplication and an addition of vectors each. Names and values are those of NVIDIA's
 * cuBLAS documentation, "Using the cuBLASLt API". */
#ifndef TRINE_EMU_CUBLASLT_H
#define TRINE_EMU_CUBLASLT_H

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_BLAS_STATUSES(X)                                                                       \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                    \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                                            \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)                                                               \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                                                              \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13)                                                          \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)

typedef enum {
#define EMU_BLAS_ENUM(name, value) name = value,
    EMU_BLAS_STATUSES(EMU_BLAS_ENUM)
#undef EMU_BLAS_ENUM
} cublasStatus_t;

typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;

typedef enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 } cublasComputeType_t;

typedef enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType_t;
typedef cudaDataType_t cudaDataType;

typedef enum {
    CUBLASLT_MATMUL_DESC_TRANSA = 3,      /* int32_t */
    CUBLASLT_MATMUL_DESC_TRANSB = 4,      /* int32_t */
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,    /* uint32_t */
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8 /* const void * */
} cublasLtMatmulDescAttributes_t;

typedef enum { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4 } cublasLtEpilogue_t;

typedef enum {
    CUBLASLT_REDUCTION_SCHEME_NONE = 0,
    CUBLASLT_REDUCTION_SCHEME_INPLACE = 1,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
    CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE = 4,
    CUBLASLT_REDUCTION_SCHEME_MASK = 7
} cublasLtReductionScheme_t;

typedef enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,   /* uint64_t, 0 */
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3, /* uint32_t, all */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, /* uint32_t, 256 */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
} cublasLtMatmulPreferenceAttributes_t;

typedef struct emu_blas *cublasLtHandle_t;
typedef struct emu_blas_operation *cublasLtMatmulDesc_t;
typedef struct emu_blas_layout *cublasLtMatrixLayout_t;
typedef struct emu_blas_preference *cublasLtMatmulPreference_t;

typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
const char *cublasLtGetStatusName(cublasStatus_t status);
const char *cublasLtGetStatusString(cublasStatus_t status);
size_t cublasLtGetVersion(void);

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes);

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                                              cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found);

/* D = alpha op(A) op(B) + beta C + bias, column-major. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t A,
                              const void *b, cublasLtMatrixLayout_t B, const void *beta,
                              const void *c, cublasLtMatrixLayout_t C, void *d,
                              cublasLtMatrixLayout_t D, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream);

/* For tests: heuristics that returned an algorithm so far. */
uint64_t emu_blas_heuristics(void);

#ifdef __cplusplus
}
#endif

#endif
