#include "base/status.h"
#include "pp/pp.h"

/* The messages of the pipeline. Sends and receives are only started here; the next instruction that uses their
 * buffer waits for them. Each of a stage's four directed edges has its own communicator, so that a pending
 * receive cannot block a send that its peer needs. */

static instr message(const program *p, instr_kind kind, const instr *compute) {
    instr i = program_instr(kind, -1, compute->micro);
    if (spec_stage_chunks(p->spec, p->stage) > 1)
        i.chunk = spec_chunk_number(p->spec, spec_chunk_of(p->spec, compute->unit));
    return i;
}

/* The message before a computation, and the one after it; INSTR_KINDS: none. */
static instr_kind message_before(const program *p, const instr *i) {
    const program_spec *s = p->spec;
    if (!instr_computes((instr_kind)i->kind)) return INSTR_KINDS;
    int c = spec_chunk_of(s, i->unit);
    if (i->kind == FORWARD && i->unit == spec_chunk_first(s, c) && spec_receives(s, c))
        return RECV_ACT;
    if (program_changes_stream(p, i) && i->unit == spec_chunk_last(s, c) && spec_sends(s, c))
        return RECV_GRAD;
    return INSTR_KINDS;
}

static instr_kind message_after(const program *p, const instr *i) {
    const program_spec *s = p->spec;
    if (!instr_computes((instr_kind)i->kind)) return INSTR_KINDS;
    int c = spec_chunk_of(s, i->unit);
    if (i->kind == FORWARD && i->unit == spec_chunk_last(s, c) && spec_sends(s, c)) return SEND_ACT;
    if (program_changes_stream(p, i) && i->unit == spec_chunk_first(s, c) && spec_receives(s, c))
        return SEND_GRAD;
    return INSTR_KINDS;
}

static trine_status wire(const program *p, program *out) {
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        instr_kind before = message_before(p, i), after = message_after(p, i);
        if (before != INSTR_KINDS) TRY(program_append(out, message(p, before, i)));
        TRY(program_append(out, *i));
        if (after != INSTR_KINDS) TRY(program_append(out, message(p, after, i)));
    }
    return TRINE_OK;
}

trine_status pp_wire_messages(program *p) {
    return program_rewrite(p, wire);
}

/* ---- Execution --------------------------------------------------------------------------------- */

/* The buffer that a message receives into or sends from. */
static void *cargo(const step_run *r, const instr *i) {
    const rank_state *s = r->state;
    if (!instr_carries_acts((instr_kind)i->kind)) return s->streams[i->stream];
    const held_slot *slot = &s->slots[i->slot];
    if (!instr_sends((instr_kind)i->kind)) return slot->input;
    return slot->outputs[s->index[spec_chunk_last(r->program->spec, program_chunk(r->program, i))]];
}

trine_status pp_run_message(step_run *r, const instr *i) {
    trine_comm *edge = step_group(r, program_message_group(r->program, i));
    size_t count = r->state->config.model.stream;
    int peer = 1 - trine_comm_rank(edge);
    operand o[INSTR_OPERANDS];
    program_operands(r->program, i, o);
    comm_request *request = step_start(r, o->what, o->index, o->write);
    if (o->write) return comm_recv_start(edge, cargo(r, i), count, r->dev->compute, peer, request);
    return comm_send_start(edge, cargo(r, i), count, r->dev->compute, peer, request);
}

uint64_t pp_message_bytes(const rank_state *s, const program *p, const instr *i) {
    (void)p;
    if (!instr_sends((instr_kind)i->kind)) return 0;
    return s->config.model.stream * trine_dtype_bytes(s->config.dev->compute);
}
