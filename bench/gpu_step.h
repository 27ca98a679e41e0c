/* A training step on one GPU: its speed, compared with the library's matmuls and a copy, measured
 * alternately; where its time goes, by marks around every operator; when the GPU is idle;
 * and whether its memory is that of the plan.
 *
 * Model FLOP/s utilisation (Chowdhery et al., "PaLM", 2022, appendix B) is
 *
 *     MFU = tokens/s x (6 N + 12 L C T) / 989 TFLOP/s
 *
 * N the weights of all matmuls (with the head), L layers, C hidden size, T tokens a sample;
 * recomputed work does not count; the peak is dense bf16 of an H100 and H200 for every type, and the
 * share of the peak of the type itself is another column. 12 L C T counts
 * the full (T, T) matrix of attention as is usual, half of which a causal model needs: `ratio`,
 * relative to the matmuls, counts the triangle (6 L C T), as everywhere else in this folder.
 *
 * Idle time is the time between operators on the compute stream (profile/spans.h), in separate steps with marks,
 * which are slightly longer: the table has both. Memory is what the driver reports as free before and after. */
#ifndef TRINE_BENCH_GPU_STEP_H
#define TRINE_BENCH_GPU_STEP_H

#include "bench_options.h"

/* Measures GPT-2 124M and 1.5B, or the model of the options; the micro-batch is that of the options, or the largest
 * that fits. Errors: the device's and the trainer's. Collective over: world, of one rank. */
trine_status bench_gpu_step(bench_report *r, const bench_options *k, trine_world *world);

#endif
