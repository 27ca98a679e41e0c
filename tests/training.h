/* A small GPT and a token file, for the tests that train. Its sizes are awkward on purpose: seven
 * layers (no number of stages above 1 divides them), a vocabulary of 101 (no tp does), 24 heads
 * (every tp up to 8 that is not 5 or 7 does), MLP and hidden columns that 24 divides.
 *
 * training_run trains some steps and returns what the job reported, with a fingerprint of the
 * parameters that does not depend on where they are held: two runs with the same order of additions
 * must return the same bits. */
#ifndef TRINE_TESTS_TRAINING_H
#define TRINE_TESTS_TRAINING_H

#include "harness.h"
#include "train/trainer.h"

#define TRAINING_LAYERS 7
#define TRAINING_VOCAB  101
#define TRAINING_STEPS  20 /* at most */

/* One rank, device cpu, one thread, micro-batches of one sample, lr 3e-4 after a warm-up of ten
 * steps. (Without one, Adam's first step moves every parameter by lr in the direction of its
 * gradient's sign, noise included: rounding then reaches 5e-6 of the gradient norm in 20 steps,
 * with it 2e-7.) */
trine_config training_config(void);

/* Sets the device to cuda, with the object that runs on the processor (emu), or with the one
 * that the environment's TRINE_CUDA_LIBRARY names: build/libtrine_cuda.so, on a machine with a GPU.
 */
void training_on_gpu(trine_config *config);

/* Whether device cpu computes in bf16 here: the processor has AVX-512 BF16 or AMX. */
bool training_has_bf16(void);

/* The path of this process's own token file, which is removed when the process exits. */
const char *training_tokens(void);

/* Of fp32, the parameters at rest of the named tensor: the first element that this rank holds, and
 * how many follow (*count, which may be NULL); NULL if it holds none. A tied head counts as "wte.weight". */
float *training_tensor(const trine_trainer *trainer, const char *name, size_t *count);

/* Calls `visit` for all layouts with as many ranks as the job has. */
void training_layouts(void (*visit)(trine_layout layout));

/* What a run reported, step by step, and what it left. */
typedef struct {
    int steps;
    double loss[TRAINING_STEPS], norm[TRAINING_STEPS];
    uint64_t
        params[TRAINING_STEPS]; /* fingerprints after the step; comparable for equal dp and tp */
} training_result;

/* Sums a hash of (place in the model, bits) over all parameters of the job that are not zero (padding,
 * of which a GPU has more, is), and the master weights
 * of 16-bit ones, each once, whatever pp, the schedule and the ZeRO stage are. Collective over: the
 * trainer's world. */
uint64_t training_fingerprint(const trine_trainer *trainer);

/* Creates a trainer, makes `steps` steps and destroys it; fails the test on any error.
 * Collective over: world. */
training_result training_run(trine_world *world, const trine_config *config, int steps);

/* Every bit of the steps of `a` is the same in `b`, which may have more. */
bool training_same_bits(const training_result *a, const training_result *b);

/* The largest relative difference of a loss or gradient norm, over the steps of `a`. */
double training_distance(const training_result *a, const training_result *b);

#endif
