#include "cost/measured.h"

#include <math.h>
#include <string.h>

enum { TERMS = MEASURED_SIZES + 1 }; /* a constant, and a slope for each size */

/* A point one doubling away weighs as much as it does beside one that is nearer than a fifth of a doubling. */
#define NEAR_ENOUGH 0.05
/* Slopes are towards 0 where few points, or points in one place, do not say what they are. */
#define RIDGE 0.02

static bool attends(int what) {
    return what == COUNT_attention_forward || what == COUNT_attention_backward;
}

/* Attention's grows with the square of the tokens. */
static double log_work(const measured_point *p) {
    double work = attends(p->what) ? p->size[1] : 1;
    for (int k = 0; k < MEASURED_SIZES; k++) work *= p->size[k];
    return log2(work);
}

bool measured_add(measured_points *m, const measured_point *p) {
    int n = m->count;
    if (n == MEASURED_POINTS) return false;
    m->at[n] = *p;
    for (int k = 0; k < MEASURED_SIZES; k++) m->log_size[n][k] = log2(p->size[k]);
    m->log_rate[n] = log2(p->seconds) - log_work(p);
    m->count++;
    return true;
}

void measured_scale(measured_points *m, double factor) {
    for (int n = 0; n < m->count; n++) {
        m->at[n].seconds /= factor;
        m->log_rate[n] -= log2(factor);
    }
}

/* ---- Regression ------------------------------------------------------------------------------ */

/* Sums of the normal equations, of differences from the place that is asked for. */
typedef struct {
    double a[TERMS][TERMS], b[TERMS];
    double weight;
} normal;

static void add_point(normal *e, const double from[MEASURED_SIZES], const double at[MEASURED_SIZES],
                      double value) {
    double term[TERMS] = {1}, distance = NEAR_ENOUGH;
    for (int k = 0; k < MEASURED_SIZES; k++) {
        term[k + 1] = at[k] - from[k];
        distance += term[k + 1] * term[k + 1];
    }
    double weight = 1 / (distance * distance);
    for (int i = 0; i < TERMS; i++) {
        for (int k = 0; k < TERMS; k++) e->a[i][k] += weight * term[i] * term[k];
        e->b[i] += weight * term[i] * value;
    }
    e->weight += weight;
}

/* The constant of the solution: the value at the place that is asked for. The matrix is positive definite. */
static double solve(normal *e) {
    for (int k = 1; k < TERMS; k++) e->a[k][k] += RIDGE * e->weight;
    for (int n = TERMS - 1; n > 0; n--)
        for (int i = 0; i < n; i++) {
            double factor = e->a[i][n] / e->a[n][n];
            for (int k = 0; k < n; k++) e->a[i][k] -= factor * e->a[n][k];
            e->b[i] -= factor * e->b[n];
        }
    return e->b[0] / e->a[0][0];
}

/* ---- Points ---------------------------------------------------------------------------------- */

static bool is_of(const measured_points *m, int n, const measured_point *p, int without) {
    const measured_point *at = &m->at[n];
    return n != without && at->what == p->what && (at->type == p->type || at->what >= COUNTED);
}

/* The nearest numbers of ranks, at most and at least p's, that were measured; 0: none. */
static void find_ranks(const measured_points *m, const measured_point *p, int without, int *below,
                       int *above) {
    *below = *above = 0;
    for (int n = 0; n < m->count; n++) {
        int ranks = m->at[n].ranks;
        if (!is_of(m, n, p, without)) continue;
        if (ranks <= p->ranks && ranks > *below) *below = ranks;
        if (ranks >= p->ranks && (!*above || ranks < *above)) *above = ranks;
    }
    if (!*below) *below = *above;
    if (!*above) *above = *below;
}

/* log2 of the seconds with a number of ranks that was measured. */
static double log_seconds(const measured_points *m, const measured_point *p, int without,
                          int ranks) {
    double place[MEASURED_SIZES], low[MEASURED_SIZES], high[MEASURED_SIZES];
    normal e = {0};
    for (int k = 0; k < MEASURED_SIZES; k++) low[k] = INFINITY, high[k] = -INFINITY;
    for (int n = 0; n < m->count; n++) {
        if (!is_of(m, n, p, without) || m->at[n].ranks != ranks) continue;
        for (int k = 0; k < MEASURED_SIZES; k++) {
            low[k] = fmin(low[k], m->log_size[n][k]);
            high[k] = fmax(high[k], m->log_size[n][k]);
        }
    }
    for (int k = 0; k < MEASURED_SIZES; k++)
        place[k] = fmin(high[k], fmax(low[k], log2(p->size[k])));
    for (int n = 0; n < m->count; n++)
        if (is_of(m, n, p, without) && m->at[n].ranks == ranks)
            add_point(&e, place, m->log_size[n], m->log_rate[n]);
    return solve(&e) + log_work(p);
}

double measured_seconds(const measured_points *m, const measured_point *p, int without) {
    int below, above;
    find_ranks(m, p, without, &below, &above);
    if (!below) return -1;
    double log = log_seconds(m, p, without, below);
    bool collects = p->what >= COUNTED;
    if (above == below && p->ranks > below && !collects) return exp2(log) * p->ranks / below;
    if (above == below) return exp2(log);
    double share = log2((double)p->ranks / below) / log2((double)above / below);
    return exp2(log + share * (log_seconds(m, p, without, above) - log));
}

/* ---- Events ---------------------------------------------------------------------------------- */

bool measured_event(const count_event *e, trine_dtype type, measured_point *p) {
    const count_product *q = &e->product;
    if (e->what == COUNT_collective) return false;
    *p = (measured_point){.what = (int)e->what, .type = type, .size = {1, 1, 1}};
    if (attends(p->what))
        p->size[0] = (double)q->batch, p->size[1] = (double)q->rows, p->size[2] = (double)q->depth;
    else if (q->batch)
        p->size[0] = (double)q->rows, p->size[1] = (double)q->columns,
        p->size[2] = (double)q->depth;
    else
        p->size[0] = e->flops > 0 ? e->flops : e->bytes;
    return p->size[0] >= 1;
}

const char *measured_text(int what) {
    return what < COUNTED ? count_text((counted)what)
                          : tally_kind_text((trine_tally_kind)(what - COUNTED));
}

int measured_find(const char *text) {
    for (int what = 0; what < COUNTED + TRINE_TALLY_KINDS; what++)
        if (what != COUNT_collective && !strcmp(measured_text(what), text)) return what;
    return -1;
}
