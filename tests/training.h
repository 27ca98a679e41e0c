/* A small GPT and a token file for the tests that train. Its sizes are awkward on purpose: seven
 * layers (not divisible by 2 to 6 stages), a vocabulary of 101 (not divisible by any tp), 24 heads
 * (divisible by every tp up to 8 except 5 and 7), MLP and hidden sizes that are divisible by 24.
 *
 * training_run trains some steps and returns the reported numbers and a fingerprint of the
 * parameters that does not depend on their placement: two runs with the same order of additions
 * must return the same bits. */
#ifndef TRINE_TESTS_TRAINING_H
#define TRINE_TESTS_TRAINING_H

#include "harness.h"
#include "train/trainer.h"

#define TRAINING_LAYERS 7
#define TRAINING_VOCAB  101
#define TRAINING_STEPS  20 /* at most */

/* One rank, device cpu, one thread, micro-batches of one sample, lr 3e-4 after a warm-up of ten
 * steps. (Without warm-up Adam's first step moves every parameter by lr in the direction of its
 * gradient's sign, noise included: rounding then reaches 5e-6 of the gradient norm in 20 steps,
 * with warm-up 2e-7.) */
trine_config training_config(void);

/* Sets the device to cuda with the emulated object (emu), or with the one that
 * TRINE_CUDA_LIBRARY names: build/libtrine_cuda.so on a machine with a GPU. */
void training_on_gpu(trine_config *config);

/* Sets the schedule, with two chunks per stage if it takes any number of them and the model has enough units; false:
 * it has too few units for the schedule. The layout and the model are those of the config. */
bool training_schedule(trine_config *config, trine_schedule schedule);

/* Whether device cpu computes in bf16 here: the processor has AVX-512 BF16 or AMX. */
bool training_has_bf16(void);

/* The path of this process's own token file, which is removed when the process exits. */
const char *training_tokens(void);

/* The path of this process's own file of 200 windows of T tokens (data/windows.h), which is removed when the process
 * exits: documents of 1 to T tokens, of whose targets about two in three are supervised, at least one of each window.
 * The contents depend on T alone. */
const char *training_windows(int T);

/* Makes a folder in memory, where fsync costs nothing, and tells all ranks its path; false: it cannot. The caller
 * removes it. Collective over: world. */
#define TRAINING_FOLDER 40
bool training_folder(char path[TRAINING_FOLDER]);

/* In fp32, this rank's part of the parameters of the named tensor outside of steps: its first element and
 * their number (*count, which may be NULL); NULL if it has none. A tied head is "wte.weight". */
float *training_tensor(const trine_trainer *trainer, const char *name, size_t *count);

/* Calls `visit` for all layouts of the job's number of ranks. */
void training_layouts(void (*visit)(trine_layout layout));
/* Those of at most `stages` stages. */
typedef struct {
    trine_layout list[32];
    int count;
} training_list;
training_list training_layouts_up_to(int stages);

/* The reported numbers of a run, step by step, and its final state. */
typedef struct {
    int steps;
    double loss[TRAINING_STEPS], norm[TRAINING_STEPS];
    uint64_t
        params[TRAINING_STEPS]; /* fingerprints after the step; comparable for equal dp and tp */
} training_result;

/* Sums a hash of (place in the model, bits) over all nonzero parameters of the job, and over the master weights of
 * 16-bit ones, each once, whatever pp, the schedule and the ZeRO stage are. (Padding is zero; a GPU has more of it.)
 * Collective over: the trainer's world. */
uint64_t training_fingerprint(const trine_trainer *trainer);
/* The same of the moments. */
uint64_t training_moments(const trine_trainer *trainer);

/* Creates a trainer, makes `steps` steps and destroys it; fails the test on any error.
 * Collective over: world. */
training_result training_run(trine_world *world, const trine_config *config, int steps);

/* Every bit of the steps of `a` is the same in `b`, which may have more. */
bool training_same_bits(const training_result *a, const training_result *b);

/* The largest relative difference of a loss or gradient norm, over the steps of `a`. */
double training_distance(const training_result *a, const training_result *b);

#endif
