#include "data/sampler.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"

trine_status sampler_create(sampler *s, const tokens *source, size_t T, uint32_t vocab,
                            uint64_t seed, sampler_order order) {
    ASSERT(T > 0);
    uint64_t count = tokens_count(source);
    CHECK(count > T, TRINE_EDATA,
          "%s: %" PRIu64 " tokens are too few; one sample of sequence length %zu needs %zu",
          tokens_path(source), count, T, T + 1);
    *s = (sampler){source, T, vocab, seed, (count - 1) / T, order};
    return TRINE_OK;
}

uint64_t sampler_window(const sampler *s, uint64_t g) {
    uint64_t place = g % s->windows;
    if (s->order == SAMPLER_SEQUENTIAL) return place;
    char name[40];
    snprintf(name, sizeof name, "data.epoch.%" PRIu64, g / s->windows);
    return rng_permute(rng_key(s->seed, name), s->windows, place);
}

trine_status sampler_load(const sampler *s, uint64_t g, int32_t *inputs, int32_t *targets) {
    return tokens_sample(s->source, sampler_window(s, g) * s->T, s->T, inputs, targets, s->vocab);
}
