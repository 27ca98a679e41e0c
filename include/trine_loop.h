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
    /* *samples = how many there are, at least 1; TRINE_ENDLESS: a stream. Called once, by
     * trine_trainer_create_from, on every rank. An epoch visits each sample once: in an order of its own, from
     * data.seed, or with data.in_order as they are counted. A stream has one epoch and needs data.in_order: step i
     * of global_batch_size G reads the samples from i G on. */
    trine_status (*count)(void *context, uint64_t *samples);
    /* tokens (length + 1): the ids of a sample, sample < samples. mask (length), with has_mask, else NULL: mask[t]
     * is 1 if tokens[t + 1] has a loss, else 0. Called in a step or a validation, on the ranks that read tokens:
     * of the first and the last pipeline stage, each of its own samples. What it returns, if not TRINE_OK, fails
     * the step on this rank, as a file that cannot be read does. While it waits, other ranks wait for this one, at
     * most parallel.timeout. */
    trine_status (*fill)(void *context, uint64_t sample, int length, int32_t *tokens, uint8_t *mask);
    bool has_mask;
    /* With has_mask, else NULL: *count = the ones of the sample's mask. Called on every rank for each sample of a
     * global batch, since the loss is divided by the number of all. */
    trine_status (*supervised)(void *context, uint64_t sample, int length, int *count);
    /* Of the samples' contents, as a hash of them: compared on all ranks, saved in checkpoints and compared when a
     * run is resumed. 0: it is not known, and a resume says that it compares nothing. */
    uint64_t fingerprint;
} trine_source;

/* Tokens in memory, as a stream in a token file: sample i has the tokens from i length on, and (count - 1) / length
 * samples are whole. */
typedef struct {
    const int32_t *tokens; /* (count), the program's; unchanged while a trainer reads it */
    uint64_t count;
    int length; /* the model's seq_length */
} trine_memory;

/* `memory` as a source, which refers to it. Its fingerprint is a hash of all its tokens: some 0.1 s a GB. A
 * training on it has the bits of one on a token file with the same tokens. NULL, or memory without tokens: a
 * source that trine_trainer_create_from refuses. Not collective. */
trine_source trine_source_memory(const trine_memory *memory);

/* trine_config_check of a configuration for trine_trainer_create_from, with the same samples, which are not called:
 * config->data.data_path must be NULL and stays so, and with `validation` (NULL: none) val_data_path, too;
 * model.vocab_size must be given. Errors: TRINE_EINVAL, for the sources as in trine_trainer_create_from; *config is
 * then unchanged. Not collective. */
trine_status trine_config_check_from(trine_config *config, int ranks, const trine_source *train,
                                     const trine_source *validation);

/* trine_trainer_create with samples from the program. `train` and `validation` are copied; validation NULL:
 * data.val_data_path, or no validation. config->data.data_path, which must be NULL, is "(the program's samples)"
 * in trine_trainer_config; model.vocab_size must be given. Checkpoints of such a run resume at its next sample.
 * Errors: as trine_trainer_create; TRINE_EINVAL if config names files where samples are the program's, without
 * vocab_size, for a source without count or fill, for a mask without `supervised` (or the reverse), and for a
 * stream without in_order; TRINE_EDATA for a source of no samples, or whose samples or fingerprints differ between
 * ranks; what `count` returns. A step's are TRINE_EDATA for an id outside the vocabulary and a mask that is not as
 * `supervised` says, with sample and position. Collective over: world. */
trine_status trine_trainer_create_from(trine_trainer **trainer, trine_world *world, const trine_config *config,
                                       const trine_source *train, const trine_source *validation);

/* ---- The learning rate ------------------------------------------------------------------------- */

/* The learning rate of the steps from now on, instead of the schedule's (trine_optimizer), which goes on counting.
 * Checkpoints have it, and trine_trainer_load sets it again and says so. In a step in parts it is that of the step's
 * update if it is set before trine_trainer_update; so is the schedule's. Errors, on every rank alike: TRINE_EINVAL
 * for one that is negative or not finite, and if ranks give different ones. Collective over: world. */
trine_status trine_trainer_set_lr(trine_trainer *trainer, double lr);
/* From now on the schedule's again, as if trine_trainer_set_lr had not been called. Errors: TRINE_EINVAL for NULL.
 * Not collective; every rank must call it. */
trine_status trine_trainer_schedule_lr(trine_trainer *trainer);

/* ---- Tensors ----------------------------------------------------------------------------------- */

/* What of a tensor: the parameter in fp32 (with 16-bit precision its master); the gradient of the global batch's mean
 * loss, before clipping and without the loss scale, which is there from trine_trainer_forward_backward until
 * trine_trainer_update or trine_trainer_skip; AdamW's moments. */
#define TRINE_TENSOR_LIST(X)                                                                       \
    X(TRINE_PARAMETER, "parameter")                                                                \
    X(TRINE_GRADIENT, "gradient")                                                                  \
    X(TRINE_MOMENT_1, "first moment")                                                              \
    X(TRINE_MOMENT_2, "second moment")

typedef enum {
#define TRINE_TENSOR_ENUM(name, text) name,
    TRINE_TENSOR_LIST(TRINE_TENSOR_ENUM)
#undef TRINE_TENSOR_ENUM
    TRINE_TENSOR_KINDS
} trine_tensor_kind;

/* The model's tensors, the same on every rank and layout, in one order: embedding, final norm and head, layers. Names
 * and shapes are those of checkpoints, and so Hugging Face's of the family ("transformer.h.0.attn.c_attn.weight"); a
 * tied head is the embedding. The name is the trainer's; NULL for an index that is not below the count. */
size_t trine_trainer_tensor_count(const trine_trainer *trainer);
const char *trine_trainer_tensor_name(const trine_trainer *trainer, size_t index);
/* shape (2): the first *dims, 1 or 2, are the sizes; the last one varies fastest. Errors: TRINE_EINVAL for an
 * index that is not below the count. Not collective. */
trine_status trine_trainer_tensor_shape(const trine_trainer *trainer, size_t index, uint64_t *shape, int *dims);

/* values (count) = the whole tensor, unsharded, on every rank. Reads have no effect on a training. Errors, on
 * every rank alike: TRINE_EINVAL for a name that the model does not have, a count that is not the tensor's, a
 * gradient where there is none, or ranks that ask for different things; TRINE_ENOMEM. Collective over: world. */
trine_status trine_trainer_read(trine_trainer *trainer, trine_tensor_kind what, const char *name, float *values,
                                size_t count);
/* The reverse for parameters and gradients, on all ranks that have a part or a copy: `values`, the same on every
 * rank. A parameter is set in fp32 and, with 16-bit precision, its rounding; moments stay. A gradient that is
 * written belongs to the step that is under way, whose norm trine_trainer_norm then computes anew; it is rounded
 * to the type of gradients. Errors: as trine_trainer_read; TRINE_EINVAL also for moments, and if values differ
 * between ranks. Collective over: world. */
trine_status trine_trainer_write(trine_trainer *trainer, trine_tensor_kind what, const char *name,
                                 const float *values, size_t count);

/* ---- A step in parts --------------------------------------------------------------------------- */

/* trine_trainer_step in parts, with its bits:
 *
 *     trine_trainer_forward_backward    the gradients of the next global batch, summed over all ranks
 *         trine_trainer_read, trine_trainer_write    gradients
 *     trine_trainer_norm                their norm, and the loss
 *     trine_trainer_update              clips, applies AdamW, ends the step; or
 *     trine_trainer_skip                ends the step without an update: steps and samples are counted
 *
 * No pass is under way between them, on any rank. A part that comes in another order is TRINE_EINVAL with what was
 * called before it, and so is every other call that runs a program, saves or loads between forward_backward and the
 * step's end; nothing is changed by it. Profiles have whole steps only. Errors besides: those of trine_trainer_step;
 * TRINE_EPROGRAM for a program that cannot be cut there. Collective over: world. */
trine_status trine_trainer_forward_backward(trine_trainer *trainer);
/* *norm = the global norm of the gradients, before clipping; *loss (may be NULL) = the mean loss of the global
 * batch, which is known only now, and not changed by written gradients. Both NaN for a batch without a supervised
 * token. May be called again. */
trine_status trine_trainer_norm(trine_trainer *trainer, double *norm, double *loss);
/* *metrics: as of trine_trainer_step; seconds are from the beginning of forward_backward. Gradients whose norm is not
 * finite are no update, as in trine_trainer_step. */
trine_status trine_trainer_update(trine_trainer *trainer, trine_metrics *metrics);
/* metrics->skipped is true. The loss scale changes only if the norm is not finite. */
trine_status trine_trainer_skip(trine_trainer *trainer, trine_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
