/* The order of samples: a pure function of (seed, number of the sample), the same on every layout
 * and after every resume. A sample is T + 1 consecutive tokens: T inputs, and the same shifted by one as
 * targets; sample window i starts at token i T. Each epoch visits every window once, in its own order:
 *
 *   epoch g / N, place g mod N, window rng_permute(rng_key(seed, "data.epoch.<epoch>"), N, place)
 *
 * with N = (tokens - 1) / T. Of files of windows (windows.h) a sample is a window: N = tokens / T, and targets are
 * the supervised tokens. Of the program's samples (program_source.h) a window is one of these. Cost: one permutation
 * step and one read a sample; no state. */
#ifndef TRINE_DATA_SAMPLER_H
#define TRINE_DATA_SAMPLER_H

#include "data/program_source.h"
#include "data/tokens.h"

typedef enum {
    SAMPLER_SHUFFLED,
    SAMPLER_SEQUENTIAL /* window g mod N: of a validation, or asked for */
} sampler_order;

struct sampler;

/* sampler_load and sampler_supervised of a kind of source. */
typedef struct {
    trine_status (*load)(const struct sampler *s, uint64_t g, int32_t *inputs, int32_t *targets, int32_t *starts);
    trine_status (*supervised)(const struct sampler *s, uint64_t g, uint32_t *count);
} sampler_reads;

typedef struct sampler {
    const sampler_reads *reads;
    const tokens *source;          /* not owned; NULL: the program's samples */
    const program_source *program; /* the same; NULL: a source of tokens */
    size_t T;
    uint32_t vocab;
    uint64_t seed, windows; /* windows: N */
    sampler_order order;
    int32_t end; /* the token that ends a document, of sources without windows; -1: a sample is one document */
} sampler;

/* Errors: TRINE_EDATA when the source is shorter than one sample, or has windows of another T. Not collective. */
trine_status sampler_create(sampler *s, const tokens *source, size_t T, uint32_t vocab,
                            uint64_t seed, sampler_order order);

/* The same of the program's samples. Errors: TRINE_ENOMEM; TRINE_EINVAL to shuffle a stream, which has no end. */
trine_status sampler_create_program(sampler *s, program_source *source, size_t T, uint32_t vocab, uint64_t seed,
                                    sampler_order order);

/* The window of sample g. Pure. */
uint64_t sampler_window(const sampler *s, uint64_t g);

/* inputs (T), targets (T; DATA_NO_TARGET: none) and starts (T, may be NULL: the position at which each token's
 * document begins) of sample g. A document that began before the sample begins with it. Errors: TRINE_EDATA for an id
 * outside the vocabulary, and for a damaged window; those of program_source_load. */
trine_status sampler_load(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets, int32_t *starts);

/* The targets of sample g that count: T without windows. Errors: as tokens_window_supervised. */
trine_status sampler_supervised(const sampler *s, uint64_t g, uint32_t *count);

#endif
