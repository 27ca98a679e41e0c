/* A training loop of one's own: samples from the program's memory, the learning rate, the tensors of the model, and
 * a step in parts. The conventions are those of trine.h; a page of it is examples/own_loop.c. */
#ifndef TRINE_LOOP_H
#define TRINE_LOOP_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Samples from the program ------------------------------------------------------------------ */

/* trine_source.count of a stream, whose samples never end. */
#define TRINE_ENDLESS UINT64_MAX

/* Samples that the program makes, instead of token files. A sample is length + 1 tokens, length = the model's
 * seq_length: `length` inputs, and the same shifted by one as targets. All functions are called by the thread that
 * calls the trainer, and answer the same for the same arguments in every call, on every rank. `context` is passed to
 * them, and must live until the trainer is destroyed. */
typedef struct {
    void *context;
    /* *samples = how many there are, at least 1; TRINE_ENDLESS: a stream. Called once, by trine_trainer_create_from, on
     * every rank. An epoch visits each sample once: in an order of its own, from data.seed, or with data.in_order as
     * they are counted. A stream has one epoch and needs data.in_order: step i of global_batch_size G reads the samples
     * from i G on. */
    trine_status (*count)(void *context, uint64_t *samples);
    /* tokens (length + 1): the ids of a sample, sample < samples. mask (length), with has_mask, else NULL: mask[t] is 1
     * if tokens[t + 1] has a loss, else 0. Called in a step or a validation, on the ranks that read tokens: of the first
     * and the last pipeline stage, each of its own samples. What it returns, if not TRINE_OK, fails the step on this
     * rank, as a file that cannot be read does. */
    trine_status (*fill)(void *context, uint64_t sample, int length, int32_t *tokens, uint8_t *mask);
    bool has_mask;
    /* With has_mask, else NULL: *count = the ones of the sample's mask. Called on every rank for each sample of a global
     * batch, since the loss is divided by the number of all. */
    trine_status (*supervised)(void *context, uint64_t sample, int length, int *count);
    /* Of the samples' contents, as a hash of them: compared on all ranks, saved in checkpoints and compared when a run is
     * resumed. 0: it is not known, and a resume says that it compares nothing. */
    uint64_t fingerprint;
} trine_source;

/* Tokens in memory, as a stream in a token file: sample i has the tokens from i length on, and (count - 1) / length
 * samples are whole. */
typedef struct {
    const int32_t *tokens; /* (count), the program's; unchanged while a trainer reads it */
    uint64_t count;
    int length; /* the model's seq_length */
} trine_memory;

/* `memory` as a source, which refers to it. Its fingerprint is a hash of all its tokens: some 0.1 s a GB. A training on
 * it has the bits of one on a token file with the same tokens. NULL, or memory without tokens: a source that
 * trine_trainer_create_from refuses. Not collective. */
trine_source trine_source_memory(const trine_memory *memory);

/* trine_trainer_create with samples from the program. `train` and `validation` are copied; validation NULL:
 * data.val_data_path, or no validation. config->data.data_path, which must be NULL, is "(the program's samples)" in
 * trine_trainer_config; model.vocab_size must be given. Checkpoints of such a run resume at its next sample. Errors: as
 * trine_trainer_create; TRINE_EINVAL if config names files where samples are the program's, without vocab_size, for a
 * source without count or fill, for a mask without `supervised` (or the reverse), and for a stream without in_order;
 * TRINE_EDATA for a source of no samples, or whose samples or fingerprints differ between ranks; what `count` returns.
 * A step's are TRINE_EDATA for an id outside the vocabulary and a mask that is not as `supervised` says, with sample
 * and position. Collective over: world. */
trine_status trine_trainer_create_from(trine_trainer **trainer, trine_world *world, const trine_config *config,
                                       const trine_source *train, const trine_source *validation);

#ifdef __cplusplus
}
#endif

#endif
