/* What the machine gives to a device: the rates that a profile is judged by, measured with the
 * device's own operators and threads.
 *
 * A figure is the best of LIMIT_RUNS runs, each of calls until LIMIT_RUN_NS are over: on processors
 * that several ranks share a single call may be lucky, a run is not. What other processes do at the
 * same time counts; so all ranks measure at once (measure.c).
 * Cost: some 0.3 s a figure, more where one call takes longer than a run. Memory is taken for the
 * time of the call. Triad: McCalpin, "Memory bandwidth and machine balance in current high
 * performance computers", 1995. */
#ifndef TRINE_PROFILE_LIMITS_H
#define TRINE_PROFILE_LIMITS_H

#include "device/device.h"

#define LIMIT_RUNS   5
#define LIMIT_RUN_NS 50000000u

/* Flops a second of a linear layer y (T, N) = x (T, K) w (N, K)^T and of its two backward products,
 * in the device's types. */
typedef struct {
    double forward, backward_input, backward_weight;
} limit_matmul;

/* T, N and K are at least 1. Errors: TRINE_ENOMEM; TRINE_EMATH. Not collective. */
trine_status limit_matmul_rates(device *d, size_t T, size_t N, size_t K, limit_matmul *rates);

/* Bytes a second of a = b + s c over fp32 arrays of `bytes` bytes each (12 bytes an element are
 * counted, as STREAM does), with the device's threads; where the processor cannot touch the
 * memory, of device_copy from one such array to another (8 bytes an element). Errors:
 * TRINE_ENOMEM. Not collective. */
trine_status limit_triad_rate(device *d, size_t bytes, double *rate);

/* The same with runs of `run_ns`, for who has less time, of the forward product alone and of the triad.
 * Runs much shorter than LIMIT_RUN_NS may be lucky: they fit between two turns of another process. */
trine_status limit_forward_rate_in(device *d, size_t T, size_t N, size_t K, uint64_t run_ns,
                                   double *rate);
trine_status limit_triad_rate_in(device *d, size_t bytes, uint64_t run_ns, double *rate);

#endif
