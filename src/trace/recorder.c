/* Recording: the interpreter's events and the groups' calls become records. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/status.h"
#include "trace/trace.h"

/* Messages there and back at either end of the traced steps; when a trainer is made. */
#define ROUNDS       64
#define FIRST_ROUNDS 8

/* ---- Programs -------------------------------------------------------------------------------- */

static bool is_traced(const trace *t) {
    return t->of.last && t->step >= t->of.first && t->step <= t->of.last;
}

static void set(_Atomic uint64_t *at, uint64_t ns) {
    atomic_store_explicit(at, ns, memory_order_relaxed);
}

/* A program begins that may have fewer instructions than the record has room for. */
static void clear(trace_step *s, trace_room kept, const program *p) {
    int64_t times = p->count + 1 < kept.times ? p->count + 1 : kept.times;
    for (int n = 0; n < (int)times; n++) {
        set(&trace_time_at(s, kept, n)->waited, 0);
        set(&trace_time_at(s, kept, n)->ended, 0);
    }
}

static void allow(trace *t, const program *p, int at) {
    const instr *i = &p->code[at];
    if (at < p->count && !instr_is_message((instr_kind)i->kind))
        t->allowed += trace_calls_of(i, t->of.layout);
}

void trace_program(void *context, const program *p, int at) {
    trace *t = context;
    bool evaluates = p->spec->forward_only;
    t->call = NULL;
    t->now = NULL;
    if (!t->of.ring && (evaluates || !is_traced(t))) return;
    trace_step *s = trace_ring_step(t->ring, t->ring->programs);
    clear(s, t->room, p);
    s->step = t->step - (evaluates && t->step > 0);
    s->evaluates = evaluates;
    s->count = p->count;
    s->calls = 0;
    s->ended = 0;
    s->at = at;
    t->now = s;
    t->used = 0;
    t->allowed = TRACE_CALLS_BESIDE;
    allow(t, p, at);
    atomic_fetch_add(&t->ring->programs, 1);
    s->began = clock_ns();
}

/* With --serial an instruction also waits for what it has started. */
void trace_waited(void *context, const program *p, int at) {
    trace *t = context;
    (void)p;
    if (!t->now) return;
    trace_time *time = trace_time_at(t->now, t->room, at);
    set(at < t->now->at ? &time->ended : &time->waited, clock_ns());
}

/* Keeps a traced step. */
static void keep(trace *t) {
    size_t each = trace_step_bytes(t->room);
    if (t->now->evaluates || !is_traced(t)) return;
    memcpy(t->steps + (size_t)t->count++ * each, t->now, each);
}

void trace_executed(void *context, const program *p, int at) {
    trace *t = context;
    if (!t->now) return;
    uint64_t now = clock_ns();
    set(&trace_time_at(t->now, t->room, at)->ended, now);
    if (at < p->count) {
        if (t->room.times <= p->count) { /* the place of one that is overwritten */
            set(&trace_time_at(t->now, t->room, at + 1)->waited, 0);
            set(&trace_time_at(t->now, t->room, at + 1)->ended, 0);
        }
        t->now->at = at + 1;
        allow(t, p, at + 1);
        return;
    }
    t->now->ended = now;
    keep(t);
    t->now = NULL;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Messages of the pipeline, which are never added up: arrows join their calls. */
static bool is_lane(int group) {
    return comm_other_name((trine_group)group) != (trine_group)group;
}

/* The last call of this instruction in the same group. */
static trace_call *alike(const trace *t, const comm_called *c) {
    for (int64_t n = t->now->calls; n-- > 0 && t->now->calls - n < t->room.calls;) {
        trace_call *last = trace_call_at(t->now, t->room, n);
        if (last->at != t->now->at) break;
        if (last->group == c->group) return last;
    }
    return NULL;
}

static trace_call *next_call(trace *t, const comm_called *c) {
    trace_call *call = trace_call_at(t->now, t->room, t->now->calls++);
    *call = (trace_call){.began = clock_ns(),
                         .number = c->number,
                         .bytes = c->bytes,
                         .at = t->now->at,
                         .peer = c->peer,
                         .calls = 1,
                         .group = (uint8_t)c->group,
                         .kind = (uint8_t)c->kind,
                         .part = (uint8_t)c->part};
    t->used += !is_lane((int)c->group);
    return call;
}

static void begins(void *context, const comm_called *c) {
    trace *t = context;
    if (!t->now) return;
    bool full = t->used >= t->allowed && !is_lane((int)c->group);
    t->call = full ? alike(t, c) : NULL;
    if (!t->call) {
        t->call = next_call(t, c);
        return;
    }
    t->call->bytes += c->bytes;
    if (t->call->calls < UINT16_MAX) t->call->calls++;
    set(&t->call->ended, 0);
}

static void ends(void *context) {
    trace *t = context;
    if (t->call) set(&t->call->ended, clock_ns());
    t->call = NULL;
}

/* ---- Creating -------------------------------------------------------------------------------- */

static int steps_of(const trace_subject *of) {
    return of->last ? of->last - of->first + 1 : 0;
}

static trine_status take_memory(trace *t) {
    size_t steps = (size_t)steps_of(&t->of) * trace_step_bytes(t->room);
    t->ring_bytes = trace_bytes(t->room, 0);
    t->ring = t->of.ring ? comm_keep(t->ring_bytes, &t->shared) : calloc(1, t->ring_bytes);
    t->steps = malloc(steps ? steps : 1);
    CHECK(t->ring && t->steps, TRINE_ENOMEM,
          "no memory for the times of a step's instructions, %zu bytes", t->ring_bytes + steps);
    memset(t->steps, 0, steps); /* the plan's pages are taken now */
    return TRINE_OK;
}

static void name_files(trace *t) {
    const char *job = environment_value("SLURM_JOB_ID");
    snprintf(t->job, sizeof t->job, "%d", comm_job_number(t->of.world));
    if (job) snprintf(t->job, sizeof t->job, "%.30s", job);
    for (char *c = t->job; *c; c++)
        if (*c == '/') *c = '_';
    comm_node_name(t->of.world, t->node, sizeof t->node);
}

static void describe(trace *t) {
    *t->ring = (trace_ring){.magic = TRACE_MAGIC,
                            .rank = trine_world_rank(t->of.world),
                            .stage = t->of.stage,
                            .room = t->room};
}

static trine_status create(trace *t) {
    const program *p = &t->of.stages[t->of.stage];
    t->room = trace_room_kept(trace_room_of(p, t->of.layout), t->of.last > 0);
    t->observer = (comm_observer){.context = t, .begins = begins, .ends = ends};
    name_files(t);
    TRY(trine_world_agree(t->of.world, take_memory(t)));
    describe(t);
    TRY(comm_clock_offset(t->of.world, FIRST_ROUNDS, &t->ring->offset, &t->ring->error));
    comm_observe(t->of.world, &t->observer);
    return TRINE_OK;
}

trine_status trace_create(trace **out, const trace_subject *of) {
    *out = NULL;
    if (!of->ring && !of->last) return TRINE_OK;
    trace *t = calloc(1, sizeof *t);
    trine_status status = t ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for a trace");
    status = trine_world_agree(of->world, status);
    if (status == TRINE_OK) {
        t->of = *of;
        status = create(t);
    }
    *out = t;
    if (status != TRINE_OK) trace_destroy(out);
    return status;
}

void trace_destroy(trace **out) {
    trace *t = *out;
    if (!t) return;
    comm_on_end_no_more(t);
    comm_observe_end(t->of.world, &t->observer);
    if (t->of.ring)
        comm_keep_free(t->ring);
    else
        free(t->ring);
    free(t->steps);
    free(t);
    *out = NULL;
}

bool trace_is_private(const trace *t) {
    return t && t->of.ring && !t->shared;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static trine_status look_at_clock(trace *t, int end) {
    t->clock[end].at = clock_ns();
    return comm_clock_offset(t->of.world, ROUNDS, &t->clock[end].offset, &t->clock[end].error);
}

trine_status trace_before(trace *t, int64_t step) {
    t->step = step;
    return is_traced(t) && !t->count ? look_at_clock(t, 0) : TRINE_OK;
}

trine_status trace_after(trace *t, int64_t step, bool *due) {
    *due = t->count && step == t->of.last;
    return trace_pending(t) && step <= t->of.last ? look_at_clock(t, 1) : TRINE_OK;
}

bool trace_pending(const trace *t) {
    return t->count > 0 && !t->written;
}
