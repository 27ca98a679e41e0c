/* Two ranks of one thread compared with one rank with two threads, for the same model, samples and
 * micro-batch size: the cost of a dimension on one machine. Both jobs are alive at the same time and
 * compute alternately (alternate.h).
 *
 * A pipeline cannot reach 1: its bound is (1 - bubble) x balance. The bubble of the schedule is
 * (P-1)/(M+P-1); balance is the mean cost of the stages over that of the heaviest one, from measured
 * times of the units' forward and backward passes on one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/status.h"
#include "bench_options.h"
#include "memory.h"
#include "tokenfile.h"
#include "plan/resolve.h"
#include "alternate.h"

typedef struct {
    const char *name;
    trine_layout layout;
    trine_zero zero;
} variant;

static const variant variants[] = {
    {"dp", {.dp = 2, .tp = 1, .pp = 1}, TRINE_ZERO_1},
    {"tp", {.dp = 1, .tp = 2, .pp = 1}, TRINE_ZERO_0},
    {"pp", {.dp = 1, .tp = 1, .pp = 2}, TRINE_ZERO_0},
};

static const bench_column columns[] = {
    {"layout", "layout", 10, BENCH_TEXT},
    {"tokens_per_second", "tokens/s", 9, 1},
    {"one_rank_tokens_per_second", "one rank", 9, 1},
    {"ratio", "ratio", 6, 3},
    {"step_seconds", "step s", 8, 3},
    {"step_best_seconds", "best s", 8, 3},
    {"one_rank_step_seconds", "one rank", 8, 3},
    {"one_rank_step_best_seconds", "best s", 8, 3},
    {"bubble", "bubble", 6, 3},
    {"balance", "balance", 7, 3},
    {"bound", "bound", 6, 3},
    {"share", "of bound", 8, 3},
};

typedef struct {
    const bench_options *k;
    bench_report *report;
    alternate_listener *table;
    tokenfile text;
} bench;

static trine_config config_of(const bench *b, trine_layout layout, int threads) {
    trine_config c = trine_config_default();
    c.model = b->k->model;
    c.parallel.layout = layout;
    c.parallel.threads = threads;
    c.data.data_path = b->text.path;
    c.micro_batch_size = b->k->batch;
    c.global_batch_size = b->k->batch * b->k->micros;
    c.train_iters = 1 << 20;
    return c;
}

/* ---- A pipeline's bound ---- */

/* The mean stage over the heaviest one. cost: embedding, block, head. */
static double balance_of(const program_spec *spec, const double cost[ALTERNATE_VALUES]) {
    double sum = 0, most = 0;
    for (int p = 0; p < spec->stages; p++) {
        double stage = 0;
        for (int n = 0; n < spec_stage_units(spec, p); n++) {
            stage += cost[alternate_role(spec, spec_stage_unit(spec, p, n))];
        }
        sum += stage;
        if (stage > most) most = stage;
    }
    return sum / spec->stages / most;
}

static trine_status measure_balance(bench *b, const trine_config *c, double *balance) {
    trine_config alone = config_of(b, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 1), checked = *c;
    program_spec spec;
    alternate_job *job;
    alternate_answer cost;
    TRY(trine_config_check(&checked, 2));
    TRY(resolve_spec(&checked, &spec));
    TRY(alternate_start(&job, b->table, &alone));
    trine_status status =
        alternate_give(job, (alternate_order){.kind = ALTERNATE_UNITS, .count = b->k->reps}, &cost);
    alternate_end(&job);
    TRY(status);
    *balance = balance_of(&spec, cost.value);
    bench_note(b->report,
               "  a micro-batch on one thread, forward and backward: embedding %.4f s, a block "
               "%.4f s, head %.4f s",
               cost.value[0], cost.value[1], cost.value[2]);
    bench_figure(b->report, "embedding_seconds", cost.value[0]);
    bench_figure(b->report, "block_seconds", cost.value[1]);
    bench_figure(b->report, "head_seconds", cost.value[2]);
    return TRINE_OK;
}

/* ---- One layout ---- */

static void add_row(bench *b, const variant *v, const trine_config *c, const bench_samples *s,
                    double balance) {
    double tokens = (double)c->global_batch_size * c->model.seq_length;
    double one = bench_median(&s[0]), two = bench_median(&s[1]), ratio = one / two;
    int stages = v->layout.pp, micros = c->global_batch_size / c->micro_batch_size / v->layout.dp;
    program_spec pipeline = {.stages = stages, .micros = micros, .parallel.schedule = TRINE_1F1B};
    double bubble = stages > 1 ? pp_bubble(&pipeline) : (double)NAN;
    double bound = (1 - bubble) * balance;
    char name[40];
    snprintf(name, sizeof name, "%s 2%s", v->name, v->zero ? " zero 1" : "");
    bench_row(b->report, (bench_cell[]){{.text = name},
                                        {.number = tokens / two},
                                        {.number = tokens / one},
                                        {.number = ratio},
                                        {.number = two},
                                        {.number = bench_min(&s[1])},
                                        {.number = one},
                                        {.number = bench_min(&s[0])},
                                        {.number = bubble},
                                        {.number = balance},
                                        {.number = bound},
                                        {.number = ratio / bound}});
}

/* Sets *fits; reports why not. */
static trine_status check_memory(bench *b, const variant *v, const trine_config *one,
                                 const trine_config *two, bool *fits) {
    uint64_t first, second, there = memory_available();
    TRY(memory_planned(one, &first));
    TRY(memory_planned(two, &second));
    char need[HUMAN_SIZE], have[HUMAN_SIZE];
    *fits = first + second < there / 10 * 9;
    if (!*fits)
        bench_skip(b->report, "%s: needs %s of memory; %s are free", v->name,
                   human_bytes(need, first + second), human_bytes(have, there));
    return TRINE_OK;
}

static trine_status measure(bench *b, const variant *v) {
    trine_config one = config_of(b, (trine_layout){.dp = 1, .tp = 1, .pp = 1}, 2),
                 two = config_of(b, v->layout, 1);
    two.parallel.zero = v->zero;
    bool fits = false;
    TRY(check_memory(b, v, &one, &two, &fits));
    if (!fits) return TRINE_OK;
    double balance = (double)NAN;
    if (v->layout.pp > 1) TRY(measure_balance(b, &two, &balance));
    bench_samples *s = calloc(2, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for samples");
    trine_status status = alternate_compare(b->table, &one, &two, NULL, b->k->reps, &s[0], &s[1]);
    if (status == TRINE_OK) add_row(b, v, &two, s, balance);
    free(s);
    return status;
}

static trine_status check_only(const char *only) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (!only || !strcmp(only, variants[i].name)) return TRINE_OK;
    return status_user(RAISE(TRINE_EINVAL, "--only %s: unknown layout; use dp, tp or pp", only));
}

static trine_status measure_all(bench *b) {
    char title[160];
    snprintf(title, sizeof title,
             "two ranks of one thread, compared with one rank with two, T %d, %d samples per step, "
             "medians of %d alternating runs",
             b->k->model.seq_length, b->k->batch * b->k->micros, b->k->reps);
    bench_table(b->report, "layouts", title, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (!b->k->only || !strcmp(b->k->only, variants[i].name)) TRY(measure(b, &variants[i]));
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

static trine_status run(const bench_options *k) {
    bench b = {.k = k};
    TRY(status_user(bench_options_host_only(k, "layouts")));
    TRY(check_only(k->only));
    TRY(bench_report_open(&b.report, "layouts", k->json, 2, BENCH_LOUD));
    bench_options_report(k, b.report);
    trine_status status = TRINE_OK;
    if (k->threads < 2)
        bench_skip(b.report, "two ranks of one thread need two cores; the affinity mask has %d",
                   k->threads);
    else
        status = measure_with_text(&b);
    if (status == TRINE_OK) return bench_report_close(&b.report);
    bench_report_drop(&b.report);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.reps = 3;
    k.model.seq_length = 512;
    trine_status status =
        bench_options_parse(&k, argc, argv, "Two ranks compared with one, by layout.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
