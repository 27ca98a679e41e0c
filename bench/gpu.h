/* What differs between measuring processors and a GPU: how memory is filled that the processor
 * cannot touch, how long work takes that is done some time after its call, how large a cache is,
 * and what the card is. Where there is no GPU the host's clock and the machine's cache are meant.
 *
 * On a GPU a time is that between two marks in the device's queue (device/cuda/events.h). It
 * contains the host's way to the first call when the queue is empty, so there is work in front and
 * many calls are timed at once. Cost: two marks a time. */
#ifndef TRINE_BENCH_GPU_H
#define TRINE_BENCH_GPU_H

#include "bench.h"
#include "device/cuda_open.h"

/* Dense peaks of an H100 SXM and an H200, flops a second (NVIDIA H100 Tensor Core GPU data sheet):
 * what utilisation is stated against, whatever the card. */
#define BENCH_GPU_PEAK_BF16 989e12
#define BENCH_GPU_PEAK_TF32 494.5e12
#define BENCH_GPU_PEAK_FP32 67e12

/* "cuda" is one. */
bool bench_gpu_is(const device_config *config);
/* BENCH_GPU_PEAK_FP32, or of bf16 or TF32 where products are computed in that. */
double bench_gpu_peak(const device_config *config);

/* Bytes of the last-level cache. */
size_t bench_gpu_cache(const device *d);
/* Says what the GPU is, on the terminal and in the file; nothing for processors. Errors: the
 * device's. */
trine_status bench_gpu_report(bench_report *r, const device *d);

/* x (n) = number(0), number(1), ...; on a GPU again from 0 after some millions. On a device of bf16
 * a float has the bf16 number nearest to it twice, in either half: so it is nearly itself as a float
 * and twice that number for who reads bf16. Errors: TRINE_ENOMEM; the device's. */
trine_status bench_gpu_fill(device *d, float *x, size_t n, float (*number)(size_t i));

/* A stopwatch; one time at a time. */
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
/* Waits until what has been started since is done. */
trine_status bench_gpu_watch_stop(bench_gpu_watch *w, double *seconds);

#endif
