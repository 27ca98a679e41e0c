#include "report/delays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const char *const texts[] = {
#define DELAY_TEXT(name, text) text,
    DELAY_LIST(DELAY_TEXT)
#undef DELAY_TEXT
};

const char *delay_text(delay_part part) {
    return texts[part];
}

static double end_of(const timeline_span *s) {
    return s->start + s->length;
}

static double overlap(const timeline_span *s, double from, double to) {
    double a = fmax(s->start, from), b = fmin(end_of(s), to);
    return b > a ? b - a : 0;
}

/* ---- Who waited for whom ---------------------------------------------------------------------- */

/* The ranks of a call are those that differ along the group's axes only; `place` is what they share. */
typedef struct {
    trine_group group;
    int64_t number;
    uint64_t place;
    timeline_span *span;
} group_call;

static int by_call(const void *a, const void *b) {
    const group_call *x = a, *y = b;
    if (x->group != y->group) return (int)x->group - (int)y->group;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

static uint64_t place_of(const timeline *t, const timeline_span *s) {
    const timeline_rank *rank = &t->ranks[s->rank];
    uint64_t place = 0;
    axis_set spanned = axes_of(s->group);
    for (int a = 0; a < TRINE_AXES; a++)
        place = place * 65536 + (spanned >> a & 1 ? 0 : (uint64_t)rank->at.at[a] % 65536);
    return place;
}

static void wait_for(delays *d, int ranks, timeline_span *s, int late, double until) {
    double waited = overlap(s, s->start, until);
    if (late == s->rank || waited <= 0) return;
    s->late += waited;
    d->pairs[(size_t)s->rank * (size_t)ranks + (size_t)late] += waited;
    d->ranks[late].caused += waited;
}

/* calls [count] are one call, by rank; the first span of each rank is when it came. */
static void judge_call(delays *d, int ranks, const group_call *calls, int64_t count) {
    const timeline_span *last = NULL;
    for (int64_t n = 0; n < count; n++) {
        const timeline_span *s = calls[n].span;
        if (n && calls[n - 1].span->rank == s->rank) continue;
        if (!last || s->start > last->start) last = s;
    }
    for (int64_t n = 0; n < count; n++) wait_for(d, ranks, calls[n].span, last->rank, last->start);
}

static trine_status judge_collectives(timeline *t, delays *d) {
    group_call *calls = calloc((size_t)t->span_count + 1, sizeof *calls);
    int64_t count = 0;
    CHECK(calls, TRINE_ENOMEM, "no memory for a trace");
    for (int64_t n = 0; n < t->span_count; n++) {
        timeline_span *s = &t->spans[n];
        if (s->kind != SPAN_COLLECTIVE || s->group == TRINE_GROUPS || s->number < 0) continue;
        if (axes_of(s->group) && t->ranks[s->rank].placed)
            calls[count++] = (group_call){s->group, s->number, place_of(t, s), s};
    }
    qsort(calls, (size_t)count, sizeof *calls, by_call);
    for (int64_t n = 0, next; n < count; n = next) {
        next = n + 1;
        while (next < count && calls[next].group == calls[n].group &&
               calls[next].number == calls[n].number && calls[next].place == calls[n].place)
            next++;
        judge_call(d, t->rank_count, calls + n, next - n);
    }
    free(calls);
    return TRINE_OK;
}

/* The first span of a rank, and the one behind its last. */
static int64_t first_of(const timeline *t, int rank) {
    int64_t low = 0, high = t->span_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->spans[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first span of a rank that begins after `at`. */
static int64_t after(const timeline *t, int rank, double at) {
    int64_t low = first_of(t, rank), high = first_of(t, rank + 1);
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->spans[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#define NEAR 64 /* spans before a message's end in which its receive is looked for */

static void judge_messages(timeline *t, delays *d) {
    for (int64_t n = 0; n < t->message_count; n++) {
        const timeline_message *m = &t->messages[n];
        int64_t first = first_of(t, m->to), at = after(t, m->to, m->received);
        for (int64_t k = at - 1; k >= first && k >= at - NEAR; k--) {
            timeline_span *s = &t->spans[k];
            if (s->kind != SPAN_MESSAGE || !s->receives || end_of(s) < m->received) continue;
            wait_for(d, t->rank_count, s, m->from, m->sent);
            break;
        }
    }
}

/* ---- Where the time went ---------------------------------------------------------------------- */

static delay_part part_of(int kind) {
    if (kind == FORWARD) return DELAY_FORWARD;
    return kind >= 0 && instr_computes((instr_kind)kind) ? DELAY_BACKWARD : DELAY_UPDATE;
}

/* s: an instruction or a wait; the calls in it lie behind it. */
static void add_span(const timeline *t, delay_rank *r, int64_t n) {
    const timeline_span *s = &t->spans[n];
    double calls = 0, late = 0;
    for (int64_t k = n + 1; k < t->span_count; k++) {
        const timeline_span *c = &t->spans[k];
        if (c->rank != s->rank || c->start >= end_of(s)) break;
        if (c->kind != SPAN_COLLECTIVE && c->kind != SPAN_MESSAGE) continue;
        calls += overlap(c, s->start, end_of(s));
        late += fmin(c->late, overlap(c, s->start, end_of(s)));
    }
    calls = fmin(calls, s->length);
    late = fmin(late, calls);
    bool waits = s->kind == SPAN_WAIT;
    r->part[DELAY_LATE] += late;
    r->part[waits ? DELAY_WAITS : DELAY_CALLS] += calls - late;
    r->part[waits ? DELAY_WAITS : part_of(s->instr)] += s->length - calls;
    if (!waits) r->own += s->length - calls;
    r->part[DELAY_REST] -= s->length;
}

static bool counts(const timeline_span *s, bool complete) {
    return s->kind == SPAN_STEP && (!complete || (!s->unfinished && !s->evaluates));
}

static void add_rank(const timeline *t, delays *d, int rank, bool complete) {
    delay_rank *r = &d->ranks[rank];
    int64_t end = first_of(t, rank + 1);
    int steps = 0;
    const timeline_span *step = NULL;
    for (int64_t n = first_of(t, rank); n < end; n++) {
        const timeline_span *s = &t->spans[n];
        if (s->kind == SPAN_STEP) {
            step = counts(s, complete) ? s : NULL;
            if (!step) continue;
            r->steps += s->length;
            r->part[DELAY_REST] += s->length;
            steps++;
        } else if (step && s->start < end_of(step) &&
                   (s->kind == SPAN_INSTRUCTION || s->kind == SPAN_WAIT)) {
            add_span(t, r, n);
        }
    }
    r->part[DELAY_REST] = fmax(r->part[DELAY_REST], 0);
    if (complete && steps > d->steps) d->steps = steps;
}

/* ---- The bubble ------------------------------------------------------------------------------- */

typedef struct {
    double first, last, busy;
    int64_t step;
} passes;

/* The bubble of one step, weighted by its time. */
static void add_bubble(const passes *p, int ranks, double *idle, double *all) {
    double time = p->busy > 0 ? (p->last - p->first) * ranks : 0;
    *idle += time > p->busy ? time - p->busy : 0;
    *all += time;
}

static bool is_pass(const timeline_span *s) {
    return s->kind == SPAN_INSTRUCTION && !s->evaluates && !s->unfinished && s->instr >= 0 &&
           instr_computes((instr_kind)s->instr);
}

static double bubble_of(const timeline *t) {
    int64_t low = INT64_MAX, high = -1;
    double idle = 0, all = 0;
    for (int64_t n = 0; n < t->span_count; n++) {
        if (!is_pass(&t->spans[n])) continue;
        if (t->spans[n].step < low) low = t->spans[n].step;
        if (t->spans[n].step > high) high = t->spans[n].step;
    }
    for (int64_t step = low; step <= high && high - low < 1000; step++) {
        passes p = {.first = INFINITY, .last = -INFINITY};
        for (int64_t n = 0; n < t->span_count; n++) {
            const timeline_span *s = &t->spans[n];
            if (!is_pass(s) || s->step != step) continue;
            p.first = fmin(p.first, s->start);
            p.last = fmax(p.last, end_of(s));
            p.busy += s->length;
        }
        add_bubble(&p, t->rank_count, &idle, &all);
    }
    return all > 0 ? idle / all : (double)NAN;
}

trine_status delays_of(timeline *t, delays *d) {
    size_t ranks = (size_t)t->rank_count;
    *d = (delays){.ranks = calloc(ranks + 1, sizeof *d->ranks),
                  .pairs = calloc(ranks * ranks + 1, sizeof *d->pairs)};
    bool complete = false;
    CHECK(d->ranks && d->pairs, TRINE_ENOMEM, "no memory for a trace of %zu ranks", ranks);
    TRY(judge_collectives(t, d));
    judge_messages(t, d);
    for (int64_t n = 0; n < t->span_count; n++) complete = complete || counts(&t->spans[n], true);
    for (int r = 0; r < t->rank_count; r++) add_rank(t, d, r, complete);
    for (size_t n = 0; n < ranks * ranks; n++) d->ranks[n % ranks].waiters += d->pairs[n] > 0;
    d->bubble = bubble_of(t);
    return TRINE_OK;
}

void delays_destroy(delays *d) {
    free(d->ranks);
    free(d->pairs);
    *d = (delays){0};
}
