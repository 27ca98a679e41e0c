/* TEST np=0 */
/* The loss scale, step by step: Megatron-LM's DynamicGradScaler reimplemented from the rules in the docstrings,
 * by hand for the important transitions and at random for the rest. */
#include "harness.h"

#include "train/scaler.h"
#include "trine.h"

static trine_precision dynamic(double initial, double min, int window, int hysteresis) {
    return (trine_precision){.fp16 = true,
                             .initial_loss_scale = initial,
                             .min_loss_scale = min,
                             .loss_scale_window = window,
                             .hysteresis = hysteresis};
}

static scaler with(double initial, double min, int window, int hysteresis) {
    trine_precision p = dynamic(initial, min, window, hysteresis);
    return scaler_of(&p);
}

/* Steps as letters: o overflows, g does not; scales[i] is the scale after step i. */
static void expect(scaler s, const char *steps, const double *scales) {
    for (int i = 0; steps[i]; i++) {
        double before = s.scale;
        scaler_verdict verdict = scaler_update(&s, steps[i] == 'o');
        if (s.scale != scales[i])
            fail_msg("step %d of %s: scale %g instead of %g", i, steps, s.scale, scales[i]);
        scaler_verdict told = s.scale < before   ? SCALER_HALVED
                              : s.scale > before ? SCALER_DOUBLED
                                                 : SCALER_KEPT;
        assert_int_equal(verdict, told);
    }
}

static void the_second_overflow_halves(void **state) {
    (void)state;
    expect(with(64, 1, 3, 2), "ooo", (double[]){64, 32, 16});
    expect(with(64, 1, 3, 1), "oo", (double[]){32, 16});
    expect(with(64, 1, 3, 3), "ooo", (double[]){64, 64, 32});
}

/* Good steps between two overflows do not restore the hysteresis; only a doubling does. */
static void hysteresis_is_whole_again_with_a_doubling(void **state) {
    (void)state;
    expect(with(64, 1, 3, 2), "oggo", (double[]){64, 64, 64, 32});
    expect(with(64, 1, 3, 2), "ogggoo", (double[]){64, 64, 64, 128, 128, 64});
    expect(with(64, 1, 3, 2), "oogogggo", (double[]){64, 32, 32, 16, 16, 16, 32, 32});
}

static void good_steps_double_only_in_a_row(void **state) {
    (void)state;
    expect(with(64, 1, 3, 2), "gggggg", (double[]){64, 64, 128, 128, 128, 256});
    expect(with(64, 1, 3, 9), "ggoggoggg", (double[]){64, 64, 64, 64, 64, 64, 64, 64, 128});
    expect(with(64, 1, 1, 2), "gg", (double[]){128, 256});
}

/* The last decrease is to the minimum, however near; an overflow there is an error. */
static void the_minimum_is_the_end(void **state) {
    (void)state;
    scaler s = with(16, 3, 2, 1);
    expect(s, "ooo", (double[]){8, 4, 3});
    for (int i = 0; i < 3; i++) assert_int_equal(scaler_update(&s, true), SCALER_HALVED);
    scaler again = s;
    assert_int_equal(scaler_update(&s, true), SCALER_STUCK);
    assert_true(s.scale == 3);
    assert_int_equal(scaler_update(&again, false), SCALER_KEPT);
    assert_int_equal(scaler_update(&again, false), SCALER_DOUBLED);
    assert_int_equal(scaler_update(&again, true), SCALER_HALVED);
}

/* At the minimum from the start, the first overflow is allowed by the hysteresis. */
static void hysteresis_counts_at_the_minimum(void **state) {
    (void)state;
    scaler s = with(4, 4, 2, 2);
    assert_int_equal(scaler_update(&s, true), SCALER_KEPT);
    assert_int_equal(scaler_update(&s, true), SCALER_STUCK);
}

static void a_fixed_scale_and_none(void **state) {
    (void)state;
    trine_precision p = dynamic(65536, 1, 2, 1);
    p.loss_scale = 128;
    expect(scaler_of(&p), "ooooggggo", (double[]){128, 128, 128, 128, 128, 128, 128, 128, 128});
    p.fp16 = false;
    expect(scaler_of(&p), "oogggg", (double[]){1, 1, 1, 1, 1, 1});
    p = (trine_precision){.bf16 = true};
    expect(scaler_of(&p), "og", (double[]){1, 1});
}

/* Megatron's state: a growth tracker, and a hysteresis tracker that may become negative. */
typedef struct {
    double scale;
    int growth, left;
} peer;

static void peer_update(peer *m, const trine_precision *p, bool found_inf) {
    if (found_inf) {
        m->growth = 0;
        m->left -= 1;
        if (m->left > 0) return;
        m->scale = m->scale * 0.5 > p->min_loss_scale ? m->scale * 0.5 : p->min_loss_scale;
        return;
    }
    m->growth += 1;
    if (m->growth != p->loss_scale_window) return;
    m->growth = 0;
    m->left = p->hysteresis;
    m->scale *= 2.0;
}

static void random_histories(void **state) {
    (void)state;
    uint32_t x = 1;
    for (int history = 0; history < 1000; history++) {
        trine_precision p = dynamic(1024, 1 + history % 3, 1 + history % 7, 1 + history % 5);
        scaler s = scaler_of(&p);
        peer m = {p.initial_loss_scale, 0, p.hysteresis};
        for (int step = 0; step < 200; step++) {
            x = x * 1664525u + 1013904223u;
            bool overflowed = (x >> 24) % 8 < (uint32_t)(1 + history % 6);
            double before = s.scale;
            scaler_verdict verdict = scaler_update(&s, overflowed);
            peer_update(&m, &p, overflowed);
            assert_true(s.scale == m.scale);
            bool stuck = overflowed && m.left <= 0 && before == p.min_loss_scale;
            assert_int_equal(verdict == SCALER_STUCK, stuck);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_overflow_halves),
        cmocka_unit_test(hysteresis_is_whole_again_with_a_doubling),
        cmocka_unit_test(good_steps_double_only_in_a_row),
        cmocka_unit_test(the_minimum_is_the_end),
        cmocka_unit_test(hysteresis_counts_at_the_minimum),
        cmocka_unit_test(a_fixed_scale_and_none),
        cmocka_unit_test(random_histories),
    };
    return HARNESS_RUN_ALONE(tests);
}
