/* TEST np=2,4 timeout=600 */
/* Pipelines over NCCL (emulated, emu/nccl.h) with one queue per device: an operation starts when all
 * operations launched before it, on any communicator, have completed; and the messages of a message group run one
 * after the other, which is stricter than NCCL. A program that needs more than that hangs until the watchdog
 * aborts. Results are bitwise equal to those of the same GPU over MPI. */
#include "training.h"

#include <stdlib.h>

enum { STEPS = 2 };

/* Small: an emulated thread costs as much as a hundred real ones. */
static trine_config config_of(trine_layout layout, int micros, int zero) {
    trine_config c = training_config();
    c.model.num_layers = 2;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 4;
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.global_batch_size = micros * layout.dp;
    c.parallel.ordered_reductions = true;
    training_on_gpu(&c);
    return c;
}

static int runs;

/* queue: 1, the messages of a group together; 2, one after the other. */
static void check(trine_config c, const char *queue) {
    c.parallel.transport = TRINE_TRANSPORT_MPI;
    training_result want = training_run(harness_world, &c, STEPS);
    c.parallel.transport = TRINE_TRANSPORT_NCCL;
    setenv("TRINE_EMU_NCCL_QUEUE", queue, 1);
    training_result got = training_run(harness_world, &c, STEPS);
    unsetenv("TRINE_EMU_NCCL_QUEUE");
    if (!training_same_bits(&got, &want))
        fail_msg("dp %d pp %d zero %d schedule %d, %d samples: bits differ from those over mpi",
                 c.parallel.layout.dp, c.parallel.layout.pp, (int)c.parallel.zero,
                 (int)c.parallel.schedule, c.global_batch_size);
    runs++;
}

/* With several replicas or tp ranks, two ZeRO stages are enough. */
static void visit(trine_layout layout) {
    bool alone = layout.dp * layout.tp == 1;
    int first = layout.dp > 1 ? 2 : 0, last = alone ? 3 : first + 1;
    for (int zero = first; layout.pp > 1 && zero <= last; zero++)
        check(config_of(layout, zero == 1 ? 3 : 5, zero), zero % 2 ? "1" : "2");
}

static void one_queue_is_enough(void **state) {
    (void)state;
    training_layouts(visit);
    print_message("# %d pairs of runs\n", runs);
}

static void other_schedules(void **state) {
    (void)state;
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++) {
        trine_layout layout = {.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)};
        trine_config c = config_of(layout, schedule / 2 % 2 ? 3 : 5, 2);
        c.model.num_layers = 2 * layout.pp - 2; /* a unit for each of two chunks per stage */
        assert_true(training_schedule(&c, (trine_schedule)schedule));
        c.model.untied = schedule % 2;
        if (schedule != TRINE_1F1B) check(c, "2");
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_queue_is_enough),
        cmocka_unit_test(other_schedules),
    };
    return HARNESS_RUN(argc, argv, tests);
}
