/* TEST np=0 */
/* The search finds what trying every layout finds: the same best ones, to the bit. */
#include "near.h"

#include <stdlib.h>

#include "cost/hardware.h"
#include "plan/search.h"

/* A machine on which some layouts do not fit. */
static hardware machine(double bytes) {
    return (hardware){.matmul_rate = 1e13,
                      .matmul_rate_fp32 = 5e12,
                      .matmul_efficiency = 0.8,
                      .tile_rows = 64,
                      .tile_columns = 64,
                      .tile_depth = 32,
                      .processors = 16,
                      .memory_rate = 2e11,
                      .memory_efficiency = 0.7,
                      .memory_bytes = bytes,
                      .launch_time = 2e-6,
                      .node_ranks = 4,
                      .node_rate = 2e10,
                      .node_efficiency = 0.7,
                      .node_latency = 3e-6,
                      .network_cards = 1,
                      .network_rate = 1e10,
                      .network_efficiency = 0.7,
                      .network_latency = 1e-5,
                      .message_efficiency = 0.8};
}

static search_space space_of(const char *model, int layers, int hidden, int ranks,
                             const hardware *h) {
    search_space s = {.ranks = ranks,
                      .rules = {.machine = h, .by = implementation_of(IMPLEMENTATION_TRINE)}};
    s.base = trine_config_default();
    OK(trine_model_preset(&s.base.model, model));
    s.base.model.num_layers = layers;
    s.base.model.hidden_size = hidden;
    s.base.model.num_attention_heads = 4;
    s.base.model.num_query_groups = 0;
    s.base.model.kv_channels = 0;
    s.base.model.ffn_hidden_size = 4 * hidden;
    s.base.model.seq_length = 128;
    s.base.model.vocab_size = 512;
    s.base.data.data_path = "(none)";
    s.base.parallel.device = "cpu";
    s.base.global_batch_size = 16;
    return s;
}

/* The step of a layout; INFINITY: it is not valid, or does not fit. */
static double step_of(const search_space *s, const search_layout *l) {
    search_space one = *s;
    search_result r;
    one.base = search_config(s, l);
    one.base.parallel.layout.dp = 0;
    one.fixed = (1u << SEARCH_DIMENSIONS) - 1;
    trine_status status = search_layouts(&one, &r);
    status_clear();
    return status == TRINE_OK && r.count ? r.best[0].step : INFINITY;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All layouts of these dimensions; the others are fixed, to keep the number small. */
static void check(search_space s) {
    static const trine_schedule schedules[] = {TRINE_1F1B, TRINE_INTERLEAVED, TRINE_ZB, TRINE_ZBV};
    static double steps[1 << 16];
    size_t count = 0;
    search_result r;
    OK(search_layouts(&s, &r));
    for (int tp = 1; tp <= 4 && tp <= s.ranks; tp *= 2)
        for (int pp = 1; tp * pp <= s.ranks; pp *= 2)
            for (int v = 1; v <= STAGE_CHUNKS / 4; v++)
                for (int k = 0; k < 4; k++)
                    for (int micro = 1; micro <= 64; micro *= 2)
                        for (int zero = 0; zero <= 3; zero++) {
                            if (tp * pp == s.ranks && zero) continue;
                            if (pp == 1 && k) continue;
                            if ((schedules[k] == TRINE_INTERLEAVED) != (v > 1) &&
                                schedules[k] != TRINE_ZBV)
                                continue;
                            if (schedules[k] == TRINE_ZBV && v != 2) continue;
                            search_layout l = {.value = {tp, pp, v, (int)schedules[k], zero, micro,
                                                         (int)s.base.parallel.recompute, 0}};
                            double step = step_of(&s, &l);
                            if (isfinite(step)) steps[count++] = step;
                        }
    qsort(steps, count, sizeof *steps, by_size);
    assert_int_equal(r.count, count < SEARCH_BEST ? count : SEARCH_BEST);
    for (int n = 0; n < r.count; n++)
        if (r.best[n].step != steps[n])
            fail_msg("%d ranks: layout %d of the search takes %.17g s, of all %.17g", s.ranks, n,
                     r.best[n].step, steps[n]);
}

static void the_search_is_that_of_brute_force(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int layers, hidden;
        double bytes;
    } models[] = {{"gpt2", 6, 64, 1e12}, {"gpt2", 4, 256, 2.5e7}, {"llama3.2-1b", 6, 128, 1e12}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int ranks = 2; ranks <= 8; ranks *= 4) {
            hardware h = machine(models[m].bytes);
            search_space s =
                space_of(models[m].model, models[m].layers, models[m].hidden, ranks, &h);
            s.fixed = 1u << SEARCH_RECOMPUTE | 1u << SEARCH_SEQUENCE;
            check(s);
        }
}

/* Parts of the first stage add up, and the bound is below each step. */
static void bounds_are_below(void **state) {
    (void)state;
    hardware h = machine(1e12);
    search_space s = space_of("gpt2", 6, 64, 8, &h);
    search_result r;
    OK(search_layouts(&s, &r));
    assert_int_equal(r.count, SEARCH_BEST);
    for (int n = 0; n < r.count; n++) {
        double sum = 0;
        for (int k = 0; k < FORECAST_PARTS; k++) sum += r.best[n].where[k];
        NEAR(sum, r.best[n].step, 1e-9 * r.best[n].step);
        assert_true(r.best[n].bound <= r.best[n].step * (1 + 1e-12));
    }
}

static void no_layout_is_an_error(void **state) {
    (void)state;
    hardware h = machine(1e12);
    search_space s = space_of("gpt2", 6, 64, 8, &h);
    search_result r;
    s.base.global_batch_size = 0;
    s.base.parallel.layout.tp = 3;
    s.fixed = 1u << SEARCH_TP;
    REFUSED(search_layouts(&s, &r), TRINE_EINVAL, "no layout of 8 ranks is valid");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_search_is_that_of_brute_force),
                                       cmocka_unit_test(bounds_are_below),
                                       cmocka_unit_test(no_layout_is_an_error)};
    return HARNESS_RUN_ALONE(tests);
}
