/* TEST np=2,4,8 */
/* REDUCE of a range with other axes than the GPT's: sharded over dp, its gradients also summed over tp, along which
 * ranks have the same slices. The model is artificial: one unit of one range. With every ZeRO stage the gradients at
 * rest are the sum over all ranks, and the bytes sent are those computed in advance. With --exact the sum of every lane
 * is added to that of the lanes before, rank by rank. */
#include "harness.h"

#include <stdlib.h>

#include "run/parts.h"
#include "state/step.h"

enum { MICROS = 3, COUNT = 200 };

/* Size 2 along the axis that replicates. */
static trine_layout layout_of(void) {
    return (trine_layout){.dp = trine_world_size(harness_world) / 2, .tp = 2, .pp = 1};
}

/* ---- The model -------------------------------------------------------------------------------- */

static unit_facts one_unit(const program_spec *s, int unit) {
    (void)s, (void)unit;
    return (unit_facts){.name = "unit", .number = -1, .class = CLASS_BLOCK, .twin = -1};
}

static void lay_out(const void *shape, int unit, trine_layout l, flat_unit *out) {
    tensor t = {.parts = 1, .rows = 1, .cols = COUNT, .global_rows = 1, .global_cols = COUNT};
    (void)shape, (void)unit;
    *out = (flat_unit){.range_count = 1};
    flat_range *range = &out->ranges[0];
    flat_add(range, &t);
    range->sharded = AXIS(TRINE_AXIS_DP);
    range->reduced = AXIS(TRINE_AXIS_DP) | AXIS(TRINE_AXIS_TP);
    flat_finish(range, axes_size(l, range->sharded));
}

static void no_scratch(const void *shape, arena *a, const device *dev, const program_spec *spec,
                       int stage, void *scratch) {
    (void)shape, (void)a, (void)dev, (void)spec, (void)stage, (void)scratch;
}

static state_model model(void) {
    return (state_model){.unit_record = 1,
                         .acts_record = 1,
                         .keep_record = 1,
                         .scratch_record = 1,
                         .layout = lay_out,
                         .take_scratch = no_scratch};
}

/* ---- A rank ----------------------------------------------------------------------------------- */

typedef struct {
    program_spec spec;
    program program;
    trine_mesh *mesh;
    device *dev;
    rank_state state;
    step_run run;
    void *memory;
} rank;

static program_spec spec_of(trine_zero zero) {
    return (program_spec){.stages = 1,
                          .units = 1,
                          .micros = MICROS,
                          .first = {0, 1},
                          .facts = one_unit,
                          .parallel.zero = zero};
}

static void setup(rank *k, const program_spec *spec) {
    trine_layout layout = layout_of();
    *k = (rank){.spec = *spec};
    program_create(&k->program, &k->spec, 0);
    k->program.reduces[CLASS_BLOCK] = spec_zero(spec)->full_grads ? 0 : 2;
    OK(trine_mesh_create(&k->mesh, harness_world, layout, 0));
    OK(device_open(&k->dev, DEVICE_REF, 1));
    state_config config = {.spec = &k->spec,
                           .program = &k->program,
                           .model = model(),
                           .dev = k->dev,
                           .layout = layout,
                           .coord = trine_mesh_coord(k->mesh),
                           .part_of = run_part_of};
    arena plan;
    OK(state_create(&k->state, &config));
    arena_init(&plan, NULL, 0);
    state_take(&k->state, &plan);
    size_t bytes = plan.used;
    OK(trine_mesh_alloc(k->mesh, &k->memory, bytes));
    arena_init(&plan, k->memory, bytes);
    state_take(&k->state, &plan);
    OK(step_create(&k->run, &k->state, k->mesh, k->dev));
    k->run.program = &k->program;
}

static void destroy(rank *k) {
    step_destroy(&k->run);
    state_destroy(&k->state);
    trine_mesh_free(k->mesh, &k->memory);
    device_close(&k->dev);
    trine_mesh_destroy(&k->mesh);
    program_destroy(&k->program);
}

/* ---- Gradients -------------------------------------------------------------------------------- */

/* Integers, whose sums are exact. */
static float addend(int who, int micro, size_t i) {
    return (float)((who + 1) * (micro + 2) + (int)i % 7);
}

static float sum_of_all(size_t i) {
    float sum = 0;
    for (int r = 0; r < trine_world_size(harness_world); r++)
        for (int m = 0; m < MICROS; m++) sum += addend(r, m, i);
    return sum;
}

/* As after BACKWARD: in the buffer, or accumulated at rest. */
static void make_grads(rank *k, int reduce, int micro) {
    held_unit *u = state_unit(&k->state, 0);
    void *base[FLAT_RANGES];
    state_grad_bases(&k->state, u, reduce, base);
    float *g = base[0];
    for (size_t i = 0; i < COUNT; i++) {
        float old = reduce < 0 && micro > 0 ? g[i] : 0;
        g[i] = old + addend(trine_world_rank(harness_world), micro, i);
    }
}

static uint64_t sent(const rank *k) {
    const trine_group groups[] = {TRINE_DP, TRINE_TP};
    uint64_t bytes = 0;
    for (int g = 0; g < 2; g++)
        for (int kind = 0; kind < TRINE_TALLY_KINDS; kind++)
            bytes += trine_comm_tally(trine_mesh_group(k->mesh, groups[g]), (trine_tally_kind)kind)
                         .bytes;
    return bytes;
}

static void the_sum_is_that_of_all_ranks(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        rank k;
        program_spec spec = spec_of((trine_zero)zero);
        setup(&k, &spec);
        bool full = spec_zero(&spec)->full_grads;
        uint64_t before = sent(&k), counted = 0;
        for (int m = 0; m < MICROS; m++) {
            instr i = program_instr(REDUCE, 0, m);
            i.reduce = full ? -1 : m % 2;
            OK(step_wait(&k.run, &i)); /* as a BACKWARD into the same buffer */
            make_grads(&k, i.reduce, m);
            if (full && m < MICROS - 1) continue;
            counted += part_REDUCE.bytes(&k.state, &k.program, &i);
            OK(part_REDUCE.run(&k.run, &i));
        }
        OK(step_finish_reductions(&k.run));
        assert_true(sent(&k) - before == counted);
        held_unit *u = state_unit(&k.state, 0);
        flat_part own = state_owned(&k.state, u, 0);
        const float *g = state_grad(&k.state, u, 0, own);
        for (size_t i = 0; i < own.count && own.begin + i < COUNT; i++)
            assert_true(g[i] == sum_of_all(own.begin + i));
        destroy(&k);
    }
}

/* ---- Lanes ------------------------------------------------------------------------------------ */

enum { LANE_MICROS = 4 };

/* Sums depend on their order. */
static float lane_addend(int dp, int tp, int micro, size_t i) {
    return 1 / (float)(3 + 7 * dp + 5 * tp + 11 * micro + (int)(i % 13));
}

/* After a micro-batch of a lane of `each`. */
static float lane_so_far(int dp, int tp, int each, int micro, size_t i) {
    float sum = lane_addend(dp, tp, micro - micro % each, i);
    for (int m = micro - micro % each + 1; m <= micro; m++) sum += lane_addend(dp, tp, m, i);
    return sum;
}

static float sum_of_lanes(int tp, int each, size_t i) {
    float sum = 0;
    for (int last = each - 1; last < LANE_MICROS; last += each)
        for (int dp = 0; dp < layout_of().dp; dp++) {
            float lane = lane_so_far(dp, tp, each, last, i);
            sum = last == each - 1 && dp == 0 ? lane : sum + lane;
        }
    return sum;
}

static void make_lane(rank *k, const instr *i, int each) {
    void *base[FLAT_RANGES];
    trine_coord own = k->state.config.coord;
    state_grad_bases(&k->state, state_unit(&k->state, 0), i->reduce, base);
    for (size_t n = 0; n < COUNT; n++)
        ((float *)base[0])[n] = lane_so_far(own.dp, own.tp, each, i->micro, n);
}

static void check_lanes(trine_zero zero, int lane) {
    rank k;
    program_spec spec = spec_of(zero);
    int each = lane ? lane : LANE_MICROS;
    spec.micros = LANE_MICROS, spec.parallel.exact = true, spec.lane = lane;
    setup(&k, &spec);
    held_unit *u = state_unit(&k.state, 0);
    float *shard =
        state_shard(&k.state, u, 0); /* old values, which the first lane must not add to */
    for (size_t i = 0; i < state_slice(&k.state, u, 0).count; i++) shard[i] = 5;
    uint64_t before = sent(&k), counted = 0;
    for (int m = 0; m < LANE_MICROS; m++) {
        instr i = program_instr(REDUCE, 0, m);
        i.reduce = spec_zero(&spec)->full_grads ? -1 : m % 2;
        OK(step_wait(&k.run, &i));
        make_lane(&k, &i, each);
        if (!spec_ends_lane(&spec, m)) continue;
        counted += part_REDUCE.bytes(&k.state, &k.program, &i);
        OK(part_REDUCE.run(&k.run, &i));
    }
    OK(step_finish_reductions(&k.run));
    assert_true(sent(&k) - before == counted);
    flat_part own = state_owned(&k.state, u, 0);
    const float *g = state_grad(&k.state, u, 0, own);
    for (size_t i = 0; i < own.count && own.begin + i < COUNT; i++) {
        size_t n = own.begin + i;
        assert_true(g[i] == sum_of_lanes(0, each, n) + sum_of_lanes(1, each, n));
    }
    destroy(&k);
}

static void lanes_are_added_in_order(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++)
        for (int lane = 0; lane < 3; lane++) check_lanes((trine_zero)zero, lane);
}

/* Lanes l, l + D, ... of micro-batches: the m-th of a rank belongs to its lane m / J. */
static void micro_batches_of_lanes(void **state) {
    (void)state;
    program_spec spec = spec_of(TRINE_ZERO_1);
    assert_int_equal(spec_micro_number(&spec, 2, 1, 2), 5); /* without lanes 2 x 2 + 1 */
    spec.micros = 6, spec.parallel.exact = true, spec.lane = 2;
    /* K 12, D 6, dp 2: rank 1 plays lanes 1, 3, 5. */
    static const int numbers[] = {1, 7, 3, 9, 5, 11};
    for (int m = 0; m < 6; m++) {
        assert_int_equal(spec_micro_number(&spec, 2, 1, m), numbers[m]);
        assert_int_equal(spec_begins_lane(&spec, m), m % 2 == 0);
        assert_int_equal(spec_ends_lane(&spec, m), m % 2 == 1);
    }
    assert_int_equal(spec_reduces(&spec), 3);
    spec.lane = 1;
    for (int m = 0; m < 6; m++) assert_int_equal(spec_micro_number(&spec, 2, 1, m), 2 * m + 1);
    spec.lane = 2, spec.forward_only = true;
    assert_int_equal(spec_micro_number(&spec, 2, 1, 1), 3);
}

/* One of the ranks with the same slice saves it and counts its squares. */
static void one_of_the_same_is_the_first(void **state) {
    (void)state;
    rank k;
    program_spec spec = spec_of(TRINE_ZERO_3);
    setup(&k, &spec);
    flat_range range = state_unit(&k.state, 0)->layout.ranges[0];
    range.sharded = AXIS(TRINE_AXIS_TP); /* replicated along dp */
    assert_int_equal(state_first_replica(&k.state, &range), k.state.config.coord.dp == 0);
    destroy(&k);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_all_ranks),
        cmocka_unit_test(lanes_are_added_in_order),
        cmocka_unit_test(micro_batches_of_lanes),
        cmocka_unit_test(one_of_the_same_is_the_first),
    };
    return HARNESS_RUN(argc, argv, tests);
}
