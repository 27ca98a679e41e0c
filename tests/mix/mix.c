/* TEST np=8 full=mix timeout=3000 */
/* Every layout of 2 to 8 ranks x ZeRO 0-3 x schedules x tied and untied, with the conditions of tests/layouts.h: 20
 * steps with 5 micro-batches, 5 with one and with 3 of two samples. tests/mix/cover.c, in `make check`, has pairs of
 * these options and of others, and small sets of three. */
#include "layouts.h"

#include "pp/order.h"

enum { FEW_STEPS = 5 };

/* Two chunks per stage where the schedule takes them. */
static layout_run row_of(trine_layout layout, int micros, int size) {
    return (layout_run){
        .layout = layout, .virtual = 1, .micros = micros, .size = size, .buffers = 2};
}

static void add_combinations(trine_layout layout, int micros, int size) {
    for (int zero = 0; zero <= 3; zero++)
        for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
            for (int untied = 0; untied < 2; untied++) {
                layout_run r = row_of(layout, micros, size);
                int needs = pp_schedule_of((trine_schedule)schedule)->virtual;
                r.zero = zero;
                r.schedule = schedule;
                r.virtual = needs ? needs : layout.pp > 1 ? 2 : 1;
                r.untied = untied;
                layout_add(layout_row(r));
            }
}

/* All layouts of one number of ranks. */
static void add_layouts(int ranks, int micros, int size) {
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp; pp++)
            if (ranks / tp % pp == 0)
                add_combinations((trine_layout){.dp = ranks / tp / pp, .tp = tp, .pp = pp}, micros,
                                 size);
}

static void check(int micros, int size, int steps) {
    static const int ranks[] = {2, 3, 4, 6, 8};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) add_layouts(ranks[i], micros, size);
    layout_check(steps);
}

static void five_micro_batches(void **state) {
    (void)state;
    check(5, 1, TRAINING_STEPS);
}

/* Nothing is accumulated, so all four ZeRO stages have one anchor. */
static void one_micro_batch(void **state) {
    (void)state;
    check(1, 1, FEW_STEPS);
}

/* Fewer micro-batches than stages in most layouts. */
static void three_of_two(void **state) {
    (void)state;
    check(3, 2, FEW_STEPS);
}

/* The number of gather and reduce buffers, draining after each instruction, audit, nodes and splits. */
static void settings(void **state) {
    (void)state;
    static const trine_layout layouts[] = {
        {.dp = 1, .tp = 1, .pp = 2}, {.dp = 1, .tp = 1, .pp = 3}, {.dp = 2, .tp = 1, .pp = 3},
        {.dp = 1, .tp = 2, .pp = 2}, {.dp = 2, .tp = 2, .pp = 2}, {.dp = 1, .tp = 1, .pp = 8}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int zero = 0; zero <= 3; zero++)
            for (int n = 0; n < WATCHES * SPLITS; n++) {
                layout_run r = row_of(layouts[i], 5, 1);
                r.zero = zero;
                r.untied = n % 2;
                r.watch = n % WATCHES;
                r.split = n / WATCHES;
                r.nodes = n % 3 ? n % 3 + 1 : 0;
                r.buffers = 1 + n % 9;
                layout_add(layout_row(r));
            }
    layout_check(FEW_STEPS);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_micro_batches),
        cmocka_unit_test(one_micro_batch),
        cmocka_unit_test(three_of_two),
        cmocka_unit_test(settings),
    };
    return HARNESS_RUN(argc, argv, tests);
}
