/* TEST np=1,2,4 */
/* A program that splits every backward pass is bitwise equal to one that does not: parameters after some steps, and
 * norms and losses of each step, for every ZeRO stage, recomputation and schedule, with and without sequence
 * parallelism and dropout. */
#include "training.h"

enum { STEPS = 3 };

static trine_layout layout_of(int ranks, int n) {
    const trine_layout two[] = {
        {.dp = 1, .tp = 1, .pp = 2}, {.dp = 1, .tp = 2, .pp = 1}, {.dp = 2, .tp = 1, .pp = 1}};
    const trine_layout four[] = {{.dp = 1, .tp = 2, .pp = 2},
                                 {.dp = 2, .tp = 1, .pp = 2},
                                 {.dp = 2, .tp = 2, .pp = 1},
                                 {.dp = 1, .tp = 1, .pp = 4}};
    if (ranks == 2) return two[n % 3];
    if (ranks == 4) return four[n % 4];
    return (trine_layout){.dp = 1, .tp = 1, .pp = 1};
}

static trine_config config_of(int zero, int recompute, int n) {
    trine_config c = training_config();
    c.parallel.layout = layout_of(trine_world_size(harness_world), n);
    c.parallel.zero = (trine_zero)zero;
    c.parallel.recompute = (trine_recompute)recompute;
    assert_true(training_schedule(&c, (trine_schedule)(n % TRINE_SCHEDULES)));
    c.parallel.sequence_parallel = n / 2 % 2 && c.parallel.layout.tp > 1;
    c.parallel.one_queue = n % 5 == 0;
    c.model.hidden_dropout = c.model.attention_dropout = n % 2 * 0.1;
    c.model.untied = n / 3 % 2;
    c.micro_batch_size = 2;
    c.global_batch_size = 3 * c.micro_batch_size * c.parallel.layout.dp;
    return c;
}

static void splits_change_no_bit(void **state) {
    (void)state;
    for (int zero = 0, n = 0; zero < 4; zero++)
        for (int recompute = 0; recompute < TRINE_RECOMPUTES; recompute++, n++) {
            trine_config c = config_of(zero, recompute, n);
            trine_config whole = c; /* some schedules always split */
            whole.parallel.schedule = TRINE_1F1B;
            whole.parallel.virtual_stages = 1;
            training_result unsplit = training_run(harness_world, &whole, STEPS);
            c.parallel.split_backward = true;
            training_result split = training_run(harness_world, &c, STEPS);
            if (!training_same_bits(&unsplit, &split))
                fail_msg("zero %d, recompute %d, choice %d: bits differ from BACKWARD", zero,
                         recompute, n);
        }
}

/* Splits all blocks of the rank's stage and nothing else. */
static void blocks_are_split(void **state) {
    (void)state;
    trine_config c = config_of(1, 0, 0);
    trine_trainer *t;
    c.parallel.split_backward = true;
    OK(trine_trainer_create(&t, harness_world, &c));
    const program *p = &t->stages[t->held.config.coord.pp];
    int inputs = 0, weights = 0, blocks = spec_units_of(p->spec, p->stage, CLASS_BLOCK);
    for (int n = 0; n < p->count; n++) {
        inputs += p->code[n].kind == BACKWARD_INPUT;
        weights += p->code[n].kind == BACKWARD_WEIGHT && p->code[n].keep >= 0;
    }
    assert_int_equal(inputs, blocks * p->spec->micros);
    assert_int_equal(weights, inputs);
    assert_int_equal(p->keeps, blocks);
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_change_no_bit),
        cmocka_unit_test(blocks_are_split),
    };
    return HARNESS_RUN(argc, argv, tests);
}
