/* TEST np=2,4 */
/* Communication and reductions in progress during a step. Messages here are larger than what the transport copies (a
 * few KiB), so a buffer that is written before its message has left, or read before it has arrived, is detected:
 * --serial, which waits after every instruction, must give the same bits. Every schedule, with two chunks per stage
 * if it takes them, and two of the ZeRO stages. */
#include "training.h"

enum { STEPS = 2 };

/* Activations and their gradients are 24 KiB a micro-batch. */
static trine_config config(trine_schedule schedule, trine_zero zero) {
    int ranks = trine_world_size(harness_world), pp = ranks > 2 ? 4 : 2;
    trine_config c = training_config();
    c.model.seq_length = 128;
    c.parallel.layout = (trine_layout){.dp = ranks / pp, .tp = 1, .pp = pp};
    assert_true(training_schedule(&c, schedule));
    c.parallel.zero = zero;
    c.global_batch_size = 6 * c.parallel.layout.dp;
    return c;
}

static void large_messages_are_not_overwritten(void **state) {
    (void)state;
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
        for (int zero = schedule % 2; zero < 4; zero += 2) {
            trine_config c = config((trine_schedule)schedule, (trine_zero)zero);
            training_result got = training_run(harness_world, &c, STEPS);
            c.parallel.serial = true;
            training_result want = training_run(harness_world, &c, STEPS);
            if (!training_same_bits(&got, &want))
                fail_msg("schedule %d, zero %d: bits differ from --serial", schedule, zero);
        }
}

/* Shards get their addends in the order of micro-batches, and no buffer is reused too early, however many there are
 * and over whichever transport. */
static void reductions_keep_their_bits(void **state) {
    (void)state;
    const trine_transport transports[] = {TRINE_TRANSPORT_AUTO, TRINE_TRANSPORT_MPI};
    for (int n = 0; n < 16; n++) {
        trine_config c = config(TRINE_1F1B, (trine_zero)(n % 4));
        int ranks = trine_world_size(harness_world);
        c.parallel.layout = (trine_layout){.dp = 2, .tp = 1, .pp = ranks / 2};
        c.global_batch_size = 8;
        c.parallel.split_backward = n & 4;
        c.parallel.transport = transports[n / 8];
        c.parallel.reduce_buffers = 1;
        c.parallel.serial = true;
        training_result want = training_run(harness_world, &c, STEPS);
        c.parallel.serial = false;
        int most = c.parallel.zero >= TRINE_ZERO_2 ? 3 : 1;
        for (; c.parallel.reduce_buffers <= most; c.parallel.reduce_buffers++) {
            training_result got = training_run(harness_world, &c, STEPS);
            if (!training_same_bits(&got, &want))
                fail_msg("zero %d, %d reduce buffers, transport %d: bits differ from --serial",
                         n % 4, c.parallel.reduce_buffers, n / 8);
        }
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
        cmocka_unit_test(reductions_keep_their_bits),
        cmocka_unit_test(a_step_leaves_nothing_under_way),
    };
    return HARNESS_RUN(argc, argv, tests);
}
