/* TEST np=0 longer=train timeout=3600 */
/* The search finds what trying every layout finds, and no bound is above what it bounds: every layout that the
 * configuration's check accepts is rehearsed, its memory planned and its step forecast, and the ten fastest that fit are
 * those of the search, to the bit. `make check` has small spaces, TRINE_FULL=1 five models on 1 to 64 ranks. */
#include "near.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/mix.h"
#include "base/status.h"
#include "cost/hardware.h"
#include "plan/search.h"
#include "plan/search_bound.h"

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

/* ---- Spaces ------------------------------------------------------------------------------------ */

/* Heads of keys and values: 0: those of queries. */
typedef struct {
    const char *model;
    int layers, hidden, heads, groups, vocab, batch;
    const char *device;
    bool bf16;
    implementation_kind by;
    int lora; /* rank of adapters; 0: none */
} row;

static const row rows[] = {
    {"gpt2", 6, 64, 4, 0, 512, 16, "cpu", false, IMPLEMENTATION_TRINE, 0},
    {"gpt2", 8, 256, 8, 0, 1024, 24, "cuda", true, IMPLEMENTATION_MEGATRON_2021, 0},
    {"llama3.2-1b", 6, 128, 4, 2, 512, 16, "cuda", true, IMPLEMENTATION_TRINE, 0},
    {"qwen3-0.6b", 5, 128, 8, 4, 4096, 32, "cuda", true, IMPLEMENTATION_MEGATRON_2022, 0},
    {"mistral-7b", 7, 192, 4, 4, 2048, 16, "cpu", true, IMPLEMENTATION_TRINE, 0},
    {"llama3.2-1b", 6, 128, 4, 2, 512, 16, "cuda", true, IMPLEMENTATION_TRINE, 4},
    {"gpt2", 5, 64, 4, 0, 512, 16, "cpu", false, IMPLEMENTATION_TRINE, 16},
};
enum { ROWS = sizeof rows / sizeof *rows };

static search_space space_of(const row *r, int ranks, const hardware *h) {
    search_space s = {.ranks = ranks, .rules = {.machine = h, .by = implementation_of(r->by)}};
    s.base = trine_config_default();
    OK(trine_model_preset(&s.base.model, r->model));
    s.base.model.num_layers = r->layers;
    s.base.model.hidden_size = r->hidden;
    s.base.model.num_attention_heads = r->heads;
    s.base.model.num_query_groups = r->groups;
    s.base.model.kv_channels = 0;
    s.base.model.ffn_hidden_size = 4 * r->hidden;
    s.base.model.seq_length = 128;
    s.base.model.vocab_size = r->vocab;
    s.base.model.lora.rank = r->lora;
    s.base.precision.bf16 = r->bf16;
    s.base.data.data_path = "(none)";
    s.base.parallel.device = r->device;
    s.base.global_batch_size = r->batch;
    return s;
}

/* ---- Every layout ------------------------------------------------------------------------------ */

typedef struct {
    double step, seconds; /* forecast, and its bound */
    double bytes, least;  /* planned, and their bound */
} layout;

/* All valid layouts of a space, and how near the bounds are. */
typedef struct {
    layout *at;
    int count, room;
    double nearest, nearest_bytes; /* of bound over value, the largest */
    double sum, sum_bytes;
} tried;

static void try_layout(tried *t, const search_space *s, bounds *b, const trine_config *c) {
    rehearsal r;
    forecast f;
    layout_bound bound;
    layout l;
    size_t bytes;
    OK(rehearse(&r, c, s->ranks, REHEARSE_PLAN));
    OK(forecast_step(&r, &s->rules, &f));
    OK(rehearsal_bytes(&r, &bytes));
    OK(bounds_of(b, &r.config, &bound));
    l = (layout){f.step, bound.seconds, (double)bytes, bound.bytes};
    if (l.seconds > l.step || l.least > l.bytes)
        fail_msg("%d ranks, dp %d tp %d pp %d, %d x schedule %d, zero %d, micro-batch %d, "
                 "recompute %d, sequence %d: "
                 "step %.17g, bound %.17g; %.0f bytes, bound %.0f",
                 s->ranks, r.config.parallel.layout.dp, r.config.parallel.layout.tp,
                 r.config.parallel.layout.pp, r.config.parallel.virtual_stages,
                 (int)r.config.parallel.schedule, (int)r.config.parallel.zero,
                 r.config.micro_batch_size, (int)r.config.parallel.recompute,
                 r.config.parallel.sequence_parallel, l.step, l.seconds, l.bytes, l.least);
    t->nearest = fmax(t->nearest, l.seconds / l.step);
    t->nearest_bytes = fmax(t->nearest_bytes, l.least / l.bytes);
    t->sum += l.seconds / l.step;
    t->sum_bytes += l.least / l.bytes;
    layout *more = grow(t->at, t->count, &t->room, sizeof *more);
    assert_non_null(more);
    t->at = more;
    t->at[t->count++] = l;
    forecast_destroy(&f);
    rehearsal_end(&r);
}

/* The schedules with their numbers of chunks, which have no other meaning elsewhere. */
static void try_schedules(tried *t, const search_space *s, bounds *b, trine_config c) {
    static const trine_schedule schedules[] = {TRINE_1F1B, TRINE_INTERLEAVED, TRINE_ZB, TRINE_ZBV};
    for (int k = 0; k < 4; k++)
        for (int v = 1; v <= STAGE_CHUNKS / 4; v++) {
            trine_config own = c;
            bool takes = schedules[k] == TRINE_INTERLEAVED ? v > 1
                         : schedules[k] == TRINE_ZBV       ? v == 2
                                                           : v == 1;
            if (!takes || (c.parallel.layout.pp == 1 && k)) continue;
            own.parallel.schedule = schedules[k];
            own.parallel.virtual_stages = v;
            if (trine_config_check(&own, s->ranks) != TRINE_OK) {
                status_clear();
                continue;
            }
            try_layout(t, s, b, &own);
        }
}

/* Recomputation and sequence parallelism: none, or all. */
static tried try_all(const search_space *s, bool all) {
    tried t = {0};
    bounds *b;
    trine_config c = s->base;
    trine_parallel *p = &c.parallel;
    OK(bounds_create(&b, &s->rules, &s->base, s->ranks));
    for (int n = 0; n < (all ? 6 : 1); n++)
        for (int tp = 1; tp <= 4 && tp <= s->ranks; tp++)
            for (int pp = 1; tp * pp <= s->ranks; pp++)
                for (int micro = 1; micro <= 64; micro *= 2)
                    for (int zero = 0; zero <= 3; zero++) {
                        if (s->ranks % (tp * pp) || (tp == 1 && n > 2)) continue;
                        if (tp * pp == s->ranks && zero) continue;
                        p->layout = (trine_layout){.dp = 0, .tp = tp, .pp = pp};
                        p->zero = (trine_zero)zero;
                        p->recompute = (trine_recompute)(n % 3);
                        p->sequence_parallel = n > 2;
                        c.micro_batch_size = micro;
                        try_schedules(&t, s, b, c);
                    }
    bounds_destroy(b);
    return t;
}

static int by_step(const void *a, const void *b) {
    const layout *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

static int by_bytes(const void *a, const void *b) {
    const layout *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The best of those that fit. */
static void compare(const search_space *s, const tried *t) {
    search_result r;
    double bytes = s->rules.machine->memory_bytes;
    int found = 0, fit = 0;
    OK(search_layouts(s, &r));
    assert_int_equal(r.valid, t->count);
    for (int n = 0; n < t->count; n++) fit += t->at[n].bytes <= bytes;
    assert_int_equal(r.count, fit < SEARCH_BEST ? fit : SEARCH_BEST);
    for (int n = 0; n < t->count && found < r.count; n++) {
        const layout *l = &t->at[n];
        if (l->bytes > bytes) continue;
        if (r.best[found].step != l->step)
            fail_msg("%d ranks: layout %d of the search takes %.17g s, of all %.17g", s->ranks,
                     found, r.best[found].step, l->step);
        found++;
    }
    assert_true(r.simulated <= r.valid - r.small);
}

/* With room for all, for half of them, and for one in ten. */
static void check(const row *of, int ranks, bool all) {
    hardware h = machine(1e12);
    search_space s = space_of(of, ranks, &h);
    if (!all) s.fixed = 1u << SEARCH_RECOMPUTE | 1u << SEARCH_SEQUENCE;
    tried t = try_all(&s, all);
    print_message("# %s, LoRA %d, on %d ranks: %d layouts; bounds over steps: mean %.3f, most "
                  "%.6f; over memory: "
                  "mean %.3f, most %.6f\n",
                  of->model, of->lora, ranks, t.count, t.sum / t.count, t.nearest,
                  t.sum_bytes / t.count, t.nearest_bytes);
    qsort(t.at, (size_t)t.count, sizeof *t.at, by_bytes);
    const double rooms[] = {1e12, t.at[t.count / 2].bytes, t.at[t.count / 10].bytes};
    qsort(t.at, (size_t)t.count, sizeof *t.at, by_step);
    for (size_t n = 0; n < sizeof rooms / sizeof *rooms; n++) {
        h.memory_bytes = rooms[n];
        compare(&s, &t);
    }
    free(t.at);
}

static void the_search_is_that_of_brute_force(void **state) {
    (void)state;
    bool full = getenv("TRINE_FULL") != NULL;
    for (int n = 0; n < ROWS - !full; n++)
        for (int ranks = 1; ranks <= (full ? 64 : 4); ranks *= 2) check(&rows[n], ranks, full);
    for (int n = 0; n < 2 && !full; n++) check(&rows[n], 6 + 2 * n, false);
}

/* ---- Any configuration ------------------------------------------------------------------------- */

static uint64_t drawn;

static int draw(int n) {
    return (int)(mix_bits(drawn++) % (uint64_t)n);
}

/* Options that a search keeps as they are given. */
static void draw_options(trine_config *c) {
    trine_parallel *p = &c->parallel;
    c->model.untied = draw(2);
    c->model.lora.rank = draw(3) ? 0 : 8;
    c->precision.grads = c->precision.bf16 && !draw(3) ? TRINE_BF16 : TRINE_F32;
    p->split_backward = !draw(3);
    p->recompute = (trine_recompute)draw(TRINE_RECOMPUTES);
    p->keep_recomputed = p->recompute == TRINE_RECOMPUTE_FULL && draw(2);
    p->gather_buffers = 1 + draw(3);
    p->reduce_buffers = 1 + draw(3);
    p->one_queue = draw(2);
    p->exact = !draw(6);
    p->exact_dp = p->exact ? 4 : 0;
    p->exact_tp = p->exact ? 2 : 0;
    p->loss_chunk = draw(2) * 64;
}

static void draw_layout(trine_config *c, int ranks) {
    trine_parallel *p = &c->parallel;
    p->layout = (trine_layout){.dp = 0, .tp = 1 + draw(4), .pp = 1 + draw(ranks)};
    p->schedule = (trine_schedule)draw(TRINE_SCHEDULES);
    p->virtual_stages = draw(5);
    p->zero = (trine_zero)draw(4);
    p->sequence_parallel = draw(2);
    c->micro_batch_size = 1 << draw(3);
}

/* Every schedule, every implementation, what can be left out, on machines whose links are slow or fast. */
static void bounds_hold_for_any_configuration(void **state) {
    (void)state;
    int wanted = getenv("TRINE_FULL") ? 20000 : 300;
    tried t = {0};
    for (int tries = 0; t.count < wanted; tries++) {
        assert_true(tries < 200 * wanted);
        hardware h = machine(1e12);
        h.network_rate /= 1 << draw(10);
        h.node_rate /= 1 << draw(6);
        int ranks = 1 + draw(12);
        search_space s = space_of(&rows[draw(ROWS)], ranks, &h);
        s.rules.by = implementation_of((implementation_kind)draw(IMPLEMENTATIONS));
        s.rules.without = draw(3) ? 0 : 1u << draw(COST_PARTS);
        draw_options(&s.base);
        draw_layout(&s.base, ranks);
        trine_config c = s.base;
        bounds *b;
        if (trine_config_check(&c, ranks) != TRINE_OK) {
            status_clear();
            continue;
        }
        OK(bounds_create(&b, &s.rules, &c, ranks));
        try_layout(&t, &s, b, &c);
        bounds_destroy(b);
    }
    print_message("# bounds over steps: mean %.3f, most %.6f; over memory: mean %.3f, most %.6f\n",
                  t.sum / t.count, t.nearest, t.sum_bytes / t.count, t.nearest_bytes);
    free(t.at);
}

/* Parts of the first stage add up. */
static void parts_add_up(void **state) {
    (void)state;
    hardware h = machine(1e12);
    search_space s = space_of(&rows[0], 8, &h);
    search_result r;
    OK(search_layouts(&s, &r));
    assert_int_equal(r.count, SEARCH_BEST);
    for (int n = 0; n < r.count; n++) {
        double sum = 0;
        for (int k = 0; k < FORECAST_PARTS; k++) sum += r.best[n].where[k];
        NEAR(sum, r.best[n].step, 1e-9 * r.best[n].step);
    }
}

static void no_layout_is_an_error(void **state) {
    (void)state;
    hardware h = machine(1e12);
    search_space s = space_of(&rows[0], 8, &h);
    search_result r;
    s.base.global_batch_size = 0;
    s.base.parallel.layout.tp = 3;
    s.fixed = 1u << SEARCH_TP;
    REFUSED(search_layouts(&s, &r), TRINE_EINVAL, "no layout of 8 ranks is valid");
}

int main(void) {
    const char *seed = getenv("TRINE_SEED");
    drawn = seed ? strtoull(seed, NULL, 10) << 32 : 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_search_is_that_of_brute_force),
                                       cmocka_unit_test(bounds_hold_for_any_configuration),
                                       cmocka_unit_test(parts_add_up),
                                       cmocka_unit_test(no_layout_is_an_error)};
    return HARNESS_RUN_ALONE(tests);
}
