/* TEST np=0 */
/* A forecast of a long step from two short ones is that of its whole programs, and its parts add up. */
#include "near.h"

#include "plan/forecast.h"

static const hardware machine = {.matmul_rate = 1e13,
                                 .matmul_rate_fp32 = 5e12,
                                 .matmul_efficiency = 0.8,
                                 .tile_rows = 64,
                                 .tile_columns = 64,
                                 .processors = 16,
                                 .memory_rate = 2e11,
                                 .memory_efficiency = 0.7,
                                 .memory_bytes = 1e12,
                                 .launch_time = 2e-6,
                                 .node_ranks = 4,
                                 .node_rate = 2e10,
                                 .node_efficiency = 0.7,
                                 .network_cards = 1,
                                 .network_rate = 1e9,
                                 .network_efficiency = 0.7,
                                 .network_latency = 1e-5,
                                 .message_efficiency = 0.8};

static trine_config config_of(trine_schedule schedule, int virtual, trine_zero zero) {
    trine_config c = trine_config_default();
    c.model.num_layers = 8;
    c.model.hidden_size = 128;
    c.model.num_attention_heads = 4;
    c.model.seq_length = 64;
    c.model.vocab_size = 256;
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 2, .pp = 4};
    c.parallel.schedule = schedule;
    c.parallel.virtual_stages = virtual;
    c.parallel.zero = zero;
    c.micro_batch_size = 1;
    c.global_batch_size = 2 * 27000; /* steady_worth */
    return c;
}

static void check(const trine_config *c) {
    const forecast_rules rules = {.machine = &machine,
                                  .by = implementation_of(IMPLEMENTATION_TRINE)};
    rehearsal whole, part;
    forecast a, b;
    OK(rehearse(&whole, c, 0, REHEARSE_PROGRAMS));
    OK(rehearse(&part, c, 0, REHEARSE_PLAN));
    assert_true(part.is_steady && !whole.is_steady);
    OK(forecast_step(&whole, &rules, &a));
    OK(forecast_step(&part, &rules, &b));
    NEAR(b.step, a.step, 1e-9 * a.step);
    for (int p = 0; p < a.stages; p++) {
        double sum = 0;
        for (int k = 0; k < FORECAST_PARTS; k++) {
            NEAR(b.stage[p][k], a.stage[p][k], 1e-9 * a.step);
            sum += a.stage[p][k];
        }
        NEAR(sum, a.step, 1e-9 * a.step);
    }
    forecast_destroy(&a), forecast_destroy(&b);
    rehearsal_end(&whole), rehearsal_end(&part);
}

static void a_long_step_is_two_short_ones_continued(void **state) {
    (void)state;
    static const struct {
        trine_schedule schedule;
        int virtual;
        trine_zero zero;
    } rows[] = {{TRINE_INTERLEAVED, 2, TRINE_ZERO_1}, {TRINE_ZB, 1, TRINE_ZERO_2}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        trine_config c = config_of(rows[n].schedule, rows[n].virtual, rows[n].zero);
        check(&c);
    }
}

/* Replicas without stages wait for their sums alone; stages wait for messages. */
static void waiting_is_for_what_the_layout_has(void **state) {
    (void)state;
    static const trine_layout rows[] = {{.dp = 1, .tp = 1, .pp = 4}, {.dp = 4, .tp = 1, .pp = 1}};
    const forecast_rules rules = {.machine = &machine,
                                  .by = implementation_of(IMPLEMENTATION_TRINE)};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        trine_config c = config_of(TRINE_1F1B, 1, TRINE_ZERO_1);
        double messages = 0, dp = 0;
        rehearsal r;
        forecast f;
        c.parallel.layout = rows[n];
        c.global_batch_size = 8 * rows[n].dp;
        OK(rehearse(&r, &c, 0, REHEARSE_PROGRAMS));
        OK(forecast_step(&r, &rules, &f));
        for (int p = 0; p < f.stages; p++)
            messages += f.stage[p][FORECAST_MESSAGES], dp += f.stage[p][FORECAST_DP];
        if (n) assert_true(dp > 0 && messages == 0);
        if (!n) assert_true(messages > 0);
        forecast_destroy(&f);
        rehearsal_end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_long_step_is_two_short_ones_continued),
                                       cmocka_unit_test(waiting_is_for_what_the_layout_has)};
    return HARNESS_RUN_ALONE(tests);
}
