/* TEST np=1,2,3,4 */
/* Vocabulary-parallel embedding and cross-entropy against the same functions on one rank, with
 * vocabularies that tp does not divide and ranks that have only padding. */
#include "comm/api/comm.h"
#include "tp/fixture.h"

#define N 12u
#define C 8u

static void expect_vocab(size_t V, int parts, int part, size_t first, size_t rows, size_t valid) {
    tp_vocab v = tp_vocab_of(V, parts, part, 1);
    assert_int_equal(v.first, first);
    assert_int_equal(v.rows, rows);
    assert_int_equal(v.valid, valid);
}

static void shares(void **state) {
    (void)state;
    expect_vocab(50257, 1, 0, 0, 50257, 50257);
    expect_vocab(50257, 2, 0, 0, 25129, 25129);
    expect_vocab(50257, 2, 1, 25129, 25129, 25128);
    expect_vocab(5, 4, 2, 4, 2, 1); /* 2 2 1 0 */
    expect_vocab(5, 4, 3, 6, 2, 0);
    expect_vocab(2, 4, 1, 1, 1, 1);
    expect_vocab(2, 4, 2, 2, 1, 0);
}

static int32_t *tokens(size_t V, size_t step) {
    int32_t *t = malloc(N * sizeof *t);
    assert_non_null(t);
    for (size_t i = 0; i < N; i++) t[i] = (int32_t)((step * i + i * i + 1) % V);
    return t;
}

/* This rank's rows of `full` (V, width); padding rows are `padding`. */
static float *own_rows(const float *full, tp_vocab v, size_t width, float padding) {
    float *own = zeros(v.rows * width);
    for (size_t i = 0; i < v.rows * width; i++)
        own[i] = i < v.valid * width ? full[v.first * width + i] : padding;
    return own;
}

/* A lookup adds only zeros to a row: equal bits. Padding rows are NaN, so that a read is detected. */
static void embedding_of(size_t V) {
    tp_vocab v = tp_vocab_of(V, (int)P, (int)rank, 1);
    float *full = normals("table", V * C), *own = own_rows(full, v, C, NAN);
    float *x = zeros(N * C), *want = zeros(N * C), *dx = normals("dx", N * C);
    float *dfull = zeros(V * C), *down = zeros(v.rows * C);
    int32_t *ids = tokens(V, 3);
    OK(tp_embedding_forward(&serial, want, &(param){.w = full}, ids, N, C, V));
    OK(tp_embedding_forward(&tp, x, &(param){.w = own}, ids, N, C, V));
    assert_memory_equal(x, want, N * C * sizeof *x);
    for (size_t i = 0; i < N; i++)
        assert_memory_equal(want + i * C, full + (size_t)ids[i] * C, C * sizeof *x);
    for (size_t i = 0; i < v.valid * C; i++)
        down[i] = 5.0f; /* old values, which GRAD_SET must not read */
    OK(tp_embedding_backward(&serial, &(param){.dw = dfull, .mode = GRAD_ADD}, dx, ids, N, C, V));
    OK(tp_embedding_backward(&tp, &(param){.dw = down, .mode = GRAD_SET}, dx, ids, N, C, V));
    float *expected = own_rows(dfull, v, C, 0);
    assert_memory_equal(down, expected, v.rows * C * sizeof *down);
    float *all[] = {full, own, x, want, dx, dfull, down, expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(ids);
}

static void embedding(void **state) {
    (void)state;
    for (size_t V = 1; V <= 13; V++) embedding_of(V);
}

/* This rank's columns of the logits (N, V), with large values in the padding columns, which must
 * affect neither the maximum nor the sum. */
static float *own_columns(const float *full, tp_vocab v, size_t V) {
    float *own = zeros(N * v.rows);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < v.rows; j++)
            own[i * v.rows + j] = j < v.valid ? full[i * V + v.first + j] : 1e6f;
    return own;
}

/* In double, from the definition. */
static double cross_entropy(const float *logits, const int32_t *targets, size_t V) {
    double loss = 0;
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        if (targets[i] == OPS_NO_TARGET) continue;
        for (size_t j = 0; j < V; j++) sum += exp((double)logits[i * V + j]);
        loss += log(sum) - (double)logits[i * V + (size_t)targets[i]];
    }
    return loss;
}

static void xent_of(size_t V) {
    tp_vocab v = tp_vocab_of(V, (int)P, (int)rank, 1);
    float *full = normals("logits", N * V), *own = own_columns(full, v, V);
    tp_xent x = {zeros(N), zeros(N * 2), zeros(N)}, y = {zeros(N), zeros(N * 2), NULL};
    int32_t *ids = tokens(V, 5);
    ids[N / 2] = OPS_NO_TARGET;
    double scale = 0.125, loss = 100, serial_loss = 100, exact = cross_entropy(full, ids, V);
    OK(tp_xent_forward(&tp, &loss, &x, own, ids, scale, N, V));
    OK(tp_xent_forward(&serial, &serial_loss, &y, full, ids, scale, N, V));
    /* Rounding of N = 12 terms of a few units in fp32: 12 * 4 * 6e-8 = 3e-6, times the scale. */
    assert_true(fabs(loss - serial_loss) < 1e-6);
    assert_true(fabs(loss - 100 - scale * exact) < 1e-6);
    assert_memory_equal(x.max, y.max, N * sizeof *x.max); /* a maximum is exact */
    expect_replicated("sums", x.sums, N * 2);
    OK(tp_xent_backward(&tp, own, &x, ids, scale, N, V));
    OK(tp_xent_backward(&serial, full, &y, ids, scale, N, V));
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < v.rows; j++) {
            float got = own[i * v.rows + j];
            /* Softmax of at most 1, times the scale, from a sum of V <= 13 terms. */
            if (j < v.valid) assert_true(fabsf(got - full[i * V + v.first + j]) < 2e-7f);
            if (j >= v.valid || i == N / 2) assert_true(got == 0);
        }
    float *all[] = {full, own, x.max, x.sums, x.own, y.max, y.sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(ids);
}

static void cross_entropy_over_shards(void **state) {
    (void)state;
    for (size_t V = 1; V <= 13; V++) xent_of(V);
}

/* Two all-reduces of N and 2N values forward, none backward: logits are never gathered. One rank
 * has nothing to reduce. */
static void logits_are_never_gathered(void **state) {
    (void)state;
    size_t V = 13;
    tp_vocab v = tp_vocab_of(V, (int)P, (int)rank, 1);
    float *logits = zeros(N * v.rows);
    tp_xent x = {zeros(N), zeros(N * 2), zeros(N)};
    int32_t *ids = tokens(V, 5);
    double loss = 0;
    trine_tally before[TRINE_TALLY_KINDS];
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++)
        before[k] = trine_comm_tally(tp.comm, k);
    OK(tp_xent_forward(&tp, &loss, &x, logits, ids, 1, N, V));
    OK(tp_xent_backward(&tp, logits, &x, ids, 1, N, V));
    uint64_t bytes = comm_bytes(TRINE_TALLY_ALL_REDUCE, N, TRINE_F32, (int)P, (int)rank, 0) +
                     comm_bytes(TRINE_TALLY_ALL_REDUCE, 2 * N, TRINE_F32, (int)P, (int)rank, 0);
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++) {
        trine_tally now = trine_comm_tally(tp.comm, k);
        assert_int_equal(now.calls - before[k].calls, k == TRINE_TALLY_ALL_REDUCE && P > 1 ? 2 : 0);
        assert_int_equal(now.bytes - before[k].bytes, k == TRINE_TALLY_ALL_REDUCE ? bytes : 0);
    }
    free(logits);
    free(x.max);
    free(x.sums);
    free(x.own);
    free(ids);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test_setup_teardown(embedding, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(cross_entropy_over_shards, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(logits_are_never_gathered, tp_setup, tp_teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
