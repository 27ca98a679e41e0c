/* The operators of a step other than matmuls, on the model's own sizes (operators.h), each with its limit, measured
 * before and after it.
 *
 * Memory-bound operators are compared, on the CPU, with the triad a = b + s c (McCalpin,
 * "STREAM", 1995) with the same threads; it has 16 bytes an element, not STREAM's 12, because memory that
 * is only written is read first. On a GPU they are compared with the device's own copy, bytes read and
 * written. An operator that reads an operand twice has a ratio below 1, one that writes around the cache (as memset
 * may) above.
 *
 * Attention is compute-bound: flops of the triangle, 2 B T^2 C forward, twice that backward
 * (the recomputation is not counted), compared with the library's rate on a block's matmuls.
 *
 * Attention over documents, eight in each sample, is compared with that over the whole sample: the work is an eighth.
 *
 * First in fp32, then in bf16, where weight gradients and optimizer stay fp32. Attention also has rows
 * with dropout, with the same flops: the difference is the cost of the mask. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu.h"
#include "operators.h"
#include "products.h"

#define HOST_T          512
#define BENCH_GPU_T     1024
#define BENCH_GPU_BATCH 16
#define BENCH_GPU_CALLS                                                                            \
    64               /* consecutive calls, at most: enough to hide a launch, few enough to repeat */
#define LIMIT_RUNS 3 /* before an operator and after it */

typedef struct {
    const bench_options *bench_options;
    place at;
    bench_gpu_watch watch;
    bool gpu;
    int reps;
    bench_samples call, limit;
    double least; /* share of the limit */
    const char *least_name;
    double step, bound; /* seconds of all calls in a step, and of their bytes at the limit's rate */
} bench_place;

/* ---- Limits ---- */

static double triad(const place *p) {
    float *restrict a = p->pool[1];
    const float *restrict b = p->pool[2], *restrict c = p->pool[3];
    size_t n = p->count[1];
    double start = bench_now();
#pragma omp parallel for simd num_threads(p->dev->threads) schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 0.25f * c[i];
    return 4.0 * sizeof(float) * (double)n / (bench_now() - start);
}

/* A copy in front, so that timing does not start with an empty queue. */
static trine_status copy(bench_place *b, double *rate) {
    place *p = &b->at;
    size_t bytes = p->count[1] * sizeof(float);
    double seconds;
    device_copy(p->dev, p->pool[2], p->pool[1], bytes);
    TRY(bench_gpu_watch_start(&b->watch));
    for (int i = 0; i < 4; i++) device_copy(p->dev, p->pool[1 + i % 2], p->pool[2 - i % 2], bytes);
    TRY(bench_gpu_watch_stop(&b->watch, &seconds));
    *rate = 4 * 2.0 * (double)bytes / seconds;
    return TRINE_OK;
}

static trine_status measure_limit(bench_place *b) {
    for (int i = 0; i < LIMIT_RUNS; i++) {
        double rate = 0;
        if (b->gpu)
            TRY(copy(b, &rate));
        else
            rate = triad(&b->at);
        bench_add(&b->limit, rate);
    }
    return TRINE_OK;
}

/* ---- Calls ---- */

/* Each call uses the next copy of the operands, cyclically. */
static trine_status time_each(bench_place *b, run_kernel *run, size_t stride) {
    place *p = &b->at;
    size_t copies = p->count[1] / stride, calls = 0;
    if (copies < 1) copies = 1;
    for (int i = -1; i < b->reps; i++)
        for (size_t c = 0; c < copies && calls < BENCH_SAMPLES; c++) {
            double seconds;
            TRY(bench_gpu_watch_start(&b->watch));
            TRY(run(p, c * stride));
            TRY(bench_gpu_watch_stop(&b->watch, &seconds));
            if (i >= 0) bench_add(&b->call, seconds), calls++;
        }
    return TRINE_OK;
}

static trine_status run_calls(place *p, run_kernel *run, size_t stride, size_t copies,
                              size_t calls) {
    for (size_t c = 0; c < calls; c++) TRY(run(p, c % copies * stride));
    return TRINE_OK;
}

/* Many consecutive calls, after some that keep the queue busy while the host enqueues the first of them. */
static trine_status time_rows(bench_place *b, run_kernel *run, size_t stride) {
    place *p = &b->at;
    size_t copies = p->count[1] / stride, calls;
    if (copies < 1) copies = 1;
    calls = copies < 8 ? 8 : copies < BENCH_GPU_CALLS ? copies : BENCH_GPU_CALLS;
    for (int i = 0; i < b->reps; i++) {
        double seconds;
        TRY(run_calls(p, run, stride, copies, i ? 2 : calls));
        TRY(bench_gpu_watch_start(&b->watch));
        TRY(run_calls(p, run, stride, copies, calls));
        TRY(bench_gpu_watch_stop(&b->watch, &seconds));
        bench_add(&b->call, seconds / (double)calls);
    }
    return TRINE_OK;
}

static trine_status time_calls(bench_place *b, run_kernel *run, size_t stride) {
    return b->gpu ? time_rows(b, run, stride) : time_each(b, run, stride);
}

/* ---- Names ---- */

#define KEY 64

/* The key has the type as a suffix unless it is fp32. */
static const char *key_of(char key[KEY], const bench_place *b, const char *name) {
    snprintf(key, KEY, "%s%s", name, b->at.dev->compute == TRINE_BF16 ? "_bf16" : "");
    return key;
}

static void start_table(bench_report *r, const bench_place *b, const char *name, const char *what,
                        const bench_column *columns, size_t count) {
    char key[KEY], title[160];
    snprintf(title, sizeof title, "%s, %s", b->at.dev->compute == TRINE_BF16 ? "bf16" : "fp32",
             what);
    bench_table(r, key_of(key, b, name), title, columns, (int)count);
}

static void figure(bench_report *r, const bench_place *b, const char *name, double value) {
    char key[KEY];
    bench_figure(r, key_of(key, b, name), value);
}

/* ---- Memory-bound operators ---- */

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

#define MEMORY_COLUMNS (sizeof memory_columns / sizeof *memory_columns)

static const bench_column bench_gpu_memory_columns[MEMORY_COLUMNS] = {
    {"operator", "operator", 18, BENCH_TEXT},
    {"shape", "shape", 7, BENCH_TEXT},
    {"mib", "MiB moved", 9, 2},
    {"median_ms", "median ms", 9, 4},
    {"best_ms", "best ms", 8, 4},
    {"gbps", "GB/s", 7, 1},
    {"copy_gbps", "copy", 7, 1},
    {"share", "of copy", 8, 2},
    {"times", "a micro-batch", 13, 1},
    {"step_ms", "total ms", 9, 3},
};

static trine_status measure_kernel(bench_report *r, bench_place *b, const kernel *k) {
    b->call.count = b->limit.count = 0;
    TRY(measure_limit(b));
    TRY(time_calls(b, k->run, k->stride));
    TRY(measure_limit(b));
    double bytes = k->touched, seconds = bench_median(&b->call);
    double limit = bench_median(&b->limit);
    bench_row(r, (bench_cell[]){{.text = k->name},
                                {.text = k->shape},
                                {.number = bytes / 0x1p20},
                                {.number = 1e3 * seconds},
                                {.number = 1e3 * bench_min(&b->call)},
                                {.number = 1e-9 * bytes / seconds},
                                {.number = 1e-9 * limit},
                                {.number = bytes / seconds / limit},
                                {.number = k->times},
                                {.number = 1e3 * k->times * seconds}});
    if (!b->least_name || bytes / seconds / limit < b->least) {
        b->least = bytes / seconds / limit;
        b->least_name = k->name;
    }
    b->step += k->times * seconds;
    b->bound += k->times * bytes / limit;
    return TRINE_OK;
}

static void start_memory(bench_report *r, const bench_place *b) {
    const place *p = &b->at;
    bench_note(r,
               "\n   N = B T = %zu, C = %zu, F = %zu, V = %zu; a block has %zu parameters. Bytes "
               "moved: each operand",
               p->rows, p->C, p->F, p->V, p->block);
    if (b->gpu) {
        bench_note(r, "   is read once and written once.");
        start_table(r, b, "memory",
                    "memory-bound operators, compared with a copy in GPU memory around each",
                    bench_gpu_memory_columns, MEMORY_COLUMNS);
    } else {
        bench_note(r, "   is read once and written once; operands that are only written count "
                      "twice (write-allocate), also in the triad.");
        start_table(r, b, "memory",
                    "memory-bound operators, compared with the triad a = b + s c around each call",
                    memory_columns, MEMORY_COLUMNS);
    }
}

static trine_status measure_memory(bench_report *r, bench_place *b) {
    kernel list[OPERATORS];
    operators_list(&b->at, list);
    start_memory(r, b);
    for (int i = 0; i < OPERATORS; i++) TRY(measure_kernel(r, b, &list[i]));
    bench_note(r, "  all of them in a step: %.3f s; at the rate of the %s %.3f s", b->step,
               b->gpu ? "copy" : "triad", b->bound);
    bench_note(r, "  smallest share of the limit: %s, %.2f", b->least_name, b->least);
    figure(r, b, "least_share", b->least);
    figure(r, b, "step_seconds", b->step);
    figure(r, b, b->gpu ? "step_seconds_at_copy" : "step_seconds_at_triad", b->bound);
    return TRINE_OK;
}

/* ---- Attention ---- */

static const bench_column attention_columns[] = {
    {"operator", "operator", 18, BENCH_TEXT},
    {"gflop", "GFLOP", 7, 3},
    {"median_ms", "median ms", 9, 3},
    {"best_ms", "best ms", 8, 3},
    {"gflops", "GFLOP/s", 8, 1},
    {"matmul_gflops", "matmuls", 8, 1},
    {"ratio", "ratio", 6, 3},
    {"times", "a step", 6, 0},
    {"step_ms", "ms a step", 9, 2},
};

/* Flops in triangles, B T^2 C. */
static const struct attention {
    const char *name;
    run_kernel *run;
    double triangles;
} attentions[] = {{"attention_forward", operators_attention_forward, 2},
                  {"attention_backward", operators_attention_backward, 4},
                  {"forward, dropout", operators_attention_forward_dropout, 2},
                  {"backward, dropout", operators_attention_backward_dropout, 4}};

static trine_status measure_direction(bench_report *r, bench_place *b, const struct attention *a,
                                      double triangle, products *limit) {
    place *p = &b->at;
    b->call.count = 0;
    TRY(products_pass(limit, PASS_KEEP));
    TRY(time_calls(b, a->run, 3 * p->rows * p->C));
    TRY(products_pass(limit, PASS_KEEP));
    double seconds = bench_median(&b->call), times = (double)p->L, flops = a->triangles * triangle;
    double rate = products_step_flops(limit) / products_limit(limit, products_median);
    bench_row(r, (bench_cell[]){{.text = a->name},
                                {.number = 1e-9 * flops},
                                {.number = 1e3 * seconds},
                                {.number = 1e3 * bench_min(&b->call)},
                                {.number = 1e-9 * flops / seconds},
                                {.number = 1e-9 * rate},
                                {.number = flops / seconds / rate},
                                {.number = times},
                                {.number = 1e3 * times * seconds}});
    return TRINE_OK;
}

static trine_status race_attention(bench_report *r, bench_place *b, products *limit) {
    const place *p = &b->at;
    double triangle = (double)p->B * (double)p->T * (double)p->T * (double)p->C;
    start_table(r, b, "attention",
                "attention: flops of the triangle, compared with a block's matmuls",
                attention_columns, sizeof attention_columns / sizeof *attention_columns);
    TRY(products_pass(limit, PASS_WARM));
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
        TRY(measure_direction(r, b, &attentions[i], triangle, limit));
    return TRINE_OK;
}

static const bench_column documents_columns[] = {
    {"operator", "operator", 18, BENCH_TEXT},
    {"whole_ms", "whole ms", 8, 3},
    {"documents_ms", "documents ms", 12, 3},
    {"ratio", "ratio", 6, 3},
};

/* The median of the calls, in seconds. */
static trine_status time_attention(bench_place *b, run_kernel *run, double *seconds) {
    b->call.count = 0;
    TRY(time_calls(b, run, 3 * b->at.rows * b->at.C));
    *seconds = bench_median(&b->call);
    return TRINE_OK;
}

static trine_status measure_documents(bench_report *r, bench_place *b) {
    static const struct {
        const char *name;
        run_kernel *whole, *documents;
    } rows[] = {
        {"attention_forward", operators_attention_forward, operators_attention_forward_documents},
        {"attention_backward", operators_attention_backward,
         operators_attention_backward_documents}};
    char title[96];
    snprintf(title, sizeof title, "attention: %d documents in each sample of %zu tokens",
             OPERATORS_DOCUMENTS, b->at.T);
    start_table(r, b, "documents", title, documents_columns,
                sizeof documents_columns / sizeof *documents_columns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double before = 0, documents = 0, after = 0;
        TRY(time_attention(b, rows[i].whole, &before));
        TRY(time_attention(b, rows[i].documents, &documents));
        TRY(time_attention(b, rows[i].whole, &after));
        const double whole = (before + after) / 2;
        bench_row(r, (bench_cell[]){{.text = rows[i].name},
                                    {.number = 1e3 * whole},
                                    {.number = 1e3 * documents},
                                    {.number = documents / whole}});
    }
    return TRINE_OK;
}

/* The limit is that of a block's matmuls: a model with a vocabulary of one token. */
static trine_status measure_attention(bench_report *r, bench_place *b) {
    trine_model m = b->bench_options->model;
    m.vocab_size = 1;
    products *limit;
    TRY(products_create(&limit, &m, b->at.rows, &b->bench_options->device));
    trine_status status = race_attention(r, b, limit);
    products_destroy(&limit);
    return status;
}

/* ---- All ---- */

static trine_status measure(bench_report *r, bench_place *b) {
    TRY(bench_gpu_report(r, b->at.dev));
    TRY(bench_gpu_watch_open(&b->watch, b->at.dev));
    trine_status status = measure_memory(r, b);
    if (status == TRINE_OK) status = measure_attention(r, b);
    if (status == TRINE_OK) status = measure_documents(r, b);
    bench_gpu_watch_close(&b->watch);
    return status;
}

static trine_status measure_placed(bench_report *r, const bench_options *k) {
    bench_place *b = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for samples");
    b->bench_options = k;
    b->reps = k->reps;
    b->gpu = bench_gpu_is(&k->device);
    trine_status status = operators_open(&b->at, k, (size_t)k->model.seq_length);
    if (status == TRINE_OK) status = measure(r, b);
    operators_close(&b->at);
    free(b);
    return status;
}

static trine_status measure_types(bench_report *r, const bench_options *k) {
    bench_options typed;
    if (bench_options_with(k, r, TRINE_F32, &typed)) TRY(measure_placed(r, &typed));
    if (bench_options_with(k, r, TRINE_BF16, &typed)) TRY(measure_placed(r, &typed));
    return TRINE_OK;
}

static trine_status run(const bench_options *k) {
    bench_report *r;
    TRY(bench_report_open(&r, "kernels", k->json, k->threads, BENCH_LOUD));
    bench_options_report(k, r);
    trine_status status = measure_types(r, k);
    if (status == TRINE_OK) return bench_report_close(&r);
    bench_report_drop(&r);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    trine_status status = bench_options_parse(
        &k, argc, argv, "The operators other than matmuls, compared with the memory's rate.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    if (!k.batch) k.batch = BENCH_GPU_BATCH;
    if (!k.model.seq_length) k.model.seq_length = bench_gpu_is(&k.device) ? BENCH_GPU_T : HOST_T;
    return bench_exit(run(&k));
}
