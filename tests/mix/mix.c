/* TEST np=2,3,4,6,8 longer=mix timeout=900 */
/* Every mix of dimensions trains like one rank: all (dp, tp, pp) whose product is the number of
 * ranks x ZeRO 0-3 x schedules x tied and untied, in one job.
 *
 * Each run is compared with one rank, step by step, within the tolerance of
 * docs/numbers.md, and bit by bit (losses, norms, all parameters) with its anchor: the run with
 * the same order of additions on one stage, made by dp x tp ranks in a part of the world. All
 * pipeline depths, schedules, splits, nodes and numbers of gather buffers and both ZeRO stages of a
 * pair share an anchor, so they equal each other.
 *
 * `make check` runs a subset: 5 steps instead of 20; every layout with each schedule and
 * two of its ZeRO stages, tied and untied in turn, and each ZeRO stage with one node size; nothing with
 * M = 3. TRINE_FULL=1 (make check-full) runs all combinations, 20 steps with
 * M = 5 micro-batches, and 5 with M = 1 and with M = 3 of two samples. */
#include "training.h"

#include <stdlib.h>

#include "comm/api/comm.h"

/* The promise of docs/numbers.md for 20 steps. Measured with this model: 2e-7 of the gradient norm
 * and 2e-8 of the loss; a wrong addend changes them by 1e-3 or more. */
#define TOLERANCE 1e-6

#define SHORT_STEPS 5

static bool full;
static int steps;

typedef struct {
    int micros, size; /* M, samples in each */
} batch_shape;

static const char *const schedule_text[] = {
#define SCHEDULE_TEXT(name, text, words) text,
    TRINE_SCHEDULE_LIST(SCHEDULE_TEXT)
#undef SCHEDULE_TEXT
};

static trine_config make_config(trine_layout layout, batch_shape batch, bool untied) {
    trine_config c = training_config();
    c.parallel.layout = layout;
    c.model.untied = untied;
    c.micro_batch_size = batch.size;
    c.global_batch_size = batch.micros * batch.size * layout.dp;
    return c;
}

/* ---- Anchors --------------------------------------------------------------------------------- */

/* The parameters that determine the order of additions. */
typedef struct {
    int dp, tp;
    batch_shape batch;
    bool untied;
    bool each; /* gradients are reduced with every micro-batch: ZeRO-2/3 with M > 1 */
} order;

typedef struct {
    order key;
    training_result result;
} anchor;

#define MAX_ANCHORS 256

static anchor anchors[MAX_ANCHORS];
static int anchor_count;

static bool same_order(const order *a, const order *b) {
    return a->dp == b->dp && a->tp == b->tp && a->batch.micros == b->batch.micros &&
           a->batch.size == b->batch.size && a->untied == b->untied && a->each == b->each;
}

static training_result run_on_one_stage(const order *o) {
    trine_config c =
        make_config((trine_layout){.dp = o->dp, .tp = o->tp, .pp = 1}, o->batch, o->untied);
    c.parallel.zero = o->each ? TRINE_ZERO_2 : TRINE_ZERO_0;
    trine_world *part;
    OK(comm_world_split(&part, harness_world, trine_world_rank(harness_world) / (o->dp * o->tp)));
    training_result result = training_run(part, &c, steps);
    trine_world_destroy(&part);
    return result;
}

/* Collective over the world; dp x tp must divide its size. */
static const training_result *anchor_of(order o) {
    for (int i = 0; i < anchor_count; i++)
        if (same_order(&anchors[i].key, &o)) {
            assert_true(anchors[i].result.steps >= steps);
            return &anchors[i].result;
        }
    assert_true(anchor_count < MAX_ANCHORS);
    anchor *a = &anchors[anchor_count++];
    *a = (anchor){o, run_on_one_stage(&o)};
    return &a->result;
}

static const training_result *anchor_of_config(const trine_config *c) {
    const trine_parallel *p = &c->parallel;
    batch_shape batch = {c->global_batch_size / c->micro_batch_size / p->layout.dp,
                         c->micro_batch_size};
    return anchor_of((order){p->layout.dp, p->layout.tp, batch, c->model.untied,
                             p->zero >= TRINE_ZERO_2 && batch.micros > 1});
}

/* The same global batches on one rank. */
static const training_result *serial_of(const trine_config *c) {
    batch_shape batch = {c->global_batch_size / c->micro_batch_size, c->micro_batch_size};
    return anchor_of((order){1, 1, batch, c->model.untied, false});
}

/* ---- One run --------------------------------------------------------------------------------- */

static double worst;
static int runs;

static const char *describe(const trine_config *c) {
    static char text[256];
    const trine_parallel *p = &c->parallel;
    snprintf(text, sizeof text,
             "dp %d tp %d pp %d zero %d %s of %d chunks, %s, %d samples by %d, split %s, %d gather "
             "buffers, %d "
             "ranks per node%s%s",
             p->layout.dp, p->layout.tp, p->layout.pp, (int)p->zero, schedule_text[p->schedule],
             p->virtual_stages, c->model.untied ? "untied" : "tied", c->global_batch_size,
             c->micro_batch_size, p->pp_split ? p->pp_split : "by cost", p->gather_buffers,
             p->ranks_per_node, p->serial ? ", serial" : "", p->audit ? ", audit" : "");
    return text;
}

static void expect_same_bits(const trine_config *c, const training_result *got,
                             const training_result *want) {
    if (training_same_bits(got, want)) return;
    for (int i = 0; i < steps; i++)
        print_message("# step %d: loss %.17g and %.17g, norm %.17g and %.17g, parameters %s\n",
                      i + 1, got->loss[i], want->loss[i], got->norm[i], want->norm[i],
                      got->params[i] == want->params[i] ? "equal" : "differ");
    fail_msg("%s: bits differ from one stage", describe(c));
}

static void check(const trine_config *c) {
    training_result got = training_run(harness_world, c, steps);
    double distance = training_distance(&got, serial_of(c));
    expect_same_bits(c, &got, anchor_of_config(c));
    if (!(distance <= TOLERANCE))
        fail_msg("%s: differs from one rank by %.2e", describe(c), distance);
    if (distance > worst) worst = distance;
    runs++;
}

static void report(void) {
    print_message("# %d runs of %d steps, %d anchors; difference from one rank at most %.1e\n",
                  runs, steps, anchor_count, worst);
}

/* ---- The matrix ------------------------------------------------------------------------------ */

typedef void each_layout(trine_layout layout, batch_shape batch);

static void for_each_layout(batch_shape batch, each_layout *visit) {
    int ranks = trine_world_size(harness_world);
    for (int tp = 1; tp <= ranks; tp++)
        for (int pp = 1; ranks % tp == 0 && pp <= ranks / tp; pp++)
            if (ranks / tp % pp == 0)
                visit((trine_layout){.dp = ranks / tp / pp, .tp = tp, .pp = pp}, batch);
}

static void all_combinations(trine_layout layout, batch_shape batch) {
    for (int zero = 0; zero <= 3; zero++)
        for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
            for (int untied = 0; untied < 2; untied++) {
                if (!full && ((zero + schedule) % 2 || untied != (zero / 2 + schedule / 2) % 2))
                    continue;
                trine_config c = make_config(layout, batch, untied);
                c.parallel.zero = (trine_zero)zero;
                if (training_schedule(&c, (trine_schedule)schedule)) check(&c);
            }
}

static void every_layout(void **state) {
    (void)state;
    for_each_layout((batch_shape){5, 1}, all_combinations);
    report();
}

/* Nothing is accumulated, so all four stages have one anchor. */
static void all_stages(trine_layout layout, batch_shape batch) {
    for (int zero = 0; zero <= 3; zero++)
        for (int untied = 0; untied < (full ? 2 : 1); untied++) {
            trine_config c = make_config(layout, batch, untied);
            c.parallel.zero = (trine_zero)zero;
            check(&c);
        }
}

static void one_micro_batch(void **state) {
    (void)state;
    steps = SHORT_STEPS;
    for_each_layout((batch_shape){1, 1}, all_stages);
    report();
}

/* Fewer micro-batches than stages in most layouts. */
static void three_of_two(void **state) {
    (void)state;
    if (!full) {
        print_message("# skipped: only with TRINE_FULL=1 (make check-full)\n");
        return;
    }
    steps = SHORT_STEPS;
    for_each_layout((batch_shape){3, 2}, all_combinations);
    report();
}

/* ---- Settings that change no bit ------------------------------------------------------------- */

static trine_layout deepest_mix(void) {
    int ranks = trine_world_size(harness_world);
    int pp = ranks % 2 ? ranks : 2, tp = ranks % 4 ? 1 : 2;
    return (trine_layout){.dp = ranks / pp / tp, .tp = tp, .pp = pp};
}

/* The number of gather and reduce buffers, draining after each instruction, audit; and the same run again. */
static void knobs(void **state) {
    (void)state;
    static const struct {
        int gather_buffers;
        bool serial, audit;
    } table[] = {{2, false, false}, {2, false, false}, {1, false, false}, {3, false, false},
                 {9, false, false}, {2, true, false},  {1, true, true},   {2, false, true}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int zero = 0; zero <= 3; zero++) {
            trine_config c = make_config(deepest_mix(), (batch_shape){5, 1}, zero == 1);
            if (zero < 2 && table[i].gather_buffers != 2) continue;
            c.parallel.zero = (trine_zero)zero;
            c.parallel.gather_buffers = c.parallel.reduce_buffers = table[i].gather_buffers;
            c.parallel.serial = table[i].serial;
            c.parallel.audit = table[i].audit;
            check(&c);
        }
    report();
}

/* Stages with only the embedding or the head, and uneven stages. */
static void splits_by_hand(void **state) {
    (void)state;
    static const struct {
        int pp;
        const char *split;
    } table[] = {{2, "e,7+h"},           {2, "e+7,h"},          {2, "1,6"},
                 {3, "e,7,h"},           {3, "5,1,1"},          {4, "e,3,4,h"},
                 {4, "1,1,4,1"},         {6, "e,1,2,3,1,h"},    {6, "1,1,1,2,1,1"},
                 {8, "e,1,1,1,1,1,2,h"}, {8, "1,1,1,1,1,1,1,h"}};
    int ranks = trine_world_size(harness_world);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (ranks % table[i].pp) continue;
        trine_layout layout = {.dp = ranks / table[i].pp, .tp = 1, .pp = table[i].pp};
        for (int zero = 0; zero <= 3; zero += 3) {
            trine_config c = make_config(layout, (batch_shape){5, 1}, i % 2);
            c.parallel.zero = (trine_zero)zero;
            c.parallel.pp_split = table[i].split;
            check(&c);
        }
    }
    report();
}

/* The ranks on nodes of two and of three: groups exchange through memory, through messages and
 * through both, and no bit changes. */
static int node_size;

static void stages_on_nodes(trine_layout layout, batch_shape batch) {
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = make_config(layout, batch, zero % 2);
        if (!full && zero % 2 != node_size % 2) continue;
        c.parallel.zero = (trine_zero)zero;
        c.parallel.ranks_per_node = node_size;
        check(&c);
    }
}

static void several_nodes(void **state) {
    (void)state;
    for (node_size = 2; node_size <= 3; node_size++)
        if (node_size < trine_world_size(harness_world))
            for_each_layout((batch_shape){5, 1}, stages_on_nodes);
    report();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_nodes),   cmocka_unit_test(every_layout),
        cmocka_unit_test(knobs),           cmocka_unit_test(splits_by_hand),
        cmocka_unit_test(one_micro_batch), cmocka_unit_test(three_of_two),
    };
    full = getenv("TRINE_FULL") != NULL;
    steps = full ? TRAINING_STEPS : SHORT_STEPS;
    return HARNESS_RUN(argc, argv, tests);
}
