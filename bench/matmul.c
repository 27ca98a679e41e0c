/* The limit: the library's rate on every matmul of a training step, product by product, and their sum over a step.
 * products.h describes the measurement. The library is oneDNN on the CPU and cuBLASLt on a GPU, where the device's
 * own operators are measured, too.
 *
 * Flops of a training step are counted 6N + 6LCT a token: N the weights of all matmuls (with the head, without the
 * embeddings), two flops each in the forward pass and four in the backward pass;
 * 6LCT is causal attention, the triangle only (Narayanan et al. 2021, appendix). The
 * matmuls of this table are the 6N. */
#include <stdio.h>

#include "base/status.h"
#include "gpu.h"
#include "bench_options.h"
#include "products.h"
#include "plan/resolve.h"

#define BENCH_GPU_T     1024
#define BENCH_GPU_BATCH 16

static const bench_column columns[] = {
    {"layer", "matmul", 16, BENCH_TEXT},
    {"product", "product", 12, BENCH_TEXT},
    {"shape", "T x N x K", 18, BENCH_TEXT},
    {"bias", "bias", 4, BENCH_TEXT},
    {"by", "by", 20, BENCH_TEXT},
    {"times", "a step", 6, 0},
    {"gflop", "GFLOP", 8, 3},
    {"best_ms", "best ms", 9, 3},
    {"median_ms", "median ms", 9, 3},
    {"gflops", "GFLOP/s", 8, 1},
};

static void add_row(bench_report *r, const products *p, int l, product_kind kind) {
    const layer_shape *s = products_layer(p, l);
    const bench_samples *t = products_samples(p, l, kind);
    char shape[64];
    snprintf(shape, sizeof shape, "%zu x %zu x %zu", s->T, s->N, s->K);
    bench_row(r, (bench_cell[]){{.text = s->name},
                                {.text = product_text(kind)},
                                {.text = shape},
                                {.text = s->biased && kind == PRODUCT_Y ? "yes" : ""},
                                {.text = products_implementation(p, l, kind)},
                                {.number = s->times},
                                {.number = 1e-9 * products_flops(p, l)},
                                {.number = 1e3 * bench_min(t)},
                                {.number = 1e3 * bench_median(t)},
                                {.number = 1e-9 * products_flops(p, l) / bench_min(t)}});
}

static const bench_column bench_gpu_columns[] = {
    {"layer", "matmul", 16, BENCH_TEXT},
    {"product", "product", 12, BENCH_TEXT},
    {"shape", "T x N x K", 20, BENCH_TEXT},
    {"bias", "bias", 4, BENCH_TEXT},
    {"by", "algorithm", 11, BENCH_TEXT},
    {"times", "times", 5, 0},
    {"gflop", "GFLOP", 8, 1},
    {"best_ms", "best ms", 9, 4},
    {"tflops", "TFLOP/s", 7, 1},
    {"peak_share", "of peak", 7, 2},
    {"own_ms", "ours ms", 9, 4},
    {"own_tflops", "TFLOP/s", 7, 1},
    {"ratio", "of limit", 8, 3},
};

/* The device's best and the library's best. */
static void add_gpu_row(bench_report *r, const products *p, double peak, int l, product_kind kind) {
    const layer_shape *s = products_layer(p, l);
    double best = bench_min(products_samples(p, l, kind)), flops = products_flops(p, l);
    double own = bench_min(products_own(p, l, kind));
    char shape[64];
    snprintf(shape, sizeof shape, "%zu x %zu x %zu", s->T, s->N, s->K);
    bench_row(r, (bench_cell[]){{.text = s->name},
                                {.text = product_text(kind)},
                                {.text = shape},
                                {.text = s->biased && kind == PRODUCT_Y ? "yes" : ""},
                                {.text = products_implementation(p, l, kind)},
                                {.number = s->times},
                                {.number = 1e-9 * flops},
                                {.number = 1e3 * best},
                                {.number = 1e-12 * flops / best},
                                {.number = flops / best / peak},
                                {.number = 1e3 * own},
                                {.number = 1e-12 * flops / own},
                                {.number = best / own}});
}

static void add_sum(bench_report *r, const products *p, const char *key, product_kind dw) {
    double flops = products_step_flops(p), best = products_best(p, dw);
    char name[64];
    bench_note(r, "  matmuls of a step, %s: best %.3f s, median %.3f s, %.1f GFLOP/s",
               product_text(dw), best, products_median(p, dw), 1e-9 * flops / best);
    snprintf(name, sizeof name, "%s_%s_seconds", key, dw == PRODUCT_DW_ADD ? "add" : "set");
    bench_figure(r, name, best);
}

static void say_flops(bench_report *r, const trine_model *m, int seq, double rows) {
    double N = bench_options_matmul_weights(m), total = gpt_flops_per_token(m);
    char key[64];
    bench_note(r,
               "  flops a token: 6N + 6LCT = %.1f M + %.1f M (N = %.2f M matmul weights with the "
               "head; causal attention)",
               6e-6 * N, 1e-6 * (total - 6 * N), 1e-6 * N);
    snprintf(key, sizeof key, "T%d_flops_per_token", seq);
    bench_figure(r, key, total);
    snprintf(key, sizeof key, "T%d_matmul_flops", seq);
    bench_figure(r, key, 6 * N * rows);
}

/* The types that are measured alternately. */
enum { FP32, BF16, TYPES };

typedef struct {
    products *of[TYPES]; /* NULL: not measured */
    bench_options bench_options[TYPES];
} pair;

static trine_status make(bench_report *r, pair *x, const bench_options *k, const trine_model *m) {
    static const trine_dtype types[TYPES] = {[FP32] = TRINE_F32, [BF16] = TRINE_BF16};
    size_t rows = (size_t)k->batch * (size_t)m->seq_length;
    for (int t = 0; t < TYPES; t++)
        if (bench_options_with(k, r, types[t], &x->bench_options[t]))
            TRY(products_create(&x->of[t], m, rows, &x->bench_options[t].device));
    return TRINE_OK;
}

static trine_status pass(pair *x, products_pass_kind kind) {
    for (int t = 0; t < TYPES; t++)
        if (x->of[t]) TRY(products_pass(x->of[t], kind));
    return TRINE_OK;
}

/* T512, T512_bf16. */
static void key_of(char *key, size_t size, int seq, int type) {
    snprintf(key, size, "T%d%s", seq, type == BF16 ? "_bf16" : "");
}

static void report(bench_report *r, const bench_options *k, const products *p, int seq, int type) {
    bool on_gpu = bench_gpu_is(&k->device);
    char key[32], figure[48], title[128];
    key_of(key, sizeof key, seq, type);
    snprintf(title, sizeof title, "%s, %s, B %d T %d; rates of the best of %d runs",
             on_gpu ? "cuBLASLt alone, then the device's operators" : "oneDNN alone",
             type == BF16 ? "bf16" : "fp32", k->batch, seq, k->reps);
    bench_table(r, key, title, on_gpu ? bench_gpu_columns : columns,
                on_gpu ? sizeof bench_gpu_columns / sizeof *bench_gpu_columns
                       : sizeof columns / sizeof *columns);
    for (int l = 0; l < products_layers(p); l++)
        for (int kind = 0; kind < PRODUCT_KINDS; kind++)
            if (on_gpu)
                add_gpu_row(r, p, bench_gpu_peak(&k->device), l, (product_kind)kind);
            else
                add_row(r, p, l, (product_kind)kind);
    add_sum(r, p, key, PRODUCT_DW_ADD);
    add_sum(r, p, key, PRODUCT_DW_SET);
    snprintf(figure, sizeof figure, "%s_gflops", key);
    bench_figure(r, figure, 1e-9 * products_step_flops(p) / products_limit(p, products_best));
}

/* Compares medians, which were measured in the same minutes. */
static void compare(bench_report *r, const pair *x, int seq) {
    char key[32];
    double ratio =
        products_limit(x->of[FP32], products_median) / products_limit(x->of[BF16], products_median);
    bench_note(r, "  bf16 over fp32, the matmuls of a step, medians: %.2f times as fast", ratio);
    snprintf(key, sizeof key, "T%d_bf16_over_fp32", seq);
    bench_figure(r, key, ratio);
}

static trine_status race(bench_report *r, const bench_options *k, pair *x, const trine_model *m) {
    TRY(make(r, x, k, m));
    TRY(pass(x, PASS_WARM));
    for (int i = 0; i < k->reps; i++) TRY(pass(x, PASS_KEEP));
    for (int t = 0; t < TYPES; t++)
        if (x->of[t]) report(r, &x->bench_options[t], x->of[t], m->seq_length, t);
    if (x->of[FP32] && x->of[BF16]) compare(r, x, m->seq_length);
    say_flops(r, m, m->seq_length, (double)k->batch * m->seq_length);
    return TRINE_OK;
}

static trine_status measure(bench_report *r, const bench_options *k, int seq) {
    trine_model m = k->model;
    pair x = {0};
    m.seq_length = seq;
    trine_status status = race(r, k, &x, &m);
    for (int t = 0; t < TYPES; t++) products_destroy(&x.of[t]);
    return status;
}

/* Opens the device to describe it. */
static trine_status report_gpu(bench_report *r, const bench_options *k) {
    device *d;
    if (!bench_gpu_is(&k->device)) return TRINE_OK;
    TRY(status_user(device_open_with(&d, &k->device)));
    trine_status status = bench_gpu_report(r, d);
    device_close(&d);
    if (status == TRINE_OK)
        bench_note(r, "   \"of peak\": %.4g TFLOP/s, that of an H100 and H200 for this type",
                   1e-12 * bench_gpu_peak(&k->device));
    return status;
}

static trine_status measure_all(bench_report *r, const bench_options *k) {
    TRY(report_gpu(r, k));
    if (k->model.seq_length) return measure(r, k, k->model.seq_length);
    if (bench_gpu_is(&k->device)) return measure(r, k, BENCH_GPU_T);
    TRY(measure(r, k, 512));
    return measure(r, k, 64);
}

static trine_status run(const bench_options *k) {
    bench_report *r;
    TRY(bench_report_open(&r, "matmul", k->json, k->threads, BENCH_LOUD));
    bench_options_report(k, r);
    trine_status status = measure_all(r, k);
    if (status == TRINE_OK) return bench_report_close(&r);
    bench_report_drop(&r);
    return status;
}

int main(int argc, char **argv) {
    bench_options k = bench_options_default();
    trine_status status = bench_options_parse(
        &k, argc, argv, "The limit: the library's rate on the matmuls of a training step.");
    if (status != TRINE_OK || k.help) return bench_exit(status);
    if (!k.batch) k.batch = BENCH_GPU_BATCH;
    return bench_exit(run(&k));
}
