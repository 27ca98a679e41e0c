/* TEST np=1,2,4 */
/* A step whose gradient is not finite changes nothing, on any rank: once the fault is removed, training continues
 * bitwise as without it. */
#include "training.h"

#include <math.h>

enum { STEPS = 3 };

static trine_config config(int axis, trine_zero zero) {
    int ranks = trine_world_size(harness_world);
    const trine_layout layouts[] = {{.dp = ranks, .tp = 1, .pp = 1},
                                    {.dp = 1, .tp = ranks, .pp = 1},
                                    {.dp = 1, .tp = 1, .pp = ranks}};
    trine_config c = training_config();
    c.parallel.layout = layouts[axis];
    c.parallel.zero = zero;
    c.global_batch_size = 2 * layouts[axis].dp;
    return c;
}

/* One parameter of one rank. */
static float *victim(const trine_trainer *t) {
    int last = trine_world_size(harness_world) - 1;
    return trine_world_rank(harness_world) == last ? t->held.units[0].params[0] : NULL;
}

/* A step with a NaN among the parameters leaves the state of before the step. */
static void make_bad_step(trine_trainer *t) {
    float *w = victim(t), good = w ? *w : 0;
    if (w) *w = NAN;
    uint64_t params = training_fingerprint(t);
    trine_metrics m;
    OK(trine_trainer_step(t, &m));
    assert_true(m.skipped);
    assert_true(!isfinite(m.grad_norm));
    assert_true(training_fingerprint(t) == params);
    if (w) *w = good;
    t->steps--;
    t->samples -= (uint64_t)t->config.global_batch_size;
}

static void check(const trine_config *c) {
    training_result want = training_run(harness_world, c, STEPS), got = {.steps = STEPS};
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    for (int i = 0; i < STEPS; i++) {
        trine_metrics m;
        make_bad_step(t);
        OK(trine_trainer_step(t, &m));
        assert_false(m.skipped);
        got.loss[i] = m.loss;
        got.norm[i] = m.grad_norm;
        got.params[i] = training_fingerprint(t);
    }
    trine_trainer_destroy(&t);
    if (!training_same_bits(&got, &want))
        fail_msg("dp %d tp %d pp %d zero %d: the bits differ", c->parallel.layout.dp,
                 c->parallel.layout.tp, c->parallel.layout.pp, (int)c->parallel.zero);
}

static void a_bad_step_leaves_no_trace(void **state) {
    (void)state;
    for (int axis = 0; axis < 3; axis++)
        for (int zero = 0; zero < 4; zero++) {
            trine_config c = config(axis, (trine_zero)zero);
            check(&c);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_step_leaves_no_trace),
    };
    return HARNESS_RUN(argc, argv, tests);
}
