/* The differences between measuring on the CPU and on a GPU: filling device memory, timing asynchronous work, the
 * size of the cache, and a description of the GPU. On the CPU these are the host's clock and the machine's cache.
 *
 * On a GPU a time is that between two marks in the device's queue (device/cuda/events.h). If the queue is
 * empty it includes the latency of the first call, so work is enqueued in front and many calls are timed at once.
 * Cost: two marks a time. */
#ifndef TRINE_BENCH_GPU_H
#define TRINE_BENCH_GPU_H

#include "bench.h"
#include "device/cuda_open.h"

/* Dense peaks of an H100 SXM and an H200, flops a second (NVIDIA H100 Tensor Core GPU data sheet):
 * the reference for utilisation on every GPU. */
#define BENCH_GPU_PEAK_BF16 989e12
#define BENCH_GPU_PEAK_TF32 494.5e12
#define BENCH_GPU_PEAK_FP32 67e12

/* Whether the device is "cuda". */
bool bench_gpu_is(const device_config *config);
/* BENCH_GPU_PEAK_FP32, or that of bf16 or TF32 if products are computed in it. */
double bench_gpu_peak(const device_config *config);

/* Bytes of the last-level cache. */
size_t bench_gpu_cache(const device *d);
/* Reports the GPU on the terminal and in the file; nothing for the CPU. Errors: the device's. */
trine_status bench_gpu_report(bench_report *r, const device *d);

/* x (n) = number(0), number(1), ...; on a GPU the sequence restarts after some millions. On a bf16 device
 * each float has the nearest bf16 number in both halves: read as float it is close to the original, read as bf16
 * it is that number twice. Errors: TRINE_ENOMEM; the device's. */
trine_status bench_gpu_fill(device *d, float *x, size_t n, float (*number)(size_t i));

/* A stopwatch for one time at once. */
typedef struct {
    device *dev;
    const cuda_measure *measure; /* NULL: the host's clock */
    cuda_marks *marks;
    double since;
} bench_gpu_watch;

/* Errors of all: the device's. */
trine_status bench_gpu_watch_open(bench_gpu_watch *w, device *d);
void bench_gpu_watch_close(bench_gpu_watch *w);
trine_status bench_gpu_watch_start(bench_gpu_watch *w);
/* Waits until the work that was started since is done. */
trine_status bench_gpu_watch_stop(bench_gpu_watch *w, double *seconds);

#endif
