/* TEST np=0 */
/* The emulated cuBLASLt: it refuses the calls that the library refuses, aborts where the library
 * would compute a wrong result, and gives different bits with a scheme that promises no order. */
#include "deaths.h"

#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "cublasLt.h"
#include "emu.h"

enum { M = 4, N = 3, K = 600, A_BYTES = M * K * 4, B_BYTES = K * N * 4, D_BYTES = M * N * 4 };
#define WORKSPACE ((size_t)1 << 16)

/* D (M, N) = A (M, K) B (K, N), column-major, all at the beginning of their allocations. */
typedef struct {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    float *A, *B, *D, *workspace;
    cudaStream_t stream;
} matmul;

#define FINE(call)  assert_int_equal((call), CUBLAS_STATUS_SUCCESS)
#define WRONG(call) assert_int_equal((call), CUBLAS_STATUS_INVALID_VALUE)

static void fill(float *to, size_t count) {
    float host[M * K];
    for (size_t i = 0; i < count; i++) host[i] = sinf((float)(i * i));
    put(to, host, count * sizeof *host);
}

static matmul new_matmul(void) {
    matmul m = {.stream = new_stream()};
    FINE(cublasLtCreate(&m.handle));
    FINE(cublasLtMatmulDescCreate(&m.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    FINE(cublasLtMatrixLayoutCreate(&m.a, CUDA_R_32F, M, K, M));
    FINE(cublasLtMatrixLayoutCreate(&m.b, CUDA_R_32F, K, N, K));
    FINE(cublasLtMatrixLayoutCreate(&m.d, CUDA_R_32F, M, N, M));
    FINE(cublasLtMatmulPreferenceCreate(&m.preference));
    m.A = new_memory(A_BYTES + 4), m.B = new_memory(B_BYTES), m.D = new_memory(D_BYTES);
    m.workspace = new_memory(WORKSPACE);
    fill(m.A, M * K), fill(m.B, K * N);
    return m;
}

static void free_matmul(matmul *m) {
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    FINE(cublasLtMatmulPreferenceDestroy(m->preference));
    FINE(cublasLtMatrixLayoutDestroy(m->a));
    FINE(cublasLtMatrixLayoutDestroy(m->b));
    FINE(cublasLtMatrixLayoutDestroy(m->d));
    FINE(cublasLtMatmulDescDestroy(m->operation));
    FINE(cublasLtDestroy(m->handle));
    cudaFree(m->A), cudaFree(m->B), cudaFree(m->D), cudaFree(m->workspace);
    cudaStreamDestroy(m->stream);
}

static void prefer(matmul *m, cublasLtMatmulPreferenceAttributes_t what, uint32_t value) {
    FINE(cublasLtMatmulPreferenceSetAttribute(m->preference, what, &value, sizeof value));
}

static cublasStatus_t ask(matmul *m) {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(m->handle, m->operation, m->a, m->b, m->d, m->d,
                                          m->preference, 1, &m->result, &found);
}

static cublasStatus_t multiply(matmul *m, const float *a, size_t workspace) {
    const float one = 1.0f, zero = 0.0f;
    return cublasLtMatmul(m->handle, m->operation, &one, a, m->a, m->B, m->b, &zero, m->D, m->d,
                          m->D, m->d, &m->result.algo, workspace ? m->workspace : NULL, workspace,
                          m->stream);
}

/* Asks for an algorithm with a workspace and these schemes. */
static void ask_with(matmul *m, uint32_t schemes) {
    const uint64_t bytes = WORKSPACE;
    FINE(cublasLtMatmulPreferenceSetAttribute(
        m->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    prefer(m, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    FINE(ask(m));
}

static void attributes_have_their_sizes(void **state) {
    (void)state;
    matmul m = new_matmul();
    const uint64_t value = 1;
    WRONG(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8));
    WRONG(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 4));
    WRONG(cublasLtMatmulPreferenceSetAttribute(
        m.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &value, 4));
    free_matmul(&m);
}

static void shapes_must_agree(void **state) {
    (void)state;
    matmul m = new_matmul();
    const int32_t how = CUBLAS_OP_T;
    FINE(ask(&m));
    FINE(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_TRANSA, &how, 4));
    WRONG(ask(&m));
    WRONG(multiply(&m, m.A, 0));
    FINE(cublasLtMatrixLayoutDestroy(m.a));
    FINE(cublasLtMatrixLayoutCreate(&m.a, CUDA_R_32F, K, M, K - 1)); /* leading dimension */
    WRONG(ask(&m));
    free_matmul(&m);
}

static cublasStatus_t ask_types(matmul *m, cublasComputeType_t compute, cudaDataType a,
                                cudaDataType b, cudaDataType d) {
    FINE(cublasLtMatmulDescDestroy(m->operation));
    FINE(cublasLtMatrixLayoutDestroy(m->a));
    FINE(cublasLtMatrixLayoutDestroy(m->b));
    FINE(cublasLtMatrixLayoutDestroy(m->d));
    FINE(cublasLtMatmulDescCreate(&m->operation, compute, CUDA_R_32F));
    FINE(cublasLtMatrixLayoutCreate(&m->a, a, M, K, M));
    FINE(cublasLtMatrixLayoutCreate(&m->b, b, K, N, K));
    FINE(cublasLtMatrixLayoutCreate(&m->d, d, M, N, M));
    return ask(m);
}

/* A machine with fast kernels only: sizes and row lengths must be multiples. */
static void odd_sizes_are_refused_where_the_setting_says_so(void **state) {
    (void)state;
    const int multiples[] = {1, 2, 3, 4};
    const bool fine[] = {true, false, false, false}; /* M 4, N 3, K 600 */
    matmul m = new_matmul();
    for (size_t i = 0; i < sizeof multiples / sizeof *multiples; i++) {
        char text[16];
        int found;
        snprintf(text, sizeof text, "%d", multiples[i]);
        setenv("TRINE_EMU_BLAS_MULTIPLE", text, 1);
        assert_int_equal(cublasLtMatmulAlgoGetHeuristic(m.handle, m.operation, m.a, m.b, m.d, m.d,
                                                        m.preference, 1, &m.result, &found),
                         fine[i] ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
        assert_int_equal(found, fine[i]);
    }
    unsetenv("TRINE_EMU_BLAS_MULTIPLE");
    free_matmul(&m);
}

static void types_must_go_together(void **state) {
    (void)state;
    static const struct {
        cublasComputeType_t compute;
        cudaDataType a, b, d;
        cublasStatus_t status;
    } table[] = {
        {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_STATUS_SUCCESS},
        {CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_STATUS_SUCCESS},
        {CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_STATUS_SUCCESS},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUBLAS_STATUS_NOT_SUPPORTED},
        {CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED},
        {CUBLAS_COMPUTE_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16BF, CUBLAS_STATUS_NOT_SUPPORTED},
        {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF,
         CUBLAS_STATUS_NOT_SUPPORTED},
    };
    matmul m = new_matmul();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(ask_types(&m, table[i].compute, table[i].a, table[i].b, table[i].d),
                         table[i].status);
    free_matmul(&m);
}

/* In bf16: a sum whose partials cancel, reduced in fp32 and with rounded partials. */
static void parts_in_the_output_type_are_rounded(void **state) {
    (void)state;
    uint16_t a[M * K], b[K * N], in_fp32[M * N], rounded[M * N];
    for (size_t i = 0; i < M * K; i++) /* 1 to 1.5, the second half negative */
        a[i] = (uint16_t)((i < M * K / 2 ? 0x3f80 : 0xbf80) + i % 61);
    for (size_t i = 0; i < K * N; i++) b[i] = (uint16_t)(0x3f80 + i % 3);
    matmul m = new_matmul();
    put(m.A, a, sizeof a), put(m.B, b, sizeof b);
    FINE(ask_types(&m, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF));
    ask_with(&m, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    FINE(multiply(&m, m.A, WORKSPACE));
    look(in_fp32, m.D, sizeof in_fp32);
    ask_with(&m, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    FINE(multiply(&m, m.A, WORKSPACE));
    look(rounded, m.D, sizeof rounded);
    for (int i = 0; i < M * N; i++) {
        double sum = 0.0;
        for (int k = 0; k < K; k++)
            sum += (double)bf16_load(a[i % M + k * M]) * (double)bf16_load(b[k + i / M * K]);
        assert_int_equal(in_fp32[i], bf16_store((float)sum));
    }
    assert_memory_not_equal(in_fp32, rounded, sizeof in_fp32);
    free_matmul(&m);
}

/* An element of a bf16 product of `rows` rows: 257 ones, which bf16 rounds to 256, plus 1 from the bias or from C. */
static float one_more(uint64_t rows, uint32_t schemes, cublasLtEpilogue_t epilogue) {
    const float one = 1.0f, beta = epilogue == CUBLASLT_EPILOGUE_BIAS ? 0.0f : 1.0f;
    const uint32_t value = epilogue;
    uint16_t a[8 * K] = {0}, b[K * N], ones[8 * N], got;
    matmul m = new_matmul();
    for (size_t i = 0; i < rows * 257; i++) a[i] = 0x3f80;
    for (size_t i = 0; i < K * N; i++) b[i] = 0x3f80;
    for (size_t i = 0; i < 8 * N; i++) ones[i] = 0x3f80;
    put(m.A, a, rows * K * sizeof *a), put(m.B, b, sizeof b),
        put(m.D, ones, rows * N * sizeof *ones);
    float *bias = new_memory(sizeof ones);
    put(bias, ones, sizeof ones);
    ask_types(&m, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF);
    FINE(cublasLtMatrixLayoutDestroy(m.a));
    FINE(cublasLtMatrixLayoutDestroy(m.d));
    FINE(cublasLtMatrixLayoutCreate(&m.a, CUDA_R_16BF, rows, K, (int64_t)rows));
    FINE(cublasLtMatrixLayoutCreate(&m.d, CUDA_R_16BF, rows, N, (int64_t)rows));
    FINE(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &value, 4));
    FINE(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                        sizeof bias));
    ask_with(&m, schemes);
    FINE(cublasLtMatmul(m.handle, m.operation, &one, m.A, m.a, m.B, m.b, &beta, m.D, m.d, m.D, m.d,
                        &m.result.algo, m.workspace, WORKSPACE, m.stream));
    look(&got, m.D, sizeof got);
    free_matmul(&m), cudaFree(bias);
    return bf16_load(got);
}

/* As on an H200: the bias is added to a rounded sum if the product is split, and C if rows are multiples of 16 bytes. */
static void sums_are_rounded_before_a_bias_or_c(void **state) {
    (void)state;
    const uint32_t whole = CUBLASLT_REDUCTION_SCHEME_NONE,
                   split = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    assert_float_equal(one_more(M, whole, CUBLASLT_EPILOGUE_BIAS), 258.0f, 0.0f);
    assert_float_equal(one_more(M, split, CUBLASLT_EPILOGUE_BIAS), 256.0f, 0.0f);
    assert_float_equal(one_more(M, whole, CUBLASLT_EPILOGUE_DEFAULT), 258.0f, 0.0f);
    assert_float_equal(one_more(M, split, CUBLASLT_EPILOGUE_DEFAULT), 258.0f, 0.0f);
    assert_float_equal(one_more(8, whole, CUBLASLT_EPILOGUE_DEFAULT), 256.0f, 0.0f);
}

/* The fp32 sum of 1 and seven bf16 products of 2^-24 or 2^-25. */
static float one_and_seven(matmul *m, uint16_t small) {
    uint16_t a[M * K] = {0}, b[K * N] = {0};
    float sums[M * N];
    for (int k = 0; k < 8; k++) {
        a[k * M] = k == 3 ? 0x3f80 : 0x3980; /* 1, 2^-12 */
        b[k] = k == 3 ? 0x3f80 : small;
    }
    put(m->A, a, sizeof a), put(m->B, b, sizeof b);
    ask_with(m, CUBLASLT_REDUCTION_SCHEME_NONE);
    FINE(multiply(m, m->A, WORKSPACE));
    look(sums, m->D, sizeof sums);
    return sums[0];
}

/* To 2^-24 of the largest addend, and the sum to fp32, always down. */
static void a_tensor_core_cuts(void **state) {
    (void)state;
    matmul m = new_matmul();
    FINE(ask_types(&m, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F));
    assert_true(one_and_seven(&m, 0x3980) == 1.0f + ldexpf(3.0f, -23)); /* 2^-12 */
    assert_true(one_and_seven(&m, 0xb980) == 1.0f - ldexpf(7.0f, -24));
    assert_true(one_and_seven(&m, 0x3900) == 1.0f); /* 2^-13 */
    assert_true(one_and_seven(&m, 0x3940) == 1.0f); /* 3/4 of a unit is none */
    assert_true(one_and_seven(&m, 0xb940) == 1.0f);
    free_matmul(&m);
}

static void an_algorithm_is_for_its_product(void **state) {
    (void)state;
    matmul m = new_matmul();
    ask_with(&m, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    assert_true(m.result.workspaceSize > 0);
    FINE(multiply(&m, m.A, WORKSPACE));
    WRONG(multiply(&m, m.A, 0));
    WRONG(multiply(&m, m.A, m.result.workspaceSize - 1));
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    FINE(cublasLtMatmulDescSetAttribute(m.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4));
    WRONG(multiply(&m, m.A, WORKSPACE));
    free_matmul(&m);
}

/* Whether there is an algorithm for a bf16 product of `rows` rows. */
static bool there(matmul *m, const char *picky, uint64_t rows, cublasLtEpilogue_t epilogue,
                  uint32_t schemes) {
    const uint32_t value = epilogue;
    int found = 0;
    assert_int_equal(setenv("TRINE_EMU_BLAS", picky, 1), 0);
    FINE(cublasLtMatmulDescSetAttribute(m->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &value, 4));
    FINE(cublasLtMatrixLayoutDestroy(m->a));
    FINE(cublasLtMatrixLayoutDestroy(m->d));
    FINE(cublasLtMatrixLayoutCreate(&m->a, CUDA_R_16BF, rows, K, (int64_t)rows));
    FINE(cublasLtMatrixLayoutCreate(&m->d, CUDA_R_16BF, rows, N, (int64_t)rows));
    prefer(m, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        m->handle, m->operation, m->a, m->b, m->d, m->d, m->preference, 1, &m->result, &found);
    assert_int_equal(unsetenv("TRINE_EMU_BLAS"), 0);
    return status == CUBLAS_STATUS_SUCCESS && found == 1 &&
           m->result.state == CUBLAS_STATUS_SUCCESS;
}

static void some_products_have_no_algorithm(void **state) {
    (void)state;
    const uint32_t ordered = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t any = CUBLASLT_REDUCTION_SCHEME_MASK;
    const cublasLtEpilogue_t plain = CUBLASLT_EPILOGUE_DEFAULT, bias = CUBLASLT_EPILOGUE_BIAS;
    matmul m = new_matmul();
    FINE(ask_types(&m, CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF));
    for (int i = 0; i < 10; i++) { /* a missing algorithm is reported in several ways */
        assert_true(there(&m, "0", 9, bias, ordered) && there(&m, "1", 9, plain, ordered));
        assert_true(there(&m, "3", 8, bias, ordered) && there(&m, "2", 9, plain, any));
        assert_false(there(&m, "1", 9, bias, any) || there(&m, "2", 9, plain, ordered));
        assert_false(there(&m, "3", 9, plain, any));
    }
    free_matmul(&m);
}

static void the_product_of_an_address_less_aligned_than_said(void) {
    matmul m = new_matmul();
    FINE(ask(&m));
    multiply(&m, m.A + 1, 0);
}

static void the_product_of_host_memory(void) {
    static float host[M * K] __attribute__((aligned(256)));
    matmul m = new_matmul();
    FINE(ask(&m));
    multiply(&m, host, 0);
}

static void false_claims_end_the_process(void **state) {
    (void)state;
    DIES(the_product_of_an_address_less_aligned_than_said, "cuBLASLt: A at", "256");
    DIES(the_product_of_host_memory, "cuBLASLt: A");
}

/* Fills `products` with the same product computed `count` times. */
static void repeat(matmul *m, float products[][M * N], size_t count) {
    for (size_t i = 0; i < count; i++) {
        FINE(multiply(m, m->A, WORKSPACE));
        look(products[i], m->D, D_BYTES);
    }
}

static void only_inplace_has_other_bits(void **state) {
    (void)state;
    enum { RUNS = 20 };
    static float ordered[RUNS][M * N], in_place[RUNS][M * N];
    size_t differ = 0;
    matmul m = new_matmul();
    ask_with(&m, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    repeat(&m, ordered, RUNS);
    ask_with(&m, CUBLASLT_REDUCTION_SCHEME_INPLACE);
    repeat(&m, in_place, RUNS);
    for (size_t i = 1; i < RUNS; i++) {
        assert_memory_equal(ordered[i], ordered[0], D_BYTES);
        if (memcmp(in_place[i], in_place[0], D_BYTES) != 0) differ++;
    }
    assert_true(differ > 0);
    free_matmul(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_have_their_sizes),
        cmocka_unit_test(shapes_must_agree),
        cmocka_unit_test(odd_sizes_are_refused_where_the_setting_says_so),
        cmocka_unit_test(types_must_go_together),
        cmocka_unit_test(parts_in_the_output_type_are_rounded),
        cmocka_unit_test(sums_are_rounded_before_a_bias_or_c),
        cmocka_unit_test(a_tensor_core_cuts),
        cmocka_unit_test(some_products_have_no_algorithm),
        cmocka_unit_test(an_algorithm_is_for_its_product),
        cmocka_unit_test(false_claims_end_the_process),
        cmocka_unit_test(only_inplace_has_other_bits),
    };
    return HARNESS_RUN_ALONE(tests);
}
