#include "cublasLt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "emu.h"

#define ALIVE      0x616c697665u
#define SPLIT_FROM 256   /* a sum of so many terms is split, */
#define SPLIT_TO   16384 /* if the product has at most so many elements */
#define ALIGNMENTS 4     /* of A, B, C, D */

struct emu_blas {
    uint64_t alive;
};

struct emu_blas_layout {
    uint64_t alive;
    cudaDataType type;
    uint64_t rows, columns;
    int64_t leading;
};

struct emu_blas_operation {
    uint64_t alive;
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t how_a, how_b;
    uint32_t epilogue;
    const void *bias;
};

struct emu_blas_preference {
    uint64_t alive, workspace;
    uint32_t schemes, aligned[ALIGNMENTS];
};

/* The product that an algorithm was found for, and its method: the contents of
 * cublasLtMatmulAlgo_t. */
typedef struct {
    uint32_t rows, columns, terms;                          /* of D and of each sum */
    uint8_t how_a, how_b, epilogue, scheme, factor, output; /* the last two: types */
    uint32_t parts, compute;
    uint16_t aligned[ALIGNMENTS], bias_aligned;
    uint64_t workspace;
} algorithm;

static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm is 64 bytes");

/* Whether sizes and row lengths are multiples of TRINE_EMU_BLAS_MULTIPLE (1) elements.
 * The library has no such rule, but its fast kernels have. */
static bool is_even(const algorithm *a, cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                    cublasLtMatrixLayout_t D) {
    const uint64_t m = emu_setting("BLAS_MULTIPLE", 1);
    return a->rows % m == 0 && a->columns % m == 0 && a->terms % m == 0 &&
           (uint64_t)A->leading % m == 0 && (uint64_t)B->leading % m == 0 &&
           (uint64_t)D->leading % m == 0;
}

static uint64_t heuristics;

uint64_t emu_blas_heuristics(void) {
    return heuristics;
}

/* ---- Objects ---- */

template <typename T> static cublasStatus_t create(T **p) {
    *p = (T *)calloc(1, sizeof **p);
    if (!*p) return CUBLAS_STATUS_ALLOC_FAILED;
    (*p)->alive = ALIVE;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static void living(const T *p, const char *what) {
    if (!p || p->alive != ALIVE) emu_fault("cuBLASLt: invalid %s", what);
}

template <typename T> static cublasStatus_t destroy(T *p, const char *what) {
    living(p, what);
    p->alive = 0;
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

/* The size must be exactly the attribute's, as in the library. */
static cublasStatus_t take(void *to, size_t size, const void *value, size_t bytes) {
    if (!value || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    return create(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return destroy(handle, "handle");
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
#define NAME(name, value)                                                                          \
    case name: return #name;
        EMU_BLAS_STATUSES(NAME)
#undef NAME
    }
    return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusName(status);
}

size_t cublasLtGetVersion(void) {
    return 130000;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
    cublasStatus_t status = create(layout);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    (*layout)->type = type;
    (*layout)->rows = rows, (*layout)->columns = columns, (*layout)->leading = leading;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy(layout, "layout");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
    cublasStatus_t status = create(operation);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    (*operation)->compute = compute, (*operation)->scale = scale;
    (*operation)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    return destroy(operation, "operation");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
    living(operation, "operation");
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(&operation->how_a, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(&operation->how_b, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(&operation->epilogue, 4, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&operation->bias, sizeof operation->bias, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    cublasStatus_t status = create(preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    (*preference)->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (uint32_t &bytes : (*preference)->aligned) bytes = 256;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(preference, "preference");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
    living(preference, "preference");
    switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(&preference->workspace, 8, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(&preference->schemes, 4, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&preference->aligned[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4,
                    value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- Algorithms ---- */

/* Of an element. */
static size_t size_of(cudaDataType type) {
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* Table of the documentation for CUBLAS_COMPUTE_32F and regular layouts: C and D have one type,
 * which is that of both factors, or fp32. FAST_TF32 is for fp32 alone. */
static bool types_go_together(cublasComputeType_t compute, cudaDataType a, cudaDataType b,
                              cudaDataType c, cudaDataType d) {
    if (a != b || c != d) return false;
    if (a != CUDA_R_32F && a != CUDA_R_16F && a != CUDA_R_16BF) return false;
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return a == CUDA_R_32F && d == CUDA_R_32F;
    return compute == CUBLAS_COMPUTE_32F && (d == a || d == CUDA_R_32F);
}

/* The product that operation and layouts describe. Errors: those of the library. */
static cublasStatus_t product_of(algorithm *a, cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t A,
                                 cublasLtMatrixLayout_t B, cublasLtMatrixLayout_t C,
                                 cublasLtMatrixLayout_t D) {
    living(o, "operation");
    const cublasLtMatrixLayout_t layouts[] = {A, B, C, D};
    for (cublasLtMatrixLayout_t layout : layouts) {
        living(layout, "layout");
        if (layout->rows == 0 || layout->columns == 0) return CUBLAS_STATUS_INVALID_VALUE;
        if (layout->leading < (int64_t)layout->rows) return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (o->scale != CUDA_R_32F ||
        !types_go_together(o->compute, A->type, B->type, C->type, D->type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o->how_a > CUBLAS_OP_T || o->how_b > CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && o->epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uint64_t rows = o->how_a == CUBLAS_OP_N ? A->rows : A->columns;
    uint64_t terms = o->how_a == CUBLAS_OP_N ? A->columns : A->rows;
    uint64_t columns = o->how_b == CUBLAS_OP_N ? B->columns : B->rows;
    if (terms != (o->how_b == CUBLAS_OP_N ? B->rows : B->columns))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (C->rows != rows || C->columns != columns || D->rows != rows || D->columns != columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(a, 0, sizeof *a);
    a->rows = (uint32_t)rows, a->columns = (uint32_t)columns, a->terms = (uint32_t)terms;
    a->how_a = (uint8_t)o->how_a, a->how_b = (uint8_t)o->how_b;
    a->epilogue = (uint8_t)o->epilogue, a->compute = (uint32_t)o->compute;
    a->factor = (uint8_t)A->type, a->output = (uint8_t)D->type;
    return CUBLAS_STATUS_SUCCESS;
}

static uint32_t alignment_of(const void *p) {
    uintptr_t address = (uintptr_t)p | 256;
    return (uint32_t)(address & (~address + 1));
}

/* The fastest allowed algorithm: in two to four parts, INPLACE before OUTPUT_TYPE (which differs
 * for 16 bits only) before COMPUTE_TYPE. Less aligned operands give other parts, as the library uses
 * other kernels for them. */
static void choose(algorithm *a, const struct emu_blas_preference *preference) {
    uint32_t least = 256;
    for (int i = 0; i < ALIGNMENTS; i++) {
        a->aligned[i] = (uint16_t)preference->aligned[i];
        if (preference->aligned[i] < least) least = preference->aligned[i];
    }
    const bool whole = a->terms < SPLIT_FROM || (uint64_t)a->rows * a->columns > SPLIT_TO;
    uint32_t parts = whole ? 1 : least >= 16 ? 4 : 2;
    uint64_t bytes = (uint64_t)parts * a->rows * a->columns * sizeof(float);
    a->parts = 1, a->scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    if (parts == 1) return;
    if (preference->schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) {
        a->parts = parts, a->scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
        return;
    }
    const bool rounded =
        preference->schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE && a->output != CUDA_R_32F;
    if (bytes <= preference->workspace &&
        (rounded || preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) {
        a->parts = parts, a->workspace = bytes;
        a->scheme = (uint8_t)(rounded ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
                                      : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    }
}

/* Products without an algorithm, by TRINE_EMU_BLAS, if D's columns do not start at
 * multiples of 16 bytes: 1: with an epilogue; 2: and all except INPLACE; 3: all. */
static bool lacking(const algorithm *a, uint32_t schemes, const struct emu_blas_layout *D) {
    const uint64_t picky = emu_setting("BLAS", 0);
    if (picky == 0 || (uint64_t)D->leading * size_of(D->type) % 16 == 0) return false;
    return picky > 2 || a->epilogue != CUBLASLT_EPILOGUE_DEFAULT ||
           (picky == 2 && !(schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE));
}

/* The three ways in which the library reports that (documentation, cublasLtMatmulAlgoGetHeuristic). */
static cublasStatus_t none(cublasLtMatmulHeuristicResult_t *results, int *found) {
    const uint32_t way = emu_random(3);
    memset(results, 0, sizeof *results);
    results->state = CUBLAS_STATUS_NOT_SUPPORTED;
    *found = way == 0;
    return way == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                                              cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results,
                                              int *found) {
    living(handle, "handle"), living(preference, "preference");
    if (wanted < 1 || !results || !found) return CUBLAS_STATUS_INVALID_VALUE;
    *found = 0;
    algorithm a;
    cublasStatus_t status = product_of(&a, operation, A, B, C, D);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!is_even(&a, A, B, D)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const size_t sizes[ALIGNMENTS] = {size_of(A->type), size_of(B->type), size_of(C->type),
                                      size_of(D->type)};
    for (int i = 0; i < ALIGNMENTS; i++) {
        uint32_t bytes = preference->aligned[i];
        if (bytes < sizes[i] || bytes & (bytes - 1)) return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (lacking(&a, preference->schemes, D)) return none(results, found);
    choose(&a, preference);
    if (operation->epilogue == CUBLASLT_EPILOGUE_BIAS)
        a.bias_aligned = (uint16_t)alignment_of(operation->bias);
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &a, sizeof a);
    results->workspaceSize = a.workspace;
    results->state = CUBLAS_STATUS_SUCCESS;
    results->wavesCount = 1.0f;
    *found = 1;
    heuristics++;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Products ---- */

typedef struct {
    const void *at;
    int64_t leading;
    uint8_t how, type;
} factor;

typedef struct {
    algorithm how;
    factor a, b;
    const void *c, *bias;
    void *d;
    float *workspace;
    int64_t c_leading, d_leading;
    float alpha, beta;
} product;

/* To 10 bits of fraction, to nearest, ties to even. */
static float tf32(float x) {
    uint32_t bits;
    if (!isfinite(x)) return x;
    memcpy(&bits, &x, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1);
    bits &= ~(uint32_t)0x1fff;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static float load(const void *from, uint64_t i, uint8_t type) {
    if (type == CUDA_R_32F) return ((const float *)from)[i];
    const uint16_t bits = ((const uint16_t *)from)[i];
    return type == CUDA_R_16BF ? bf16_load(bits) : f16_load(bits);
}

static float rounded(float x, uint8_t type) {
    return type == CUDA_R_32F    ? x
           : type == CUDA_R_16BF ? bf16_load(bf16_store(x))
                                 : f16_load(f16_store(x));
}

static void put(void *to, uint64_t i, uint8_t type, float x) {
    if (type == CUDA_R_32F)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == CUDA_R_16BF ? bf16_store(x) : f16_store(x);
}

static float element(const factor *f, uint64_t row, uint64_t column, uint32_t compute) {
    const uint64_t leading = (uint64_t)f->leading;
    float x = load(f->at, f->how == CUBLAS_OP_N ? row + column * leading : column + row * leading,
                   f->type);
    return compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(x) : x;
}

/* ---- Tensor cores ---- */

#define CORE_TERMS 8  /* products that a tensor core adds to a sum at a time */
#define CORE_BITS  24 /* of fraction, below the largest addend's first, in which it adds them */

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The addends, the sum so far among them, are cut to a multiple of the largest one's last bit, added
 * without error, and the result is cut to fp32, always towards zero (Fasi, Higham, Mikaitis and
 * Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021; Khattak and Mikaitis,
 * "Accurate models of NVIDIA tensor cores", 2025: an A100's; of an H100, which adds sixteen products
 * at a time in one bit more, the errors are half of these). */
static float core_step(const float *addends, int count) {
    float largest = 0.0f, plain = 0.0f;
    int32_t sum = 0;
    for (int k = 0; k < count; k++) {
        plain += addends[k];
        largest = fabsf(addends[k]) > largest ? fabsf(addends[k]) : largest;
    }
    uint32_t exponent, most = 254, least = CORE_BITS + 1;
    memcpy(&exponent, &largest, sizeof exponent);
    exponent = exponent >> 23 < least ? least : exponent >> 23;
    if (!isfinite(plain) || exponent > most) return plain;
    const float scale = from_bits((254 + CORE_BITS - exponent) << 23);
    const float last = from_bits((exponent - CORE_BITS) << 23);
    for (int k = 0; k < count; k++) sum += (int32_t)(addends[k] * scale);
    double whole = (double)sum;
    uint64_t bits;
    memcpy(&bits, &whole, sizeof bits);
    bits &= ~(((uint64_t)1 << 29) - 1);
    memcpy(&whole, &bits, sizeof whole);
    return (float)whole * last;
}

/* out (rows) += the products of terms [n, n + count) with column j of op(B). */
static void core_add(float *out, const float *left, const product *p, uint32_t n, uint32_t count,
                     uint32_t j) {
    float right[CORE_TERMS];
    for (uint32_t k = 0; k < count; k++) right[k] = element(&p->b, n + k, j, p->how.compute);
    for (uint32_t i = 0; i < p->how.rows; i++) {
        float addends[CORE_TERMS + 1] = {out[i]};
        for (uint32_t k = 0; k < count; k++)
            addends[k + 1] = left[(uint64_t)(n + k) * p->how.rows + i] * right[k];
        out[i] = core_step(addends, CORE_TERMS + 1);
    }
}

/* out (rows) += the term n, in fp32. */
static void fp32_add(float *out, const float *left, const product *p, uint32_t n, uint32_t j) {
    const float *column = left + (uint64_t)n * p->how.rows;
    const float right = element(&p->b, n, j, p->how.compute);
    for (uint32_t i = 0; i < p->how.rows; i++) out[i] = fmaf(column[i], right, out[i]);
}

/* sums (rows, columns) = the terms [first, end) of op(A) op(B), added in ascending order. */
static void sum_up(float *sums, const float *left, const product *p, uint32_t first, uint32_t end) {
    const uint32_t rows = p->how.rows, step = p->how.factor == CUDA_R_32F ? 1 : CORE_TERMS;
    for (uint32_t j = 0; j < p->how.columns; j++) {
        float *out = sums + (uint64_t)j * rows;
        for (uint32_t i = 0; i < rows; i++) out[i] = 0.0f;
        for (uint32_t n = first; n < end; n += step) {
            if (step == 1)
                fp32_add(out, left, p, n, j);
            else
                core_add(out, left, p, n, end - n < step ? end - n : step, j);
        }
    }
}

static void add(float *to, const float *from, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) to[i] += from[i];
}

/* sums = op(A) op(B) by parts. */
static void by_parts(float *sums, const float *left, const product *p) {
    const algorithm *a = &p->how;
    const uint64_t count = (uint64_t)a->rows * a->columns;
    const uint32_t step = (a->terms + a->parts - 1) / a->parts;
    float *own = a->scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE
                     ? (float *)malloc(a->parts * count * sizeof *own)
                     : p->workspace;
    uint32_t first = a->scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE ? emu_random(a->parts) : 0;
    for (uint32_t n = 0; n < a->parts; n++) {
        uint32_t from = n * step, end = from + step < a->terms ? from + step : a->terms;
        sum_up(own + n * count, left, p, from < end ? from : end, end);
        if (a->scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)
            for (uint64_t i = n * count; i < (n + 1) * count; i++)
                own[i] = rounded(own[i], a->output);
    }
    memset(sums, 0, count * sizeof *sums);
    for (uint32_t n = 0; n < a->parts; n++) add(sums, own + (first + n) % a->parts * count, count);
    if (own != p->workspace) free(own);
}

/* Whether the sum is rounded before C is added to it: by kernels that load by TMA, which needs rows of a multiple of
 * 16 bytes. Seen on an H200 with cuBLAS 13.1, whose split sums are also rounded before the bias is added. */
static bool rounds_before_c(const product *p) {
    const algorithm *a = &p->how;
    const uint64_t rows[] = {(uint64_t)p->a.leading * size_of((cudaDataType)a->factor),
                             (uint64_t)p->b.leading * size_of((cudaDataType)a->factor),
                             (uint64_t)p->c_leading * size_of((cudaDataType)a->output),
                             (uint64_t)p->d_leading * size_of((cudaDataType)a->output)};
    for (int i = 0; i < ALIGNMENTS; i++)
        if (a->aligned[i] < 16 || rows[i] % 16 != 0) return false;
    return a->parts == 1;
}

static void store(const product *p, const float *sums) {
    const algorithm *a = &p->how;
    const bool before_bias = a->parts > 1, before_c = rounds_before_c(p);
    for (uint64_t j = 0; j < a->columns; j++)
        for (uint64_t i = 0; i < a->rows; i++) {
            float x = p->alpha * sums[i + j * a->rows];
            if (p->bias)
                x = (before_bias ? rounded(x, a->output) : x) + load(p->bias, i, a->output);
            if (p->beta != 0.0f)
                x = (before_c ? rounded(x, a->output) : x) +
                    p->beta * load(p->c, i + j * (uint64_t)p->c_leading, a->output);
            put(p->d, i + j * (uint64_t)p->d_leading, a->output, x);
        }
}

/* `columns` columns of `rows` elements. */
static void declare(const void *at, uint64_t rows, uint64_t columns, int64_t leading, uint8_t type,
                    bool writes) {
    const size_t size = size_of((cudaDataType)type);
    for (uint64_t j = 0; j < columns; j++)
        emu_races_range((const char *)at + j * (uint64_t)leading * size, rows * size, writes);
}

static void declare_factor(const factor *f, uint64_t rows, uint64_t columns) {
    const bool plain = f->how == CUBLAS_OP_N;
    declare(f->at, plain ? rows : columns, plain ? columns : rows, f->leading, f->type, false);
}

static void declare_accesses(const product *p) {
    const algorithm *a = &p->how;
    emu_races_name("a product");
    declare_factor(&p->a, a->rows, a->terms);
    declare_factor(&p->b, a->terms, a->columns);
    if (p->bias) declare(p->bias, a->rows, 1, a->rows, a->output, false);
    if (p->beta != 0.0f) declare(p->c, a->rows, a->columns, p->c_leading, a->output, false);
    if (a->workspace) emu_races_range(p->workspace, a->workspace, true);
    declare(p->d, a->rows, a->columns, p->d_leading, a->output, true);
}

static void run(void *context) {
    product *p = (product *)context;
    declare_accesses(p);
    const algorithm *a = &p->how;
    const uint64_t rows = a->rows, count = rows * a->columns;
    float *left = (float *)malloc(rows * a->terms * sizeof *left);
    float *sums = (float *)malloc(count * sizeof *sums);
    if (!left || !sums) emu_fault("cuBLASLt: no memory for a product");
    for (uint64_t n = 0; n < a->terms; n++)
        for (uint64_t i = 0; i < rows; i++) left[i + n * rows] = element(&p->a, i, n, a->compute);
    if (a->parts > 1)
        by_parts(sums, left, p);
    else
        sum_up(sums, left, p, 0, a->terms);
    store(p, sums);
    free(left), free(sums), free(p);
}

/* ---- Calls ---- */

static size_t bytes_of(cublasLtMatrixLayout_t layout) {
    return ((layout->columns - 1) * (uint64_t)layout->leading + layout->rows) *
           size_of(layout->type);
}

static void check_aligned(const char *what, const void *p, uint32_t bytes) {
    if ((uintptr_t)p % bytes != 0)
        emu_fault("cuBLASLt: %s at %p: not aligned to %u bytes, as the preference claims", what, p,
                  bytes);
}

static void check_apart(const char *what, const void *p, cublasLtMatrixLayout_t P, const void *d,
                        cublasLtMatrixLayout_t D) {
    uintptr_t at = (uintptr_t)p, out = (uintptr_t)d;
    if (at < out + bytes_of(D) && out < at + bytes_of(P))
        emu_fault("cuBLASLt: %s overlaps the output", what);
}

/* Whether the algorithm was found for this product. */
static bool fits(const algorithm *found, const algorithm *asked) {
    return found->rows == asked->rows && found->columns == asked->columns &&
           found->terms == asked->terms && found->how_a == asked->how_a &&
           found->how_b == asked->how_b && found->epilogue == asked->epilogue &&
           found->compute == asked->compute && found->factor == asked->factor &&
           found->output == asked->output;
}

static void check_operands(const product *p, cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                           cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D) {
    const algorithm *a = &p->how;
    emu_check_device("cuBLASLt: A", p->a.at, bytes_of(A));
    emu_check_device("cuBLASLt: B", p->b.at, bytes_of(B));
    emu_check_device("cuBLASLt: D", p->d, bytes_of(D));
    check_aligned("A", p->a.at, a->aligned[0]), check_aligned("B", p->b.at, a->aligned[1]);
    check_aligned("C", p->c, a->aligned[2]), check_aligned("D", p->d, a->aligned[3]);
    check_apart("A", p->a.at, A, p->d, D), check_apart("B", p->b.at, B, p->d, D);
    if (p->c != p->d && p->beta != 0.0f) check_apart("C", p->c, C, p->d, D);
    if (a->epilogue != CUBLASLT_EPILOGUE_BIAS) return;
    emu_check_device("cuBLASLt: bias", p->bias, a->rows * size_of((cudaDataType)a->output));
    check_aligned("bias", p->bias, a->bias_aligned);
}

/* The name consists of shape, leading dimensions and epilogue. */
static void count_product(const product *p, cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                          cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D) {
    char name[128];
    const algorithm *a = &p->how;
    snprintf(name, sizeof name, "%u x %u x %u, ld %lld %lld %lld%s%s", a->rows, a->columns,
             a->terms, (long long)A->leading, (long long)B->leading, (long long)D->leading,
             p->beta != 0.0f ? " + C" : "", a->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? "" : " +");
    emu_count("matmul", name,
              bytes_of(A) + bytes_of(B) + bytes_of(D) + (p->beta != 0.0f ? bytes_of(C) : 0));
}

static cublasStatus_t check_workspace(const algorithm *a, const void *workspace, size_t bytes) {
    if (bytes < a->workspace) return CUBLAS_STATUS_INVALID_VALUE;
    if (a->workspace == 0) return CUBLAS_STATUS_SUCCESS;
    if ((uintptr_t)workspace % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    emu_check_device("cuBLASLt: workspace", workspace, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t A,
                              const void *b, cublasLtMatrixLayout_t B, const void *beta,
                              const void *c, cublasLtMatrixLayout_t C, void *d,
                              cublasLtMatrixLayout_t D, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    living(handle, "handle");
    algorithm asked, found;
    cublasStatus_t status = product_of(&asked, operation, A, B, C, D);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!alpha || !beta || !a || !b || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&found, algo, sizeof found);
    if (!fits(&found, &asked)) return CUBLAS_STATUS_INVALID_VALUE;
    status = check_workspace(&found, workspace, workspace_bytes);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!emu_first_use(&asked, sizeof asked)) return CUBLAS_STATUS_ALLOC_FAILED;
    product *p = (product *)calloc(1, sizeof *p);
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    *p = {found,
          {a, A->leading, found.how_a, found.factor},
          {b, B->leading, found.how_b, found.factor},
          c,
          found.epilogue == CUBLASLT_EPILOGUE_BIAS ? operation->bias : NULL,
          d,
          (float *)workspace,
          C->leading,
          D->leading,
          *(const float *)alpha,
          *(const float *)beta};
    check_operands(p, A, B, C, D);
    count_product(p, A, B, C, D);
    emu_enqueue(stream, run, p);
    return CUBLAS_STATUS_SUCCESS;
}
