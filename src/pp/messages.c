#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "pp/pp.h"
#include "state/part.h"

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
    bool leaves = program_changes_stream(p, i) && i->unit == spec_chunk_first(s, c);
    if (leaves && spec_receives(s, c) && spec_goes_back(s, i->unit - 1)) return SEND_GRAD;
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

/* RECV_ACT, SEND_ACT, RECV_GRAD, SEND_GRAD around the stage's computation. */
static trine_status insert_messages(program *p) {
    return program_rewrite(p, wire);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static trine_status check_recv_act(stage_state *s, const instr *i) {
    TRY(check_claim_slot(s, i));
    REQUIRE(!s->slots[i->slot].received, "micro-batch %d is received twice", i->micro);
    s->slots[i->slot].received = true;
    return TRINE_OK;
}

static trine_status check_send_act(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    chunk_facts c = check_chunk_of(s, i);
    TRY(check_slot(s, i));
    REQUIRE(slot->forwards == c.units,
            "the output of chunk %d is not computed: %d of %d units have run forward", c.index,
            slot->forwards, c.units);
    REQUIRE(!slot->sent, "micro-batch %d is sent twice", i->micro);
    slot->sent = true;
    check_release_slot(s, slot, c);
    return TRINE_OK;
}

static trine_status check_recv_grad(stage_state *s, const instr *i) {
    return check_claim_stream(s, i, check_chunk_of(s, i).last);
}

static trine_status check_send_grad(stage_state *s, const instr *i) {
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro &&
                stream->unit == check_chunk_of(s, i).first - 1,
            "gradient stream %d does not hold the gradient of chunk %d's input for micro-batch %d",
            i->stream, check_chunk_of(s, i).index, i->micro);
    check_release_stream(s, stream);
    return TRINE_OK;
}

/* ---- Proving ----------------------------------------------------------------------------------- */

/* Until a message has arrived its memory has nothing. */
static trine_status prove_recv(prove_stage *s, const instr *i) {
    bool acts = instr_carries_acts((instr_kind)i->kind);
    PROVE(program_message(s->p, i) >= 0, "chunk %d has no other stage to receive from",
          program_chunk(s->p, i));
    *(acts ? &s->inputs[i->slot] : &s->streams[i->stream]) = (thing){0};
    return TRINE_OK;
}

static trine_status prove_send_act(prove_stage *s, const instr *i) {
    const int last = spec_chunk_last(s->p->spec, program_chunk(s->p, i));
    PROVE(program_message(s->p, i) >= 0, "chunk %d has no other stage to send to",
          program_chunk(s->p, i));
    TRY(prove_thing(s, "slot", i->slot, s->outputs[i->slot],
                    (thing){THING_OUTPUT, last, i->micro}));
    prove_send(s, i, s->outputs[i->slot]);
    return TRINE_OK;
}

static trine_status prove_send_grad(prove_stage *s, const instr *i) {
    const int before = spec_chunk_first(s->p->spec, program_chunk(s->p, i)) - 1;
    PROVE(program_message(s->p, i) >= 0, "chunk %d has no other stage to send to",
          program_chunk(s->p, i));
    TRY(prove_thing(s, "gradient stream", i->stream, s->streams[i->stream],
                    (thing){THING_GRADIENT, before, i->micro}));
    prove_send(s, i, s->streams[i->stream]);
    return TRINE_OK;
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

/* Starts a message with the other rank of its edge. */
static trine_status run_message(step_run *r, const instr *i) {
    trine_comm *edge = step_group(r, program_message_group(r->program, i));
    size_t count = r->state->config.model.stream;
    int peer = 1 - trine_comm_rank(edge);
    operand o[INSTR_OPERANDS];
    program_operands(r->program, i, o);
    comm_request *request = step_start(r, o->what, o->index, o->write);
    if (o->write) return comm_recv_start(edge, cargo(r, i), count, r->dev->compute, peer, request);
    return comm_send_start(edge, cargo(r, i), count, r->dev->compute, peer, request);
}

static uint64_t message_bytes(const rank_state *s, const program *p, const instr *i) {
    (void)p, (void)i;
    return s->config.model.stream * trine_dtype_bytes(s->config.dev->compute);
}

/* The pass of one inserts all four. */
const instr_part part_RECV_ACT = {.check = check_recv_act, .prove = prove_recv, .run = run_message};
const instr_part part_SEND_ACT = {.pass = insert_messages,
                                  .check = check_send_act,
                                  .prove = prove_send_act,
                                  .run = run_message,
                                  .bytes = message_bytes};
const instr_part part_RECV_GRAD = {
    .check = check_recv_grad, .prove = prove_recv, .run = run_message};
const instr_part part_SEND_GRAD = {
    .check = check_send_grad, .prove = prove_send_grad, .run = run_message, .bytes = message_bytes};
