/* TEST np=2,4 */
/* Communication in progress during a step. Messages here are larger than what the transport copies (a few KiB), so a
 * buffer that is written before its message has left, or read before it has arrived, is detected: --serial, which
 * waits after every instruction, must give the same bits. */
#include "training.h"

enum { STEPS = 2 };

/* Activations and their gradients are 24 KiB a micro-batch. */
static trine_config config(trine_schedule schedule, trine_zero zero) {
    int ranks = trine_world_size(harness_world), pp = ranks > 2 ? 4 : 2;
    trine_config c = training_config();
    c.model.seq_length = 128;
    c.parallel.layout = (trine_layout){.dp = ranks / pp, .tp = 1, .pp = pp};
    c.parallel.schedule = schedule;
    c.parallel.zero = zero;
    c.global_batch_size = 6 * c.parallel.layout.dp;
    return c;
}

static void large_messages_are_not_overwritten(void **state) {
    (void)state;
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
        for (int zero = 0; zero < 4; zero++) {
            trine_config c = config((trine_schedule)schedule, (trine_zero)zero);
            training_result got = training_run(harness_world, &c, STEPS);
            c.parallel.serial = true;
            training_result want = training_run(harness_world, &c, STEPS);
            if (!training_same_bits(&got, &want))
                fail_msg("schedule %d, zero %d: bits differ from --serial", schedule, zero);
        }
}

static int under_way(const trine_trainer *t) {
    const step_run *e = &t->interpreter.run;
    int requests = 0;
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(e->program, (resource)r); n++)
            requests += e->waits[r][n].count;
    return requests;
}

/* Between steps, evaluate, save and destroy may use all memory. */
static void a_step_leaves_nothing_under_way(void **state) {
    (void)state;
    trine_config c = config(TRINE_1F1B, TRINE_ZERO_3);
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    for (int i = 0; i < STEPS; i++) {
        trine_metrics m;
        OK(trine_trainer_step(t, &m));
        assert_int_equal(under_way(t), 0);
    }
    trine_trainer_destroy(&t);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_messages_are_not_overwritten),
        cmocka_unit_test(a_step_leaves_nothing_under_way),
    };
    return HARNESS_RUN(argc, argv, tests);
}
