/* A training step of one rank against its matmuls alone (products.h), both in this process, in
 * turns: matmuls, step, matmuls, step, ... A machine that is slower for a minute is so for both.
 * Flops are counted 6N + 6LCT a token, as matmul.c says. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "card.h"
#include "card_step.h"
#include "knobs.h"
#include "products.h"
#include "tokenfile.h"
#include "train/setup.h"

#define WARM_STEPS 2

static const bench_column columns[] = {
    {"T", "T", 5, 0},
    {"tokens_per_second", "tokens/s", 9, 1},
    {"step_seconds", "step s", 8, 3},
    {"step_best_seconds", "best s", 8, 3},
    {"matmul_seconds", "matmuls s", 9, 3},
    {"matmul_best_seconds", "best s", 8, 3},
    {"gflops", "GFLOP/s", 8, 1},
    {"matmul_gflops", "matmuls'", 8, 1},
    {"ratio", "ratio", 6, 3},
    {"ratio_best", "of best", 7, 3},
    {"seconds_over_matmuls", "step/matmuls", 12, 3},
};

typedef struct {
    trine_trainer *trainer;
    products *limit;
    bench_samples steps;
} race;

static trine_config config_of(const knobs *k, const trine_model *m, const char *path) {
    trine_config c = trine_config_default();
    c.model = *m;
    c.parallel.threads = k->threads;
    c.data.data_path = path;
    c.micro_batch_size = k->batch;
    c.global_batch_size = k->batch;
    c.train_iters = WARM_STEPS + k->reps;
    return c;
}

static trine_status run_race(race *x, int reps) {
    trine_metrics metrics;
    for (int i = 0; i < WARM_STEPS; i++) TRY(trine_trainer_step(x->trainer, &metrics));
    TRY(products_pass(x->limit, PASS_WARM));
    for (int i = 0; i < reps; i++) {
        TRY(products_pass(x->limit, PASS_KEEP));
        TRY(trine_trainer_step(x->trainer, &metrics));
        bench_add(&x->steps, metrics.seconds);
    }
    return products_pass(x->limit, PASS_KEEP);
}

static void report(bench_report *r, const race *x, const trine_model *m, double rows) {
    double flops = setup_flops_per_token(m) * rows, matmuls = products_step_flops(x->limit);
    double step = bench_median(&x->steps);
    double median = products_limit(x->limit, products_median);
    double best = products_limit(x->limit, products_best);
    double achieved = flops / step;
    bench_row(r, (bench_cell[]){{.number = m->seq_length},
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

static trine_status measure(bench_report *r, const knobs *k, trine_world *world, int seq) {
    trine_model m = k->model;
    m.seq_length = seq;
    size_t rows = (size_t)k->batch * (size_t)seq;
    tokenfile text;
    race *x = calloc(1, sizeof *x);
    CHECK(x, TRINE_ENOMEM, "no memory for samples");
    trine_status status = tokenfile_create(&text, k->dir, m.vocab_size, 64 * rows + 1);
    if (status == TRINE_OK) {
        trine_config c = config_of(k, &m, text.path);
        status = trine_trainer_create(&x->trainer, world, &c);
        if (status == TRINE_OK) status = products_create(&x->limit, &m, rows, &k->device);
        if (status == TRINE_OK) status = run_race(x, k->reps);
        if (status == TRINE_OK) report(r, x, &m, (double)rows);
        products_destroy(&x->limit);
        trine_trainer_destroy(&x->trainer);
        tokenfile_remove(&text);
    }
    free(x);
    return status;
}

static trine_status measure_all(bench_report *r, const knobs *k, trine_world *world) {
    char title[160];
    snprintf(title, sizeof title,
             "a training step of one rank, B %d, median of %d after %d; ratio: flops a second of "
             "the step / of its matmuls alone",
             k->batch, k->reps, WARM_STEPS);
    bench_table(r, "steps", title, columns, sizeof columns / sizeof *columns);
    TRY(measure(r, k, world, k->model.seq_length ? k->model.seq_length : 512));
    return k->model.seq_length ? TRINE_OK : measure(r, k, world, 64);
}

static trine_status run(const knobs *k, int *argc, char ***argv) {
    bench_report *r;
    trine_world *world;
    TRY(trine_world_create(&world, argc, argv));
    trine_status status = bench_report_open(&r, "step", k->json, k->threads, BENCH_LOUD);
    if (status == TRINE_OK) {
        if (!card_is(&k->device)) knobs_report(k, r);
        status = card_is(&k->device) ? card_step(r, k, world) : measure_all(r, k, world);
        if (status == TRINE_OK) status = bench_report_close(&r);
        bench_report_drop(&r);
    }
    trine_world_destroy(&world);
    return status;
}

int main(int argc, char **argv) {
    knobs k = knobs_default();
    trine_status status = knobs_parse(&k, argc, argv, "A training step against its matmuls alone.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k, &argc, &argv));
}
