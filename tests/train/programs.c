/* TEST np=2 */
/* What a pipeline's options do to its programs and to its steps: that they change no bit is in the matrix of layouts
 * (tests/mix/cover.c). */
#include "training.h"

static trine_config config_of(trine_zero zero) {
    trine_config c = training_config();
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = 2};
    c.parallel.zero = zero;
    c.global_batch_size = 5;
    return c;
}

/* Splits all blocks of the rank's stage and nothing else. */
static void blocks_are_split(void **state) {
    (void)state;
    trine_config c = config_of(TRINE_ZERO_1);
    trine_trainer *t;
    c.parallel.split_backward = true;
    OK(trine_trainer_create(&t, harness_world, &c));
    const program *p = &t->stages[t->held.config.coord.pp];
    int inputs = 0, weights = 0, blocks = spec_units_of(p->spec, p->stage, CLASS_BLOCK);
    for (int n = 0; n < p->count; n++) {
        inputs += p->code[n].kind == BACKWARD_INPUT;
        weights += p->code[n].kind == BACKWARD_WEIGHT && p->code[n].keep >= 0;
    }
    assert_true(blocks > 1);
    assert_int_equal(inputs, blocks * p->spec->micros);
    assert_int_equal(weights, inputs);
    assert_int_equal(p->keeps, blocks);
    trine_trainer_destroy(&t);
}

static int groups(const program *p) {
    int count = 0;
    for (int n = 0; n < p->count; n++) count += program_group_last(p, n) > n;
    return count;
}

/* --one-queue affects training and evaluation programs; without it there are no message groups. */
static void one_queue_makes_groups(void **state) {
    (void)state;
    for (int one = 0; one < 2; one++) {
        trine_config c = config_of(TRINE_ZERO_0);
        trine_trainer *t;
        c.parallel.one_queue = one;
        OK(trine_trainer_create(&t, harness_world, &c));
        assert_int_equal(t->spec.queue, one ? ONE_QUEUE : QUEUES_PER_EDGE);
        assert_int_equal(t->eval_spec.queue, t->spec.queue);
        assert_int_equal(groups(&t->stages[0]), one ? 5 - t->stages[0].slots + 1 : 0);
        trine_trainer_destroy(&t);
    }
}

static int under_way(const trine_trainer *t) {
    const step_run *e = &t->interpreter.run;
    int requests = e->reducing;
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(e->program, (resource)r); n++)
            requests += e->waits[r][n].count;
    return requests;
}

/* Between steps, evaluate, save and destroy may use all memory. The messages are larger than what a transport copies. */
static void a_step_leaves_nothing_under_way(void **state) {
    (void)state;
    trine_config c = config_of(TRINE_ZERO_3);
    trine_trainer *t;
    c.model.seq_length = 128;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int i = 0; i < 2; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_int_equal(under_way(t), 0);
    }
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_split),
        cmocka_unit_test(one_queue_makes_groups),
        cmocka_unit_test(a_step_leaves_nothing_under_way),
    };
    return HARNESS_RUN(argc, argv, tests);
}
