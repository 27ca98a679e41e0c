#include "base/status.h"
#include "pp/pp.h"

/* The messages of the pipeline. Sends and receives are only started here; whoever touches their
 * buffer next waits. Each of the four directed edges has a communicator of its own, so a receive
 * that waits cannot hold up a send that its peer needs. */

static instr message(instr_kind kind, const instr *compute) {
    instr i = program_instr(kind, -1, compute->micro);
    if (kind == RECV_ACT || kind == SEND_ACT)
        i.slot = compute->slot;
    else
        i.stream = compute->stream;
    return i;
}

/* What comes before a computation, and what after it; INSTR_KINDS for nothing. */
static instr_kind message_before(const program *p, const instr *i) {
    bool first = p->stage == 0, last = p->stage == p->spec->stages - 1;
    if (i->kind == FORWARD && i->unit == spec_first(p->spec, p->stage) && !first) return RECV_ACT;
    if (i->kind == BACKWARD && i->unit == spec_last(p->spec, p->stage) && !last) return RECV_GRAD;
    return INSTR_KINDS;
}

static instr_kind message_after(const program *p, const instr *i) {
    bool first = p->stage == 0, last = p->stage == p->spec->stages - 1;
    if (i->kind == FORWARD && i->unit == spec_last(p->spec, p->stage) && !last) return SEND_ACT;
    if (i->kind == BACKWARD && i->unit == spec_first(p->spec, p->stage) && !first) return SEND_GRAD;
    return INSTR_KINDS;
}

static trine_status wire(const program *p, program *out) {
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        instr_kind before = message_before(p, i), after = message_after(p, i);
        if (before != INSTR_KINDS) TRY(program_append(out, message(before, i)));
        TRY(program_append(out, *i));
        if (after != INSTR_KINDS) TRY(program_append(out, message(after, i)));
    }
    return TRINE_OK;
}

/* Whether the stages of an edge send to each other at the same time: where the second runs fewer
 * micro-batches ahead, it sends a gradient back while the first sends the next activation. */
static bool exchanges(const program_spec *s, int edge) {
    return pp_slots(s->schedule, s->stages, s->micros, edge) >
           pp_slots(s->schedule, s->stages, s->micros, edge + 1);
}

/* In one queue they would wait for each other. So what goes to a neighbour and what comes next from
 * the same one are one group there, on both sides. */
static bool fuse(const program *p, const instr *a, const instr *b) {
    if (a->kind == SEND_ACT && b->kind == RECV_GRAD) return exchanges(p->spec, p->stage);
    return a->kind == SEND_GRAD && b->kind == RECV_ACT && exchanges(p->spec, p->stage - 1);
}

/* Activations stand first on both sides: if each message is a kernel of its own and one holds up
 * the other, they still meet. */
static trine_status append_group(program *out, instr a, instr b, int group) {
    bool act = a.kind == SEND_ACT || a.kind == RECV_ACT;
    a.group = b.group = group;
    TRY(program_append(out, act ? a : b));
    return program_append(out, act ? b : a);
}

/* A LOAD between two messages that are fused comes after them. */
static trine_status fuse_messages(const program *p, program *out) {
    int groups = 0;
    for (int n = 0; n < p->count; n++) {
        int next = n + 1;
        while (next < p->count && p->code[next].kind == LOAD) next++;
        if (next == p->count || !fuse(p, &p->code[n], &p->code[next])) {
            TRY(program_append(out, p->code[n]));
            continue;
        }
        TRY(append_group(out, p->code[n], p->code[next], groups++));
        while (++n < next) TRY(program_append(out, p->code[n]));
    }
    return TRINE_OK;
}

trine_status pp_wire_messages(program *p) {
    TRY(program_rewrite(p, wire));
    return p->spec->queue == ONE_QUEUE ? program_rewrite(p, fuse_messages) : TRINE_OK;
}

trine_status pp_wire_tie(program *p) {
    const program_spec *s = p->spec;
    bool user = p->stage == 0 || p->stage == s->stages - 1;
    if (!s->tied || s->forward_only || !user) return TRINE_OK;
    return program_append(p, program_instr(TIE, -1, -1));
}
