#include "report/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/input.h"
#include "base/json.h"
#include "base/status.h"
#include "report/append.h"
#include "comm/api/comm.h"

#define TRACE_BYTES ((uint64_t)1 << 33) /* of a file, at most */

/* An end of an arrow. */
typedef struct {
    uint64_t id;
    double at;
    int rank;
    bool sends;
} arrow_end;

typedef struct {
    timeline *t;
    const char *path, *laid_out; /* laid_out: the file that says t->layout */
    const char *text, *at, *end;
    arrow_end *ends;
    int64_t end_count;
} reader;

/* ---- The text, value by value ----------------------------------------------------------------- */

static trine_status fault(const reader *r, const char *what) {
    return RAISE(TRINE_EDATA, "%s: %s at byte %zu", r->path, what, (size_t)(r->at - r->text));
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static bool take(reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool skip_string(reader *r) {
    if (!take(r, '"')) return false;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\\')
            r->at++;
        else if (*r->at == '"')
            return r->at++, true;
    }
    return false;
}

/* One value; what is inside is checked by whoever reads it. */
static trine_status skip_value(reader *r) {
    int depth = 0;
    do {
        skip_blanks(r);
        if (r->at >= r->end) return fault(r, "the file ends inside a value");
        char c = *r->at;
        if (c == '"') {
            if (!skip_string(r)) return fault(r, "a string has no end");
        } else {
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            if (depth < 0) return fault(r, "a bracket is closed that is not open");
            r->at++;
            while (!strchr("{}[]", c) && r->at < r->end && !strchr(",{}[]\" \t\r\n", *r->at))
                r->at++;
        }
    } while (depth);
    return TRINE_OK;
}

/* The value from `from` on, which is an object. Owned by the caller. */
static trine_status read_object(const reader *r, const char *from, cJSON **o) {
    char place[600];
    snprintf(place, sizeof place, "%s, at byte %zu", r->path, (size_t)(from - r->text));
    return json_read(o, from, (size_t)(r->at - from), place);
}

/* ---- Events ----------------------------------------------------------------------------------- */

static double number_of(const cJSON *o, const char *name) {
    const cJSON *item = json_member(o, name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static int integer_of(const cJSON *o, const char *name) {
    double x = number_of(o, name);
    return x >= 0 && x < INT32_MAX ? (int)x : -1;
}

/* "[pp1 dp0 tp1]". */
static void read_place(timeline_rank *rank) {
    const char *at = strchr(rank->name, '[');
    rank->placed = at != NULL;
    while (at && *at && *at != ']') {
        at++;
        for (int a = 0; a < TRINE_AXES; a++) {
            size_t length = strlen(axis_name((trine_axis)a));
            if (!strncmp(at, axis_name((trine_axis)a), length)) rank->at.at[a] = atoi(at + length);
        }
        at += strcspn(at, " ]");
    }
}

/* The index of a rank, which may be new. */
static trine_status rank_of(timeline *t, int number, int *index) {
    for (*index = 0; *index < t->rank_count; ++*index)
        if (t->ranks[*index].number == number) return TRINE_OK;
    CHECK(append_room(&t->ranks, t->rank_count, sizeof *t->ranks), TRINE_ENOMEM,
          "no memory for a trace");
    t->ranks[t->rank_count++] = (timeline_rank){.number = number};
    return TRINE_OK;
}

static trine_status add_name(timeline *t, const cJSON *o, int rank) {
    const char *what = json_text(json_member(o, "name")),
               *name = json_text(json_member(json_member(o, "args"), "name"));
    if (!what || !name || strcmp(what, "process_name") != 0) return TRINE_OK;
    free(t->ranks[rank].name);
    t->ranks[rank].name = strdup(name);
    CHECK(t->ranks[rank].name, TRINE_ENOMEM, "no memory for a trace");
    read_place(&t->ranks[rank]);
    return TRINE_OK;
}

static int instr_of(const char *name) {
    size_t length = strcspn(name ? name : "", " ");
    for (int k = 0; name && k < INSTR_KINDS; k++)
        if (strlen(instr_text((instr_kind)k)) == length &&
            !strncmp(name, instr_text((instr_kind)k), length))
            return k;
    return -1;
}

static trine_group group_of(const char *name) {
    int g = 0;
    while (name && g < TRINE_GROUPS && strcmp(name, comm_group_name((trine_group)g)) != 0) g++;
    return name ? (trine_group)g : TRINE_GROUPS;
}

static span_kind kind_of(const char *category) {
    static const char *const kinds[SPAN_KINDS] = {"step", "instruction", "wait", "collective",
                                                  "message"};
    int k = 0;
    while (category && k < SPAN_KINDS && strcmp(category, kinds[k]) != 0) k++;
    return category ? (span_kind)k : SPAN_KINDS;
}

#define ONE_RUN "give files of one run: one of --trace, or one of each node"

static trine_status own_rank(const reader *r, timeline_rank *rank) {
    if (!rank->path) rank->path = r->path;
    CHECK(rank->path == r->path, TRINE_EDATA,
          "%s: it contains spans of rank %d, and so does %s; " ONE_RUN, r->path, rank->number,
          rank->path);
    return TRINE_OK;
}

static trine_status add_span(const reader *r, const cJSON *o, int rank) {
    timeline *t = r->t;
    const cJSON *args = json_member(o, "args");
    const char *name = json_text(json_member(o, "name")),
               *waits = json_text(json_member(args, "for"));
    int step = integer_of(args, "step"), peer = integer_of(args, "peer");
    timeline_span s = {.kind = kind_of(json_text(json_member(o, "cat"))),
                       .rank = rank,
                       .start = number_of(o, "ts"),
                       .length = number_of(o, "dur"),
                       .step = step >= 0 ? step : integer_of(args, "evaluation_after_step"),
                       .number = integer_of(args, "number"),
                       .bytes = number_of(args, "bytes"),
                       .instr = instr_of(waits ? waits : name),
                       .unit = integer_of(args, "unit"),
                       .micro = integer_of(args, "micro_batch"),
                       .peer = -1,
                       .group = group_of(json_text(json_member(args, "group"))),
                       .evaluates = json_member(args, "evaluation_after_step") != NULL,
                       .unfinished = cJSON_IsTrue(json_member(args, "unfinished")),
                       .receives = name && !strncmp(name, "recv", 4)};
    if (s.kind == SPAN_KINDS || !isfinite(s.start) || !isfinite(s.length)) return TRINE_OK;
    TRY(own_rank(r, &t->ranks[rank]));
    if (peer >= 0) TRY(rank_of(t, peer, &s.peer));
    APPEND(t->spans, t->span_count, "a trace", s);
    return TRINE_OK;
}

static trine_status add_event(reader *r, const cJSON *o) {
    const char *ph = json_text(json_member(o, "ph"));
    int number = integer_of(o, "pid"), rank;
    if (!ph || number < 0) return TRINE_OK;
    TRY(rank_of(r->t, number, &rank));
    if (!strcmp(ph, "M")) return add_name(r->t, o, rank);
    if (!strcmp(ph, "X")) return add_span(r, o, rank);
    if (strcmp(ph, "s") != 0 && strcmp(ph, "f") != 0) return TRINE_OK;
    arrow_end end = {.at = number_of(o, "ts"), .rank = rank, .sends = *ph == 's'};
    if (json_integer(json_member(o, "id"), &end.id) && isfinite(end.at))
        APPEND(r->ends, r->end_count, "a trace", end);
    return TRINE_OK;
}

static trine_status read_events(reader *r) {
    if (!take(r, '[')) return fault(r, "\"traceEvents\" is not a list");
    if (take(r, ']')) return TRINE_OK;
    do {
        skip_blanks(r);
        const char *from = r->at;
        cJSON *o;
        TRY(skip_value(r));
        TRY(read_object(r, from, &o));
        trine_status status = add_event(r, o);
        cJSON_Delete(o);
        TRY(status);
    } while (take(r, ','));
    return take(r, ']') ? TRINE_OK : fault(r, "the list of events has no end");
}

/* ---- A file ----------------------------------------------------------------------------------- */

static trine_status keep_text(char **to, const cJSON *item) {
    if (!json_text(item)) return TRINE_OK;
    free(*to);
    *to = strdup(json_text(item));
    CHECK(*to, TRINE_ENOMEM, "no memory for a trace");
    return TRINE_OK;
}

static trine_status keep_layout(reader *r, const cJSON *item) {
    const char *before = r->t->layout, *now = json_text(item);
    CHECK(!before || !now || !strcmp(before, now), TRINE_EDATA,
          "%s: its ranks are laid out as %s, those of %s as %s; " ONE_RUN, r->path, now,
          r->laid_out, before);
    if (now) r->laid_out = r->path;
    return keep_text(&r->t->layout, item);
}

static trine_status read_other(reader *r) {
    skip_blanks(r);
    const char *from = r->at;
    cJSON *o;
    TRY(skip_value(r));
    TRY(read_object(r, from, &o));
    double error = number_of(o, "clock_error_ns") / 1000;
    if (!(r->t->clock_error >= error) && isfinite(error)) r->t->clock_error = error;
    trine_status status = keep_text(&r->t->why, json_member(o, "why"));
    if (status == TRINE_OK) status = keep_text(&r->t->kind, json_member(o, "kind"));
    if (status == TRINE_OK) status = keep_layout(r, json_member(o, "layout"));
    cJSON_Delete(o);
    return status;
}

static trine_status read_file(reader *r) {
    bool found = false;
    if (r->at < r->end && (skip_blanks(r), *r->at == '[')) return read_events(r);
    if (!take(r, '{')) return fault(r, "not a trace: it begins with neither { nor [");
    do {
        skip_blanks(r);
        const char *key = r->at;
        if (!skip_string(r)) return fault(r, "not a trace: a name is missing");
        size_t length = (size_t)(r->at - key);
        if (!take(r, ':')) return fault(r, "not a trace: a colon is missing");
        bool events = length == 13 && !strncmp(key, "\"traceEvents\"", length);
        bool other = length == 11 && !strncmp(key, "\"otherData\"", length);
        found = found || events;
        TRY(events ? read_events(r) : other ? read_other(r) : skip_value(r));
    } while (take(r, ','));
    if (!take(r, '}')) return fault(r, "the trace has no end");
    CHECK(found, TRINE_EDATA, "%s: not a trace: it has no \"traceEvents\"", r->path);
    return TRINE_OK;
}

/* ---- Order ------------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b) {
    return ((const timeline_rank *)a)->number - ((const timeline_rank *)b)->number;
}

static int by_start(const void *a, const void *b) {
    const timeline_span *x = a, *y = b;
    if (x->rank != y->rank) return x->rank - y->rank;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->length > y->length ? -1 : x->length < y->length;
}

static int by_id(const void *a, const void *b) {
    const arrow_end *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return y->sends - x->sends;
}

static int by_sending(const void *a, const void *b) {
    double x = ((const timeline_message *)a)->sent, y = ((const timeline_message *)b)->sent;
    return x < y ? -1 : x > y;
}

/* Ranks get their places by number; spans and arrows follow. */
static trine_status sort_ranks(reader *r) {
    timeline *t = r->t;
    size_t count = (size_t)t->rank_count;
    timeline_rank *before = calloc(count + 1, sizeof *before);
    int *place = calloc(count + 1, sizeof *place);
    bool ok = before && place;
    if (ok && count) memcpy(before, t->ranks, count * sizeof *before);
    if (ok && count) qsort(t->ranks, count, sizeof *t->ranks, by_number);
    for (size_t n = 0; ok && n < count; n++) {
        const timeline_rank *at = bsearch(&before[n], t->ranks, count, sizeof *before, by_number);
        place[n] = (int)(at - t->ranks);
    }
    for (int64_t n = 0; ok && n < t->span_count; n++) {
        timeline_span *s = &t->spans[n];
        s->rank = place[s->rank];
        if (s->peer >= 0) s->peer = place[s->peer];
    }
    for (int64_t n = 0; ok && n < r->end_count; n++) r->ends[n].rank = place[r->ends[n].rank];
    free(before);
    free(place);
    CHECK(ok, TRINE_ENOMEM, "no memory for a trace");
    return TRINE_OK;
}

static trine_status join_arrows(reader *r) {
    timeline *t = r->t;
    if (r->end_count) qsort(r->ends, (size_t)r->end_count, sizeof *r->ends, by_id);
    for (int64_t n = 0; n + 1 < r->end_count; n++) {
        const arrow_end *a = &r->ends[n], *b = a + 1;
        if (a->id != b->id || !a->sends || b->sends) continue;
        timeline_message m = {a->rank, b->rank, a->at, b->at};
        APPEND(t->messages, t->message_count, "a trace", m);
    }
    if (t->message_count)
        qsort(t->messages, (size_t)t->message_count, sizeof *t->messages, by_sending);
    return TRINE_OK;
}

static trine_status read_path(reader *r, const char *path) {
    char *text;
    size_t bytes;
    TRY(input_text(&text, &bytes, TRACE_BYTES, path));
    r->path = path;
    r->text = r->at = text;
    r->end = text + bytes;
    trine_status status = read_file(r);
    free(text);
    return status;
}

static trine_status read_all(reader *r, const char *const *paths, int count) {
    timeline *t = r->t;
    for (int n = 0; n < count; n++) TRY(read_path(r, paths[n]));
    CHECK(t->span_count, TRINE_EDATA, "%s: a trace without spans of Trine's", paths[count - 1]);
    TRY(sort_ranks(r));
    qsort(t->spans, (size_t)t->span_count, sizeof *t->spans, by_start);
    return join_arrows(r);
}

trine_status timeline_read(timeline *t, const char *const *paths, int count) {
    reader r = {.t = t};
    *t = (timeline){.clock_error = (double)NAN};
    trine_status status = count ? read_all(&r, paths, count) : TRINE_OK;
    free(r.ends);
    return status;
}

void timeline_destroy(timeline *t) {
    for (int n = 0; n < t->rank_count; n++) free(t->ranks[n].name);
    free(t->ranks);
    free(t->spans);
    free(t->messages);
    free(t->why);
    free(t->kind);
    free(t->layout);
    *t = (timeline){0};
}

bool timeline_is_trace(const char *path) {
    char head[4096] = "";
    int fd;
    uint64_t bytes;
    bool opened = input_open(&fd, &bytes, path) == TRINE_OK;
    size_t some = bytes < sizeof head - 1 ? (size_t)bytes : sizeof head - 1;
    bool is = opened && input_read(fd, path, head, some, 0) == TRINE_OK;
    status_clear();
    if (!opened) return false;
    close(fd);
    return is && (strstr(head, "\"traceEvents\"") || head[strspn(head, " \t\r\n")] == '[');
}
