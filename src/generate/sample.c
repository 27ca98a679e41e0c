#include "generate/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "generate/exp64.h"

trine_status sample_check(const trine_sampling *s) {
    CHECK(s->temperature >= 0 && isfinite(s->temperature), TRINE_EINVAL,
          "invalid temperature %g (valid: 0 or more; 0: always the most likely token)",
          s->temperature);
    CHECK(s->top_k >= 0, TRINE_EINVAL, "invalid top-k %d (valid: 1 or more, or 0 for all tokens)",
          s->top_k);
    CHECK(s->top_p >= 0 && s->top_p <= 1, TRINE_EINVAL,
          "invalid top-p %g (valid: above 0, at most 1; 1: from all tokens)", s->top_p);
    CHECK(s->repetition_penalty >= 0 && isfinite(s->repetition_penalty), TRINE_EINVAL,
          "invalid repetition penalty %g (valid: above 0; 1: none)", s->repetition_penalty);
    return TRINE_OK;
}

void sample_penalize(float *logits, size_t V, double penalty, const int32_t *tokens, size_t count,
                     int32_t *marks) {
    if (penalty == 0 || penalty == 1) return;
    memset(marks, 0, V * sizeof *marks);
    for (size_t i = 0; i < count; i++) {
        int32_t id = tokens[i];
        if (marks[id]) continue;
        marks[id] = 1;
        double logit = logits[id];
        logits[id] = (float)(logit > 0 ? logit / penalty : logit * penalty);
    }
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

/* ---- Heaps of ids by their logits ---- */

/* Which of two ids is nearer to the root. */
typedef bool id_order(const float *logits, int32_t a, int32_t b);

static bool worse(const float *logits, int32_t a, int32_t b) {
    return logits[a] < logits[b] || (logits[a] == logits[b] && a > b);
}

static bool better(const float *logits, int32_t a, int32_t b) {
    return worse(logits, b, a);
}

static void sink(const float *logits, int32_t *heap, size_t k, size_t at, id_order *before) {
    for (;;) {
        size_t first = at, child = 2 * at + 1;
        for (size_t c = child; c < child + 2 && c < k; c++)
            if (before(logits, heap[c], heap[first])) first = c;
        if (first == at) return;
        int32_t id = heap[at];
        heap[at] = heap[first], heap[first] = id;
        at = first;
    }
}

static void make_heap(const float *logits, int32_t *heap, size_t k, id_order *before) {
    for (size_t at = k / 2; at-- > 0;) sink(logits, heap, k, at, before);
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* ids (k) = the ids of the k largest logits, ascending; k < V. */
static void keep_largest(const float *logits, size_t V, size_t k, int32_t *ids) {
    for (size_t v = 0; v < k; v++) ids[v] = (int32_t)v;
    make_heap(logits, ids, k, worse);
    for (size_t v = k; v < V; v++) {
        if (!worse(logits, ids[0], (int32_t)v)) continue;
        ids[0] = (int32_t)v;
        sink(logits, ids, k, 0, worse);
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

/* What a token is chosen from: `ids` (k) ascending, or all k = V tokens if it is NULL; the best of them. */
typedef struct {
    const float *logits;
    const int32_t *ids;
    size_t k;
    float max;
    double temperature;
} candidates;

/* The sum of the weights, ids ascending, up to the first one at which it exceeds `wanted`: *token. */
static double sum_until(const candidates *c, double wanted, int32_t *token) {
    double sum = 0;
    for (size_t first = 0; first < c->k && sum <= wanted; first += BLOCK) {
        double weights[BLOCK];
        size_t count = c->k - first < BLOCK ? c->k - first : BLOCK;
        block_weights(weights, c->logits, c->ids, first, count, c->max, c->temperature);
        for (size_t i = 0; i < count && sum <= wanted; i++) {
            sum += weights[i];
            *token = c->ids ? c->ids[first + i] : (int32_t)(first + i);
        }
    }
    return sum;
}

/* Keeps the smallest set of the most likely candidates whose probability reaches p: a token stays while the
 * probability of those before it is below p. The best are taken from a heap in `ids` (V), whose free end they fill. */
static void keep_nucleus(candidates *c, double p, int32_t *ids) {
    int32_t last;
    double enough = p * sum_until(c, INFINITY, &last), sum = 0;
    size_t left = c->k;
    for (size_t v = 0; !c->ids && v < left; v++) ids[v] = (int32_t)v;
    make_heap(c->logits, ids, left, better);
    while (left && sum < enough) {
        int32_t best = ids[0];
        double weight;
        block_weights(&weight, c->logits, &best, 0, 1, c->max, c->temperature);
        sum += weight;
        ids[0] = ids[--left], ids[left] = best;
        sink(c->logits, ids, left, 0, better);
    }
    c->k -= left;
    memmove(ids, ids + left, c->k * sizeof *ids);
    qsort(ids, c->k, sizeof *ids, ascending);
    c->ids = ids;
}

trine_status sample_token(const float *logits, size_t V, const trine_sampling *s, uint64_t place,
                          int32_t *ids, int32_t *token) {
    int32_t best = 0;
    TRY(find_largest(logits, V, &best));
    *token = best;
    if (s->temperature == 0) return TRINE_OK;
    size_t k = s->top_k && (size_t)s->top_k < V ? (size_t)s->top_k : V;
    candidates c = {logits, k < V ? ids : NULL, k, logits[best], s->temperature};
    if (c.ids) keep_largest(logits, V, k, ids);
    if (s->top_p > 0 && s->top_p < 1) keep_nucleus(&c, s->top_p, ids);
    /* Pass 1 totals; pass 2 repeats the additions and stops past the sampled share. Its last sum would be the total,
     * which exceeds any share. */
    double total = sum_until(&c, INFINITY, token);
    sum_until(&c, uniform(s->seed, place) * total, token);
    return TRINE_OK;
}
