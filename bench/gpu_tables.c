#include "gpu_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"
#include "bench_options.h"
#include "plan/resolve.h"

#define COLUMNS(c) (c), (int)(sizeof(c) / sizeof *(c))

static double tokens_of(const bench_gpu_result *x) {
    return (double)x->batch * x->micros * x->model.seq_length;
}

/* Flops of a token: with the triangle of attention, and with the full matrix. */
static double flops_triangle(const bench_gpu_result *x) {
    return gpt_flops_per_token(&x->model);
}

static double flops_unsharded(const bench_gpu_result *x) {
    return 2 * flops_triangle(x) - 6 * bench_options_matmul_weights(&x->model);
}

/* ---- Steps ---- */

static const bench_column step_columns[] = {
    {"model", "model", 10, BENCH_TEXT},
    {"layers", NULL, 0, 0},
    {"hidden", NULL, 0, 0},
    {"micro_batch", "B", 4, 0},
    {"micro_batches", "micro-batches", 5, 0},
    {"tokens_per_second", "tokens/s", 10, 1},
    {"step_seconds", "step s", 8, 4},
    {"step_best_seconds", "best s", 8, 4},
    {"flops_per_token", NULL, 0, 0},
    {"tflops", "TFLOP/s", 7, 2},
    {"mfu", "MFU", 6, 3},
    {"peak_share", "of peak", 9, 3},
    {"matmul_tflops", "matmuls", 8, 2},
    {"ratio", "ratio", 6, 3},
    {"copy_gbps", "copy GB/s", 9, 1},
};

static void step_row(bench_report *r, const device_config *config, const bench_gpu_result *x) {
    double rate = tokens_of(x) / x->seconds, flops = rate * flops_unsharded(x);
    bench_row(r, (bench_cell[]){{.text = x->name},
                                {.number = x->model.num_layers},
                                {.number = x->model.hidden_size},
                                {.number = x->batch},
                                {.number = x->micros},
                                {.number = rate},
                                {.number = x->seconds},
                                {.number = x->best_seconds},
                                {.number = flops_unsharded(x)},
                                {.number = 1e-12 * flops},
                                {.number = flops / BENCH_GPU_PEAK_BF16},
                                {.number = flops / bench_gpu_peak(config)},
                                {.number = 1e-12 * x->matmul_rate},
                                {.number = rate * flops_triangle(x) / x->matmul_rate},
                                {.number = 1e-9 * x->copy_rate}});
}

static void say_steps(bench_report *r, const device_config *config) {
    bench_note(r,
               "  MFU: tokens/s x (6N + 12LCT) / %.4g TFLOP/s, dense bf16 of an H100 and H200; of "
               "peak: / %.4g, the peak of\n  the type in use. ratio: flops per second with the "
               "triangle of attention (6N + 6LCT) / those of the matmuls.",
               1e-12 * BENCH_GPU_PEAK_BF16, 1e-12 * bench_gpu_peak(config));
}

/* ---- Idle time ---- */

static const bench_column idle_columns[] = {
    {"model", "model", 10, BENCH_TEXT},
    {"micro_batches", "micro-batches", 13, 0},
    {"operators", "operators", 9, 0},
    {"step_ms", "step ms", 10, 3},
    {"operators_ms", "operators ms", 10, 3},
    {"gaps_ms", "gaps ms", 9, 3},
    {"idle", "idle %", 7, 3},
    {"marks_ms", "marks ms", 9, 3},
    {"idle_net", "net idle %", 11, 3},
    {"host_ms", "host ms", 9, 3},
    {"starved", "starved", 7, 0},
    {"over_plain", "of plain", 10, 3},
};

static void idle_row(bench_report *r, const bench_gpu_result *x) {
    const spans_sum *s = &x->spans;
    double marks = s->count * x->mark_seconds;
    bench_row(r, (bench_cell[]){{.text = x->name},
                                {.number = x->micros},
                                {.number = s->count},
                                {.number = 1e3 * s->step},
                                {.number = 1e3 * s->operators},
                                {.number = 1e3 * s->gaps},
                                {.number = 100 * s->gaps / s->step},
                                {.number = 1e3 * marks},
                                {.number = 100 * fmax(0, s->gaps - marks) / s->step},
                                {.number = 1e-6 * (double)x->host_ns},
                                {.number = s->starved},
                                {.number = x->marked_seconds / x->seconds}});
}

static void say_idle(bench_report *r) {
    bench_note(r,
               "  gaps: on the compute stream, between the marks around its operators, with "
               "transfers. marks: the marks' own\n  time in a full queue, one a gap. net idle: "
               "without it. host: the time of the calls, hidden unless the queue is\n  starved. "
               "starved: operators that found the queue empty; each may hide a launch. of plain: "
               "a step with marks /\n  one without.");
}

/* ---- Memory ---- */

static const bench_column memory_columns[] = {
    {"model", "model", 10, BENCH_TEXT},  {"plan", "plan MiB", 11, 3},
    {"room", "available", 11, 3},        {"taken", "taken", 11, 3},
    {"over_plan", "over plan", 9, 3},    {"own", "device's own", 14, 3},
    {"context", "context, code", 13, 3}, {"later", "in first step", 13, 3},
    {"card", "GPU total", 11, 1},
};

static double mib(double bytes) {
    return bytes / 0x1p20;
}

/* The trainer's device has memory of its own, which is not in the plan. */
static void memory_row(bench_report *r, const bench_gpu_result *x) {
    double taken = (double)x->free_before - (double)x->free_after - (double)x->own_bytes;
    bench_row(r, (bench_cell[]){{.text = x->name},
                                {.number = mib((double)x->plan_bytes)},
                                {.number = mib(x->room_bytes)},
                                {.number = mib(taken)},
                                {.number = mib(taken - (double)x->plan_bytes)},
                                {.number = mib((double)x->own_bytes)},
                                {.number = mib((double)x->context_bytes)},
                                {.number = mib((double)x->free_after - (double)x->free_later)},
                                {.number = mib((double)x->bench_gpu_bytes)}});
}

static void say_memory(bench_report *r) {
    bench_note(r,
               "  taken: free memory before less free memory after creating the trainer, without "
               "its device's own (workspace,\n  scratch); the driver allocates in units of 2 MiB. "
               "context: all memory in use when only a device is open, also\n  by other processes. "
               "in first step: loaded by driver and libraries on first use.");
}

/* ---- Where the time goes ---- */

static const bench_column operator_columns[] = {
    {"operator", "operator", 22, BENCH_TEXT},
    {"calls", "calls", 6, 0},
    {"ms", "ms", 10, 3},
    {"share", "of step %", 9, 2},
    {"gap_ms", "gaps before", 11, 3},
    {"rate", "rate", 9, 2},
    {"unit", "", 7, BENCH_TEXT},
    {"of_limit", "of limit", 8, 3},
    {"lost_ms", "over limit ms", 13, 3},
};

typedef struct {
    int which;
    double seconds;
} ranked;

static int longest_first(const void *a, const void *b) {
    double x = ((const ranked *)a)->seconds, y = ((const ranked *)b)->seconds;
    return (x < y) - (x > y);
}

static void operator_row(bench_report *r, const bench_gpu_result *x, int n) {
    const spans_sum *s = &x->spans;
    bool flops = device_timed_work((device_timed)n) == WORK_FLOPS;
    double work = (double)x->times[n].work, limit = flops ? x->matmul_rate : x->copy_rate;
    double rate = work / s->span[n];
    bench_row(r, (bench_cell[]){{.text = device_timed_text((device_timed)n)},
                                {.number = (double)x->times[n].calls},
                                {.number = 1e3 * s->span[n]},
                                {.number = 100 * s->span[n] / s->step},
                                {.number = 1e3 * s->gap[n]},
                                {.number = rate * (flops ? 1e-12 : 1e-9)},
                                {.text = flops ? "TFLOP/s" : "GB/s"},
                                {.number = rate / limit},
                                {.number = 1e3 * (s->span[n] - work / limit)}});
}

static void rest_row(bench_report *r, const char *name, double calls, double seconds, double step,
                     double gap) {
    bench_row(r, (bench_cell[]){{.text = name},
                                {.number = calls},
                                {.number = 1e3 * seconds},
                                {.number = 100 * seconds / step},
                                {.number = 1e3 * gap},
                                {.number = (double)NAN},
                                {.text = ""},
                                {.number = (double)NAN},
                                {.number = (double)NAN}});
}

static void operators_table(bench_report *r, const bench_gpu_result *x) {
    const spans_sum *s = &x->spans;
    ranked order[DEVICE_TIMED];
    char key[64], title[160];
    snprintf(key, sizeof key, "operators_%d_%d", x->model.num_layers, x->model.hidden_size);
    snprintf(title, sizeof title,
             "%s: time of a step with marks by operator; limits: the library's matmuls %.2f "
             "TFLOP/s, a copy %.1f GB/s",
             x->name, 1e-12 * x->matmul_rate, 1e-9 * x->copy_rate);
    bench_table(r, key, title, COLUMNS(operator_columns));
    for (int n = 0; n < DEVICE_TIMED; n++) order[n] = (ranked){n, s->span[n]};
    qsort(order, DEVICE_TIMED, sizeof *order, longest_first);
    for (int i = 0; i < DEVICE_TIMED; i++)
        if (x->times[order[i].which].calls) operator_row(r, x, order[i].which);
    rest_row(r, "no operator", s->count + 1, s->gaps, s->step, s->gap[DEVICE_TIMED]);
    rest_row(r, "step", 1, s->step, s->step, s->gaps);
}

/* ---- All ---- */

typedef void print_row(bench_report *r, const bench_gpu_result *x);

static void each(bench_report *r, const bench_gpu_result *list, int count, print_row *row) {
    for (int i = 0; i < count; i++)
        if (list[i].measured) row(r, &list[i]);
}

void bench_gpu_tables(bench_report *r, const device_config *config, const bench_gpu_result *list,
                      int count) {
    bench_table(r, "steps", "a training step on one GPU", COLUMNS(step_columns));
    for (int i = 0; i < count; i++)
        if (list[i].measured) step_row(r, config, &list[i]);
    say_steps(r, config);
    bench_table(r, "idle", "idle time of the compute stream in a step with marks",
                COLUMNS(idle_columns));
    each(r, list, count, idle_row);
    say_idle(r);
    bench_table(r, "memory", "the GPU's memory, MiB", COLUMNS(memory_columns));
    each(r, list, count, memory_row);
    say_memory(r);
    each(r, list, count, operators_table);
}
