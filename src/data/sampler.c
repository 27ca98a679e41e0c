#include "data/sampler.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"

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
    *s = (sampler){source, T, vocab, seed, window ? count / T : (count - 1) / T, order, -1};
    return TRINE_OK;
}

uint64_t sampler_window(const sampler *s, uint64_t g) {
    uint64_t place = g % s->windows;
    if (s->order == SAMPLER_SEQUENTIAL) return place;
    char name[40];
    snprintf(name, sizeof name, "data.epoch.%" PRIu64, g / s->windows);
    return rng_permute(rng_key(s->seed, name), s->windows, place);
}

/* A document ends behind its end token. */
static void find_starts(const sampler *s, const int32_t *inputs, int32_t *starts) {
    int32_t start = 0;
    for (size_t t = 0; t < s->T; t++) {
        if (t && s->end >= 0 && inputs[t - 1] == s->end) start = (int32_t)t;
        starts[t] = start;
    }
}

trine_status sampler_load(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets,
                          int32_t *starts) {
    uint64_t window = sampler_window(s, g);
    if (tokens_window(s->source))
        return tokens_read_window(s->source, window, inputs, targets, starts, s->vocab);
    TRY(tokens_sample(s->source, window * s->T, s->T, inputs, targets, s->vocab));
    if (starts) find_starts(s, inputs, starts);
    return TRINE_OK;
}

trine_status sampler_supervised(const sampler *s, uint64_t g, uint32_t *count) {
    *count = (uint32_t)s->T;
    if (!tokens_window(s->source)) return TRINE_OK;
    return tokens_window_supervised(s->source, sampler_window(s, g), count);
}
