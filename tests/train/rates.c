/* TEST np=0 */
/* The learning rate of a step: a straight warm-up, then one of three ways down. */
#include "harness.h"

#include <math.h>

#include "train/setup.h"

static trine_optimizer optimizer(trine_lr_decay style) {
    trine_optimizer o = trine_config_default().optimizer;
    o.lr = 1.0;
    o.min_lr = 0.1;
    o.lr_warmup_iters = 4;
    o.lr_decay_iters = 14;
    o.lr_decay_style = style;
    return o;
}

/* Computed by hand; a few roundings of a double away at most. */
static void expect(trine_lr_decay style, int64_t step, double want) {
    trine_optimizer o = optimizer(style);
    double got = setup_learning_rate(&o, step);
    if (!(fabs(got - want) <= 1e-15))
        fail_msg("style %d, step %d: %.17g instead of %.17g", (int)style, (int)step, got, want);
}

static void warm_up_is_straight(void **state) {
    (void)state;
    for (int style = TRINE_DECAY_COSINE; style <= TRINE_DECAY_CONSTANT; style++) {
        expect((trine_lr_decay)style, 1, 0.25);
        expect((trine_lr_decay)style, 3, 0.75);
        expect((trine_lr_decay)style, 4, 1.0);
    }
}

static void linear(void **state) {
    (void)state;
    expect(TRINE_DECAY_LINEAR, 5, 0.91);
    expect(TRINE_DECAY_LINEAR, 9, 0.55);
    expect(TRINE_DECAY_LINEAR, 14, 0.1);
    expect(TRINE_DECAY_LINEAR, 1000, 0.1);
}

static void cosine(void **state) {
    (void)state;
    expect(TRINE_DECAY_COSINE, 6, 0.91405764746872637);
    expect(TRINE_DECAY_COSINE, 9, 0.55);
    expect(TRINE_DECAY_COSINE, 14, 0.1);
    expect(TRINE_DECAY_COSINE, 15, 0.1);
}

static void constant(void **state) {
    (void)state;
    expect(TRINE_DECAY_CONSTANT, 5, 1.0);
    expect(TRINE_DECAY_CONSTANT, 15, 1.0);
}

static void without_warm_up(void **state) {
    (void)state;
    trine_optimizer o = optimizer(TRINE_DECAY_CONSTANT);
    o.lr_warmup_iters = 0;
    assert_true(setup_learning_rate(&o, 1) == 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_straight), cmocka_unit_test(linear), cmocka_unit_test(cosine),
        cmocka_unit_test(constant),            cmocka_unit_test(without_warm_up),
    };
    return HARNESS_RUN_ALONE(tests);
}
