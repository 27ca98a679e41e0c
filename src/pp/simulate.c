#include "pp/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "core/machine.h"

/* ---- Costs ------------------------------------------------------------------------------------ */

/* The first unit of a chunk, in backward order, whose backward pass splits; else its first one. */
static int first_split(const program_spec *s, int chunk) {
    int unit = spec_chunk_last(s, chunk);
    while (unit > spec_chunk_first(s, chunk) && spec_unit(s, unit).backward != BACKWARD_SPLITS)
        unit--;
    return unit;
}

double pp_unit_cost(const void *context, const program *p, const instr *i) {
    const program_spec *s = p->spec;
    (void)context;
    if (!instr_computes((instr_kind)i->kind)) return 0;
    int chunk = spec_chunk_of(s, i->unit);
    if (i->kind == FORWARD) return i->unit == spec_chunk_first(s, chunk);
    if (!program_changes_stream(p, i)) return i->unit == first_split(s, chunk);
    if (i->unit != spec_chunk_last(s, chunk)) return 0;
    bool parts = s->parallel.split_backward &&
                 spec_unit(s, first_split(s, chunk)).backward == BACKWARD_SPLITS;
    return parts ? 1 : 2;
}

/* ---- State ------------------------------------------------------------------------------------ */

typedef struct {
    double from, to;
} span;

/* The messages of a directed pair of stages, in the order of time. */
typedef struct {
    span *busy;
    int count, room;
} link;

enum { LINKS = 4 }; /* from a stage */

/* A message: when both sides have started it, and when it has arrived. */
typedef struct {
    double ready, end;
} arrival;

/* A collective in progress: when it ends or, where it has not begun, the time that it takes; else `late` is -1. */
typedef struct {
    const instr *i;
    double end, late;
} started;

/* Those of a stage, from the first on, and when their group is free. */
typedef struct {
    started *list;
    int first, count, room;
    double free;
} background;

typedef struct {
    machine m;
    pp_times *out;
    double *clock; /* (stages) */
    pp_cost cost;
    const pp_durations *durations; /* NULL: none */
    const void *context;
    int started;         /* instructions */
    link *links;         /* (stages)(LINKS) */
    arrival *arrivals;   /* by program_message */
    background *pending; /* (stages) */
} simulation;

/* ---- Links ------------------------------------------------------------------------------------ */

/* Messages are placed in the order in which the stages are stepped, which is not that of time: one that is ready earlier
 * than one placed before takes a gap where it fits. */
static trine_status link_take(link *l, double ready, double time, double *end) {
    int at = l->count;
    while (at > 0 && l->busy[at - 1].from >= ready + time) at--;
    for (; at < l->count; at++) {
        double free = at ? fmax(ready, l->busy[at - 1].to) : ready;
        if (free + time <= l->busy[at].from) break;
    }
    double from = at ? fmax(ready, l->busy[at - 1].to) : ready;
    *end = from + time;
    span *more = grow(l->busy, l->count, &l->room, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory to simulate %d messages", l->count + 1);
    l->busy = more;
    memmove(l->busy + at + 1, l->busy + at, (size_t)(l->count - at) * sizeof *l->busy);
    l->busy[at] = (span){from, *end};
    l->count++;
    return TRINE_OK;
}

/* That from a stage to another: the next, the previous, or across the end of a ring. */
static link *link_of(simulation *w, int from, int to) {
    int which = to == from + 1 ? 0 : to == from - 1 ? 1 : to < from ? 2 : 3;
    return &w->links[from * LINKS + which];
}

/* Both sides have started message i; this one is p's, at its clock. */
static trine_status deliver(simulation *w, const program *p, const instr *i) {
    const machine_message *m = machine_message_of(&w->m, p, i);
    bool sends = instr_sends((instr_kind)i->kind);
    int peer = program_peer(p, i);
    const program *sender = sends ? p : &w->m.stages[peer];
    int other = m->by[sends ? MACHINE_RECEIVER : MACHINE_SENDER].at;
    const instr *send = sends ? i : &sender->code[other];
    double ready = fmax(w->clock[p->stage], w->out->at[peer][other].start),
           time = w->durations ? w->durations->of(w->context, sender, send) : 0;
    arrival *a = &w->arrivals[program_message(p, i)];
    *a = (arrival){ready, ready};
    if (time <= 0) return TRINE_OK;
    return link_take(link_of(w, sender->stage, sends ? peer : p->stage), ready, time, &a->end);
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

static void wait_until(simulation *w, int stage, double until, pp_wait why) {
    double *clock = &w->clock[stage];
    if (until <= *clock) return;
    w->out->waits[stage][why] += until - *clock;
    *clock = until;
}

/* The end of the oldest collective that is in progress, which is taken off the list. */
static void finish_oldest(simulation *w, int stage) {
    background *b = &w->pending[stage];
    const started *s = &b->list[b->first++];
    if (s->late >= 0) b->free = fmax(b->free, w->clock[stage]) + s->late;
    wait_until(w, stage, s->late >= 0 ? b->free : s->end, PP_WAITS_COLLECTIVE);
}

/* Waits for what is in progress over dp up to the last that conflicts: collectives of a group end in order. */
static void wait_for_collectives(simulation *w, const program *p, const instr *i) {
    background *b = &w->pending[p->stage];
    operand own[INSTR_OPERANDS], other[INSTR_OPERANDS];
    int count = program_operands(p, i, own), last = b->count;
    for (; last > b->first; last--) {
        bool conflict = false;
        int others = program_operands(p, b->list[last - 1].i, other);
        for (int n = 0; n < count && !conflict; n++)
            for (int k = 0; k < others && !conflict; k++)
                conflict = operand_conflicts(&own[n], &other[k]);
        if (conflict) break;
    }
    while (b->first < last) finish_oldest(w, p->stage);
    if (b->first == b->count) b->first = b->count = 0;
}

static trine_status start_collective(simulation *w, const program *p, const instr *i, double time) {
    background *b = &w->pending[p->stage];
    bool late = i->kind == REDUCE && w->durations->late;
    started *more = grow(b->list, b->count, &b->room, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory to simulate %d collectives", b->count + 1);
    b->list = more;
    if (!late) b->free = fmax(b->free, w->clock[p->stage]) + time;
    b->list[b->count++] = (started){i, b->free, late ? time : -1};
    return TRINE_OK;
}

static bool joins(int kind) {
    return kind == TIE || kind == NORM;
}

/* The communication of an instruction that is no message: started, or waited for at once. */
static trine_status communicate(simulation *w, const program *p, const instr *i) {
    bool starts = i->kind == REDUCE || (i->kind == GATHER && i->gather >= 0);
    bool blocks = i->kind == REDUCE_TP || i->kind == GATHER;
    if (!starts && !blocks) return TRINE_OK;
    double time = w->durations->of(w->context, p, i);
    if (starts && !w->durations->occupies) return start_collective(w, p, i, time);
    wait_until(w, p->stage, w->clock[p->stage] + time, PP_WAITS_COLLECTIVE);
    return TRINE_OK;
}

/* ---- Running ---------------------------------------------------------------------------------- */

static trine_status starts(void *context, const program *p, int at) {
    simulation *w = context;
    const instr *i = &p->code[at];
    if (w->durations && w->pending[p->stage].count) wait_for_collectives(w, p, i);
    double *clock = &w->clock[p->stage], cost = w->cost(w->context, p, i);
    w->out->at[p->stage][at] = (pp_time){*clock, *clock + cost, w->started, w->started};
    w->started++;
    if (instr_is_message((instr_kind)i->kind)) {
        const machine_message *m = machine_message_of(&w->m, p, i);
        int peer = instr_sends((instr_kind)i->kind) ? MACHINE_RECEIVER : MACHINE_SENDER;
        if (m->by[peer].starts) TRY(deliver(w, p, i));
    }
    *clock += cost;
    w->out->busy[p->stage] += cost;
    w->out->makespan = fmax(w->out->makespan, *clock);
    if (!w->durations) return TRINE_OK;
    if (w->durations->blocks && instr_sends((instr_kind)i->kind))
        wait_until(w, p->stage, *clock + w->durations->of(w->context, p, i), PP_WAITS_MESSAGE);
    return communicate(w, p, i);
}

/* All stages that take part have come. */
static void join(simulation *w, const program *p, int at) {
    const instr *i = &p->code[at];
    double last = 0, time = w->durations->of(w->context, p, i);
    for (int n = 0; n < w->m.spec->stages; n++) {
        if (i->kind == TIE && spec_tied_unit(w->m.spec, n) < 0) continue;
        const program *other = &w->m.stages[n];
        int there = other->count - 1;
        while (there > 0 && other->code[there].kind != i->kind) there--;
        last = fmax(last, w->out->at[n][there].end);
    }
    wait_until(w, p->stage, last, PP_WAITS_PEER);
    wait_until(w, p->stage, last + time, PP_WAITS_COLLECTIVE);
}

/* A message is complete when it has arrived; the stage has waited until then. */
static trine_status ends(void *context, const program *p, int at) {
    simulation *w = context;
    const instr *i = &p->code[at];
    if (w->durations && joins(i->kind)) join(w, p, at);
    if (!instr_is_message((instr_kind)i->kind)) return TRINE_OK;
    const machine_message *message = machine_message_of(&w->m, p, i);
    const arrival *a = &w->arrivals[program_message(p, i)];
    int peer = instr_sends((instr_kind)i->kind) ? MACHINE_RECEIVER : MACHINE_SENDER;
    pp_time *own = &w->out->at[p->stage][at];
    const pp_time *other = &w->out->at[message->by[peer].stage][message->by[peer].at];
    own->end = a->end;
    own->end_order = own->start_order > other->start_order ? own->start_order : other->start_order;
    wait_until(w, p->stage, a->ready, PP_WAITS_PEER);
    wait_until(w, p->stage, a->end, PP_WAITS_MESSAGE);
    return TRINE_OK;
}

/* What is in progress at the end of a program is awaited; then all stages wait for the last. */
static void end_step(simulation *w) {
    int stages = w->m.spec->stages;
    for (int p = 0; p < stages; p++) {
        while (w->pending[p].first < w->pending[p].count) finish_oldest(w, p);
        w->out->step = fmax(w->out->step, w->clock[p]);
    }
    for (int p = 0; p < stages; p++) wait_until(w, p, w->out->step, PP_WAITS_PEER);
}

static trine_status run(simulation *w) {
    TRY(machine_run(&w->m, &(machine_hook){.context = w, .starts = starts, .ends = ends}));
    for (int p = 0; p < w->m.spec->stages; p++)
        CHECK(machine_ended(&w->m, p), TRINE_EPROGRAM, "stage %d waits forever at instruction %d",
              p, w->m.now[p].at);
    end_step(w);
    return TRINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

static trine_status setup(simulation *w, const program *stages) {
    size_t count = (size_t)stages->spec->stages,
           messages = 2 * (size_t)spec_edges(stages->spec) * (size_t)stages->spec->micros;
    TRY(machine_create(&w->m, stages, MACHINE_BUFFERS));
    *w->out = (pp_times){.stages = (int)count};
    bool ok = (w->out->at = calloc(count, sizeof *w->out->at)) &&
              (w->out->busy = calloc(count, sizeof *w->out->busy)) &&
              (w->out->waits = calloc(count, sizeof *w->out->waits)) &&
              (w->clock = calloc(count, sizeof *w->clock)) &&
              (w->links = calloc(count * LINKS, sizeof *w->links)) &&
              (w->pending = calloc(count, sizeof *w->pending)) &&
              (w->arrivals = calloc(messages + 1, sizeof *w->arrivals));
    for (size_t p = 0; ok && p < count; p++)
        ok = (w->out->at[p] = calloc((size_t)stages[p].count + 1, sizeof **w->out->at));
    CHECK(ok, TRINE_ENOMEM, "no memory to simulate %zu programs", count);
    return TRINE_OK;
}

static void clean(simulation *w, int stages) {
    for (int n = 0; w->links && n < stages * LINKS; n++) free(w->links[n].busy);
    for (int p = 0; w->pending && p < stages; p++) free(w->pending[p].list);
    machine_destroy(&w->m);
    free(w->clock);
    free(w->links);
    free(w->arrivals);
    free(w->pending);
}

void pp_times_destroy(pp_times *t) {
    for (int p = 0; t->at && p < t->stages; p++) free(t->at[p]);
    free(t->at);
    free(t->busy);
    free(t->waits);
    *t = (pp_times){0};
}

trine_status pp_simulate(const program *stages, pp_cost cost, const pp_durations *durations,
                         const void *context, pp_times *out) {
    simulation w = {.out = out, .cost = cost, .durations = durations, .context = context};
    *out = (pp_times){0};
    trine_status status = setup(&w, stages);
    if (status == TRINE_OK) status = run(&w);
    clean(&w, stages->spec->stages);
    if (status != TRINE_OK) pp_times_destroy(out);
    return status;
}

double pp_times_idle(const pp_times *t) {
    double busy = 0;
    for (int p = 0; p < t->stages; p++) busy += t->busy[p];
    return 1 - busy / (t->makespan * t->stages);
}
