/* TEST np=1,2,3,4,6,8 full=gpu timeout=1800 device */
/* The mix on GPUs: forty of its entries, every layout of 1 to 8 ranks with ZeRO stages and
 * schedules in turn, all ranks on one GPU (emulated, unless TRINE_CUDA_LIBRARY names the real
 * object). Each is compared bit by bit with the same dp and tp on one stage, and with one rank on
 * ref, from which it may differ only by the order of additions in kernels. With TRINE_EMU_GPUS=8
 * each rank has its own GPU. */
#include "training.h"

#include <stdlib.h>

#include "comm/api/comm.h"

#define STEPS  2
#define MICROS 2

/* As in tests/train/cuda.c. */
#define BETWEEN_DEVICES 1e-6

static double worst;
static int entries;

static trine_config make_config(trine_layout layout, bool untied) {
    trine_config c = training_config();
    c.model.num_layers = 6; /* at most 8 stages: a unit for each */
    c.parallel.layout = layout;
    c.parallel.timeout = 300;
    c.parallel.ordered_reductions = true;
    c.model.untied = untied;
    c.global_batch_size = MICROS * layout.dp;
    return c;
}

/* A run of layouts of fewer ranks, side by side. Collective over: world. */
static training_result run_parts(const trine_config *c) {
    trine_layout l = c->parallel.layout;
    int ranks = l.dp * l.tp * l.pp, rank = trine_world_rank(harness_world);
    trine_world *part;
    OK(comm_world_split(&part, harness_world, rank / ranks));
    training_result result = training_run(part, c, STEPS);
    trine_world_destroy(&part);
    return result;
}

static training_result run_on_one_stage(const trine_config *c) {
    trine_config one = *c;
    one.parallel.layout.pp = one.parallel.virtual_stages = 1;
    one.parallel.schedule = TRINE_1F1B;
    return run_parts(&one);
}

static training_result run_on_ref(const trine_config *c) {
    trine_config ref = make_config((trine_layout){.dp = 1, .tp = 1, .pp = 1}, c->model.untied);
    ref.global_batch_size = c->global_batch_size;
    ref.parallel.device = "ref";
    return run_parts(&ref);
}

static void check(trine_layout layout, trine_zero zero, trine_schedule schedule, bool untied) {
    trine_config c = make_config(layout, untied);
    training_on_gpu(&c);
    c.parallel.zero = zero;
    assert_true(training_schedule(&c, schedule));
    training_result got = training_run(harness_world, &c, STEPS);
    training_result stage = run_on_one_stage(&c), ref = run_on_ref(&c);
    double off = training_distance(&got, &ref);
    if (!training_same_bits(&got, &stage) || !(off <= BETWEEN_DEVICES))
        fail_msg("dp %d tp %d pp %d zero %d schedule %d: %s as one stage, differs from ref by %.1e",
                 layout.dp, layout.tp, layout.pp, (int)zero, (int)schedule,
                 training_same_bits(&got, &stage) ? "the same bits" : "different bits", off);
    if (off > worst) worst = off;
    entries++;
}

/* Of the schedules from number `turn` on, the first for which the model has enough units. */
static trine_schedule schedule_in_turn(trine_layout layout, int turn) {
    trine_config c = make_config(layout, false);
    while (!training_schedule(&c, (trine_schedule)(turn % TRINE_SCHEDULES))) turn++;
    return c.parallel.schedule;
}

/* ZeRO stages and schedules in turn. */
static void layout_in_turn(trine_layout layout) {
    int ranks = trine_world_size(harness_world), each = ranks == 1 ? 4 : ranks < 4 ? 2 : 1;
    for (int i = 0; i < each; i++) {
        int turn = layout.pp + 2 * layout.tp + layout.dp + i;
        check(layout, (trine_zero)(turn % 4), schedule_in_turn(layout, turn), turn % 3 == 0);
    }
}

static void forty_entries(void **state) {
    (void)state;
    training_layouts(layout_in_turn);
    print_message("# %d entries; difference from ref at most %.1e\n", entries, worst);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forty_entries)};
    setenv("TRINE_EMU_GPUS", "1", 0);
    return HARNESS_RUN(argc, argv, tests);
}
