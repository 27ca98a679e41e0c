#include "data/sampler.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"

uint64_t sampler_window(const sampler *s, uint64_t g) {
    uint64_t place = g % s->windows;
    if (s->order == SAMPLER_SEQUENTIAL) return place;
    char name[40];
    snprintf(name, sizeof name, "data.epoch.%" PRIu64, g / s->windows);
    return rng_permute(rng_key(s->seed, name), s->windows, place);
}

/* A document ends behind its end token. */
static trine_status find_starts(const sampler *s, const int32_t *inputs, int32_t *starts) {
    int32_t start = 0;
    for (size_t t = 0; starts && t < s->T; t++) {
        if (t && s->end >= 0 && inputs[t - 1] == s->end) start = (int32_t)t;
        starts[t] = start;
    }
    return TRINE_OK;
}

/* ---- Kinds of sources ---- */

static trine_status load_stream(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets,
                                int32_t *starts) {
    TRY(tokens_sample(s->source, sampler_window(s, g) * s->T, s->T, inputs, targets, s->vocab));
    return find_starts(s, inputs, starts);
}

static trine_status supervise_all(const sampler *s, uint64_t g, uint32_t *count) {
    (void)g;
    *count = (uint32_t)s->T;
    return TRINE_OK;
}

static trine_status load_window(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets,
                                int32_t *starts) {
    return tokens_read_window(s->source, sampler_window(s, g), inputs, targets, starts, s->vocab);
}

static trine_status supervise_window(const sampler *s, uint64_t g, uint32_t *count) {
    return tokens_window_supervised(s->source, sampler_window(s, g), count);
}

static trine_status load_program(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets,
                                 int32_t *starts) {
    TRY(program_source_load(s->program, sampler_window(s, g), s->T, s->vocab, inputs, targets));
    return find_starts(s, inputs, starts);
}

static trine_status supervise_program(const sampler *s, uint64_t g, uint32_t *count) {
    return program_source_supervised(s->program, sampler_window(s, g), s->T, count);
}

static const sampler_reads of_stream = {load_stream, supervise_all};
static const sampler_reads of_windows = {load_window, supervise_window};
static const sampler_reads of_program = {load_program, supervise_program};

trine_status sampler_create(sampler *s, const tokens *source, size_t T, uint32_t vocab,
                            uint64_t seed, sampler_order order) {
    ASSERT(T > 0);
    uint64_t count = tokens_count(source), window = tokens_window(source);
    CHECK(!window || window == T, TRINE_EDATA,
          "%s: windows of %" PRIu64 " tokens, but --seq-length is %zu", tokens_path(source), window,
          T);
    CHECK(window || count > T, TRINE_EDATA,
          "%s: %" PRIu64 " tokens are too few; one sample of sequence length %zu needs %zu",
          tokens_path(source), count, T, T + 1);
    *s = (sampler){.reads = window ? &of_windows : &of_stream,
                   .source = source,
                   .T = T,
                   .vocab = vocab,
                   .seed = seed,
                   .windows = window ? count / T : (count - 1) / T,
                   .order = order,
                   .end = -1};
    return TRINE_OK;
}

trine_status sampler_create_program(sampler *s, program_source *source, size_t T, uint32_t vocab,
                                    uint64_t seed, sampler_order order) {
    uint64_t samples = program_source_samples(source);
    CHECK(samples != TRINE_ENDLESS || order == SAMPLER_SEQUENTIAL, TRINE_EINVAL,
          "the program's samples: a stream (TRINE_ENDLESS) cannot be shuffled; set data.in_order");
    TRY(program_source_prepare(source, T));
    *s = (sampler){.reads = &of_program,
                   .program = source,
                   .T = T,
                   .vocab = vocab,
                   .seed = seed,
                   .windows = samples,
                   .order = order,
                   .end = -1};
    return TRINE_OK;
}

trine_status sampler_load(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets,
                          int32_t *starts) {
    return s->reads->load(s, g, inputs, targets, starts);
}

trine_status sampler_supervised(const sampler *s, uint64_t g, uint32_t *count) {
    return s->reads->supervised(s, g, count);
}
