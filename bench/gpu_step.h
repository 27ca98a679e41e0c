/* A training step on one GPU: how fast, beside the library's matmuls and the card's copy, measured
 * in turns with it; where its time goes, by marks around every operator; when the GPU was idle;
 * and whether the memory that it takes is the plan's.
 *
 * Model FLOP/s utilisation (Chowdhery et al., "PaLM", 2022, appendix B) is
 *
 *     MFU = tokens/s x (6 N + 12 L C T) / 989 TFLOP/s
 *
 * N the weights of all matmuls (the head's too), L layers, C hidden size, T tokens a sample;
 * nothing that is computed again counts; the peak is an H100's and H200's dense bf16, whatever the
 * step computes in, and the share of the peak for its own type stands beside it. 12 L C T counts
 * the whole (T, T) matrix of attention as is usual, half of which a causal model needs: `ratio`,
 * against the matmuls, counts the triangle (6 L C T), as everywhere else in this folder.
 *
 * Idle time is what lies between the operators on the compute stream (profile/spans.h), in steps of
 * their own, which marks make a little longer: the table has both. Memory is what the driver says
 * is free, before and after. */
#ifndef TRINE_BENCH_GPU_STEP_H
#define TRINE_BENCH_GPU_STEP_H

#include "bench_options.h"

/* GPT-2 124M and 1.5B, or the model that the bench_options name; the micro-batch is theirs, or the largest
 * that fits. Errors: the device's and the trainer's. Collective over: world, of one rank. */
trine_status bench_gpu_step(bench_report *r, const bench_options *k, trine_world *world);

#endif
