/* Schedules compared with 1F1B: two ranks of one thread, the same model and samples. Both jobs are alive at the same
 * time and compute alternately (alternate.h), a step each; a pair gives a ratio.
 *
 * The limit of a ratio is that of the simulated steps (passes.h) with the times of the passes in the same pair: what a
 * schedule would gain if messages took no time and no stage waited for anything but data. "units" is the ratio if all
 * blocks, and forward pass, input gradient and weight gradients, cost the same. A ratio that is lower than "units"
 * because the limit is lower tells that the split backward pass costs more than the whole, or that chunks differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench_options.h"
#include "tokenfile.h"
#include "plan/resolve.h"
#include "pp/simulate.h"
#include "alternate.h"

#define STAGES 2

typedef struct {
    const char *name;
    trine_schedule schedule;
    int virtual;
} variant;

static const variant base = {"1f1b", TRINE_1F1B, 1};
static const variant variants[] = {{"interleaved V2", TRINE_INTERLEAVED, 2},
                                   {"zb V1", TRINE_ZB, 1},
                                   {"zb V2", TRINE_ZB, 2},
                                   {"zbv", TRINE_ZBV, 2}};

static const bench_column columns[] = {
    {"schedule", "schedule", 14, BENCH_TEXT},
    {"step_seconds", "step s", 7, 4},
    {"base_seconds", "1f1b s", 7, 4},
    {"ratio", "ratio", 6, 3},
    {"ratio_low", "quarter", 7, 3},
    {"ratio_high", "3 quarters", 10, 3},
    {"units", "units", 6, 3},
    {"simulated", "simulated", 9, 3},
    {"share", "ratio/simulated", 15, 3},
    {"share_low", "quarter", 7, 3},
    {"share_high", "3 quarters", 10, 3},
};

static const bench_column pass_columns[] = {
    {"schedule", "schedule", 14, BENCH_TEXT},
    {"forward_ms", "F ms", 7, 3},
    {"backward_ms", "B ms", 7, 3},
    {"input_ms", "I ms", 7, 3},
    {"weight_ms", "W ms", 7, 3},
    {"embedding_ms", "embedding", 9, 3},
    {"head_ms", "head", 7, 3},
    {"update_ms", "update", 7, 3},
    {"simulated_seconds", "simulated s", 11, 4},
    {"step_seconds", "step s", 7, 4},
    {"overhead", "over", 6, 3},
};

/* One of two jobs. */
typedef struct {
    trine_config config;
    program_spec spec;
    program *stages;
    alternate_job *job;
    bench_samples step, forecast, pass[PASS_ROLES][PASS_KINDS], update;
} side;

typedef struct {
    const bench_options *k;
    bench_report *report;
    alternate_listener *table;
    tokenfile text;
    side one, two; /* 1F1B, the other */
    bench_samples ratio, simulated, share;
} bench;

/* ---- Jobs ------------------------------------------------------------------------------------ */

static trine_config config_of(const bench *b, const variant *v) {
    trine_config c = trine_config_default();
    c.model = b->k->model;
    c.parallel.layout = (trine_layout){.dp = 1, .tp = 1, .pp = STAGES};
    c.parallel.schedule = v->schedule;
    c.parallel.virtual_stages = v->virtual;
    c.parallel.threads = 1;
    c.data.data_path = b->text.path;
    c.micro_batch_size = b->k->batch;
    c.global_batch_size = b->k->batch * b->k->micros;
    c.train_iters = 1 << 20;
    return c;
}

static trine_status start(const bench *b, side *s, const variant *v) {
    *s = (side){.config = config_of(b, v)};
    TRY(trine_config_check(&s->config, STAGES));
    TRY(resolve_spec(&s->config, &s->spec));
    TRY(compose_all(&s->spec, &s->stages, NULL));
    return alternate_start(&s->job, b->table, &s->config);
}

static void end(side *s) {
    alternate_end(&s->job);
    if (s->stages) compose_destroy(&s->spec, &s->stages);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The mean over the ranks that have such a pass; 0: none has. */
static double mean_of(const alternate_answer *a, pass_role role, pass_kind kind) {
    double sum = 0;
    int count = 0;
    for (int p = 0; p < STAGES; p++) {
        sum += a[p].passes.of[role][kind];
        count += a[p].passes.of[role][kind] > 0;
    }
    return count ? sum / count : 0;
}

static trine_status step(side *s, double *seconds, double *forecast) {
    alternate_answer a[STAGES];
    pass_times times[STAGES];
    pass_forecast f;
    double update = 0;
    TRY(alternate_give_all(s->job, (alternate_order){.kind = ALTERNATE_PASSES, .count = 1}, a));
    *seconds = 0;
    for (int p = 0; p < STAGES; p++) {
        times[p] = a[p].passes;
        if (a[p].value[0] > *seconds) *seconds = a[p].value[0];
        if (times[p].update > update) update = times[p].update;
    }
    TRY(pass_simulate(s->stages, times, &f));
    *forecast = f.step;
    bench_add(&s->step, *seconds);
    bench_add(&s->forecast, f.step);
    bench_add(&s->update, update);
    for (int r = 0; r < PASS_ROLES; r++)
        for (int k = 0; k < PASS_KINDS; k++)
            bench_add(&s->pass[r][k], mean_of(a, (pass_role)r, (pass_kind)k));
    return TRINE_OK;
}

static trine_status race(bench *b) {
    alternate_answer ignored;
    alternate_order warm = {.kind = ALTERNATE_STEPS, .count = 1};
    TRY(alternate_give(b->one.job, warm, &ignored));
    TRY(alternate_give(b->two.job, warm, &ignored));
    for (int n = 0; n < b->k->reps; n++) {
        double one, two, one_forecast, two_forecast;
        TRY(step(&b->one, &one, &one_forecast));
        TRY(step(&b->two, &two, &two_forecast));
        bench_add(&b->ratio, one / two);
        bench_add(&b->simulated, one_forecast / two_forecast);
        bench_add(&b->share, one / two / (one_forecast / two_forecast));
    }
    return TRINE_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Seconds if a forward pass of the whole model takes as many as there are chunks. */
static trine_status unit_seconds(const side *s, double *seconds) {
    pp_times t;
    TRY(pp_simulate(s->stages, pp_unit_cost, NULL, NULL, &t));
    *seconds = t.makespan / spec_chunks(&s->spec);
    pp_times_destroy(&t);
    return TRINE_OK;
}

static double ms(const bench_samples *s) {
    return 1e3 * bench_median(s);
}

/* Kept until all rows of the first table are printed. */
typedef struct {
    const char *name;
    double ms[PASS_KINDS], embedding, head, update, simulated, step;
} pass_row;

static pass_row passes_of(const side *s, const char *name) {
    pass_row r = {.name = name,
                  .update = ms(&s->update),
                  .simulated = bench_median(&s->forecast),
                  .step = bench_median(&s->step)};
    for (int k = 0; k < PASS_KINDS; k++) {
        r.ms[k] = ms(&s->pass[PASS_BLOCK][k]);
        r.embedding += ms(&s->pass[PASS_EMBEDDING][k]);
        r.head += ms(&s->pass[PASS_HEAD][k]);
    }
    return r;
}

static void add_passes(bench *b, const pass_row *r) {
    bench_row(b->report, (bench_cell[]){{.text = r->name},
                                        {.number = r->ms[PASS_FORWARD]},
                                        {.number = r->ms[PASS_BACKWARD]},
                                        {.number = r->ms[PASS_INPUT]},
                                        {.number = r->ms[PASS_WEIGHT]},
                                        {.number = r->embedding},
                                        {.number = r->head},
                                        {.number = r->update},
                                        {.number = r->simulated},
                                        {.number = r->step},
                                        {.number = r->step / r->simulated}});
}

static trine_status add_row(bench *b, const variant *v) {
    double one = 0, two = 0;
    TRY(unit_seconds(&b->one, &one));
    TRY(unit_seconds(&b->two, &two));
    bench_row(b->report, (bench_cell[]){{.text = v->name},
                                        {.number = bench_median(&b->two.step)},
                                        {.number = bench_median(&b->one.step)},
                                        {.number = bench_median(&b->ratio)},
                                        {.number = bench_quantile(&b->ratio, 0.25)},
                                        {.number = bench_quantile(&b->ratio, 0.75)},
                                        {.number = one / two},
                                        {.number = bench_median(&b->simulated)},
                                        {.number = bench_median(&b->share)},
                                        {.number = bench_quantile(&b->share, 0.25)},
                                        {.number = bench_quantile(&b->share, 0.75)}});
    return TRINE_OK;
}

static trine_status measure(bench *b, const variant *v) {
    b->ratio = b->simulated = b->share = (bench_samples){0};
    b->two = (side){0};
    trine_status status = start(b, &b->one, &base);
    if (status == TRINE_OK) status = start(b, &b->two, v);
    if (status == TRINE_OK) status = race(b);
    if (status == TRINE_OK) status = add_row(b, v);
    end(&b->two);
    end(&b->one);
    return status;
}

/* ---- The program ----------------------------------------------------------------------------- */

static trine_status measure_all(bench *b) {
    enum { COUNT = sizeof variants / sizeof *variants };
    pass_row passes[COUNT + 1];
    int rows = 0;
    char title[160];
    snprintf(title, sizeof title,
             "two ranks of one thread, %d micro-batches of %d tokens; medians and quartiles of %d "
             "alternating pairs",
             b->k->micros, b->k->batch * b->k->model.seq_length, b->k->reps);
    bench_table(b->report, "schedules", title, columns, sizeof columns / sizeof *columns);
    for (int n = 0; n < COUNT; n++) {
        if (b->k->only && strcmp(b->k->only, variants[n].name) != 0) continue;
        TRY(measure(b, &variants[n]));
        if (!rows) passes[rows++] = passes_of(&b->one, base.name);
        passes[rows++] = passes_of(&b->two, variants[n].name);
    }
    bench_table(b->report, "passes", "a pass of a block on a micro-batch, and the step",
                pass_columns, sizeof pass_columns / sizeof *pass_columns);
    for (int n = 0; n < rows; n++) add_passes(b, &passes[n]);
    return TRINE_OK;
}

static trine_status measure_with_text(bench *b) {
    const trine_model *m = &b->k->model;
    size_t tokens = 64 * (size_t)(b->k->batch * b->k->micros) * (size_t)m->seq_length + 1;
    TRY(tokenfile_create(&b->text, b->k->dir, m->vocab_size, tokens));
    trine_status status = alternate_open(&b->table, b->text.dir);
    if (status == TRINE_OK) status = alternate_trace(b->table, b->k->trace);
    if (status == TRINE_OK) status = measure_all(b);
    alternate_close(&b->table);
    tokenfile_remove(&b->text);
    return status;
}

static trine_status measure_on(bench_report *r, const bench_options *k) {
    if (k->threads < STAGES) {
        bench_skip(r, "two ranks of one thread need two cores; the affinity mask has %d",
                   k->threads);
        return TRINE_OK;
    }
    bench *b = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for samples");
    b->k = k;
    b->report = r;
    trine_status status = measure_with_text(b);
    free(b);
    return status;
}

static trine_status run(const bench_options *k) {
    const trine_model *m = &k->model;
    bench_report *r;
    TRY(status_user(bench_options_host_only(k, "schedules")));
    TRY(bench_report_open(&r, "schedules", k->json, STAGES, BENCH_LOUD));
    bench_note(r, "   %d layers, hidden %d, heads %d, T %d, vocabulary %d", m->num_layers,
               m->hidden_size, m->num_attention_heads, m->seq_length, m->vocab_size);
    trine_status status = measure_on(r, k);
    if (status == TRINE_OK) return bench_report_close(&r);
    bench_report_drop(&r);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.model = (trine_model){.num_layers = 8,
                            .hidden_size = 256,
                            .num_attention_heads = 4,
                            .seq_length = 512,
                            .vocab_size = 256};
    k.batch = 1;
    k.micros = 4;
    k.reps = 9;
    trine_status status = bench_options_parse(&k, argc, argv,
                                              "Pipeline schedules on two ranks, compared with "
                                              "1F1B. --only takes a name, such as \"zb V2\".");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
