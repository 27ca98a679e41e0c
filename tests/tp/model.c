/* TEST np=1,2,3,4 */
/* A complete model with its layers split over tp, compared with the same model on one rank: the
 * residual stream, the loss and every gradient. */
#include "model/fixture.h"

#include "comm/api/comm.h"
#include "tp/fixture.h"

/* 12 heads and rows, so that 1, 2, 3 and 4 divide them; 13 tokens, so that 2, 3 and 4 do not. Logits in
 * chunks of 5, 5 and 2 rows. */
static const gpt_shape shape = {
    .B = 2, .T = 6, .C = 24, .H = 12, .F = 36, .L = 2, .V = 13, .loss_rows = 5};

/* Sums of at most 36 terms, rounded differently in each of about ten layers: 10 * 36 * 6e-8 = 2e-5
 * of the largest element in the worst case. */
#define MODEL_TOLERANCE 2e-5

static void expect_near(const char *what, double got, double want, double largest) {
    if (fabs(got - want) > MODEL_TOLERANCE * largest)
        fail_msg("%s: %.9g instead of %.9g (largest %.3g)", what, got, want, largest);
}

/* This rank's shard of a tensor's gradient, compared with the serial gradient; padding is excluded. */
static void expect_gradient(const tensor *full, const tensor *t, const float *want,
                            const float *got) {
    double largest = 0;
    for (size_t e = 0; e < tensor_count(full); e++) largest = fmax(largest, fabs((double)want[e]));
    assert_true(largest > 0);
    for (size_t e = 0; e < tensor_count(t); e++) {
        size_t col = t->first_col + e % t->cols;
        size_t row = t->first_row + e / t->cols % t->rows;
        size_t stacked = e / t->cols / t->rows * t->global_rows + row;
        bool padding = row >= t->global_rows;
        double w = padding ? 0 : (double)want[stacked * t->global_cols + col];
        if (padding) assert_true(got[e] == 0);
        expect_near(t->name, (double)got[e], w, largest);
    }
}

/* Like the trainer once a step: sums the gradients that are partial over tp. */
static void sum_tp_partial(const model *own) {
    for (int u = 0; u < own->units; u++)
        for (int r = 0; r < own->layout[u].range_count; r++)
            for (int i = 0; i < own->layout[u].ranges[r].tensor_count; i++) {
                const tensor *t = &own->layout[u].ranges[r].tensors[i];
                float *g = own->grads[u][r] + t->offset;
                assert_true(!t->tp_partial || (own->s.sequence && P > 1 && t->split == SPLIT_NONE));
                if (t->tp_partial)
                    OK(trine_all_reduce(tp.comm, g, g, tensor_count(t), TRINE_F32, TRINE_SUM));
            }
}

static void compare_gradients(const model *one, const model *own) {
    for (int u = 0; u < one->units; u++)
        for (int r = 0; r < one->layout[u].range_count; r++)
            for (int i = 0; i < one->layout[u].ranges[r].tensor_count; i++) {
                const tensor *full = &one->layout[u].ranges[r].tensors[i];
                const tensor *t = &own->layout[u].ranges[r].tensors[i];
                const float *got = own->grads[u][r] + t->offset;
                expect_gradient(full, t, one->grads[u][r] + full->offset, got);
                if (t->split == SPLIT_NONE) expect_replicated(t->name, got, tensor_count(t));
            }
}

static void compare_streams(const model *one, const model *own) {
    tp_rows rows = gpt_rows(&own->s);
    size_t count = rows.count * shape.C, first = rows.first * shape.C;
    assert_int_equal(count * (own->s.sequence ? P : 1), shape.B * shape.T * shape.C);
    for (int u = 1; u < one->units; u++) {
        for (size_t i = 0; i < count; i++)
            expect_near("stream", (double)own->x[u][i], (double)one->x[u][first + i], 1);
        if (!own->s.sequence) expect_replicated("stream", own->x[u], count);
    }
    if (!own->s.sequence) expect_replicated("activation gradient", own->d, count);
}

static void compare(gpt_shape s, device_kind kind) {
    model one, own;
    model_open(&one, s, kind, serial.comm);
    model_open(&own, s, kind, tp.comm);
    model_roughen(&one, 0.2);
    model_roughen(&own, 0.2);
    model_forward(&one);
    model_backward(&one);
    model_forward(&own);
    model_backward(&own);
    expect_near("loss", own.loss, one.loss, 1);
    compare_streams(&one, &own);
    sum_tp_partial(&own);
    compare_gradients(&one, &own);
    model_close(&one);
    model_close(&own);
}

static void tied_model(void **state) {
    (void)state;
    compare(shape, DEVICE_REF);
    compare(shape, DEVICE_CPU);
}

static void untied_model(void **state) {
    (void)state;
    gpt_shape s = shape;
    s.untied = true;
    compare(s, DEVICE_REF);
    compare(s, DEVICE_CPU);
}

/* Sequence parallelism (outside tp regions each rank has its share of the rows), with every recomputation. */
static void sequence_parallel(void **state) {
    (void)state;
    gpt_shape s = shape;
    s.sequence = true;
    for (s.recompute = 0; s.recompute < TRINE_RECOMPUTES; s.recompute++) {
        compare(s, DEVICE_REF);
        compare(s, DEVICE_CPU);
    }
}

/* The dropout mask of the serial model, by rows of the residual stream and by heads. */
static void dropout(void **state) {
    (void)state;
    gpt_shape s = shape;
    s.hidden_dropout = 0.3, s.attention_dropout = 0.2;
    compare(s, DEVICE_REF);
    compare(s, DEVICE_CPU);
    s.sequence = true;
    compare(s, DEVICE_REF);
    compare(s, DEVICE_CPU);
}

/* Rows are computed identically on every rank: all bits are equal except those of gradients summed
 * over rows. */
static void sequence_parallel_changes_no_activation(void **state) {
    (void)state;
    model all, own;
    gpt_shape s = shape;
    s.hidden_dropout = 0.3;
    model_open(&all, s, DEVICE_REF, tp.comm);
    s.sequence = true;
    model_open(&own, s, DEVICE_REF, tp.comm);
    model_forward(&all);
    model_backward(&all);
    model_forward(&own);
    model_backward(&own);
    tp_rows rows = gpt_rows(&own.s);
    assert_true(all.loss == own.loss);
    for (int u = 1; u < all.units; u++)
        assert_memory_equal(own.x[u], all.x[u] + rows.first * s.C,
                            rows.count * s.C * sizeof(float));
    for (int u = 0; u < all.units; u++)
        for (int r = 0; r < all.layout[u].range_count; r++)
            for (int i = 0; i < all.layout[u].ranges[r].tensor_count; i++) {
                const tensor *t = &own.layout[u].ranges[r].tensors[i];
                if (t->tp_partial) continue;
                assert_memory_equal(own.grads[u][r] + t->offset, all.grads[u][r] + t->offset,
                                    tensor_count(t) * sizeof(float));
            }
    model_close(&all);
    model_close(&own);
}

/* The traffic of a pass: calls of three collectives, and their total bytes. */
typedef struct {
    uint64_t sums, scatters, gathers, bytes;
} sent;

static sent tallied(void) {
    sent s = {trine_comm_tally(tp.comm, TRINE_TALLY_ALL_REDUCE).calls,
              trine_comm_tally(tp.comm, TRINE_TALLY_REDUCE_SCATTER).calls,
              trine_comm_tally(tp.comm, TRINE_TALLY_ALL_GATHER).calls, 0};
    for (int k = 0; k < TRINE_TALLY_KINDS; k++)
        s.bytes += trine_comm_tally(tp.comm, (trine_tally_kind)k).bytes;
    return s;
}

static void expect_calls(sent before, sent want) {
    sent after = tallied();
    assert_int_equal(after.sums - before.sums, want.sums);
    assert_int_equal(after.scatters - before.scatters, want.scatters);
    assert_int_equal(after.gathers - before.gathers, want.gathers);
}

static uint64_t bytes_of(trine_tally_kind kind, size_t count) {
    return comm_bytes(kind, count, TRINE_F32, (int)P, (int)rank, 0);
}

/* A training pass: the head does nothing in the forward pass. */
static void train(model *m) {
    for (int u = 0; u + 1 < m->units; u++)
        OK(gpt_forward(&m->run, &m->unit[u], &m->acts[u], m->x[u + 1], m->x[u], &m->batch));
    model_backward(m);
}

/* Each half-block sums once in each direction; the embedding once; the head once for its gradient
 * and for each of three chunks twice for the cross-entropy, if there is another rank. */
static void sums_per_pass(void **state) {
    (void)state;
    /* On one rank a row-parallel linear adds its residual in the product. */
    const uint64_t L = shape.L, chunks = P > 1 ? 3 : 0, rows = P > 1 ? 2 * L : 0;
    model own;
    model_open(&own, shape, DEVICE_REF, tp.comm);
    sent before = tallied();
    train(&own);
    expect_calls(before, (sent){.sums = rows + 1 + 2 * L + 1 + 2 * chunks});
    before = tallied();
    own.run.training = false;
    model_forward(&own);
    expect_calls(before, (sent){.sums = rows + 1 + 2 * chunks});
    model_close(&own);
}

/* Each of those sums of activations becomes a reduce-scatter and an all-gather, which together send
 * as much as a large all-reduce. In addition, a block's backward gathers its two inputs again, and the
 * embedding, whose sum had no counterpart, gathers the gradient. */
static void sequence_parallel_sends_as_much(void **state) {
    (void)state;
    const uint64_t L = shape.L, chunks = 3;
    model all, own;
    gpt_shape s = shape;
    model_open(&all, s, DEVICE_REF, tp.comm);
    s.sequence = true;
    model_open(&own, s, DEVICE_REF, tp.comm);
    sent before = tallied();
    train(&all);
    sent between = tallied();
    train(&own);
    const uint64_t crossings = 2 * L + 1 + 2 * L + 1, again = 2 * L;
    if (P > 1)
        expect_calls(
            between,
            (sent){.sums = 2 * chunks, .scatters = crossings, .gathers = crossings + again});
    size_t count = s.B * s.T * s.C, large = (size_t)1 << 22;
    uint64_t sum = bytes_of(TRINE_TALLY_ALL_REDUCE, count);
    uint64_t part = bytes_of(TRINE_TALLY_ALL_GATHER, count);
    assert_int_equal(tallied().bytes - between.bytes + crossings * sum,
                     between.bytes - before.bytes + (2 * crossings + again) * part);
    assert_int_equal(bytes_of(TRINE_TALLY_ALL_REDUCE, P * large),
                     2 * bytes_of(TRINE_TALLY_REDUCE_SCATTER, P * large));
    model_close(&all);
    model_close(&own);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tied_model, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(untied_model, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(sequence_parallel, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(dropout, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(sequence_parallel_changes_no_activation, tp_setup,
                                        tp_teardown),
        cmocka_unit_test_setup_teardown(sums_per_pass, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(sequence_parallel_sends_as_much, tp_setup, tp_teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
