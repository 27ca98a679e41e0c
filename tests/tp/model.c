/* TEST np=1,2,3,4 */
/* A whole model with its layers split over tp against the same model on one rank: the residual stream,
 * the loss and every gradient. */
#include "model/fixture.h"

#include "tp/fixture.h"

/* 12 heads, so that 1, 2, 3 and 4 divide them; 13 tokens, so that 2, 3 and 4 do not. */
static const gpt_shape shape = {.B = 2, .T = 5, .C = 24, .H = 12, .F = 36, .L = 2, .V = 13};

/* Sums of at most 36 terms, rounded differently in each of about ten layers: 10 * 36 * 6e-8 = 2e-5
 * of the largest element, were every rounding against us. */
#define MODEL_TOLERANCE 2e-5

static void expect_near(const char *what, double got, double want, double largest) {
    if (fabs(got - want) > MODEL_TOLERANCE * largest)
        fail_msg("%s: %.9g instead of %.9g (largest %.3g)", what, got, want, largest);
}

/* This rank's part of a tensor's gradient against the serial one; padding has none. */
static void expect_gradient(const tensor *whole, const tensor *t, const float *want,
                            const float *got) {
    double largest = 0;
    for (size_t e = 0; e < tensor_count(whole); e++)
        largest = fmax(largest, fabs((double)want[e]));
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

static void compare_gradients(const model *one, const model *own) {
    for (int u = 0; u < one->units; u++)
        for (int r = 0; r < one->layout[u].range_count; r++)
            for (int i = 0; i < one->layout[u].ranges[r].tensor_count; i++) {
                const tensor *whole = &one->layout[u].ranges[r].tensors[i];
                const tensor *t = &own->layout[u].ranges[r].tensors[i];
                const float *got = own->grads[u][r] + t->offset;
                expect_gradient(whole, t, one->grads[u][r] + whole->offset, got);
                if (t->split == SPLIT_NONE) expect_replicated(t->name, got, tensor_count(t));
            }
}

static void compare_streams(const model *one, const model *own) {
    size_t count = shape.B * shape.T * shape.C;
    for (int u = 1; u < one->units; u++) {
        for (size_t i = 0; i < count; i++)
            expect_near("stream", (double)own->x[u][i], (double)one->x[u][i], 1);
        expect_replicated("stream", own->x[u], count);
    }
    expect_replicated("gradient of the stream", own->d, count);
}

static void compare(bool untied) {
    model one, own;
    gpt_shape s = shape;
    s.untied = untied;
    model_open(&one, s, DEVICE_REF, serial.comm);
    model_open(&own, s, DEVICE_REF, tp.comm);
    model_roughen(&one, 0.2);
    model_roughen(&own, 0.2);
    model_forward(&one);
    model_backward(&one);
    model_forward(&own);
    model_backward(&own);
    expect_near("loss", own.loss, one.loss, 1);
    compare_streams(&one, &own);
    compare_gradients(&one, &own);
    model_close(&one);
    model_close(&own);
}

static void tied_model(void **state) {
    (void)state;
    compare(false);
}

static void untied_model(void **state) {
    (void)state;
    compare(true);
}

/* Each half-block sums once in each direction; the embedding once; the head once for its gradient and
 * twice for the cross-entropy. */
static void sums_per_pass(void **state) {
    (void)state;
    model own;
    model_open(&own, shape, DEVICE_REF, tp.comm);
    uint64_t before = trine_comm_tally(tp.comm, TRINE_TALLY_ALL_REDUCE).calls;
    model_forward(&own);
    uint64_t between = trine_comm_tally(tp.comm, TRINE_TALLY_ALL_REDUCE).calls;
    assert_int_equal(between - before, 2 * shape.L + 1 + 2);
    model_backward(&own);
    uint64_t after = trine_comm_tally(tp.comm, TRINE_TALLY_ALL_REDUCE).calls;
    assert_int_equal(after - between, 2 * shape.L + 1);
    model_close(&own);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tied_model, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(untied_model, tp_setup, tp_teardown),
        cmocka_unit_test_setup_teardown(sums_per_pass, tp_setup, tp_teardown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
