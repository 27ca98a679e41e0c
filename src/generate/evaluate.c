#include "generate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "generate/exp64.h"

/* ---- One token ---- */

#define LANES 8 /* partial sums */

double evaluate_token(const float *logits, size_t V, int32_t target) {
    float max = logits[0];
    for (size_t v = 1; v < V; v++) max = logits[v] > max ? logits[v] : max;
    double sums[LANES] = {0}, sum = 0;
    size_t v = 0;
    for (; v + LANES <= V; v += LANES)
#pragma omp simd
        for (size_t i = 0; i < LANES; i++)
            sums[i] += exp64_below((double)logits[v + i] - (double)max);
    for (; v < V; v++) sum += exp64_below((double)logits[v] - (double)max);
    for (size_t i = 0; i < LANES; i++) sum += sums[i];
    return log(sum) + ((double)max - (double)logits[target]);
}

/* ---- One sequence ---- */

/* Where rows of logits go. */
typedef struct {
    const trine_generator *g;
    const evaluate_sequence *of;
    double nats;
} scores;

/* -ln p of what row r scores; 0 if that is nothing. */
static double score_row(const scores *s, const float *logits, size_t row) {
    const int32_t *targets = s->of->targets;
    int32_t target = targets ? targets[row] : s->of->tokens[row + 1];
    return target < 0 ? 0 : evaluate_token(logits, s->g->shape.V, target);
}

/* Each rank of the last stage has the logits; one adds them up. */
static trine_status take_rows(void *to, const float *logits, int row, size_t n) {
    scores *s = to;
    size_t V = s->g->shape.V;
    double own[GENERATE_HEAD_ROWS];
    if (!generate_has_output(s->g)) return TRINE_OK;
#pragma omp parallel for num_threads(s->g->dev->threads) schedule(static)
    for (size_t i = 0; i < n; i++) own[i] = score_row(s, logits + i * V, (size_t)row + i);
    for (size_t i = 0; i < n; i++) {
        CHECK(isfinite(own[i]), TRINE_EMATH, "the logits after token %zu are not finite",
              (size_t)row + i);
        s->nats += own[i];
    }
    return TRINE_OK;
}

static trine_status check_sequence(const trine_generator *g, const evaluate_sequence *s) {
    int V = g->model.vocab_size;
    ASSERT(s->first >= 1);
    CHECK(s->count - 1 <= g->seq_length, TRINE_EINVAL,
          "%d tokens, of which the last is only scored, exceed the sequence length of %d", s->count,
          g->seq_length);
    for (int i = 0; i < s->count; i++)
        CHECK(s->tokens[i] >= 0 && s->tokens[i] < V, TRINE_EINVAL,
              "token %d: invalid id %d (valid: 0 to %d)", i, s->tokens[i], V - 1);
    return TRINE_OK;
}

/* The rows of the cache that are those of this sequence. The row that scores the first token is needed again. */
static int kept_rows(const trine_generator *g, const evaluate_sequence *s) {
    int n = 0;
    while (n < g->length && n < s->first - 1 && g->history[n] == s->tokens[n]) n++;
    return n;
}

trine_status evaluate_score(trine_generator *g, const evaluate_sequence *s, double *nats) {
    *nats = 0;
    TRY(status_user(check_sequence(g, s)));
    if (s->first >= s->count) return TRINE_OK;
    if (!g->rows && g->raw) {
        g->rows = malloc(GENERATE_HEAD_ROWS * g->shape.V * sizeof *g->rows);
        CHECK(g->rows, TRINE_ENOMEM, "no memory for %d rows of %zu logits", GENERATE_HEAD_ROWS,
              g->shape.V);
    }
    scores to = {g, s, 0};
    const generate_wanted wanted = {s->first - 1, g->rows, take_rows, &to};
    g->length = kept_rows(g, s);
    g->total = s->count - 1;
    memcpy(g->history, s->tokens, (size_t)g->total * sizeof *s->tokens);
    TRY(generate_advance(g, s->count - 1, &wanted));
    *nats = to.nats;
    return TRINE_OK;
}

/* ---- Many sequences ---- */

trine_status evaluate_run(trine_generator *g, const evaluate_job *job, double *nats) {
    size_t dp = (size_t)g->config.layout.dp, own = (size_t)trine_mesh_coord(g->mesh).dp;
    size_t last = SIZE_MAX;
    memset(nats, 0, job->count * sizeof *nats);
    for (size_t i = 0; i < job->count; i++) {
        evaluate_sequence s;
        size_t group = job->group ? job->group[i] : i;
        if (group % dp != own) continue;
        if (group != last) trine_generator_reset(g);
        last = group;
        TRY(job->get(job->from, i, &s));
        TRY(evaluate_score(g, &s, &nats[i]));
        if (job->done) job->done(job->from, i);
    }
    /* One addend is not 0, so the sum is exact. */
    return trine_all_reduce(trine_mesh_group(g->mesh, TRINE_WORLD), nats, nats, job->count,
                            TRINE_F64, TRINE_SUM);
}

/* ---- Windows ---- */

uint64_t evaluate_windows(evaluate_cut cut, uint64_t tokens) {
    uint64_t length = (uint64_t)cut.length, stride = (uint64_t)cut.stride;
    if (!tokens) return 0;
    return tokens <= length ? 1 : 1 + (tokens - length + stride - 1) / stride;
}

evaluate_window evaluate_window_at(evaluate_cut cut, uint64_t tokens, uint64_t i) {
    uint64_t begin = i * (uint64_t)cut.stride, left = tokens - begin;
    int before = i ? cut.length - cut.stride : 0;
    return (evaluate_window){.begin = begin,
                             .count = left < (uint64_t)cut.length ? (int)left : cut.length,
                             .first = before > 1 ? before : 1};
}
