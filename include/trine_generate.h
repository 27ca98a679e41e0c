/* Text generation from a trained model: a Trine checkpoint or a Hugging Face folder. The model is evaluated under any
 * tp and pp with a key/value cache, so that a token costs one pass over the weights, not one over all preceding
 * tokens. The conventions are those of trine.h.
 *
 * A generator holds one sequence (one in each replica, with dp). Tokens are appended to it, and results refer to what
 * follows them. Their positions are [0, seq_length): those of the model, or the first of these. Memory grows with
 * seq_length. */
#ifndef TRINE_GENERATE_H
#define TRINE_GENERATE_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trine_generator trine_generator;

/* The keys and values of a Llama 3.2 for all its 131,072 positions would be larger than its weights. */
#define TRINE_GENERATE_POSITIONS 4096

/* How the model is evaluated. */
typedef struct {
    trine_layout layout;       /* dp x tp x pp is the number of ranks. Each of dp replicas has a sequence of its own,
                                  and its tp x pp ranks call alike */
    trine_dtype type;          /* of weights and activations: TRINE_F32, TRINE_BF16 or TRINE_F16 */
    const char *device;        /* as in trine_parallel, like the next five */
    const char *cuda_library;
    bool tf32;
    int threads;
    double timeout;
    trine_transport transport;
    const char *adapter;       /* a folder of low-rank adapters as PEFT writes them, which are added to the model, or
                                  NULL; a folder of adapters may also be the path itself: then it names its base */
    bool no_cache;             /* trine_generator_next evaluates all tokens every time */
    int seq_length;            /* most tokens of the sequence, at most the model's positions; 0: the model's, but at
                                  most TRINE_GENERATE_POSITIONS */
    trine_cpu_level cpu_level; /* as in trine_parallel */
} trine_generate_config;

/* One rank, fp32, device cpu, a timeout of 600 seconds. */
trine_generate_config trine_generate_config_default(void);

/* Loads the model at `path`: a checkpoint step-N, a folder of checkpoints (the newest complete one is used), or a
 * Hugging Face folder, or a folder of adapters. On `out` (NULL: no output) world rank 0 reports which one was
 * loaded and which were skipped. `config` and its strings are not needed afterwards; `world` must outlive the
 * generator, which is owned by the caller. Errors, on every rank alike: TRINE_EINVAL if the ranks' configurations
 * differ (threads, timeout and the library may differ), if the model or the number of ranks does not allow the
 * layout, or if seq_length is more than the model's; TRINE_EIO and TRINE_EDATA if `path` has nothing complete;
 * TRINE_EUNSUPPORTED, TRINE_ENOMEM, TRINE_EMPI, TRINE_EMATH. Collective over: world. */
trine_status trine_generator_create(trine_generator **generator, trine_world *world,
                                    const char *path, const trine_generate_config *config,
                                    FILE *out);
/* Collective over: world. */
void trine_generator_destroy(trine_generator **generator);

/* The model's sizes, as its files have them: seq_length is the number of its positions. Owned by the generator. Not
 * collective. */
const trine_model *trine_generator_model(const trine_generator *generator);
/* The folder that its weights were read from: `path`, or the checkpoint in it. "" for weights from no file. Owned by
 * the generator. Not collective. */
const char *trine_generator_path(const trine_generator *generator);
/* The most tokens of the sequence: seq_length of the configuration, with 0 replaced. Not collective. */
int trine_generator_seq_length(const trine_generator *generator);
/* Number of tokens appended since the start or the last reset. Not collective. */
int64_t trine_generator_length(const trine_generator *generator);
/* Discards all tokens. Every rank must call it; it sends nothing. */
void trine_generator_reset(trine_generator *generator);

/* Appends `count` tokens, the same on every rank; logits (count, vocab_size), on every rank, are those of the token
 * that follows each one, before the softmax. Errors: TRINE_EINVAL for a token outside the vocabulary, or if the
 * sequence would be longer than seq_length: on every rank alike, and nothing is appended. Other errors (TRINE_EMATH,
 * TRINE_EMPI) are local to this rank: trine_abort aborts the job. Collective over: world. */
trine_status trine_generator_logits(trine_generator *generator, const int32_t *tokens, int count,
                                    float *logits);

/* How the next token is sampled. The penalty comes first, then the temperature, top_k and top_p, each applied to what
 * the one before it has left. {0} is greedy. */
typedef struct {
    double temperature; /* logits are divided by it; 0: greedy, the lowest id among equal logits */
    int top_k;          /* sample only from the k largest logits; 0: from all */
    uint64_t seed;
    double top_p;       /* sample only from the smallest set of the most likely tokens whose probability reaches
                           top_p; 0 or 1: from all. Holtzman et al., "The curious case of neural text degeneration",
                           ICLR 2020, section 3.1 */
    double repetition_penalty; /* logits of the tokens in the sequence are divided by it if they are positive, and
                                  multiplied by it otherwise; 0 or 1: none. Keskar et al., "CTRL", arXiv:1909.05858,
                                  section 4.1 */
} trine_sampling;

/* Appends `count` tokens (0: none, if the sequence is not empty) and samples the one that follows, the same on every
 * rank; it is not appended. The sample is a function of the logits, `sampling` and the length alone: all layouts
 * generate the same text unless their logits, which differ in rounding, lie on two sides of a choice. If the
 * sequence would become longer than seq_length, it is cut to its last seq_length / 2 tokens, which are evaluated
 * again from position 0. Errors: as above, and TRINE_EINVAL for more than seq_length tokens at once or a negative
 * temperature, top_k or repetition_penalty, or a top_p outside [0, 1]; TRINE_EMATH, on every rank, if a logit is NaN
 * or the largest one is not finite.
 * Collective over: world. */
trine_status trine_generator_next(trine_generator *generator, const int32_t *tokens, int count,
                                  const trine_sampling *sampling, int32_t *token);

#ifdef __cplusplus
}
#endif

#endif
