/* Samples the next token from logits. The token is a function of the logits, the options and the position
 * in the text alone: a uniform number of 53 bits from Philox (base/rng.h) of key rng_key(seed,
 * "generate.sample") and block `place` is looked up in the distribution function of softmax(logits /
 * temperature), ids ascending, in double.
 *
 * Invariant: equal logits, options and places give equal tokens on every machine; of equal logits the lower
 * id comes first. Cost: a pass over the vocabulary, and log k for each logit that enters the k largest; with top_p a
 * heap of the vocabulary (or of the k largest), from which the kept tokens are taken one by one: log V each. Fan et
 * al., "Hierarchical neural story generation", ACL 2018 (top-k). */
#ifndef TRINE_GENERATE_SAMPLE_H
#define TRINE_GENERATE_SAMPLE_H

#include "trine_generate.h"

/* Checks the options. Errors: TRINE_EINVAL. Pure. */
trine_status sample_check(const trine_sampling *s);

/* Applies the repetition penalty to the logits (V) of each token that occurs in `tokens` (count), once however often
 * it occurs. A penalty of 0 or 1 does nothing. `marks` (V) is scratch. Pure. */
void sample_penalize(float *logits, size_t V, double penalty, const int32_t *tokens, size_t count,
                     int32_t *marks);

/* *token = a sample from logits (V), without the penalty; `ids` (V) is scratch. Errors: TRINE_EMATH when a logit is NaN or the
 * largest is not finite. Pure. */
trine_status sample_token(const float *logits, size_t V, const trine_sampling *s, uint64_t place,
                          int32_t *ids, int32_t *token);

#endif
