#include "trace/event.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "comm/api/axes.h"
#include "trine.h"

enum { THREAD_INSTRUCTIONS, THREAD_MESSAGES, THREAD_GROUPS };

/* ---- Parts of the file ----------------------------------------------------------------------- */

/* Text of ours, a host's or a folder's: quotes, backslashes and control characters are replaced. */
static void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '?' : *text, out);
    fputc('"', out);
}

void trace_file_begin(trace_events *e, FILE *out, const char *kind) {
    *e = (trace_events){.out = out};
    fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":\"Trine %s\"",
            TRINE_VERSION);
    trace_file_text(e, "kind", kind);
}

void trace_file_text(trace_events *e, const char *name, const char *text) {
    fprintf(e->out, ",\"%s\":", name);
    print_text(e->out, text);
}

void trace_file_number(trace_events *e, const char *name, int64_t value) {
    fprintf(e->out, ",\"%s\":%" PRId64, name, value);
}

void trace_file_clock(trace_events *e, int rank, const int64_t offset[2], uint64_t error) {
    fprintf(e->out,
            ",\"clock of rank %d\":{\"offset_ns\":[%" PRId64 ",%" PRId64 "],\"error_ns\":%" PRIu64
            "}",
            rank, offset[0], offset[1], error);
}

void trace_file_events(trace_events *e) {
    fputs("},\n\"traceEvents\":[", e->out);
}

void trace_file_end(trace_events *e) {
    fputs("\n]}\n", e->out);
}

static void begin_event(trace_events *e, const char *ph, int rank, int thread) {
    fprintf(e->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", e->events++ ? "," : "", ph, rank,
            thread);
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* On rank 0's clock. */
static int64_t map(const trace_clock *c, uint64_t ns) {
    double share = 0;
    if (c->at[1] > c->at[0])
        share = ((double)ns - (double)c->at[0]) / (double)(c->at[1] - c->at[0]);
    double drift = (double)(c->offset[1] - c->offset[0]) * share;
    return (int64_t)ns - c->offset[0] - (int64_t)(drift < 0 ? drift - 0.5 : drift + 0.5);
}

static void print_us(FILE *out, const char *name, int64_t ns) {
    int64_t size = ns < 0 ? -ns : ns;
    fprintf(out, ",\"%s\":%s%" PRId64 ".%03d", name, ns < 0 ? "-" : "", size / 1000,
            (int)(size % 1000));
}

/* ended 0: not yet. */
static void print_span(trace_events *e, const trace_rank *r, const char *cat, uint64_t began,
                       uint64_t ended) {
    int64_t from = map(&r->clock, began), to = map(&r->clock, ended ? ended : r->now);
    fprintf(e->out, ",\"cat\":\"%s\"", cat);
    print_us(e->out, "ts", from);
    print_us(e->out, "dur", to > from ? to - from : 0);
}

static const char *unfinished(uint64_t ended) {
    return ended ? "" : ",\"unfinished\":true";
}

/* ---- Instructions ---------------------------------------------------------------------------- */

static uint64_t get(const _Atomic uint64_t *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* Of a program that is longer than its record, the places of earlier instructions have later ones. */
static int first_kept(const trace_step *s, trace_room kept) {
    return s->at + 1 > kept.times ? (int)(s->at + 1 - kept.times) : 0;
}

int trace_event_at(const trace_step *s, trace_room kept, bool *waits) {
    int at = s->at;
    *waits = false;
    if (s->ended || at < 0 || at > s->count) return -1;
    *waits = !get(&trace_time_at(s, kept, at)->waited);
    return at;
}

/* "FORWARD u2 m0": what a span is called. */
static void name_of(const program *p, int at, char text[INSTR_TEXT]) {
    if (at >= p->count) {
        snprintf(text, INSTR_TEXT, "last sends");
        return;
    }
    const instr *i = &p->code[at];
    size_t used = (size_t)snprintf(text, INSTR_TEXT, "%s", instr_text((instr_kind)i->kind));
    if (i->unit >= 0) used += (size_t)snprintf(text + used, INSTR_TEXT - used, " u%d", i->unit);
    if (i->micro >= 0) snprintf(text + used, INSTR_TEXT - used, " m%d", i->micro);
}

static void print_where(trace_events *e, const trace_step *s, const program *p, int at) {
    fprintf(e->out, "\"%s\":%" PRId64 ",\"position\":%d",
            s->evaluates ? "evaluation_after_step" : "step", s->step, at);
    if (at >= p->count) return;
    const instr *i = &p->code[at];
    char text[INSTR_TEXT];
    instr_print(i, text, sizeof text);
    fprintf(e->out, ",\"instruction\":\"%s\"", text);
    if (i->unit >= 0) fprintf(e->out, ",\"unit\":%d", i->unit);
    if (i->micro >= 0) fprintf(e->out, ",\"micro_batch\":%d", i->micro);
}

static void print_wait(trace_events *e, const trace_rank *r, const trace_step *s, const program *p,
                       int at, uint64_t began, uint64_t ended) {
    char name[INSTR_TEXT];
    name_of(p, at, name);
    begin_event(e, "X", r->rank, THREAD_INSTRUCTIONS);
    fprintf(e->out, ",\"name\":\"%s%s%s\"", ended ? "wait" : "wait for ", ended ? "" : name,
            ended ? "" : " (unfinished)");
    print_span(e, r, "wait", began, ended);
    fprintf(e->out, ",\"args\":{\"for\":\"%s\",", name);
    print_where(e, s, p, at);
    fprintf(e->out, "%s}}", unfinished(ended));
}

static void print_instruction(trace_events *e, const trace_rank *r, const trace_step *s,
                              const program *p, int at, uint64_t began, uint64_t ended) {
    char name[INSTR_TEXT];
    name_of(p, at, name);
    begin_event(e, "X", r->rank, THREAD_INSTRUCTIONS);
    fprintf(e->out, ",\"name\":\"%s%s\"", name, ended ? "" : " (unfinished)");
    print_span(e, r, "instruction", began, ended);
    fputs(",\"args\":{", e->out);
    print_where(e, s, p, at);
    fprintf(e->out, "%s}}", unfinished(ended));
}

/* The wait for the last sends, at p->count, is no instruction. */
static void print_times(trace_events *e, const trace_rank *r, const trace_step *s,
                        const program *p) {
    int first = first_kept(s, r->room), at = first;
    uint64_t began = first ? get(&trace_time_at(s, r->room, first)->waited) : s->began;
    for (uint64_t ended = 1; at <= p->count && at <= s->at && ended; at++) {
        const trace_time *t = trace_time_at(s, r->room, at);
        uint64_t waited = get(&t->waited);
        ended = get(&t->ended);
        if (ended && ended < began) break; /* being written */
        if (!waited || waited > began) print_wait(e, r, s, p, at, began, waited);
        if (waited && at < p->count) print_instruction(e, r, s, p, at, waited, ended);
        began = ended;
    }
}

static void print_step(trace_events *e, const trace_rank *r, const trace_step *s) {
    begin_event(e, "X", r->rank, THREAD_INSTRUCTIONS);
    fprintf(e->out, ",\"name\":\"%s %" PRId64 "%s\"",
            s->evaluates ? "evaluation after step" : "step", s->step,
            s->ended ? "" : " (unfinished)");
    print_span(e, r, "step", s->began, s->ended);
    fprintf(e->out, ",\"args\":{\"%s\":%" PRId64 ",\"instructions\":%d%s}}",
            s->evaluates ? "evaluation_after_step" : "step", s->step, s->count,
            unfinished(s->ended));
}

/* ---- Calls ----------------------------------------------------------------------------------- */

#define STARTS 64

/* The starts of calls whose wait may follow, by group, kind and number. */
typedef struct {
    const trace_call *last[TRINE_GROUPS][3][STARTS];
} started;

static bool is_message(const trace_call *c) {
    return c->kind == TRINE_TALLY_SEND || c->kind == TRINE_TALLY_RECV;
}

static const trace_call **start_of(started *all, const trace_call *c) {
    int kind = c->kind == TRINE_TALLY_SEND ? 1 : c->kind == TRINE_TALLY_RECV ? 2 : 0;
    return &all->last[c->group][kind][c->number % STARTS];
}

static void print_call(trace_events *e, const trace_rank *r, const trace_call *c,
                       const trace_call *start, const program *p) {
    int at = start->at < p->count ? start->at : p->count;
    begin_event(e, "X", r->rank, is_message(c) ? THREAD_MESSAGES : THREAD_GROUPS + c->group);
    fprintf(e->out, ",\"name\":\"%s%s%s\"", tally_kind_text((trine_tally_kind)c->kind),
            c->part == COMM_CALL_WAIT ? ", wait" : "", c->ended ? "" : " (unfinished)");
    print_span(e, r, is_message(c) ? "message" : "collective", c->began, c->ended);
    fprintf(e->out, ",\"args\":{\"group\":\"%s\",\"number\":%" PRIu64 ",\"bytes\":%" PRIu64,
            comm_group_name((trine_group)c->group), c->number, c->bytes);
    if (c->ended > start->began && c->part != COMM_CALL_START) {
        uint64_t rate = c->bytes * 1000 / (c->ended - start->began);
        fprintf(e->out, ",\"GB/s\":%" PRIu64 ".%03d", rate / 1000, (int)(rate % 1000));
    }
    if (c->peer >= 0) fprintf(e->out, ",\"peer\":%d", c->peer);
    if (c->calls > 1) fprintf(e->out, ",\"calls\":%d", c->calls);
    if (at < p->count && p->code[at].unit >= 0) fprintf(e->out, ",\"unit\":%d", p->code[at].unit);
    if (at < p->count && p->code[at].micro >= 0)
        fprintf(e->out, ",\"micro_batch\":%d", p->code[at].micro);
    fprintf(e->out, ",\"position\":%d%s}}", c->at, unfinished(c->ended));
}

/* An end of a message's arrow: the start of the send, or the wait of the receive. A viewer joins it to the span that
 * has this moment. The id is below 2^53, which JavaScript can tell apart. */
static void print_arrow(trace_events *e, const trace_rank *r, const trace_call *c) {
    bool sends = c->kind == TRINE_TALLY_SEND;
    int64_t from = map(&r->clock, c->began), to = map(&r->clock, c->ended ? c->ended : r->now);
    uint64_t lane = sends ? c->group : (uint64_t)comm_other_name((trine_group)c->group);
    uint64_t sender = (uint64_t)(sends ? r->rank : c->peer);
    uint64_t id = (lane << 44) + (sender % (1 << 20) << 24) + c->number % (1 << 24);
    begin_event(e, sends ? "s" : "f", r->rank, THREAD_MESSAGES);
    fprintf(e->out, ",\"cat\":\"message\",\"name\":\"message\",\"id\":%" PRIu64 "%s", id,
            sends ? "" : ",\"bp\":\"e\"");
    print_us(e->out, "ts", sends || to <= from ? from : to - 1);
    fputc('}', e->out);
}

static bool has_arrow(const trace_call *c) {
    if (!is_message(c) || comm_other_name((trine_group)c->group) == (trine_group)c->group)
        return false;
    if (c->kind == TRINE_TALLY_SEND) return c->part == COMM_CALL_START;
    return c->part == COMM_CALL_WAIT && c->ended;
}

static void print_calls(trace_events *e, const trace_rank *r, const trace_step *s,
                        const program *p) {
    started all;
    int64_t count = s->calls, n = count > r->room.calls ? count - r->room.calls : 0;
    memset(&all, 0, sizeof all);
    for (; n < count; n++) {
        const trace_call *c = trace_call_at(s, r->room, n), *start = c;
        if (c->group >= TRINE_GROUPS || c->kind >= TRINE_TALLY_KINDS || !c->calls) continue;
        const trace_call **known = start_of(&all, c);
        if (c->part == COMM_CALL_WAIT && *known && (*known)->number == c->number) start = *known;
        if (c->part == COMM_CALL_START) *known = c;
        print_call(e, r, c, start, p);
        if (has_arrow(c)) print_arrow(e, r, c);
    }
}

void trace_event_step(trace_events *e, const trace_rank *r, const trace_step *s, const program *p) {
    if (s->count != p->count || !s->began || s->at < 0) return;
    print_step(e, r, s);
    print_times(e, r, s, p);
    print_calls(e, r, s, p);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void print_thread(trace_events *e, int rank, int thread, const char *group,
                         const char *name) {
    begin_event(e, "M", rank, thread);
    fprintf(e->out, ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s%s\"}}", group, name);
    begin_event(e, "M", rank, thread);
    fprintf(e->out, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", thread);
}

/* ": in FORWARD u1 m0 s0 (4 of 14) of step 3", or where it is else. */
static void print_state(FILE *out, const trace_rank *r, const trace_step *s, const program *p) {
    char text[INSTR_TEXT] = "its last sends";
    bool waits;
    int at = trace_event_at(s, r->room, &waits);
    const char *what = s->evaluates ? "the evaluation after step" : "step";
    if (at < 0) {
        fprintf(out, ": after %s %" PRId64, what, s->step);
        return;
    }
    if (at < p->count) instr_print(&p->code[at], text, sizeof text);
    fprintf(out, ": %s %s (%d of %d) of %s %" PRId64, waits ? "waiting for" : "in", text, at,
            p->count, what, s->step);
}

void trace_event_names(trace_events *e, const trace_rank *r, const trace_step *last,
                       const program *p) {
    char where[AXES_TEXT];
    begin_event(e, "M", r->rank, 0);
    fprintf(e->out, ",\"name\":\"process_name\",\"args\":{\"name\":\"rank %d [%s]%s", r->rank,
            axes_coord_text(trine_layout_coord(r->layout, r->rank), where, sizeof where),
            r->gone ? ", which has ended" : "");
    if (last && p && last->began && last->count == p->count) print_state(e->out, r, last, p);
    fputs("\"}}", e->out);
    begin_event(e, "M", r->rank, 0);
    fprintf(e->out, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", r->rank);
    print_thread(e, r->rank, THREAD_INSTRUCTIONS, "", "instructions");
    print_thread(e, r->rank, THREAD_MESSAGES, "", "messages");
    for (int g = 0; g < TRINE_GROUPS; g++)
        if (comm_other_name((trine_group)g) == (trine_group)g)
            print_thread(e, r->rank, THREAD_GROUPS + g, "group ", comm_group_name((trine_group)g));
}
