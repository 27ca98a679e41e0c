/* Text from a trained model: what a checkpoint of Trine's or a Hugging Face GPT-2 folder says next.
 * The model is evaluated under any tp and pp, with a cache of keys and values, so that a token
 * costs one pass over the weights and not one over all tokens before it. The conventions are those
 * of trine.h.
 *
 * A generator holds one sequence: tokens are appended to it, and answers are about what follows
 * them. Positions are those of the model, [0, seq_length). */
#ifndef TRINE_GENERATE_H
#define TRINE_GENERATE_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trine_generator trine_generator;

/* How the model is evaluated. */
typedef struct {
    trine_layout layout;       /* tp x pp is the number of ranks; dp is 1 */
    trine_dtype type;          /* that weights and activations have: TRINE_F32, BF16 or F16 */
    const char *device;        /* as in trine_parallel, like the next five */
    const char *cuda_library;
    bool tf32;
    int threads;
    double timeout;
    trine_transport transport;
    bool no_cache;             /* trine_generator_next evaluates all tokens every time */
} trine_generate_config;

/* One rank, fp32, device cpu, a timeout of 600 seconds. */
trine_generate_config trine_generate_config_default(void);

/* Loads the model that `path` names: a checkpoint step-N, a folder of them (the newest whole one),
 * or a Hugging Face folder. On `out` (NULL: nothing) world rank 0 says which was taken and which
 * were passed over. `config` and its strings are not needed afterwards; `world` must outlive the
 * generator, which is owned by the caller. Errors, on every rank alike: TRINE_EINVAL where ranks
 * have different configurations (threads, timeout and the library may differ), or for a layout that
 * the model or the number of ranks does not allow; TRINE_EIO and TRINE_EDATA when there is nothing
 * whole at `path`; TRINE_EUNSUPPORTED, TRINE_ENOMEM, TRINE_EMPI, TRINE_EMATH. Collective over: world.
 */
trine_status trine_generator_create(trine_generator **generator, trine_world *world,
                                    const char *path, const trine_generate_config *config,
                                    FILE *out);
/* Collective over: world. */
void trine_generator_destroy(trine_generator **generator);

/* The model's sizes; owned by the generator. Not collective. */
const trine_model *trine_generator_model(const trine_generator *generator);
/* Tokens appended since the start or the last reset. Not collective. */
int64_t trine_generator_length(const trine_generator *generator);
/* Forgets all tokens. Every rank must do it, but it sends nothing. */
void trine_generator_reset(trine_generator *generator);

/* Appends `count` tokens, the same on every rank; logits (count, vocab_size) on every rank = of the
 * token that follows each, before any softmax. Errors: TRINE_EINVAL for a token outside of the
 * vocabulary, or when the sequence would be longer than seq_length: on every rank alike, and
 * nothing is appended then. Others (TRINE_EMATH, TRINE_EMPI) are this rank's alone: trine_abort
 * ends the job. Collective over: world. */
trine_status trine_generator_logits(trine_generator *generator, const int32_t *tokens, int count,
                                    float *logits);

/* How a token is chosen among those that may follow. */
typedef struct {
    double temperature; /* logits are divided by it; 0: the largest, of equals the lowest id */
    int top_k;          /* among the k largest logits only; 0: among all */
    uint64_t seed;
} trine_sampling;

/* Appends `count` tokens (0: none, if there are some already) and chooses the one that follows, the
 * same on every rank; it is not appended. The choice is a function of the logits, `sampling` and
 * the length alone: every layout writes the same text where its logits, which differ in rounding,
 * do not lie on two sides of a choice. Where the sequence would become longer than seq_length, it
 * is cut to its last seq_length / 2 tokens, which are evaluated anew from position 0. Errors: as
 * above, and TRINE_EINVAL for more than seq_length tokens at once or a negative temperature or
 * top_k; TRINE_EMATH, on every rank, when the logits are no numbers. Collective over: world. */
trine_status trine_generator_next(trine_generator *generator, const int32_t *tokens, int count,
                                  const trine_sampling *sampling, int32_t *token);

#ifdef __cplusplus
}
#endif

#endif
