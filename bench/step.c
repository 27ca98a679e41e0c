/* A training step of one rank compared with its matmuls alone (products.h), in fp32 and in bf16, all four
 * alternately in this process: matmuls, step, matmuls, step, ... So a machine that is slower for a minute is slower
 * for all.
 * Flops are counted 6N + 6LCT a token (matmul.c). */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu.h"
#include "gpu_step.h"
#include "bench_options.h"
#include "products.h"
#include "tokenfile.h"
#include "plan/resolve.h"

#define WARM_STEPS 2

static const bench_column columns[] = {
    {"T", "T", 5, 0},
    {"type", "type", 4, BENCH_TEXT},
    {"tokens_per_second", "tokens/s", 9, 1},
    {"step_seconds", "step s", 8, 3},
    {"step_best_seconds", "best s", 8, 3},
    {"matmul_seconds", "matmuls s", 9, 3},
    {"matmul_best_seconds", "best s", 8, 3},
    {"gflops", "GFLOP/s", 8, 1},
    {"matmul_gflops", "matmuls", 8, 1},
    {"ratio", "ratio", 6, 3},
    {"ratio_best", "of best", 7, 3},
    {"seconds_over_matmuls", "step/matmuls", 12, 3},
};

enum { FP32, BF16, TYPES };

static const trine_dtype types[TYPES] = {[FP32] = TRINE_F32, [BF16] = TRINE_BF16};
static const char *const type_names[TYPES] = {[FP32] = "fp32", [BF16] = "bf16"};

/* Of one type; trainer and limit are NULL if it is not measured. */
typedef struct {
    trine_trainer *trainer;
    products *limit;
    bench_samples steps;
} runner;

typedef struct {
    runner of[TYPES];
} race;

static trine_config config_of(const bench_options *k, const trine_model *m, const char *path) {
    trine_config c = trine_config_default();
    c.model = *m;
    c.parallel.threads = k->threads;
    c.precision.bf16 = k->device.compute == TRINE_BF16;
    c.data.data_path = path;
    c.micro_batch_size = k->batch;
    c.global_batch_size = k->batch;
    c.train_iters = WARM_STEPS + k->reps;
    return c;
}

static trine_status warm(runner *x) {
    trine_metrics metrics;
    for (int i = 0; i < WARM_STEPS; i++) TRY(trine_trainer_step(x->trainer, &metrics));
    return products_pass(x->limit, PASS_WARM);
}

static trine_status run_once(runner *x) {
    trine_metrics metrics;
    TRY(products_pass(x->limit, PASS_KEEP));
    TRY(trine_trainer_step(x->trainer, &metrics));
    bench_add(&x->steps, metrics.seconds);
    return TRINE_OK;
}

static trine_status run_race(race *x, int reps) {
    for (int t = 0; t < TYPES; t++)
        if (x->of[t].trainer) TRY(warm(&x->of[t]));
    for (int i = 0; i < reps; i++)
        for (int t = 0; t < TYPES; t++)
            if (x->of[t].trainer) TRY(run_once(&x->of[t]));
    for (int t = 0; t < TYPES; t++)
        if (x->of[t].trainer) TRY(products_pass(x->of[t].limit, PASS_KEEP));
    return TRINE_OK;
}

static void report(bench_report *r, const runner *x, const char *type, const trine_model *m,
                   double rows) {
    double flops = gpt_flops_per_token(m) * rows, matmuls = products_step_flops(x->limit);
    double step = bench_median(&x->steps);
    double median = products_limit(x->limit, products_median);
    double best = products_limit(x->limit, products_best);
    double achieved = flops / step;
    bench_row(r, (bench_cell[]){{.number = m->seq_length},
                                {.text = type},
                                {.number = rows / step},
                                {.number = step},
                                {.number = bench_min(&x->steps)},
                                {.number = median},
                                {.number = best},
                                {.number = 1e-9 * achieved},
                                {.number = 1e-9 * matmuls / median},
                                {.number = achieved / (matmuls / median)},
                                {.number = achieved / (matmuls / best)},
                                {.number = step / median}});
}

static void compare(bench_report *r, const race *x, int seq) {
    const runner *fp32 = &x->of[FP32], *bf16 = &x->of[BF16];
    if (!fp32->trainer || !bf16->trainer) return;
    double step = bench_median(&fp32->steps) / bench_median(&bf16->steps);
    double matmuls =
        products_limit(fp32->limit, products_median) / products_limit(bf16->limit, products_median);
    char key[48];
    bench_note(r, "  T %d, bf16 over fp32: the step %.2f times as fast, its matmuls alone %.2f",
               seq, step, matmuls);
    snprintf(key, sizeof key, "T%d_bf16_over_fp32", seq);
    bench_figure(r, key, step);
    snprintf(key, sizeof key, "T%d_matmuls_bf16_over_fp32", seq);
    bench_figure(r, key, matmuls);
}

static trine_status make(bench_report *r, race *x, const bench_options *k, trine_world *world,
                         const trine_model *m, const char *path) {
    for (int t = 0; t < TYPES; t++) {
        bench_options typed;
        if (!bench_options_with(k, r, types[t], &typed)) continue;
        trine_config c = config_of(&typed, m, path);
        TRY(trine_trainer_create(&x->of[t].trainer, world, &c));
        TRY(products_create(&x->of[t].limit, m, (size_t)k->batch * (size_t)m->seq_length,
                            &typed.device));
    }
    return TRINE_OK;
}

static void destroy(race *x) {
    for (int t = 0; t < TYPES; t++) {
        products_destroy(&x->of[t].limit);
        trine_trainer_destroy(&x->of[t].trainer);
    }
    free(x);
}

static trine_status measure(bench_report *r, const bench_options *k, trine_world *world, int seq) {
    trine_model m = k->model;
    m.seq_length = seq;
    size_t rows = (size_t)k->batch * (size_t)seq;
    tokenfile text;
    race *x = calloc(1, sizeof *x);
    CHECK(x, TRINE_ENOMEM, "no memory for samples");
    trine_status status = tokenfile_create(&text, k->dir, m.vocab_size, 64 * rows + 1);
    if (status == TRINE_OK) {
        status = make(r, x, k, world, &m, text.path);
        if (status == TRINE_OK) status = run_race(x, k->reps);
        for (int t = 0; status == TRINE_OK && t < TYPES; t++)
            if (x->of[t].trainer) report(r, &x->of[t], type_names[t], &m, (double)rows);
        if (status == TRINE_OK) compare(r, x, seq);
        tokenfile_remove(&text);
    }
    destroy(x);
    return status;
}

static trine_status measure_all(bench_report *r, const bench_options *k, trine_world *world) {
    char title[160];
    snprintf(title, sizeof title,
             "a training step of one rank, B %d, median of %d after %d; ratio: flops per second of "
             "the step / of its matmuls alone",
             k->batch, k->reps, WARM_STEPS);
    bench_table(r, "steps", title, columns, sizeof columns / sizeof *columns);
    TRY(measure(r, k, world, k->model.seq_length ? k->model.seq_length : 512));
    return k->model.seq_length ? TRINE_OK : measure(r, k, world, 64);
}

static trine_status run(const bench_options *k, int *argc, char ***argv) {
    bench_report *r;
    trine_world *world;
    TRY(trine_world_create(&world, argc, argv));
    trine_status status = bench_report_open(&r, "step", k->json, k->threads, BENCH_LOUD);
    if (status == TRINE_OK) {
        if (!bench_gpu_is(&k->device)) bench_options_report(k, r);
        status = bench_gpu_is(&k->device) ? bench_gpu_step(r, k, world) : measure_all(r, k, world);
        if (status == TRINE_OK) status = bench_report_close(&r);
        bench_report_drop(&r);
    }
    trine_world_destroy(&world);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    trine_status status =
        bench_options_parse(&k, argc, argv, "A training step, compared with its matmuls alone.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k, &argc, &argv));
}
