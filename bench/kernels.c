/* Everything in a step that is no matmul, operator by operator, on the model's own sizes.
 *
 * What is bound by memory is held against the triad a = b + s c (McCalpin, "STREAM", 1995), run in
 * between with the same threads on arrays four times the last-level cache. Bytes are those that
 * memory must move when each operand is read or written once: what is only written counts twice,
 * because its line is read first (write-allocate), what is updated in place counts as read and
 * written; so the triad has 16 bytes an element, not STREAM's 12. Who reads an operand twice comes
 * out below 1, who writes around the cache (as memset may) above. Each call finds operands that
 * were not touched just before.
 *
 * Attention is bound by arithmetic: flops of the triangle, 2 B T^2 C forward, twice that backward
 * (the recomputation is not counted), against oneDNN's rate on a block's matmuls. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/ops.h"
#include "knobs.h"
#include "machine.h"
#include "products.h"

#define POOLS 5 /* of floats; the first holds the logits too */
#define LR    1e-4f
#define TEXTS 32 /* sets of tokens, so that not the same rows of the table come again and again */

typedef struct {
    device *dev;
    size_t B, T, C, H, F, V, L, rows; /* rows = B T */
    size_t block;                     /* parameters of a block */
    float *pool[POOLS];
    size_t count[POOLS];
    int32_t *tokens; /* (TEXTS, rows) */
    float *max, *sums, *stat, *lse;
    void *work; /* of attention */
    size_t work_bytes;
} place;

/* ---- The operators: one call on the operands at element `at` of the pools ---- */

typedef trine_status run_kernel(place *p, size_t at);

#define POOL(i) (p->pool[i] + at)
#define OPS     p->dev->ops

static trine_status norm_forward(place *p, size_t at) {
    return OPS->norm_forward(p->dev, POOL(1), p->stat, p->pool[3], p->pool[4], POOL(2), p->rows,
                             p->C);
}

static trine_status norm_backward(place *p, size_t at) {
    return OPS->norm_backward(p->dev, POOL(1), p->pool[4], p->pool[4] + p->C, POOL(2), p->pool[4],
                              POOL(3), p->stat, p->rows, p->C, GRAD_ADD, GRAD_ADD);
}

static trine_status gelu_forward(place *p, size_t at) {
    return OPS->gelu_forward(p->dev, POOL(1), POOL(2), p->rows * p->F);
}

static trine_status gelu_backward(place *p, size_t at) {
    return OPS->gelu_backward(p->dev, POOL(1), POOL(1), POOL(2), p->rows * p->F);
}

static trine_status bias_residual(place *p, size_t at) {
    return OPS->bias_residual(p->dev, POOL(1), p->pool[3], POOL(2), p->rows, p->C);
}

static trine_status bias_backward(place *p, size_t at) {
    return OPS->bias_backward(p->dev, p->pool[3], POOL(1), p->rows, p->F, GRAD_ADD);
}

static trine_status xent_max(place *p, size_t at) {
    return OPS->xent_max(p->dev, p->max, POOL(0), p->rows, p->V, p->V);
}

static trine_status xent_sums(place *p, size_t at) {
    return OPS->xent_sums(p->dev, p->sums, POOL(0), p->max, p->tokens, 0, p->rows, p->V, p->V);
}

static trine_status xent_backward(place *p, size_t at) {
    return OPS->xent_backward(p->dev, POOL(0), p->max, p->sums, p->tokens, 0, 1.0f, p->rows, p->V,
                              p->V);
}

static const int32_t *tokens_at(const place *p, size_t at) {
    return p->tokens + at / (p->rows * p->C) % TEXTS * p->rows;
}

static trine_status embedding_forward(place *p, size_t at) {
    return OPS->embedding_forward(p->dev, POOL(1), p->pool[0], tokens_at(p, at), 0, p->rows, p->C,
                                  p->V);
}

static trine_status embedding_backward(place *p, size_t at) {
    return OPS->embedding_backward(p->dev, p->pool[0], POOL(1), tokens_at(p, at), 0, p->rows, p->C,
                                   p->V, GRAD_ADD);
}

static trine_status position_forward(place *p, size_t at) {
    return OPS->position_forward(p->dev, POOL(1), p->pool[2], p->B, p->T, p->C);
}

static trine_status position_backward(place *p, size_t at) {
    return OPS->position_backward(p->dev, p->pool[2], POOL(1), p->B, p->T, p->C, GRAD_ADD);
}

static trine_status zero(place *p, size_t at) {
    device_zero(p->dev, POOL(0), p->block * sizeof(float));
    return TRINE_OK;
}

static trine_status add(place *p, size_t at) {
    return OPS->add(p->dev, POOL(1), POOL(2), p->block);
}

static trine_status sum_squares(place *p, size_t at) {
    double sum;
    return OPS->sum_squares(p->dev, &sum, POOL(1), p->block);
}

static trine_status adamw(place *p, size_t at) {
    const adamw_args args = {LR, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10};
    return OPS->adamw(p->dev, POOL(1), POOL(2), POOL(3), POOL(4), p->block, &args);
}

static trine_status attention_forward(place *p, size_t at) {
    return OPS->attention_forward(p->dev, POOL(1), p->lse, POOL(2), p->work, p->B, p->T, p->H,
                                  p->C / p->H);
}

static trine_status attention_backward(place *p, size_t at) {
    return OPS->attention_backward(p->dev, POOL(1), POOL(2), POOL(3), POOL(4), p->lse, p->work,
                                   p->B, p->T, p->H, p->C / p->H);
}

/* The table's rows; sizes follow from the place. */
typedef struct {
    const char *name, *shape;
    run_kernel *run;
    size_t stride;  /* elements from one copy of the operands to the next */
    double touched; /* elements that memory moves: see above */
    double times;   /* calls in a step of one micro-batch; for other sizes, as many elements */
} kernel;

#define KERNELS 17

static void list_kernels(const place *p, kernel k[KERNELS]) {
    double L = (double)p->L, rows = (double)p->rows, C = (double)p->C, V = (double)p->V;
    double NC = rows * C, NF = rows * (double)p->F, NV = rows * V, TC = (double)p->T * C;
    double block = (double)p->block, token = V * C;
    double all = (L * block + token + TC + 2 * C) / block;
    size_t nc = p->rows * p->C, nf = p->rows * p->F, nv = p->rows * p->V;
    const kernel list[KERNELS] = {
        {"norm_forward", "N x C", norm_forward, nc, 3 * NC + 4 * rows, 2 * L + 1},
        {"norm_backward", "N x C", norm_backward, nc, 4 * NC + 2 * rows, 2 * L + 1},
        {"gelu_forward", "N x F", gelu_forward, nf, 3 * NF, L},
        {"gelu_backward", "N x F", gelu_backward, nf, 3 * NF, L},
        {"bias_residual", "N x C", bias_residual, nc, 3 * NC, 2 * L},
        {"bias_backward", "N x F", bias_backward, nf, NF, L * (5 * C / (double)p->F + 1)},
        {"xent_max", "N x V", xent_max, nv, NV, 1},
        {"xent_sums", "N x V", xent_sums, nv, NV, 1},
        {"xent_backward", "N x V", xent_backward, nv, 2 * NV, 1},
        {"embedding_forward", "N x C", embedding_forward, nc, 3 * NC + rows, 1},
        {"embedding_backward", "N x C", embedding_backward, nc, 3 * NC + rows, 1},
        {"position_forward", "N x C", position_forward, nc, 2 * NC + TC, 1},
        {"position_backward", "N x C", position_backward, nc, NC + 2 * TC, 1},
        {"zero (memset)", "a block", zero, p->block, 2 * block, token / block},
        {"add", "a block", add, p->block, 3 * block, token / block},
        {"sum_squares", "a block", sum_squares, p->block, block, all},
        {"adamw", "a block", adamw, p->block, 7 * block, all},
    };
    for (int i = 0; i < KERNELS; i++) k[i] = list[i];
}

/* ---- Memory ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void set_sizes(place *p, const knobs *k, size_t T) {
    const trine_model *m = &k->model;
    p->B = (size_t)k->batch, p->T = T, p->C = (size_t)m->hidden_size;
    p->H = (size_t)m->num_attention_heads, p->F = (size_t)m->ffn_hidden_size;
    p->V = (size_t)m->vocab_size, p->L = (size_t)m->num_layers;
    p->rows = p->B * T;
    p->block = 4 * p->C * p->C + 2 * p->C * p->F + 9 * p->C + p->F;
    size_t most = 4 * machine_of()->cache / sizeof(float);
    most = larger(most, larger(p->block, p->rows * larger(p->F, 3 * p->C)));
    for (int i = 0; i < POOLS; i++) p->count[i] = most;
    p->count[0] = larger(most, larger(p->rows, p->C) * p->V);
}

/* From 0.5 to 1.5: whatever is done to them repeatedly, they do not become denormal or negative.
 * Written by the threads that read them, so that pages lie near. */
static void randomise(const device *d, float *x, size_t n) {
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = (uint32_t)i * 2654435761u;
        x[i] = 0.5f + (float)(hash >> 8) * 0x1p-24f;
    }
}

static trine_status take(place *p, float **to, size_t count) {
    void *memory;
    TRY(device_alloc(p->dev, &memory, count * sizeof(float)));
    *to = memory;
    return TRINE_OK;
}

static trine_status take_small(place *p) {
    void *memory;
    TRY(device_alloc(p->dev, &memory, TEXTS * p->rows * sizeof *p->tokens));
    p->tokens = memory;
    for (size_t t = 0; t < TEXTS * p->rows; t++)
        p->tokens[t] = (int32_t)((uint32_t)t * 2654435761u % (uint32_t)p->V);
    TRY(take(p, &p->max, p->rows));
    TRY(take(p, &p->sums, 2 * p->rows));
    TRY(take(p, &p->stat, 2 * p->rows));
    return take(p, &p->lse, p->rows * p->H);
}

static trine_status fill(place *p, int threads) {
    TRY(device_open(&p->dev, DEVICE_CPU, threads));
    for (int i = 0; i < POOLS; i++) {
        TRY(take(p, &p->pool[i], p->count[i]));
        randomise(p->dev, p->pool[i], p->count[i]);
    }
    p->work_bytes = OPS->attention_workspace(p->dev, p->B, p->T, p->H, p->C / p->H);
    TRY(device_alloc(p->dev, &p->work, p->work_bytes));
    return take_small(p);
}

static void empty(place *p) {
    if (!p->dev) return;
    for (int i = 0; i < POOLS; i++) device_free(p->dev, p->pool[i], p->count[i] * sizeof(float));
    device_free(p->dev, p->work, p->work_bytes);
    device_free(p->dev, p->tokens, TEXTS * p->rows * sizeof *p->tokens);
    device_free(p->dev, p->max, p->rows * sizeof(float));
    device_free(p->dev, p->sums, 2 * p->rows * sizeof(float));
    device_free(p->dev, p->stat, 2 * p->rows * sizeof(float));
    device_free(p->dev, p->lse, p->rows * p->H * sizeof(float));
    device_close(&p->dev);
}

/* ---- Measuring ---- */

static double triad(const place *p) {
    float *restrict a = p->pool[1];
    const float *restrict b = p->pool[2], *restrict c = p->pool[3];
    size_t n = p->count[1];
    double start = bench_now();
#pragma omp parallel for simd num_threads(p->dev->threads) schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 0.25f * c[i];
    return 4.0 * sizeof(float) * (double)n / (bench_now() - start);
}

/* Each call has the next operands; after the last come the first again. */
static trine_status time_calls(place *p, run_kernel *run, size_t stride, int reps,
                               bench_samples *s) {
    size_t copies = p->count[1] / stride, calls = 0;
    if (copies < 1) copies = 1;
    for (int i = -1; i < reps; i++)
        for (size_t c = 0; c < copies && calls < BENCH_SAMPLES; c++) {
            double start = bench_now();
            TRY(run(p, c * stride));
            if (i >= 0) bench_add(s, bench_now() - start), calls++;
        }
    return TRINE_OK;
}

static const bench_column memory_columns[] = {
    {"operator", "operator", 18, BENCH_TEXT},
    {"shape", "shape", 7, BENCH_TEXT},
    {"mib", "MiB moved", 9, 2},
    {"median_ms", "median ms", 9, 3},
    {"best_ms", "best ms", 8, 3},
    {"gbps", "GB/s", 7, 1},
    {"triad_gbps", "triad", 7, 1},
    {"share", "of triad", 8, 2},
    {"times", "a step", 6, 1},
    {"step_ms", "ms a step", 9, 2},
};

typedef struct {
    bench_samples call, triad;
    double step, limit; /* seconds of all calls in a step, and of their bytes at the triad's rate */
} tally;

static trine_status measure_kernel(bench_report *r, place *p, const kernel *k, int reps, tally *t) {
    t->call.count = t->triad.count = 0;
    for (int i = 0; i < 3; i++) bench_add(&t->triad, triad(p));
    TRY(time_calls(p, k->run, k->stride, reps, &t->call));
    for (int i = 0; i < 3; i++) bench_add(&t->triad, triad(p));
    double bytes = k->touched * sizeof(float), seconds = bench_median(&t->call);
    double limit = bench_median(&t->triad);
    bench_row(r, (bench_cell[]){{.text = k->name},
                                {.text = k->shape},
                                {.number = bytes / 0x1p20},
                                {.number = 1e3 * seconds},
                                {.number = 1e3 * bench_min(&t->call)},
                                {.number = 1e-9 * bytes / seconds},
                                {.number = 1e-9 * limit},
                                {.number = bytes / seconds / limit},
                                {.number = k->times},
                                {.number = 1e3 * k->times * seconds}});
    t->step += k->times * seconds;
    t->limit += k->times * bytes / limit;
    return TRINE_OK;
}

static trine_status measure_memory(bench_report *r, place *p, int reps, tally *t) {
    kernel list[KERNELS];
    list_kernels(p, list);
    bench_note(
        r,
        "\n   N = B T = %zu, C = %zu, F = %zu, V = %zu; a block has %zu parameters. Bytes "
        "are what memory must\n   move: read once, written once, and what is only written is "
        "read first (write-allocate), so in the triad.",
        p->rows, p->C, p->F, p->V, p->block);
    bench_table(r, "memory", "bound by memory: against the triad a = b + s c around each call",
                memory_columns, sizeof memory_columns / sizeof *memory_columns);
    for (int i = 0; i < KERNELS; i++) TRY(measure_kernel(r, p, &list[i], reps, t));
    bench_note(r, "  all of them in a step: %.3f s; at the triad's rate %.3f s", t->step, t->limit);
    bench_figure(r, "step_seconds", t->step);
    bench_figure(r, "step_seconds_at_triad", t->limit);
    return TRINE_OK;
}

static const bench_column attention_columns[] = {
    {"operator", "operator", 18, BENCH_TEXT},
    {"gflop", "GFLOP", 7, 3},
    {"median_ms", "median ms", 9, 3},
    {"best_ms", "best ms", 8, 3},
    {"gflops", "GFLOP/s", 8, 1},
    {"matmul_gflops", "matmuls'", 8, 1},
    {"ratio", "ratio", 6, 3},
    {"times", "a step", 6, 0},
    {"step_ms", "ms a step", 9, 2},
};

static trine_status measure_direction(bench_report *r, place *p, const char *name, run_kernel *run,
                                      size_t stride, double flops, int reps, products *limit,
                                      tally *t) {
    t->call.count = 0;
    TRY(products_pass(limit, PASS_KEEP));
    TRY(time_calls(p, run, stride, reps, &t->call));
    TRY(products_pass(limit, PASS_KEEP));
    double seconds = bench_median(&t->call), times = (double)p->L;
    double rate = products_step_flops(limit) / products_limit(limit, products_median);
    bench_row(r, (bench_cell[]){{.text = name},
                                {.number = 1e-9 * flops},
                                {.number = 1e3 * seconds},
                                {.number = 1e3 * bench_min(&t->call)},
                                {.number = 1e-9 * flops / seconds},
                                {.number = 1e-9 * rate},
                                {.number = flops / seconds / rate},
                                {.number = times},
                                {.number = 1e3 * times * seconds}});
    return TRINE_OK;
}

static trine_status race_attention(bench_report *r, place *p, int reps, products *limit, tally *t) {
    double triangle = (double)p->B * (double)p->T * (double)p->T * (double)p->C;
    size_t stride = 3 * p->rows * p->C;
    bench_table(r, "attention",
                "bound by arithmetic: flops of the triangle, against a block's matmuls",
                attention_columns, sizeof attention_columns / sizeof *attention_columns);
    TRY(products_pass(limit, PASS_WARM));
    TRY(measure_direction(r, p, "attention_forward", attention_forward, stride, 2 * triangle, reps,
                          limit, t));
    return measure_direction(r, p, "attention_backward", attention_backward, stride, 4 * triangle,
                             reps, limit, t);
}

/* The block's matmuls: a model whose head is next to nothing. */
static trine_status measure_attention(bench_report *r, place *p, const knobs *k, tally *t) {
    trine_model m = k->model;
    m.vocab_size = 1;
    products *limit;
    TRY(products_create(&limit, &m, p->rows, k->threads));
    trine_status status = race_attention(r, p, k->reps, limit, t);
    products_destroy(&limit);
    return status;
}

static trine_status measure(bench_report *r, const knobs *k) {
    place p = {0};
    tally *t = calloc(1, sizeof *t);
    CHECK(t, TRINE_ENOMEM, "no memory for samples");
    set_sizes(&p, k, (size_t)k->model.seq_length);
    trine_status status = fill(&p, k->threads);
    if (status == TRINE_OK) status = measure_memory(r, &p, k->reps, t);
    if (status == TRINE_OK) status = measure_attention(r, &p, k, t);
    empty(&p);
    free(t);
    return status;
}

static trine_status run(const knobs *k) {
    bench_report *r;
    TRY(bench_report_open(&r, "kernels", k->json, k->threads, BENCH_LOUD));
    knobs_report(k, r);
    trine_status status = measure(r, k);
    if (status == TRINE_OK) return bench_report_close(&r);
    bench_report_drop(&r);
    return status;
}

int main(int argc, char **argv) {
    knobs k = knobs_default();
    k.model.seq_length = 512;
    trine_status status =
        knobs_parse(&k, argc, argv, "The operators that are no matmul, against memory's rate.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    return bench_exit(run(&k));
}
