/* TEST np=2,3,4 */
/* Programs for one queue run over every transport and give the same bits as the others: they differ only in
 * which messages are started together. */
#include "training.h"

enum { STEPS = 2 };

static int runs;

static trine_config make_config(trine_layout layout, int micros, int zero) {
    trine_config c = training_config();
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.global_batch_size = micros * layout.dp;
    return c;
}

static void check(trine_config *c) {
    c->parallel.one_queue = false;
    training_result want = training_run(harness_world, c, STEPS);
    c->parallel.one_queue = true;
    training_result got = training_run(harness_world, c, STEPS);
    const trine_parallel *p = &c->parallel;
    if (!training_same_bits(&got, &want))
        fail_msg("dp %d pp %d zero %d schedule %d, %d samples: bits differ with one queue",
                 p->layout.dp, p->layout.pp, (int)p->zero, (int)p->schedule, c->global_batch_size);
    runs++;
}

/* 1, 3 and 5 micro-batches: fewer than stages, as many, more. */
static void visit(trine_layout layout) {
    if (layout.pp == 1) return;
    for (int micros = 1; micros <= 5; micros += 2)
        for (int zero = 0; zero < 4; zero++) {
            trine_config c = make_config(layout, micros, zero);
            c.parallel.transport = zero % 2 ? TRINE_TRANSPORT_AUTO : TRINE_TRANSPORT_MPI;
            check(&c);
        }
}

static void same_bits(void **state) {
    (void)state;
    training_layouts(visit);
    print_message("# %d pairs of runs of %d steps\n", runs, STEPS);
}

static trine_layout deepest(void) {
    return (trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)};
}

/* Messages too large for the transport to buffer: a send completes only when it is received. */
static void same_bits_of_large_messages(void **state) {
    (void)state;
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
        for (int serial = 0; serial < 2; serial++) {
            trine_config c = make_config(deepest(), 5, schedule % 4);
            c.model.seq_length = 128;
            c.model.untied = true;
            assert_true(training_schedule(&c, (trine_schedule)schedule));
            c.parallel.serial = serial;
            check(&c);
        }
}

static int groups(const program *p) {
    int count = 0;
    for (int n = 0; n < p->count; n++) count += program_group_last(p, n) > n;
    return count;
}

/* The option affects training and evaluation programs; without it there are no message groups. */
static void option_makes_groups(void **state) {
    (void)state;
    for (int one = 0; one < 2; one++) {
        trine_config c = make_config(deepest(), 5, 0);
        trine_trainer *t;
        c.parallel.one_queue = one;
        OK(trine_trainer_create(&t, harness_world, &c));
        assert_int_equal(t->spec.queue, one ? ONE_QUEUE : QUEUES_PER_EDGE);
        assert_int_equal(t->eval_spec.queue, t->spec.queue);
        assert_int_equal(groups(&t->stages[0]), one ? 5 - t->stages[0].slots + 1 : 0);
        trine_trainer_destroy(&t);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(option_makes_groups),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(same_bits_of_large_messages),
    };
    return HARNESS_RUN(argc, argv, tests);
}
