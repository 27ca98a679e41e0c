#include "gpu.h"

#include <stdlib.h>

#include "base/half.h"
#include "base/human.h"
#include "base/status.h"
#include "machine.h"

#define SEGMENT ((size_t)4 << 20) /* floats */
#define TEXT    160

bool bench_gpu_is(const device_config *config) {
    return config->kind == DEVICE_CUDA;
}

double bench_gpu_peak(const device_config *config) {
    if (config->compute == TRINE_BF16) return BENCH_GPU_PEAK_BF16;
    return config->precision == DEVICE_TF32 ? BENCH_GPU_PEAK_TF32 : BENCH_GPU_PEAK_FP32;
}

size_t bench_gpu_cache(const device *d) {
    cuda_gpu gpu;
    if (d->kind != DEVICE_CUDA || cuda_describe(d, &gpu) != TRINE_OK) return machine_of()->cache;
    return (size_t)gpu.info.cache;
}

static void version(char text[TEXT], const cuda_info *i) {
    snprintf(text, TEXT, "driver for CUDA %d.%d, CUDA %d.%d, cuBLAS %d.%d.%d", i->driver / 1000,
             i->driver % 1000 / 10, i->runtime / 1000, i->runtime % 1000 / 10, i->cublas / 10000,
             i->cublas / 100 % 100, i->cublas % 100);
}

static const char *multiplied_in(const device *d) {
    if (d->compute == TRINE_BF16) return "bf16";
    return d->precision == DEVICE_TF32 ? "TF32" : "fp32";
}

trine_status bench_gpu_report(bench_report *r, const device *d) {
    cuda_gpu gpu;
    char memory[HUMAN_SIZE], cache[HUMAN_SIZE], versions[TEXT];
    const cuda_info *i = &gpu.info;
    if (d->kind != DEVICE_CUDA) return TRINE_OK;
    TRY(cuda_describe(d, &gpu));
    version(versions, i);
    bench_note(r, "   GPU %d: %s, %s, sm_%d, %d multiprocessors, last-level cache %s", gpu.ordinal,
               i->model, human_bytes(memory, i->bytes), i->sm, i->multiprocessors,
               human_bytes(cache, i->cache));
    bench_note(r, "   %s; matrices are multiplied in %s", versions, multiplied_in(d));
    bench_fact(r, "gpu", i->model);
    bench_fact(r, "gpu_versions", versions);
    bench_fact(r, "precision", multiplied_in(d));
    bench_figure(r, "gpu_bytes", (double)i->bytes);
    bench_figure(r, "gpu_multiprocessors", i->multiprocessors);
    return TRINE_OK;
}

static float bf16_twice(float x) {
    uint32_t bits = bf16_store(x);
    return half_float(bits << 16 | bits);
}

/* Written by the threads that will read it, so that pages are local (NUMA). */
static void make(float *x, size_t n, float (*number)(size_t i), const device *d) {
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t i = 0; i < n; i++)
        x[i] = d->compute == TRINE_BF16 ? bf16_twice(number(i)) : number(i);
}

trine_status bench_gpu_fill(device *d, float *x, size_t n, float (*number)(size_t i)) {
    size_t most = n < SEGMENT ? n : SEGMENT;
    if (d->memory->host) return make(x, n, number, d), TRINE_OK;
    float *segment = malloc(most * sizeof *segment);
    CHECK(segment, TRINE_ENOMEM, "no memory for the values of the GPU's buffers");
    make(segment, most, number, d);
    trine_status status = TRINE_OK;
    for (size_t at = 0; status == TRINE_OK && at < n; at += most)
        status = device_write(d, x + at, segment, (n - at < most ? n - at : most) * sizeof *x);
    free(segment);
    return status;
}

/* ---- The stopwatch ---- */

trine_status bench_gpu_watch_open(bench_gpu_watch *w, device *d) {
    *w = (bench_gpu_watch){.dev = d, .measure = cuda_measures(d)};
    return w->measure ? w->measure->marks_create(d, &w->marks, 2) : TRINE_OK;
}

void bench_gpu_watch_close(bench_gpu_watch *w) {
    if (w->measure) w->measure->marks_destroy(&w->marks);
    *w = (bench_gpu_watch){0};
}

trine_status bench_gpu_watch_start(bench_gpu_watch *w) {
    if (w->measure) return w->measure->mark(w->marks, 0);
    w->since = bench_now();
    return TRINE_OK;
}

trine_status bench_gpu_watch_stop(bench_gpu_watch *w, double *seconds) {
    if (w->measure) {
        TRY(w->measure->mark(w->marks, 1));
        TRY(w->measure->between(w->marks, 0, 1, seconds));
        return device_wait(w->dev);
    }
    *seconds = bench_now() - w->since;
    return TRINE_OK;
}
