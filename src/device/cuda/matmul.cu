#include "device/cuda/matmul.h"

#include <stdlib.h>

#define BUCKETS 256
#define ALIGNED 256 /* bytes; the largest alignment that the library distinguishes */

enum { LEFT, RIGHT, OUT, ADDEND, BIAS, OPERANDS };

typedef struct {
    matmul_kind kind;
    /* Bytes, a power of two up to ALIGNED. ADDEND: at most that of OUT; BIAS: 0 without a bias. */
    uint32_t aligned[OPERANDS];
    size_t T, N, K;
} matmul_key;

/* In the library's notation: D = A B + beta C, column-major; C has the layout of D. */
enum { A, B, D, MATRICES };

typedef struct matmul_plan {
    matmul_key key;
    cublasComputeType_t compute;
    cudaDataType type[MATRICES];
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout[MATRICES];
    cublasLtMatmulAlgo_t algo;
    bool biased;              /* the algorithm adds the bias */
    struct matmul_plan *next; /* in the same bucket */
} matmul_plan;

struct cuda_matmuls {
    cublasLtHandle_t handle;
    cublasComputeType_t compute; /* the device's precision */
    cudaDataType type, weight;   /* of its tensors, and of weight gradients */
    matmul_plan *buckets[BUCKETS];
};

#define TRY_BLAS(key, call)                                                                        \
    do {                                                                                           \
        cublasStatus_t try_blas_ = (call);                                                         \
        if (try_blas_ != CUBLAS_STATUS_SUCCESS)                                                    \
            return blas_failed((key), #call, try_blas_, __FILE__, __LINE__, __func__);             \
    } while (0)

static const char *const kind_names[MATMUL_KINDS] = {"y = x w^T", "dx = dy w", "dw = dy^T x"};

/* `key` may be NULL if the error is not about a matmul. */
static trine_status blas_failed(const matmul_key *key, const char *call, cublasStatus_t status,
                                const char *file, int line, const char *func) {
    const trine_status kind = status == CUBLAS_STATUS_ALLOC_FAILED ? TRINE_ENOMEM : TRINE_EMATH;
    if (!key)
        return status_raise(kind, file, line, func, "cuBLASLt: %s: %s", call,
                            cublasLtGetStatusName(status));
    return status_raise(
        kind, file, line, func, "cuBLASLt: matmul %s with T %zu, N %zu, K %zu%s: %s: %s",
        kind_names[key->kind], key->T, key->N, key->K, key->aligned[BIAS] ? " and a bias" : "",
        call, cublasLtGetStatusName(status));
}

/* ---- Plans ---- */

/* An operand of the library: our row-major matrix (rows, columns), read as column-major. */
typedef struct {
    size_t rows, columns; /* of ours */
    cublasOperation_t how;
} blas_operand;

/* A is our right factor and B our left factor: D^T = right^T left^T. */
static void operands_of(blas_operand of[MATRICES], const matmul_key *k) {
    const size_t T = k->T, N = k->N, K = k->K;
    const blas_operand table[MATMUL_KINDS][MATRICES] = {
        {{N, K, CUBLAS_OP_T}, {T, K, CUBLAS_OP_N}, {T, N, CUBLAS_OP_N}}, /* w, x, y */
        {{N, K, CUBLAS_OP_N}, {T, N, CUBLAS_OP_N}, {T, K, CUBLAS_OP_N}}, /* w, dy, dx */
        {{T, K, CUBLAS_OP_N}, {T, N, CUBLAS_OP_T}, {N, K, CUBLAS_OP_N}}, /* x, dy, dw */
    };
    for (int i = 0; i < MATRICES; i++) of[i] = table[k->kind][i];
}

static trine_status layouts_create(matmul_plan *p, const blas_operand *of) {
    for (int i = 0; i < MATRICES; i++)
        TRY_BLAS(&p->key, cublasLtMatrixLayoutCreate(&p->layout[i], p->type[i], of[i].columns,
                                                     of[i].rows, (int64_t)of[i].columns));
    return TRINE_OK;
}

static trine_status set(matmul_plan *p, cublasLtMatmulDescAttributes_t what, const void *value,
                        size_t bytes) {
    TRY_BLAS(&p->key, cublasLtMatmulDescSetAttribute(p->operation, what, value, bytes));
    return TRINE_OK;
}

static trine_status prefer(const matmul_plan *p, cublasLtMatmulPreference_t preference,
                           cublasLtMatmulPreferenceAttributes_t what, const void *value,
                           size_t bytes) {
    TRY_BLAS(&p->key, cublasLtMatmulPreferenceSetAttribute(preference, what, value, bytes));
    return TRINE_OK;
}

static trine_status operation_create(matmul_plan *p, const blas_operand *of) {
    TRY_BLAS(&p->key, cublasLtMatmulDescCreate(&p->operation, p->compute, CUDA_R_32F));
    TRY(set(p, CUBLASLT_MATMUL_DESC_TRANSA, &of[A].how, sizeof of[A].how));
    return set(p, CUBLASLT_MATMUL_DESC_TRANSB, &of[B].how, sizeof of[B].how);
}

/* `bias` is set before the heuristic runs, which derives the alignment from the pointer. Its type is
 * that of D, the default. */
static trine_status epilogue_set(matmul_plan *p, bool biased, const void *bias) {
    const cublasLtEpilogue_t epilogue = biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    p->biased = biased;
    TRY(set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return biased ? set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias) : TRINE_OK;
}

/* The constraints on an algorithm; the reduction schemes are set for each query. */
static trine_status preference_fill(const matmul_plan *p, cublasLtMatmulPreference_t preference) {
    const uint64_t workspace = CUDA_WORKSPACE;
    const uint32_t *aligned = p->key.aligned;
    TRY(prefer(p, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
               sizeof workspace));
    TRY(prefer(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned[RIGHT],
               sizeof aligned[RIGHT]));
    TRY(prefer(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned[LEFT],
               sizeof aligned[LEFT]));
    TRY(prefer(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned[ADDEND],
               sizeof aligned[ADDEND]));
    return prefer(p, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned[OUT],
                  sizeof aligned[OUT]);
}

/* *there: whether an algorithm exists. The library reports its absence by a status, by no results, or by a result
 * with an error state. */
static trine_status algorithm_ask(matmul_plan *p, cublasLtHandle_t handle,
                                  cublasLtMatmulPreference_t preference, uint32_t schemes,
                                  bool *there) {
    cublasLtMatmulHeuristicResult_t first;
    int found = 0;
    TRY(prefer(p, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
               sizeof schemes));
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, p->operation, p->layout[A], p->layout[B],
                                       p->layout[D], p->layout[D], preference, 1, &first, &found);
    *there = status == CUBLAS_STATUS_SUCCESS && found == 1 && first.state == CUBLAS_STATUS_SUCCESS;
    if (*there) p->algo = first.algo;
    if (status == CUBLAS_STATUS_SUCCESS || status == CUBLAS_STATUS_NOT_SUPPORTED) return TRINE_OK;
    return blas_failed(&p->key, "cublasLtMatmulAlgoGetHeuristic", status, __FILE__, __LINE__,
                       __func__);
}

/* See matmul.h, "Exception". */
static trine_status algorithm_find(matmul_plan *p, cublasLtHandle_t handle,
                                   cublasLtMatmulPreference_t preference, const void *bias) {
    const uint32_t ordered =
        CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t rounds_once =
        p->type[D] == CUDA_R_32F ? ordered : (uint32_t)CUBLASLT_REDUCTION_SCHEME_NONE;
    const struct {
        bool biased;
        uint32_t schemes;
    } questions[] = {
        {true, rounds_once}, {false, ordered}, {false, CUBLASLT_REDUCTION_SCHEME_MASK}};
    bool there = false;
    TRY(preference_fill(p, preference));
    for (int i = bias ? 0 : 1; i < 3 && !there; i++) {
        TRY(epilogue_set(p, questions[i].biased, bias));
        TRY(algorithm_ask(p, handle, preference, questions[i].schemes, &there));
    }
    CHECK(there, TRINE_EMATH, "cuBLASLt has no algorithm for matmul %s with T %zu, N %zu, K %zu",
          kind_names[p->key.kind], p->key.T, p->key.N, p->key.K);
    return TRINE_OK;
}

static trine_status plan_fill(matmul_plan *p, cublasLtHandle_t handle, const void *bias) {
    blas_operand of[MATRICES];
    operands_of(of, &p->key);
    TRY(layouts_create(p, of));
    TRY(operation_create(p, of));
    cublasLtMatmulPreference_t preference;
    TRY_BLAS(&p->key, cublasLtMatmulPreferenceCreate(&preference));
    trine_status status = algorithm_find(p, handle, preference, bias);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static void plan_destroy(matmul_plan *p) {
    for (int i = 0; i < MATRICES; i++)
        if (p->layout[i]) cublasLtMatrixLayoutDestroy(p->layout[i]);
    if (p->operation) cublasLtMatmulDescDestroy(p->operation);
    free(p);
}

static trine_status plan_create(struct cuda_matmuls *all, matmul_plan **bucket,
                                const matmul_key *key, const void *bias) {
    matmul_plan *p = (matmul_plan *)calloc(1, sizeof *p);
    CHECK(p, TRINE_ENOMEM, "no memory for a matmul plan");
    p->key = *key;
    p->compute = all->compute;
    p->type[A] = p->type[B] = all->type;
    p->type[D] = key->kind == MATMUL_DW ? all->weight : all->type;
    trine_status status = plan_fill(p, all->handle, bias);
    if (status != TRINE_OK) {
        plan_destroy(p);
        return status;
    }
    p->next = *bucket;
    *bucket = p;
    return TRINE_OK;
}

/* ---- Finding plans ---- */

/* Of both, where q is not NULL. */
static uint32_t alignment_of(const void *p, const void *q) {
    uintptr_t address = (uintptr_t)p | (uintptr_t)q | ALIGNED;
    return (uint32_t)(address & (~address + 1));
}

static bool same(const matmul_key *a, const matmul_key *b) {
    for (int i = 0; i < OPERANDS; i++)
        if (a->aligned[i] != b->aligned[i]) return false;
    return a->kind == b->kind && a->T == b->T && a->N == b->N && a->K == b->K;
}

static size_t bucket_of(const matmul_key *k) {
    uint64_t hash = (uint64_t)k->kind;
    for (int i = 0; i < OPERANDS; i++) hash = hash * (2 * ALIGNED + 1) + k->aligned[i];
    hash = (hash ^ k->T) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ k->N) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ k->K) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 56) % BUCKETS;
}

static trine_status plan_find(matmul_plan **plan, struct cuda_matmuls *all, const matmul_key *key,
                              const void *bias) {
    matmul_plan **bucket = &all->buckets[bucket_of(key)], *p = *bucket;
    while (p && !same(&p->key, key)) p = p->next;
    if (!p) {
        TRY(plan_create(all, bucket, key, bias));
        p = *bucket;
    }
    *plan = p;
    return TRINE_OK;
}

/* out = bias + addend, to which the product is then added. */
static trine_status begin_with(device *d, void *out, const void *bias, const void *addend, size_t T,
                               size_t N) {
    TRY_CUDA(cudaMemsetAsync(out, 0, T * N * cuda_bytes(d->compute), cuda_of(d)->compute));
    return d->ops->bias_residual(d, out, bias, addend, T, N);
}

trine_status cuda_matmul(device *d, matmul_kind kind, void *out, const void *left,
                         const void *right, const void *bias, const void *addend, size_t T,
                         size_t N, size_t K) {
    cuda_state *state = cuda_of(d);
    const matmul_key key = {kind,
                            {alignment_of(left, NULL), alignment_of(right, NULL),
                             alignment_of(out, NULL), alignment_of(out, addend),
                             bias ? alignment_of(bias, NULL) : 0},
                            T,
                            N,
                            K};
    matmul_plan *p = NULL;
    TRY(plan_find(&p, state->matmuls, &key, bias));
    if (bias && !p->biased) {
        TRY(begin_with(d, out, bias, addend, T, N));
        addend = out;
    }
    /* Other layers of the same shape have another bias; the launch copies the pointer. */
    if (p->biased) TRY(set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    const float one = 1.0f, beta = addend ? 1.0f : 0.0f;
    TRY_BLAS(&key, cublasLtMatmul(state->matmuls->handle, p->operation, &one, right, p->layout[A],
                                  left, p->layout[B], &beta, addend ? addend : out, p->layout[D],
                                  out, p->layout[D], &p->algo, state->workspace, CUDA_WORKSPACE,
                                  state->compute));
    return TRINE_OK;
}

cudaDataType cuda_matmul_type(trine_dtype type) {
    return type == TRINE_BF16 ? CUDA_R_16BF : type == TRINE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

cublasComputeType_t cuda_matmul_compute(const device *d) {
    return d->compute == TRINE_F32 && d->precision == DEVICE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                  : CUBLAS_COMPUTE_32F;
}

trine_status cuda_matmuls_create(device *d) {
    struct cuda_matmuls *all = (struct cuda_matmuls *)calloc(1, sizeof *all);
    CHECK(all, TRINE_ENOMEM, "no memory for the cuda device");
    cublasStatus_t status = cublasLtCreate(&all->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        free(all);
        return blas_failed(NULL, "cublasLtCreate", status, __FILE__, __LINE__, __func__);
    }
    all->compute = cuda_matmul_compute(d);
    all->type = cuda_matmul_type(d->compute), all->weight = cuda_matmul_type(d->grads);
    cuda_of(d)->matmuls = all;
    return TRINE_OK;
}

int cuda_matmuls_version(void) {
    return (int)cublasLtGetVersion();
}

void *cuda_matmuls_library(const device *d) {
    return cuda_of(d)->matmuls->handle;
}

void cuda_matmuls_destroy(device *d) {
    struct cuda_matmuls *all = cuda_of(d)->matmuls;
    if (!all) return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (matmul_plan *p = all->buckets[i], *next; p; p = next) {
            next = p->next;
            plan_destroy(p);
        }
    cublasLtDestroy(all->handle);
    free(all);
    cuda_of(d)->matmuls = NULL;
}
