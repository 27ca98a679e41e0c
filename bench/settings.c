/* The cost of a training option: the same model, samples and threads with and without it, as two alternating jobs
 * (alternate.h). fp32 unless the row says bf16.
 *
 * The limit of bf16 is its speedup of the matmuls alone (tables of `matmul`). Full recomputation repeats the
 * blocks' forward passes except the last product of each: its row has the share of the matmuls' flops that are done
 * twice. Every row has the ratio of the flops that the models count: what adapters on a frozen base could save, were a
 * step made of products alone. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/status.h"
#include "bench_options.h"
#include "memory.h"
#include "tokenfile.h"
#include "plan/resolve.h"
#include "alternate.h"

typedef struct {
    const char *name, *title;
    int tp; /* ranks; the total number of threads is the same */
    bool bf16;
    trine_recompute recompute;
    bool sequence, exact_threads;
    double dropout;
    bool base_bf16;
    int exact_tp; /* > 0: exact, in so many parts of tp */
    int dp,
        exact_dp; /* dp > 0: on so many replicas, with ZeRO-1 and four micro-batches each; exact_dp > 0: exact */
    bool ring, trace; /* the recorder (docs/seeing.md), on two ranks, which have calls to record */
    bool profile;
    int lora; /* rank of adapters */
    const char *targets;
} setting;

static const setting settings[] = {
    {.name = "bf16", .title = "bf16", .tp = 1, .bf16 = true},
    {.name = "selective", .title = "recompute selective", .tp = 1, .recompute = 1},
    {.name = "full", .title = "recompute full", .tp = 1, .recompute = 2},
    {.name = "full-bf16",
     .title = "recompute full, bf16",
     .tp = 1,
     .recompute = 2,
     .bf16 = true,
     .base_bf16 = true},
    {.name = "sequence", .title = "sequence parallel, tp 2", .tp = 2, .sequence = true},
    {.name = "dropout", .title = "dropout 0.1", .tp = 1, .dropout = 0.1},
    {.name = "exact", .title = "exact threads", .tp = 1, .exact_threads = true},
    {.name = "exact-bf16",
     .title = "exact threads, bf16",
     .tp = 1,
     .exact_threads = true,
     .bf16 = true,
     .base_bf16 = true},
    {.name = "exact-parts", .title = "--exact, 2 parts of tp", .tp = 1, .exact_tp = 2},
    {.name = "exact-four", .title = "--exact, 4 parts of tp", .tp = 1, .exact_tp = 4},
    {.name = "exact-tp", .title = "--exact, tp 2", .tp = 2, .exact_tp = 2},
    {.name = "exact-dp", .title = "--exact, dp 2", .tp = 1, .dp = 2, .exact_dp = 2},
    {.name = "exact-micro", .title = "--exact, dp 2, D = K", .tp = 1, .dp = 2, .exact_dp = 8},
    {.name = "ring", .title = "ring of two steps, tp 2", .tp = 2, .ring = true},
    {.name = "trace", .title = "--trace of all, tp 2", .tp = 2, .trace = true},
    {.name = "profile", .title = "--profile", .tp = 1, .profile = true},
    {.name = "lora-bf16",
     .title = "LoRA, rank 16, bf16",
     .tp = 1,
     .bf16 = true,
     .base_bf16 = true,
     .lora = 16,
     .targets = ""},
    {.name = "lora-all-bf16",
     .title = "LoRA of all, bf16",
     .tp = 1,
     .bf16 = true,
     .base_bf16 = true,
     .lora = 16,
     .targets = "all-linear"},
};

static const bench_column columns[] = {
    {"setting", "setting", 24, BENCH_TEXT},
    {"step_seconds", "step s", 8, 3},
    {"step_best_seconds", "best s", 8, 3},
    {"without_seconds", "without", 8, 3},
    {"without_best_seconds", "best s", 8, 3},
    {"slower", "time with/without", 17, 3},
    {"faster", "faster by", 9, 3},
    {"again", "recomputed", 11, 3},
    {"flops", "flops with/without", 18, 3},
};

typedef struct {
    const bench_options *k;
    bench_report *report;
    alternate_listener *table;
    tokenfile text;
    char trace[PATH_MAX]; /* the file of the setting of that name */
} bench;

static int ranks_of(const setting *s) {
    return s->tp * (s->dp ? s->dp : 1);
}

static trine_config config_of(const bench *b, const setting *s) {
    trine_config c = trine_config_default();
    c.model = b->k->model;
    c.parallel.layout = (trine_layout){.dp = s->dp ? s->dp : 1, .tp = s->tp, .pp = 1};
    c.parallel.threads = b->k->threads / ranks_of(s);
    c.data.data_path = b->text.path;
    c.micro_batch_size = c.global_batch_size = b->k->batch;
    if (s->dp) c.parallel.zero = TRINE_ZERO_1;
    if (s->dp) c.global_batch_size *= 4 * s->dp;
    c.train_iters = 1 << 20;
    return c;
}

static void apply(const bench *b, trine_config *c, const setting *s) {
    if (s->trace) c->trace = (trine_trace){.file = b->trace, .steps = {1, b->k->reps + 1}};
    c->precision.bf16 = s->bf16;
    c->parallel.recompute = s->recompute;
    c->parallel.sequence_parallel = s->sequence;
    c->parallel.exact_threads = s->exact_threads;
    c->parallel.exact = s->exact_tp > 0 || s->exact_dp > 0;
    c->parallel.exact_tp = s->exact_tp;
    c->parallel.exact_dp = s->exact_dp;
    c->model.hidden_dropout = c->model.attention_dropout = s->dropout;
    c->model.lora.rank = s->lora;
    if (s->lora) snprintf(c->model.lora.targets, sizeof c->model.lora.targets, "%s", s->targets);
}

/* The fraction of the step's matmul flops (forward once, backward twice) that full recomputation repeats:
 * the blocks' forward passes except the product of the output. */
static double flops_again(const trine_config *c) {
    trine_model m = c->model;
    if (c->parallel.recompute != TRINE_RECOMPUTE_FULL) return (double)NAN;
    if (!m.ffn_hidden_size) m.ffn_hidden_size = 4 * m.hidden_size;
    double last = 2.0 * m.hidden_size * m.ffn_hidden_size;
    return m.num_layers * (gpt_unit_cost(&m, m.seq_length, 1) - last) / gpt_flops_per_token(&m);
}

/* The median of the pairs' ratios: the two of a pair follow each other, so that a machine whose speed changes from
 * minute to minute counts less than in the ratio of two medians. */
static double slower(const bench_samples *without, const bench_samples *with) {
    bench_samples ratios = {0};
    for (int n = 0; n < with->count && n < BENCH_SAMPLES; n++)
        bench_add(&ratios, with->value[n] / without->value[n]);
    return bench_median(&ratios);
}

static void add_row(bench *b, const setting *v, const trine_config *c, const bench_samples *s) {
    double flops = gpt_flops_per_token(&c->model) / gpt_flops_per_token(&b->k->model);
    double without = bench_median(&s[0]), with = bench_median(&s[1]), ratio = slower(&s[0], &s[1]);
    bench_row(b->report, (bench_cell[]){{.text = v->title},
                                        {.number = with},
                                        {.number = bench_min(&s[1])},
                                        {.number = without},
                                        {.number = bench_min(&s[0])},
                                        {.number = ratio},
                                        {.number = 1 / ratio},
                                        {.number = flops_again(c)},
                                        {.number = flops}});
}

static bool has_exact_threads(bool bf16) {
    const device_config config = {.kind = DEVICE_CPU,
                                  .threads = 1,
                                  .compute = bf16 ? TRINE_BF16 : TRINE_F32,
                                  .exact_threads = true};
    device *d;
    if (device_open_with(&d, &config) != TRINE_OK) return false;
    trine_status status = device_prepare_linear(d, false, 64, 64, 64);
    device_close(&d);
    status_clear();
    return status == TRINE_OK;
}

/* The reason why the setting cannot be measured here; NULL if it can. */
static const char *obstacle(const bench *b, const setting *v) {
    bench_options one;
    if (ranks_of(v) > b->k->threads) return "two ranks of one thread need two cores";
    bool half = v->bf16 || v->base_bf16;
    if (half && !bench_options_with(b->k, b->report, TRINE_BF16, &one))
        return "no bf16 on this processor";
    if (v->exact_threads && !has_exact_threads(v->bf16))
        return "oneDNN has no brgemm on this processor";
    return NULL;
}

static trine_status measure(bench *b, const setting *v) {
    trine_config without = config_of(b, v), with = without;
    const trine_run run = {.profile = v->profile};
    uint64_t first, second, there = memory_available();
    const char *why = obstacle(b, v);
    without.precision.bf16 = v->base_bf16;
    without.trace.no_ring = v->ring;
    apply(b, &with, v);
    if (!why) {
        TRY(memory_planned(&without, &first));
        TRY(memory_planned(&with, &second));
        if (first + second >= there / 10 * 9) why = "two jobs do not fit into the free memory";
    }
    if (why) {
        bench_skip(b->report, "%s: %s", v->name, why);
        return TRINE_OK;
    }
    bench_samples *s = calloc(2, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for samples");
    trine_status status =
        alternate_compare(b->table, &without, &with, &run, b->k->reps, &s[0], &s[1]);
    if (status == TRINE_OK) add_row(b, v, &with, s);
    free(s);
    return status;
}

static trine_status check_only(const char *only) {
    char names[512] = "";
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (!only || !strcmp(only, settings[i].name)) return TRINE_OK;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", settings[i].name);
    }
    return status_user(
        RAISE(TRINE_EINVAL, "--only %s: unknown setting; use one of %s", only, names));
}

static trine_status measure_all(bench *b) {
    char title[160];
    snprintf(
        title, sizeof title,
        "a step with a setting and without, T %d, %d samples, %d threads in all, medians of %d "
        "alternating runs",
        b->k->model.seq_length, b->k->batch, b->k->threads, b->k->reps);
    bench_table(b->report, "settings", title, columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!b->k->only || !strcmp(b->k->only, settings[i].name)) TRY(measure(b, &settings[i]));
    return TRINE_OK;
}

static trine_status measure_with_text(bench *b) {
    const trine_model *m = &b->k->model;
    size_t tokens = 64 * (size_t)b->k->batch * (size_t)m->seq_length + 1;
    TRY(tokenfile_create(&b->text, b->k->dir, m->vocab_size, tokens));
    snprintf(b->trace, sizeof b->trace, "%s/trace.json", b->text.dir);
    trine_status status = alternate_open(&b->table, b->text.dir);
    if (status == TRINE_OK) status = alternate_trace(b->table, b->k->trace);
    if (status == TRINE_OK) status = measure_all(b);
    alternate_close(&b->table);
    unlink(b->trace);
    tokenfile_remove(&b->text);
    return status;
}

static trine_status run(const bench_options *k) {
    bench b = {.k = k};
    TRY(status_user(bench_options_host_only(k, "settings")));
    TRY(check_only(k->only));
    TRY(bench_report_open(&b.report, "settings", k->json, 2, BENCH_LOUD));
    bench_options_report(k, b.report);
    trine_status status = measure_with_text(&b);
    if (status == TRINE_OK) return bench_report_close(&b.report);
    bench_report_drop(&b.report);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    k.reps = 3;
    k.model.seq_length = 512;
    trine_status status =
        bench_options_parse(&k, argc, argv, "A step with a setting and without it.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
