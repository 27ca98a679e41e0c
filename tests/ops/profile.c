/* TEST np=0 */
/* The timing device: the same bits as the wrapped device for every operator and shape, every call
 * counted, and work equal to the formulas of device/ops.h, computed by hand. */
#include "profile/limits.h"
#include "profile/timed_device.h"
#include "ops/cases.h"

static device *opened(device_kind kind) {
    device *d;
    OK(device_open(&d, kind, 2));
    return d;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* What is passed on does not depend on the size: large shapes are left out. */
static void check_same(device *d, device *timing, const op_case *c, const dims *s) {
    size_t in, out, terms;
    c->sizes(s, &in, &out, &terms);
    if (in > 50000) return;
    float *x = fixture_random(in, 1, c->spread), *want = fixture_random(out, 2, 1.0);
    float *got = fixture_copy(want, out);
    c->run(d, s, x, want);
    c->run(timing, s, x, got);
    if (out && memcmp(got, want, out * sizeof *got)) fail_msg("%s: the bits differ", c->name);
    free(x), free(want), free(got);
}

static void same_bits_and_every_call_counted(void **state) {
    (void)state;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        device *d = opened(kind);
        device_profile p;
        device_profile_init(&p, d);
        for (size_t i = 0; i < OP_CASES; i++)
            for (size_t s = 0; s < op_cases[i].count; s++)
                check_same(d, &p.device, &op_cases[i], &op_cases[i].shapes[s]);
        uint64_t ns = 0;
        for (int t = 0; t < DEVICE_TIMED; t++) {
            bool none = t == TIMED_copy || t == TIMED_zero ||
                        (t == TIMED_linear_residual && !d->ops->linear_residual);
            if (!p.times[t].calls != none)
                fail_msg("%s: %d calls", device_timed_text((device_timed)t), (int)p.times[t].calls);
            ns += p.times[t].ns;
        }
        assert_true(ns == p.ns);
        device_close(&d);
    }
}

static void memory_goes_through(void **state) {
    (void)state;
    device *d = opened(DEVICE_REF);
    device_profile p;
    void *x;
    device_profile_init(&p, d);
    assert_string_equal(p.device.name, "ref");
    assert_int_equal(p.device.threads, 2);
    OK(device_alloc(&p.device, &x, 64));
    device_copy(&p.device, x, "0123456789", 10);
    device_zero(&p.device, (char *)x + 4, 3);
    device_zero(&p.device, x, 0); /* an empty call is not counted */
    assert_memory_equal(x, "0123\0\0\0", 7);
    assert_memory_equal((char *)x + 7, "789", 3);
    device_free(&p.device, x, 64);
    assert_int_equal(p.times[TIMED_copy].calls, 1);
    assert_int_equal(p.times[TIMED_copy].work, 20);
    assert_int_equal(p.times[TIMED_zero].calls, 1);
    assert_int_equal(p.times[TIMED_zero].work, 3);
    device_close(&d);
}

static int waits;

static trine_status count_wait(device *d) {
    (void)d;
    waits++;
    return TRINE_OK;
}

/* What a queue has taken may run later: its time ends when it has. */
static void a_queue_is_waited_for(void **state) {
    (void)state;
    device *d = opened(DEVICE_REF);
    const device_memory *own = d->memory;
    device_memory queue = *own;
    device_profile p;
    float x[8] = {0};
    queue.host = false;
    queue.wait = count_wait;
    d->memory = &queue;
    device_profile_init(&p, d);
    OK(p.table.gelu_forward(&p.device, x, x + 4, 4));
    assert_int_equal(waits, 1);
    device_copy(&p.device, x, x + 4, 4 * sizeof *x);
    device_zero(&p.device, x, sizeof x);
    assert_int_equal(waits, 3);
    d->memory = own;
    device_close(&d);
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* One call of a case, and the expected work of its operators. */
static void expect(const char *name, dims s, device_timed which, uint64_t work) {
    device *d = opened(DEVICE_REF);
    device_profile p;
    device_profile_init(&p, d);
    for (size_t i = 0; i < OP_CASES; i++) {
        size_t in, out, terms;
        if (strcmp(op_cases[i].name, name) != 0) continue;
        op_cases[i].sizes(&s, &in, &out, &terms);
        float *x = fixture_random(in, 1, 1.0), *y = fixture_random(out, 2, 1.0);
        op_cases[i].run(&p.device, &s, x, y);
        free(x), free(y);
        break; /* the cases of a name differ in their sizes only */
    }
    assert_int_equal(p.times[which].calls, 1);
    if (p.times[which].work != work)
        fail_msg("%s of %s: work %llu instead of %llu", device_timed_text(which), name,
                 (unsigned long long)p.times[which].work, (unsigned long long)work);
    device_close(&d);
}

#define D(...)                                                                                     \
    (dims) {                                                                                       \
        { __VA_ARGS__ }                                                                            \
    }

static void flops_by_hand(void **state) {
    (void)state;
    expect("linear_y", D(5, 7, 3, 1), TIMED_linear_forward, 210);
    expect("linear_residual", D(5, 7, 3, 1), TIMED_linear_residual, 210);
    expect("linear_dx", D(5, 7, 3), TIMED_linear_backward_input, 210);
    expect("linear_dw", D(5, 7, 3, 1), TIMED_linear_backward_weight, 210);
    /* 2 samples, 3 heads: each a (4, 4) triangle of 8 scores of width 5, computed and used. */
    expect("attention_y", D(2, 4, 3, 5), TIMED_attention_forward, 2 * 3 * 8 * 5 * 2 * 2);
    expect("attention_dqkv", D(2, 4, 3, 5), TIMED_attention_backward, 2 * 3 * 8 * 5 * 2 * 4);
    /* Fewer key and value heads are not fewer products. */
    expect("attention_y", D(2, 4, 3, 5, 0, 1), TIMED_attention_forward, 2 * 3 * 8 * 5 * 2 * 2);
    expect("attention_dqkv", D(2, 4, 3, 5, 0, 1), TIMED_attention_backward, 2 * 3 * 8 * 5 * 2 * 4);
    /* Two rows with seven before them, and half of two with two: q k and p v, 3 heads of 5. */
    expect("attention_cached", D(2, 7, 3, 5, 10), TIMED_attention_cached, 3 * 5 * 2 * 2 * (14 + 2));
    expect("attention_cached", D(2, 7, 3, 5, 10, 1), TIMED_attention_cached,
           3 * 5 * 2 * 2 * (14 + 2));
}

static void bytes_by_hand(void **state) {
    (void)state;
    expect("bias_residual", D(5, 7, 3), TIMED_bias_residual, 4 * (35 + 35 + 35 + 7));
    expect("bias_residual", D(5, 7, 1), TIMED_bias_residual, 4 * (35 + 35 + 7));
    expect("bias_residual", D(5, 7, 2), TIMED_bias_residual, 4 * (35 + 35 + 35));
    expect("dropout_residual", D(5, 7, 3, 0, 1), TIMED_dropout_residual, 4 * (35 + 35 + 35 + 7));
    expect("dropout_residual", D(5, 7, 3, 0), TIMED_dropout_residual, 4 * (35 + 35 + 35));
    expect("dropout", D(5, 7, 3, 0), TIMED_dropout, 4 * (35 + 35));
    expect("bias_backward", D(5, 7), TIMED_bias_backward, 4 * (35 + 7 + 7));
    expect("norm_y", D(5, 7), TIMED_norm_forward, 4 * (35 + 35 + 10 + 14));
    expect("norm_dx", D(5, 7), TIMED_norm_backward, 4 * (4 * 35 + 10 + 7 + 28));
    expect("rms_norm_y", D(5, 7), TIMED_rms_norm_forward, 4 * (35 + 35 + 7 + 5));
    expect("rms_norm_dx", D(5, 7), TIMED_rms_norm_backward, 4 * (4 * 35 + 5 + 7 + 14));
    /* 5 rows of 2 query, 1 key and 1 value head of 3: 60 numbers, 45 of them normalised. */
    expect("qk_norm_y", D(5, 2, 1, 3), TIMED_qk_norm_forward, 4 * (60 + 60 + 6 + 15));
    expect("qk_norm_dx", D(5, 2, 1, 3), TIMED_qk_norm_backward,
           4 * (3 * 45 + 2 * 15 + 6 + 12 + 15));
    expect("qk_norm_dx", D(5, 2, 1, 3, 2), TIMED_qk_norm_backward, 4 * (3 * 45 + 6 + 12 + 15));
    expect("swiglu_y", D(5, 7), TIMED_swiglu_forward, 4 * (70 + 35));
    expect("swiglu_dx", D(5, 7), TIMED_swiglu_backward, 4 * (70 + 70 + 35));
    expect("gelu_y", D(11), TIMED_gelu_forward, 4 * 22);
    expect("gelu_dx", D(11), TIMED_gelu_backward, 4 * 33);
    expect("embedding_x", D(5, 7, 9, 0), TIMED_embedding_forward, 4 * (35 + 35));
    expect("embedding_dtable", D(5, 7, 9, 0), TIMED_embedding_backward, 4 * (35 + 35 + 35));
    expect("position_x", D(3, 5, 7), TIMED_position_forward, 4 * (105 + 105 + 35));
    expect("position_dtable", D(3, 5, 7), TIMED_position_backward, 4 * (105 + 35 + 35));
    /* 3 rows of 3 heads of 6, of which 2 are rotated; the table has 5 positions, of which 3 are read. */
    expect("rope", D(3, 5, 3, 6), TIMED_rope, 4 * (36 + 36 + 18));
    expect("rope", D(9, 5, 3, 6), TIMED_rope, 4 * (108 + 108 + 30));
    expect("xent", D(5, 9, 7, 0), TIMED_xent_forward, 4 * (35 + 5 + 10));
    expect("xent_max", D(3, 5), TIMED_xent_max, 4 * (15 + 5));
    expect("xent_rescale", D(5), TIMED_xent_rescale, 4 * (2 * 5 + 5 + 5));
    expect("xent", D(5, 9, 7, 0), TIMED_xent_loss, 4 * (5 + 10));
    expect("xent", D(5, 9, 7, 0), TIMED_xent_backward, 4 * (35 + 45 + 5 + 10));
    expect("add", D(11), TIMED_add, 4 * 33);
    expect("sum_squares", D(11), TIMED_sum_squares, 4 * 11);
    expect("sum_squares_exact", D(11), TIMED_sum_squares_exact, 4 * 11);
    expect("columns_add", D(3, 12, 4, 8), TIMED_columns_add, 4 * 3 * 24);
    expect("columns_take", D(3, 12, 4, 8), TIMED_columns_take, 4 * 2 * 24);
    expect("sum_parts", D(3, 20, 11, X_WIDE), TIMED_sum_parts, 4 * (33 + 11));
    expect("adamw", D(11, 1), TIMED_adamw, 4 * (4 + 3) * 11);
}

/* GRAD_SET does not read the gradient; an embedding with GRAD_SET first writes zeros everywhere. */
static void gradients_that_are_set(void **state) {
    (void)state;
    expect("bias_backward", D(5, 7, GRAD_SET), TIMED_bias_backward, 4 * (35 + 7));
    expect("norm_dx", D(5, 7, GRAD_SET, GRAD_ADD), TIMED_norm_backward, 4 * (3 * 35 + 10 + 7 + 28));
    expect("norm_dx", D(5, 7, GRAD_ADD, GRAD_SET), TIMED_norm_backward, 4 * (4 * 35 + 10 + 7 + 14));
    expect("rms_norm_dx", D(5, 7, GRAD_SET, GRAD_ADD), TIMED_rms_norm_backward,
           4 * (3 * 35 + 5 + 7 + 14));
    expect("rms_norm_dx", D(5, 7, GRAD_ADD, GRAD_SET), TIMED_rms_norm_backward,
           4 * (4 * 35 + 5 + 7 + 7));
    expect("qk_norm_dx", D(5, 2, 1, 3, 2 + GRAD_SET), TIMED_qk_norm_backward,
           4 * (3 * 45 + 6 + 6 + 15));
    expect("embedding_dtable", D(5, 7, 9, 0, GRAD_SET), TIMED_embedding_backward,
           4 * (35 + 35 + 35 + 63));
    expect("position_dtable", D(3, 5, 7, GRAD_SET), TIMED_position_backward, 4 * (105 + 35));
}

/* Operands have the device's types: a full step of 16-bit products is finite and does not write past
 * its operands (the sanitizers check). */
static void limits_of_every_type(void **state) {
    (void)state;
    const trine_dtype types[][2] = {{TRINE_BF16, TRINE_F32},
                                    {TRINE_BF16, TRINE_BF16},
                                    {TRINE_F16, TRINE_F32},
                                    {TRINE_F16, TRINE_F16}};
    for (int i = 0; i < 4; i++) {
        device *d;
        limit_matmul m;
        device_config c = {
            .kind = DEVICE_REF, .threads = 1, .compute = types[i][0], .grads = types[i][1]};
        OK(device_open_with(&d, &c));
        OK(limit_matmul_rates(d, 8, 16, 12, &m));
        assert_true(m.forward > 0 && m.backward_input > 0 && m.backward_weight > 0);
        device_close(&d);
    }
}

static void limits_are_rates(void **state) {
    (void)state;
    for (device_kind kind = 0; kind < DEVICE_HOST_KINDS; kind++) {
        device *d = opened(kind);
        limit_matmul m;
        double triad;
        OK(limit_matmul_rates(d, 8, 16, 12, &m));
        OK(limit_triad_rate(d, 1 << 16, &triad));
        const double rates[] = {m.forward, m.backward_input, m.backward_weight, triad};
        for (int i = 0; i < 4; i++) assert_true(rates[i] > 0 && isfinite(rates[i]));
        REFUSED(limit_triad_rate(d, (size_t)1 << 60, &triad), TRINE_ENOMEM, "no memory");
        device_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_and_every_call_counted),
        cmocka_unit_test(memory_goes_through),
        cmocka_unit_test(a_queue_is_waited_for),
        cmocka_unit_test(flops_by_hand),
        cmocka_unit_test(bytes_by_hand),
        cmocka_unit_test(gradients_that_are_set),
        cmocka_unit_test(limits_of_every_type),
        cmocka_unit_test(limits_are_rates),
    };
    return HARNESS_RUN_ALONE(tests);
}
