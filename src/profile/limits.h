/* The machine's limits for a device: the rates that a profile is compared with, measured with the
 * device's own operators and threads.
 *
 * A figure is the best of LIMIT_RUNS runs, each of which makes calls for LIMIT_RUN_NS: on processors
 * shared by several ranks a single call may be lucky, a run is not. The load of other processes
 * matters, so all ranks measure at once (measure.c).
 * Cost: about 0.3 s per figure, more if one call takes longer than a run. Memory is allocated only
 * during the call. Triad: McCalpin, "Memory bandwidth and machine balance in current high
 * performance computers", 1995. */
#ifndef TRINE_PROFILE_LIMITS_H
#define TRINE_PROFILE_LIMITS_H

#include "device/device.h"

#define LIMIT_RUNS   5
#define LIMIT_RUN_NS 50000000u

/* Flops per second of a linear layer y (T, N) = x (T, K) w (N, K)^T and of its two backward products,
 * in the device's types. */
typedef struct {
    double forward, backward_input, backward_weight;
} limit_matmul;

/* T, N and K are at least 1. Errors: TRINE_ENOMEM; TRINE_EMATH. Not collective. */
trine_status limit_matmul_rates(device *d, size_t T, size_t N, size_t K, limit_matmul *rates);

/* Bytes per second of a = b + s c over fp32 arrays of `bytes` bytes each (12 bytes per element are
 * counted, as in STREAM), with the device's threads; for device memory, of device_copy from one such
 * array to another (8 bytes per element). Errors:
 * TRINE_ENOMEM. Not collective. */
trine_status limit_triad_rate(device *d, size_t bytes, double *rate);

/* The same with runs of `run_ns`, for callers with less time, of the forward product alone and of the triad.
 * Runs much shorter than LIMIT_RUN_NS may be lucky: they fit between two time slices of another process. */
trine_status limit_forward_rate_in(device *d, size_t T, size_t N, size_t K, uint64_t run_ns,
                                   double *rate);
trine_status limit_triad_rate_in(device *d, size_t bytes, uint64_t run_ns, double *rate);

#endif
