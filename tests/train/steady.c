/* TEST np=0 */
/* The plan of a long step that is made from short ones has the numbers of the whole step's programs: buffers, traffic and
 * idle time of every stage, for every schedule, ZeRO stage and queue. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "plan/report.h"
#include "pp/pp.h"
#include "run/compose.h"
#include "trine.h"

typedef struct {
    trine_config config;
    program_spec spec;
    program *whole;
    device *dev;
    steady steady;
} plan;

static trine_config config_of(trine_schedule schedule, int pp, int zero, int variant, int micros) {
    trine_config c = trine_config_default();
    c.model = (trine_model){.num_layers = 6,
                            .hidden_size = 32,
                            .num_attention_heads = 4,
                            .seq_length = 16,
                            .vocab_size = 101,
                            .untied = variant == 2};
    c.data.data_path = "(none)";
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = pp};
    c.parallel.schedule = schedule;
    c.parallel.zero = (trine_zero)zero;
    c.parallel.one_queue = variant == 1;
    c.parallel.split_backward = variant == 2;
    c.parallel.recompute = variant == 3 ? TRINE_RECOMPUTE_FULL : TRINE_RECOMPUTE_NONE;
    c.parallel.keep_recomputed = variant == 3;
    c.parallel.device = variant == 1 ? "cuda" : "cpu";
    c.global_batch_size = 2 * micros;
    return c;
}

static void open_plan(plan *p) {
    device_config dev;
    OK(trine_config_check(&p->config, axes_size(p->config.parallel.layout, ALL_AXES)));
    OK(resolve_spec(&p->config, &p->spec));
    OK(compose_all(&p->spec, &p->whole, NULL));
    OK(resolve_device(&p->config, &dev));
    OK(device_open_sizes(&p->dev, &dev));
}

static void close_plan(plan *p) {
    compose_destroy(&p->spec, &p->whole);
    pp_place_end(&p->spec);
    device_close_sizes(&p->dev);
}

static void same_buffers(const program *a, const program *b) {
    assert_int_equal(a->slots, b->slots);
    assert_int_equal(a->streams, b->streams);
    assert_int_equal(a->keeps, b->keeps);
    assert_memory_equal(a->gathers, b->gathers, sizeof a->gathers);
    assert_memory_equal(a->reduces, b->reduces, sizeof a->reduces);
}

static void same_traffic(const plan *p, int stage) {
    gpt_shape shape = resolve_shape(&p->config, p->dev, 0);
    rank_state h;
    state_config hc =
        resolve_state(&p->config, p->whole, &shape, p->dev, (trine_coord){.pp = stage});
    OK(state_create(&h, &hc));
    traffic whole = traffic_of(&h, &p->whole[stage]), got = steady_traffic(&p->steady, &h, stage);
    assert_memory_equal(&whole, &got, sizeof whole);
    state_destroy(&h);
}

/* On a GPU the host has room for the batches of a step. */
static void same_memory(const plan *p, int stage) {
    report r = {.config = &p->config, .stages = p->whole, .dev = p->dev}, s = r;
    arena whole, got;
    s.stages = p->steady.stages, s.steady = &p->steady;
    OK(report_plan(&r, stage, &whole));
    OK(report_plan(&s, stage, &got));
    assert_memory_equal(whole.bytes, got.bytes, sizeof whole.bytes);
    assert_int_equal(whole.used, got.used);
    assert_int_equal(whole.shared_used, got.shared_used);
    assert_int_equal(whole.exchanged.used, got.exchanged.used);
    assert_int_equal(whole.host.used, got.host.used);
}

static int found, missed;

static void compare(trine_schedule schedule, int pp, int zero, int variant, int micros) {
    plan p = {.config = config_of(schedule, pp, zero, variant, micros)};
    bool periodic;
    open_plan(&p);
    OK(steady_create(&p.steady, &p.spec, &periodic));
    *(periodic ? &found : &missed) += 1;
    if (periodic) {
        assert_int_equal(p.steady.stages->spec->micros, micros);
        for (int s = 0; s < pp; s++) {
            same_buffers(&p.steady.stages[s], &p.whole[s]);
            same_memory(&p, s);
            same_traffic(&p, s);
        }
        double idle = isnan(pp_bubble(&p.spec)) ? pp_idle(p.whole) : NAN;
        assert_true(isnan(idle) ? isnan(p.steady.idle) : fabs(idle - p.steady.idle) < 1e-12);
        steady_destroy(&p.steady);
    }
    close_plan(&p);
}

static void long_steps_are_those_of_their_programs(void **state) {
    (void)state;
    for (int schedule = 0; schedule < TRINE_SCHEDULES; schedule++)
        for (int pp = 1; pp <= 4; pp *= 2)
            for (int zero = 0; zero <= 3; zero++)
                for (int variant = 0; variant < 4; variant++)
                    compare((trine_schedule)schedule, pp, zero, variant, 97 + 13 * variant + zero);
    print_message("# %d plans are periodic, %d are not\n", found, missed);
    assert_true(found > 9 * missed); /* the others are composed as a whole */
}

/* Steps that are not long are composed, whatever they are. */
static void short_steps_are_not_worth_it(void **state) {
    (void)state;
    trine_config c = config_of(TRINE_1F1B, 2, 0, 0, 1000);
    program_spec spec;
    OK(trine_config_check(&c, 8));
    OK(resolve_spec(&c, &spec));
    assert_false(steady_worth(&spec));
    spec.micros = 1000000;
    assert_true(steady_worth(&spec));
    pp_place_end(&spec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_steps_are_those_of_their_programs),
        cmocka_unit_test(short_steps_are_not_worth_it),
    };
    return HARNESS_RUN_ALONE(tests);
}
