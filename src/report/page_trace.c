#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "report/page.h"
#include "report/page_json.h"

#define MOST_MESSAGES 5000 /* that are drawn */
#define MOST_PAIRS    40   /* that are listed */

/* ---- Ranks ------------------------------------------------------------------------------------ */

/* name, and behind its place what it was doing: "waiting for FORWARD u2 m0 s0 (4 of 14) of step 3". */
static void print_rank(const timeline_rank *r, FILE *out) {
    const char *state = r->name ? strchr(r->name, ']') : NULL;
    char name[80] = "";
    if (r->placed) axes_coord_text(r->at, name, sizeof name);
    fprintf(out, "{\"rank\":%d,\"stage\":%d,\"place\":", r->number,
            r->placed ? r->at.at[TRINE_AXIS_PP] : -1);
    page_text(out, name);
    fputs(",\"state\":", out);
    page_text(out, state ? state + 1 + strspn(state + 1, ":, ") : "");
    fputc('}', out);
}

static void print_parts(const delay_rank *r, FILE *out) {
    fputc('[', out);
    for (int k = 0; k < DELAY_PARTS; k++) {
        if (k) fputc(',', out);
        page_fixed(out, r->part[k], 1);
    }
    fputc(']', out);
}

static void print_delays(const timeline *t, const delays *d, FILE *out) {
    fputs(",\"parts\":[", out);
    for (int k = 0; k < DELAY_PARTS; k++) {
        if (k) fputc(',', out);
        page_text(out, delay_text((delay_part)k));
    }
    fputs("],\"time\":[", out);
    for (int r = 0; r < t->rank_count; r++) {
        const delay_rank *rank = &d->ranks[r];
        fputs(r ? ",{\"parts\":" : "{\"parts\":", out);
        print_parts(rank, out);
        fputs(",\"steps\":", out);
        page_fixed(out, rank->steps, 1);
        fputs(",\"caused\":", out);
        page_fixed(out, rank->caused, 1);
        fputs(",\"own\":", out);
        page_fixed(out, rank->own, 1);
        fprintf(out, ",\"waiters\":%d}", rank->waiters);
    }
    fprintf(out, "],\"complete\":%d,\"bubble\":", d->steps);
    page_number(out, d->bubble);
}

/* ---- Who waited for whom ---------------------------------------------------------------------- */

typedef struct {
    double waited;
    int who, whom;
} pair;

static int by_time(const void *a, const void *b) {
    double x = ((const pair *)a)->waited, y = ((const pair *)b)->waited;
    return x < y ? 1 : x > y ? -1 : ((const pair *)a)->who - ((const pair *)b)->who;
}

/* The longest, as lists of who, whom, microseconds. */
static trine_status print_pairs(const timeline *t, const delays *d, FILE *out) {
    size_t ranks = (size_t)t->rank_count, count = 0;
    pair *pairs = calloc(ranks * ranks + 1, sizeof *pairs);
    CHECK(pairs, TRINE_ENOMEM, "no memory for a trace of %zu ranks", ranks);
    for (size_t n = 0; n < ranks * ranks; n++)
        if (d->pairs[n] > 0)
            pairs[count++] = (pair){d->pairs[n], (int)(n / ranks), (int)(n % ranks)};
    qsort(pairs, count, sizeof *pairs, by_time);
    fputs(",\"pairs\":[", out);
    for (size_t n = 0; n < count && n < MOST_PAIRS; n++) {
        fprintf(out, "%s[%d,%d,", n ? "," : "", pairs[n].who, pairs[n].whom);
        page_fixed(out, pairs[n].waited, 1);
        fputc(']', out);
    }
    fputc(']', out);
    free(pairs);
    return TRINE_OK;
}

/* ---- Spans ------------------------------------------------------------------------------------ */

static bool is_drawn(const timeline_span *s) {
    return s->kind == SPAN_INSTRUCTION || s->kind == SPAN_WAIT;
}

/* Whether b continues a for the eye: the same kind of span of the same micro-batch, with a gap below `gap`. */
static bool continues(const timeline_span *a, const timeline_span *b, double gap) {
    return gap > 0 && a->kind == b->kind && a->instr == b->instr && a->micro == b->micro &&
           a->rank == b->rank && !a->unfinished && a->length < 8 * gap &&
           b->start - (a->start + a->length) < gap;
}

static void print_span(const timeline_span *s, double origin, bool first, FILE *out) {
    int flags = (s->kind == SPAN_WAIT) | s->unfinished << 1 | s->evaluates << 2;
    if (!first) fputc(',', out);
    page_fixed(out, s->start - origin, 1);
    fputc(',', out);
    page_fixed(out, s->length, 1);
    fprintf(out, ",%d,%d,%d,%d", s->instr, s->micro, s->unit, flags);
}

/* A list a rank: start, length (microseconds), kind, micro-batch, unit, flags, one span after the other. */
static void print_spans(const timeline *t, double origin, double gap, FILE *out) {
    fputs(",\"spans\":[", out);
    for (int64_t n = 0, rank = 0; rank < t->rank_count; rank++) {
        timeline_span last = {.kind = SPAN_KINDS};
        bool first = true;
        fputs(rank ? ",\n[" : "[", out);
        for (; n < t->span_count && t->spans[n].rank == rank; n++) {
            const timeline_span *s = &t->spans[n];
            if (!is_drawn(s)) continue;
            if (last.kind != SPAN_KINDS && continues(&last, s, gap)) {
                last.length = s->start + s->length - last.start;
                continue;
            }
            if (last.kind != SPAN_KINDS) print_span(&last, origin, first, out), first = false;
            last = *s;
        }
        if (last.kind != SPAN_KINDS) print_span(&last, origin, first, out);
        fputc(']', out);
    }
    fputc(']', out);
}

/* Of the steps: rank, start, length, step, flags. */
static void print_steps(const timeline *t, double origin, FILE *out) {
    bool first = true;
    fputs(",\"steps\":[", out);
    for (int64_t n = 0; n < t->span_count; n++) {
        const timeline_span *s = &t->spans[n];
        if (s->kind != SPAN_STEP) continue;
        fprintf(out, "%s%d,", first ? "" : ",", s->rank);
        first = false;
        page_fixed(out, s->start - origin, 1);
        fputc(',', out);
        page_fixed(out, s->length, 1);
        fprintf(out, ",%" PRId64 ",%d", s->step, s->unfinished << 1 | s->evaluates << 2);
    }
    fputc(']', out);
}

static void print_messages(const timeline *t, double origin, FILE *out) {
    int64_t count = t->message_count < MOST_MESSAGES ? t->message_count : MOST_MESSAGES;
    fputs(",\"messages\":[", out);
    for (int64_t n = 0; n < count; n++) {
        const timeline_message *m = &t->messages[n];
        fprintf(out, "%s%d,%d,", n ? "," : "", m->from, m->to);
        page_fixed(out, m->sent - origin, 1);
        fputc(',', out);
        page_fixed(out, m->received - origin, 1);
    }
    fputc(']', out);
}

/* Of the files, each once: ranks of one file follow each other, or a file is printed again, which does no harm. */
static void print_paths(const timeline *t, FILE *out) {
    const char *before = NULL;
    fputs(",\"paths\":[", out);
    for (int r = 0; r < t->rank_count; r++) {
        const char *path = t->ranks[r].path;
        if (!path || path == before) continue;
        if (before) fputc(',', out);
        page_text(out, path);
        before = path;
    }
    fputc(']', out);
}

trine_status page_trace(const timeline *t, const delays *d, FILE *out) {
    double origin = INFINITY, end = -INFINITY;
    int64_t drawn = 0;
    for (int64_t n = 0; n < t->span_count; n++) {
        const timeline_span *s = &t->spans[n];
        origin = fmin(origin, s->start);
        end = fmax(end, s->start + s->length);
        drawn += is_drawn(s);
    }
    fputs(",\n\"trace\":{\"kind\":", out);
    page_text(out, t->kind ? t->kind : "trace");
    fputs(",\"why\":", out);
    page_text(out, t->why ? t->why : "");
    if (t->layout) fputs(",\"layout\":", out), page_text(out, t->layout);
    print_paths(t, out);
    fputs(",\"error\":", out);
    page_number(out, t->clock_error);
    fputs(",\"span\":", out);
    page_fixed(out, end - origin, 1);
    fputs(",\"ranks\":[", out);
    for (int r = 0; r < t->rank_count; r++) {
        if (r) fputc(',', out);
        print_rank(&t->ranks[r], out);
    }
    fputc(']', out);
    print_delays(t, d, out);
    TRY(print_pairs(t, d, out));
    print_steps(t, origin, out);
    print_messages(t, origin, out);
    print_spans(t, origin, drawn > PAGE_SPANS ? (end - origin) / 3000 : 0, out);
    fputc('}', out);
    return TRINE_OK;
}
