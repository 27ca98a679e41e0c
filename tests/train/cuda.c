/* TEST np=1,2,4 */
/* Training in memory that the host cannot touch, on a queue that runs late: every layout and ZeRO
 * stage against the same on ref, and the promises of equal bits (docs/numbers.md), which hold on any
 * device. Sums over ranks are the host's here, so that layouts promise what they do on processors. */
#include "training.h"

#define STEPS 2

/* A kernel adds in another order than ref's plain loops, which costs less than the distance that
 * either may have from the outside reference (tests/golden). */
#define BETWEEN_DEVICES 1e-5

/* Two micro-batches a rank; small, since an emulated thread costs as much as a hundred real ones. */
static trine_config config_of(trine_layout layout, int zero) {
    trine_config c = training_config();
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.parallel.audit = true;
    c.global_batch_size = 2 * layout.dp;
    return c;
}

static training_result run_on_gpu(trine_config c) {
    training_on_gpu(&c);
    return training_run(harness_world, &c, STEPS);
}

static void expect_near_ref(trine_layout layout, int zero, bool untied) {
    trine_config c = config_of(layout, zero);
    c.model.untied = untied;
    c.parallel.device = "ref";
    training_result ref = training_run(harness_world, &c, STEPS), gpu = run_on_gpu(c);
    double off = training_distance(&gpu, &ref);
    if (!(off <= BETWEEN_DEVICES))
        fail_msg("dp %d tp %d pp %d zero %d: %.2g from ref", layout.dp, layout.tp, layout.pp, zero,
                 off);
}

/* Many layouts need not all stages each. */
static void layout_near_ref(trine_layout layout) {
    int step = trine_world_size(harness_world) > 2 ? 2 : 1;
    for (int zero = (layout.pp + layout.tp / 2) % step; zero <= 3; zero += step)
        expect_near_ref(layout, zero, zero % 2);
}

static void every_layout_is_near_ref(void **state) {
    (void)state;
    training_layouts(layout_near_ref);
}

static void expect_equal(trine_config a, trine_config b, const char *what) {
    training_result x = run_on_gpu(a), y = run_on_gpu(b);
    if (!training_same_bits(&x, &y)) fail_msg("%s: other bits", what);
}

/* Of the pairs in docs/numbers.md those that a GPU could break. */
static void equal_bits(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    trine_layout dp = {ranks, 1, 1}, pp = {1, 1, ranks}, tp = {1, ranks, 1};
    expect_equal(config_of(tp, 0), config_of(tp, 0), "a run and itself");
    expect_equal(config_of(dp, 0), config_of(dp, 1), "zero 0 and 1");
    expect_equal(config_of(dp, 2), config_of(dp, 3), "zero 2 and 3");
    trine_config naive = config_of(pp, 0);
    naive.parallel.schedule = TRINE_NAIVE;
    expect_equal(config_of(pp, 0), naive, "1f1b and naive");
    trine_config mpi = config_of(tp, 0);
    mpi.parallel.transport = TRINE_TRANSPORT_MPI;
    expect_equal(config_of(tp, 0), mpi, "shm and mpi");
}

/* A profile waits for every operator, and changes nothing else. */
static void profiled_steps_have_the_same_bits(void **state) {
    (void)state;
    trine_config c = config_of((trine_layout){1, 1, trine_world_size(harness_world)}, 0);
    training_on_gpu(&c);
    training_result plain = training_run(harness_world, &c, STEPS);
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    OK(trine_trainer_profile_start(t, 0, NULL));
    for (int i = 0; i < STEPS; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_true(m.loss == plain.loss[i] && m.grad_norm == plain.norm[i]);
        assert_true(training_fingerprint(t) == plain.params[i]);
    }
    assert_int_equal(t->profile->steps, STEPS);
    trine_trainer_destroy(&t);
}

/* What an evaluation reads back leaves nothing behind in the sums of a step, nor the other way. */
static void evaluation_and_training_take_turns(void **state) {
    (void)state;
    trine_config c = config_of((trine_layout){1, trine_world_size(harness_world), 1}, 0);
    c.data.val_data_path = training_tokens();
    c.eval_iters = 2;
    trine_config gpu = c;
    training_on_gpu(&gpu);
    double loss[2][2];
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        trine_trainer *t;
        trine_metrics m;
        OK(trine_trainer_create(&t, harness_world, on_gpu ? &gpu : &c));
        OK(trine_trainer_eval(t, &loss[on_gpu][0]));
        OK(trine_trainer_step(t, &m));
        OK(trine_trainer_eval(t, &loss[on_gpu][1]));
        trine_trainer_destroy(&t);
    }
    for (int i = 0; i < 2; i++)
        assert_true(loss[1][i] <= loss[0][i] * (1 + BETWEEN_DEVICES) &&
                    loss[1][i] >= loss[0][i] * (1 - BETWEEN_DEVICES));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_near_ref),
        cmocka_unit_test(equal_bits),
        cmocka_unit_test(profiled_steps_have_the_same_bits),
        cmocka_unit_test(evaluation_and_training_take_turns),
    };
    return HARNESS_RUN(argc, argv, tests);
}
