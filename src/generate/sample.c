#include "generate/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/status.h"
#include "generate/exp64.h"

trine_status sample_check(const trine_sampling *s) {
    CHECK(s->temperature >= 0 && isfinite(s->temperature), TRINE_EINVAL,
          "invalid temperature %g (valid: 0 or more; 0: always the most likely token)",
          s->temperature);
    CHECK(s->top_k >= 0, TRINE_EINVAL, "invalid top-k %d (valid: 1 or more, or 0 for all tokens)",
          s->top_k);
    return TRINE_OK;
}

/* *best = the id of the largest logit, the lowest of equal ones. */
static trine_status find_largest(const float *logits, size_t V, int32_t *best) {
    size_t at = 0;
    for (size_t v = 0; v < V; v++) {
        CHECK(!isnan(logits[v]), TRINE_EMATH, "the logit of token %zu is NaN", v);
        if (logits[v] > logits[at]) at = v;
    }
    CHECK(isfinite(logits[at]), TRINE_EMATH, "the logit of token %zu is %g; logits must be finite",
          at, (double)logits[at]);
    *best = (int32_t)at;
    return TRINE_OK;
}

/* ---- The k largest: a heap with the worst at its root ---- */

/* Whether a is dropped before b. */
static bool worse(const float *logits, int32_t a, int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
}

static void sink(const float *logits, int32_t *heap, size_t k, size_t at) {
    for (;;) {
        size_t least = at, child = 2 * at + 1;
        for (size_t c = child; c < child + 2 && c < k; c++)
            if (worse(logits, heap[c], heap[least])) least = c;
        if (least == at) return;
        int32_t id = heap[at];
        heap[at] = heap[least], heap[least] = id;
        at = least;
    }
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* ids (k) = the ids of the k largest logits, ascending; k < V. */
static void keep_largest(const float *logits, size_t V, size_t k, int32_t *ids) {
    for (size_t v = 0; v < k; v++) ids[v] = (int32_t)v;
    for (size_t at = k / 2; at-- > 0;) sink(logits, ids, k, at);
    for (size_t v = k; v < V; v++) {
        if (!worse(logits, ids[0], (int32_t)v)) continue;
        ids[0] = (int32_t)v;
        sink(logits, ids, k, 0);
    }
    qsort(ids, k, sizeof *ids, ascending);
}

/* ---- The choice ---- */

/* In [0, 1). */
static double uniform(uint64_t seed, uint64_t place) {
    uint32_t words[4];
    rng_philox(words, rng_key(seed, "generate.sample"), place);
    return (double)((uint64_t)words[0] << 21 | words[1] >> 11) * 0x1p-53;
}

#define BLOCK 256 /* weights at a time */

/* The weight of each id of a block: in (0, 1], or 0 on underflow. `ids` NULL: the block is [first, first + count). */
static void block_weights(double *weights, const float *logits, const int32_t *ids, size_t first,
                          size_t count, float max, double temperature) {
    float chosen[BLOCK];
    for (size_t i = 0; ids && i < count; i++) chosen[i] = logits[ids[first + i]];
    const float *from = ids ? chosen : logits + first;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        weights[i] = exp64_below(((double)from[i] - (double)max) / temperature);
}

trine_status sample_token(const float *logits, size_t V, const trine_sampling *s, uint64_t place,
                          int32_t *ids, int32_t *token) {
    int32_t best = 0;
    TRY(find_largest(logits, V, &best));
    *token = best;
    if (s->temperature == 0) return TRINE_OK;
    size_t k = s->top_k && (size_t)s->top_k < V ? (size_t)s->top_k : V;
    const int32_t *kept = k < V ? ids : NULL; /* NULL: all */
    if (kept) keep_largest(logits, V, k, ids);
    double sum = 0, wanted = INFINITY;
    /* The first pass has the total, the second stops at the sum that exceeds its share of it. Same additions in the
     * same order: the last sum equals the total, which is larger than `wanted`. */
    for (int pass = 0; pass < 2; pass++) {
        sum = 0;
        for (size_t first = 0; first < k && sum <= wanted; first += BLOCK) {
            double weights[BLOCK];
            size_t count = k - first < BLOCK ? k - first : BLOCK;
            block_weights(weights, logits, kept, first, count, logits[best], s->temperature);
            for (size_t i = 0; i < count && sum <= wanted; i++) {
                sum += weights[i];
                *token = kept ? kept[first + i] : (int32_t)(first + i);
            }
        }
        if (pass == 0) wanted = uniform(s->seed, place) * sum;
    }
    return TRINE_OK;
}
