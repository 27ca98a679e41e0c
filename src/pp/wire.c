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

trine_status pp_wire_messages(program *p) {
    return program_rewrite(p, wire);
}

trine_status pp_wire_tie(program *p) {
    const program_spec *s = p->spec;
    bool user = p->stage == 0 || p->stage == s->stages - 1;
    if (!s->tied || s->forward_only || !user) return TRINE_OK;
    return program_append(p, program_instr(TIE, -1, -1));
}
