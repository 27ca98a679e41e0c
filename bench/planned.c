/* Forecasts held to the clock: a step of twenty layouts of one and two ranks, predicted from one hardware file
 * (trine-doctor --write-hardware) and measured on this machine. A row is within its limit if the prediction is within
 * 10% of the median step, or within twice the distance of the measured quartiles; and its planned memory is what the
 * ranks have taken, to the byte. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "alternate.h"
#include "bench_options.h"
#include "plan/forecast.h"
#include "plan/report.h"
#include "tokenfile.h"

#define TINY "tiny"
#define GPT  "--model gpt2 --vocab-size 50257 --seq-length 256 --global-batch-size 4 "
#define SMOL "--model smollm2-135m --seq-length 256 --global-batch-size 4 "
#define LLAMA                                                                                      \
    "--model llama3.2-1b --num-layers 3 --vocab-size 16384 --seq-length 256 --global-batch-size "  \
    "4 --bf16 "

static const struct {
    const char *name;
    int ranks;
    const char *options;
} rows[] = {
    {"gpt2, 1 rank, micro-batch 1", 1, GPT "--micro-batch-size 1"},
    {"gpt2, 1 rank, micro-batch 4", 1, GPT "--micro-batch-size 4"},
    {"gpt2, 1 rank, recomputed", 1, GPT "--micro-batch-size 2 --recompute-granularity full"},
    {"gpt2, dp2 zero0", 2, GPT "--dp 2 --micro-batch-size 1"},
    {"gpt2, dp2 zero1", 2, GPT "--dp 2 --zero 1 --micro-batch-size 2"},
    {"gpt2, dp2 zero2", 2, GPT "--dp 2 --zero 2 --micro-batch-size 1"},
    {"gpt2, dp2 zero3", 2, GPT "--dp 2 --zero 3 --micro-batch-size 2"},
    {"gpt2, tp2", 2, GPT "--tp 2 --micro-batch-size 2"},
    {"gpt2, tp2 sequence", 2, GPT "--tp 2 --sequence-parallel --micro-batch-size 1"},
    {"gpt2, pp2 1f1b", 2, GPT "--pp 2 --micro-batch-size 1"},
    {"gpt2, pp2 gpipe", 2, GPT "--pp 2 --schedule gpipe --micro-batch-size 2"},
    {"gpt2, pp2 interleaved", 2,
     GPT "--pp 2 --schedule interleaved --num-virtual-stages-per-pipeline-rank 2 "
         "--micro-batch-size 1"},
    {"gpt2, pp2 zb", 2, GPT "--pp 2 --schedule zb --micro-batch-size 1"},
    {"gpt2, pp2 zbv", 2, GPT "--pp 2 --schedule zbv --micro-batch-size 1"},
    {"smollm2, 1 rank", 1, SMOL "--micro-batch-size 2"},
    {"smollm2, dp2 zero1", 2, SMOL "--dp 2 --zero 1 --micro-batch-size 1"},
    {"smollm2, pp2 1f1b", 2, SMOL "--pp 2 --micro-batch-size 1"},
    {"smollm2, pp2 zb", 2, SMOL "--pp 2 --schedule zb --micro-batch-size 1"},
    {"llama bf16, 1 rank", 1, LLAMA "--micro-batch-size 2"},
    {"llama bf16, tp2", 2, LLAMA "--tp 2 --micro-batch-size 2"},
    /* Only where --only asks for it: for a look, and for tests. */
    {TINY, 2,
     "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 16384 --seq-length 64 "
     "--global-batch-size 4 --dp 2 --zero 1 --micro-batch-size 1"},
};

static const bench_column columns[] = {
    {"layout", "layout", 27, BENCH_TEXT},
    {"planned_seconds", "planned s", 9, 4},
    {"step_seconds", "step s", 8, 4},
    {"quartile_1", "quartiles", 9, 4},
    {"quartile_3", "", 8, 4},
    {"error_percent", "error %", 7, 1},
    {"limit_percent", "limit %", 7, 1},
    {"planned_bytes", "planned bytes", 13, 0},
    {"taken_bytes", "taken", 11, 0},
    {"within", "within", 6, BENCH_TEXT},
};

typedef struct {
    const bench_options *k;
    bench_report *report;
    alternate_listener *table;
    tokenfile text;
    hardware machine;
    double errors, worst;
    int rows, within;
} bench;

enum { ROW_OPTIONS = 512, ROW_WORDS = 48 };

/* ---- Prediction ------------------------------------------------------------------------------ */

static trine_status read_options(const bench *b, const char *options, trine_config *config) {
    static char text[ROW_OPTIONS]; /* config points into it */
    static trine_run run;
    char *words[ROW_WORDS] = {(char *)(uintptr_t) "planned"}, *rest = NULL;
    int count = 1;
    snprintf(text, sizeof text, "%s --data-path %s", options, b->text.path);
    for (char *w = strtok_r(text, " ", &rest); w && count < ROW_WORDS;
         w = strtok_r(NULL, " ", &rest))
        words[count++] = w;
    return trine_parse(count, words, config, &run);
}

/* The rank that takes the most, as its metrics have it. */
static trine_status plan_bytes(const rehearsal *r, double *bytes) {
    report of = {.config = &r->config, .stages = r->stages, .dev = r->dev};
    *bytes = 0;
    for (int p = 0; p < r->spec.stages; p++) {
        arena plan;
        TRY(report_plan(&of, p, &plan));
        *bytes = fmax(*bytes, (double)(plan.used + report_transport_bytes(&of, p)));
    }
    return TRINE_OK;
}

static trine_status predict(const bench *b, const char *options, int ranks, double *seconds,
                            double *bytes) {
    const forecast_rules rules = {.machine = &b->machine,
                                  .by = implementation_of(IMPLEMENTATION_TRINE)};
    trine_config config;
    rehearsal r;
    forecast f;
    TRY(read_options(b, options, &config));
    config.parallel.threads = b->k->threads / ranks > 1 ? b->k->threads / ranks : 1;
    trine_status status = rehearse(&r, &config, ranks, REHEARSE_PROGRAMS);
    if (status == TRINE_OK) status = plan_bytes(&r, bytes);
    if (status == TRINE_OK) status = forecast_step(&r, &rules, &f);
    if (status == TRINE_OK) *seconds = f.step;
    if (status == TRINE_OK) forecast_destroy(&f);
    rehearsal_end(&r);
    return status;
}

/* ---- A row ----------------------------------------------------------------------------------- */

static trine_status measure_steps(bench *b, alternate_job *job, bench_samples *steps,
                                  double *bytes) {
    alternate_answer a;
    for (int n = -1; n < b->k->reps; n++) {
        TRY(alternate_give(job, (alternate_order){.kind = ALTERNATE_STEPS, .count = 1}, &a));
        if (n >= 0) bench_add(steps, a.value[0]);
        *bytes = a.value[1];
    }
    return TRINE_OK;
}

static void add_row(bench *b, const char *name, const bench_samples *steps, double planned,
                    double bytes, double taken) {
    double step = bench_median(steps), low = bench_quantile(steps, 0.25),
           high = bench_quantile(steps, 0.75), error = planned / step - 1,
           limit = fmax(0.1, 2 * (high - low) / step);
    const char *within = bytes != taken ? "BYTES" : fabs(error) > limit ? "no" : "yes";
    b->rows++;
    b->within += !strcmp(within, "yes");
    b->errors += fabs(error);
    b->worst = fmax(b->worst, fabs(error));
    bench_row(b->report, (bench_cell[]){{.text = name},
                                        {.number = planned},
                                        {.number = step},
                                        {.number = low},
                                        {.number = high},
                                        {.number = 100 * error},
                                        {.number = 100 * limit},
                                        {.number = bytes},
                                        {.number = taken},
                                        {.text = within}});
}

static trine_status measure(bench *b, size_t row) {
    char options[ROW_OPTIONS];
    bench_samples steps = {0};
    alternate_job *job;
    double planned = 0, bytes = 0, taken = 0;
    if (!strstr(rows[row].name, b->k->only ? b->k->only : "")) return TRINE_OK;
    if (!b->k->only && !strcmp(rows[row].name, TINY)) return TRINE_OK;
    TRY(predict(b, rows[row].options, rows[row].ranks, &planned, &bytes));
    snprintf(options, sizeof options, "%s --train-iters 1000000 --data-path %s", rows[row].options,
             b->text.path);
    TRY(alternate_start_options(&job, b->table, rows[row].ranks, options));
    trine_status status = measure_steps(b, job, &steps, &taken);
    alternate_end(&job);
    if (status == TRINE_OK) add_row(b, rows[row].name, &steps, planned, bytes, taken);
    return status;
}

/* ---- All rows -------------------------------------------------------------------------------- */

static trine_status measure_all(bench *b) {
    char title[160];
    snprintf(title, sizeof title, "a step by the forecast and by the clock, median of %d",
             b->k->reps);
    bench_table(b->report, "planned", title, columns, sizeof columns / sizeof *columns);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) TRY(measure(b, n));
    bench_note(b->report, "  %d of %d rows are within the limits; mean error %.1f%%, worst %.1f%%",
               b->within, b->rows, 100 * b->errors / (b->rows ? b->rows : 1), 100 * b->worst);
    bench_figure(b->report, "rows", b->rows);
    bench_figure(b->report, "within", b->within);
    bench_figure(b->report, "mean_error", b->errors / (b->rows ? b->rows : 1));
    bench_figure(b->report, "worst_error", b->worst);
    return TRINE_OK;
}

static trine_status measure_with_text(bench *b) {
    TRY(tokenfile_create(&b->text, b->k->dir, 16384, 1 << 18));
    trine_status status = alternate_open(&b->table, b->text.dir);
    if (status == TRINE_OK) status = measure_all(b);
    alternate_close(&b->table);
    tokenfile_remove(&b->text);
    return status;
}

static trine_status run(bench *b) {
    const bench_options *k = b->k;
    TRY(status_user(bench_options_host_only(k, "planned")));
    if (!k->hardware)
        return status_user(RAISE(TRINE_EINVAL, "--hardware is missing: a file that trine-doctor "
                                               "--write-hardware has written on this machine"));
    TRY(status_user(hardware_read(&b->machine, k->hardware)));
    TRY(bench_report_open(&b->report, "planned", k->json, k->threads, BENCH_LOUD));
    trine_status status = measure_with_text(b);
    if (status == TRINE_OK) return bench_report_close(&b->report);
    bench_report_drop(&b->report);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    trine_status status = bench_options_parse(
        &k, argc, argv,
        "Steps of twenty layouts, predicted from --hardware and measured. --only takes a part of "
        "a row's name, such as \"pp2\" or \"smollm2\".");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    bench *b = calloc(1, sizeof *b);
    if (!b) return bench_exit(RAISE(TRINE_ENOMEM, "no memory"));
    b->k = &k;
    status = run(b);
    free(b);
    return bench_exit(status);
}
