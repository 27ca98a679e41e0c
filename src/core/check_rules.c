#include <stdarg.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "core/check_state.h"

trine_status check_fault(const stage_state *s, const char *format, ...) {
    char what[256], where[INSTR_TEXT];
    va_list args;
    va_start(args, format);
    c_vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (s->at >= s->p->count)
        return RAISE(TRINE_EPROGRAM, "stage %d, end of program: %s", s->p->stage, what);
    instr_print(&s->p->code[s->at], where, sizeof where);
    return RAISE(TRINE_EPROGRAM, "stage %d, instruction %d (%s): %s", s->p->stage, s->at, where,
                 what);
}

/* ---- One function an instruction ---- */

static int stage_units(const stage_state *s) {
    return spec_last(s->p->spec, s->p->stage) - spec_first(s->p->spec, s->p->stage) + 1;
}

/* Slot i->slot now belongs to micro-batch i->micro. */
static trine_status claim_slot(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    if (slot->busy && slot->micro == i->micro) return TRINE_OK;
    REQUIRE(!slot->busy, "slot %d still holds micro-batch %d", i->slot, slot->micro);
    *slot = (slot_state){.micro = i->micro, .busy = true};
    if (++s->busy_slots > s->facts.slots) s->facts.slots = s->busy_slots;
    return TRINE_OK;
}

/* Frees the slot when neither computation nor message needs it any more. */
static void release_slot(stage_state *s, slot_state *slot) {
    bool forward_only = s->p->spec->forward_only;
    bool last = s->p->stage == s->p->spec->stages - 1;
    int done = forward_only ? slot->forwards : slot->backwards;
    if (done != stage_units(s) || !(last || slot->sent)) return;
    slot->busy = false;
    s->busy_slots--;
}

static trine_status claim_stream(stage_state *s, const instr *i, int unit) {
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(!stream->busy, "gradient stream %d still holds micro-batch %d", i->stream,
            stream->micro);
    *stream = (stream_state){.micro = i->micro, .unit = unit, .busy = true};
    if (++s->busy_streams > s->facts.streams) s->facts.streams = s->busy_streams;
    return TRINE_OK;
}

static void release_stream(stage_state *s, stream_state *stream) {
    stream->busy = false;
    s->busy_streams--;
}

static bool reads_tokens(const stage_state *s) {
    const program_spec *spec = s->p->spec;
    return s->p->stage == 0 || s->p->stage == spec->stages - 1;
}

static trine_status check_load(stage_state *s, const instr *i) {
    REQUIRE(reads_tokens(s), "no unit of this stage reads tokens");
    TRY(claim_slot(s, i));
    REQUIRE(!s->slots[i->slot].loaded, "micro-batch %d is loaded twice", i->micro);
    s->slots[i->slot].loaded = true;
    return TRINE_OK;
}

static trine_status check_recv_act(stage_state *s, const instr *i) {
    TRY(claim_slot(s, i));
    REQUIRE(!s->slots[i->slot].received, "micro-batch %d is received twice", i->micro);
    s->slots[i->slot].received = true;
    return TRINE_OK;
}

/* The parameters that a computation reads are those of its unit. */
static trine_status check_params(stage_state *s, const instr *i) {
    if (s->p->spec->zero != TRINE_ZERO_3) {
        REQUIRE(i->gather < 0, "has a gather buffer, which only ZeRO-3 uses");
        return TRINE_OK;
    }
    int unit = spec_gather_unit(s->p->spec, i->unit);
    REQUIRE(i->gather >= 0, "reads no gather buffer");
    buffer_state *b = &s->gathers[spec_class(s->p->spec, unit)][i->gather];
    REQUIRE(b->full, "gather buffer %d is empty", i->gather);
    REQUIRE(b->unit == unit, "gather buffer %d holds unit %d, not unit %d", i->gather, b->unit,
            unit);
    b->read = true;
    return TRINE_OK;
}

static trine_status check_forward(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    int first = spec_first(spec, s->p->stage);
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    if (i->unit == first) TRY(claim_slot(s, i));
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(unit->forwards == i->micro, "unit %d has run forward on %d micro-batches", i->unit,
            unit->forwards);
    REQUIRE(first + slot->forwards == i->unit, "unit %d is next in slot %d", first + slot->forwards,
            i->slot);
    REQUIRE(i->unit != first || s->p->stage == 0 || slot->received,
            "the stage's input was not received");
    REQUIRE((i->unit > 0 && i->unit < spec->units - 1) || slot->loaded, "no tokens were loaded");
    TRY(check_params(s, i));
    unit->forwards++;
    slot->forwards++;
    if (spec->forward_only) release_slot(s, slot);
    return TRINE_OK;
}

static trine_status check_send_act(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->forwards == stage_units(s), "the stage's output is not computed");
    REQUIRE(!slot->sent, "micro-batch %d is sent twice", i->micro);
    slot->sent = true;
    release_slot(s, slot);
    return TRINE_OK;
}

static trine_status check_recv_grad(stage_state *s, const instr *i) {
    return claim_stream(s, i, spec_last(s->p->spec, s->p->stage));
}

/* Where a BACKWARD's parameter gradients go. */
static trine_status check_grads(stage_state *s, const instr *i) {
    if (s->p->spec->zero < TRINE_ZERO_2) {
        REQUIRE(i->reduce < 0, "has a reduce buffer, which only ZeRO-2 and 3 use");
        return TRINE_OK;
    }
    REQUIRE(i->reduce >= 0, "writes no reduce buffer");
    buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    REQUIRE(!b->full, "reduce buffer %d still holds unit %d of micro-batch %d", i->reduce, b->unit,
            b->micro);
    *b = (buffer_state){.unit = i->unit, .micro = i->micro, .full = true};
    return TRINE_OK;
}

static trine_status check_backward(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    int first = spec_first(spec, s->p->stage), last = spec_last(spec, s->p->stage);
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->forwards == stage_units(s), "the stage's forward has not run");
    REQUIRE(unit->backwards == i->micro, "unit %d has run backward on %d micro-batches", i->unit,
            unit->backwards);
    REQUIRE(last - slot->backwards == i->unit, "unit %d is next in slot %d", last - slot->backwards,
            i->slot);
    if (i->unit == spec->units - 1) TRY(claim_stream(s, i, i->unit));
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro && stream->unit == i->unit,
            "gradient stream %d does not hold the gradient of unit %d's output", i->stream,
            i->unit);
    TRY(check_params(s, i));
    TRY(check_grads(s, i));
    unit->backwards++;
    slot->backwards++;
    stream->unit--;
    if (i->unit == first && s->p->stage == 0) release_stream(s, stream);
    release_slot(s, slot);
    return TRINE_OK;
}

static trine_status check_send_grad(stage_state *s, const instr *i) {
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro &&
                stream->unit == spec_first(s->p->spec, s->p->stage) - 1,
            "gradient stream %d does not hold the gradient of the stage's input", i->stream);
    release_stream(s, stream);
    return TRINE_OK;
}

static trine_status check_reduce(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(!s->norms && !s->ties, "gradients are reduced after TIE or NORM");
    if (s->p->spec->zero < TRINE_ZERO_2) {
        REQUIRE(i->reduce < 0, "has a reduce buffer, which only ZeRO-2 and 3 use");
        REQUIRE(!unit->reduces, "unit %d is reduced twice", i->unit);
        REQUIRE(unit->backwards == s->p->spec->micros && i->micro == unit->backwards - 1,
                "%d of %d micro-batches are added", unit->backwards, s->p->spec->micros);
    } else {
        REQUIRE(i->reduce >= 0, "reads no reduce buffer");
        buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
        REQUIRE(b->full && b->unit == i->unit && b->micro == i->micro,
                "reduce buffer %d does not hold unit %d of micro-batch %d", i->reduce, i->unit,
                i->micro);
        REQUIRE(unit->reduces == i->micro, "unit %d is reduced over %d micro-batches", i->unit,
                unit->reduces);
        b->full = false;
        b->read = true;
    }
    unit->reduces++;
    s->facts.reduces[spec_class(s->p->spec, i->unit)]++;
    return TRINE_OK;
}

static int reduces_due(const program_spec *spec) {
    return spec->zero < TRINE_ZERO_2 ? 1 : spec->micros;
}

static trine_status check_reduce_tp(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(s->p->spec->by_rows, "no gradient is made from a tp rank's own rows");
    REQUIRE(!s->ties && !s->norms, "gradients are summed over tp after TIE or NORM");
    REQUIRE(unit->reduces == reduces_due(s->p->spec), "unit %d is not reduced", i->unit);
    REQUIRE(!unit->tp_reduces, "unit %d is summed over tp twice", i->unit);
    unit->tp_reduces++;
    return TRINE_OK;
}

static bool ties(const stage_state *s) {
    const program_spec *spec = s->p->spec;
    bool user = s->p->stage == 0 || s->p->stage == spec->stages - 1;
    return spec->tied && !spec->forward_only && user;
}

static trine_status check_tie(stage_state *s) {
    REQUIRE(ties(s), "this stage has no tied matrix");
    REQUIRE(!s->ties && !s->norms, "tied gradients are added twice or after NORM");
    for (int u = 0; u < s->p->spec->units; u += s->p->spec->units - 1)
        REQUIRE(!spec_holds(s->p->spec, s->p->stage, u) ||
                    s->units[u].reduces == reduces_due(s->p->spec),
                "unit %d is not reduced", u);
    s->ties++;
    return TRINE_OK;
}

static trine_status check_norm(stage_state *s) {
    const program_spec *spec = s->p->spec;
    REQUIRE(!s->norms, "NORM runs twice");
    for (int u = spec_first(spec, s->p->stage); u <= spec_last(spec, s->p->stage); u++) {
        REQUIRE(s->units[u].forwards == spec->micros, "unit %d has run forward on %d of %d", u,
                s->units[u].forwards, spec->micros);
        REQUIRE(spec->forward_only || s->units[u].reduces == reduces_due(spec),
                "unit %d is reduced %d times, not %d", u, s->units[u].reduces, reduces_due(spec));
        REQUIRE(spec->forward_only || !spec->by_rows || s->units[u].tp_reduces,
                "unit %d is not summed over tp", u);
    }
    REQUIRE(!ties(s) || s->ties, "TIE has not run");
    s->norms++;
    return TRINE_OK;
}

static trine_status check_update(stage_state *s, const instr *i) {
    REQUIRE(s->norms, "NORM has not run");
    REQUIRE(!s->units[i->unit].updates, "unit %d is updated twice", i->unit);
    s->units[i->unit].updates++;
    return TRINE_OK;
}

static trine_status check_gather_after_update(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    REQUIRE(i->gather < 0, "has a gather buffer, which only ZeRO-3 uses");
    REQUIRE(!s->units[i->unit].gathers, "unit %d is gathered twice", i->unit);
    for (int u = spec_first(spec, s->p->stage); u <= spec_last(spec, s->p->stage); u++)
        REQUIRE(spec_gather_unit(spec, u) != i->unit || s->units[u].updates,
                "unit %d is not updated", u);
    s->units[i->unit].gathers++;
    return TRINE_OK;
}

static trine_status check_gather(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_class c = spec_class(spec, i->unit);
    REQUIRE(spec->zero != TRINE_ZERO_0, "ZeRO-0 has nothing to gather");
    REQUIRE(spec_gather_unit(spec, i->unit) == i->unit, "unit %d comes with unit %d", i->unit,
            spec_gather_unit(spec, i->unit));
    s->facts.gathers[c]++;
    if (spec->zero != TRINE_ZERO_3) return check_gather_after_update(s, i);
    REQUIRE(i->gather >= 0, "fills no gather buffer");
    REQUIRE(!s->norms, "gathered after NORM, for nothing");
    buffer_state *b = &s->gathers[c][i->gather];
    REQUIRE(!b->full || b->read, "overwrites unit %d, which nothing has read", b->unit);
    for (int n = 0; n < s->p->gathers[c]; n++)
        REQUIRE(!s->gathers[c][n].full || s->gathers[c][n].unit != i->unit,
                "gather buffer %d already holds unit %d", n, i->unit);
    *b = (buffer_state){.unit = i->unit, .full = true};
    return TRINE_OK;
}

bool check_is_message(instr_kind kind) {
    return kind == SEND_ACT || kind == RECV_ACT || kind == SEND_GRAD || kind == RECV_GRAD;
}

int check_neighbour(const stage_state *s, const instr *message) {
    bool before = message->kind == RECV_ACT || message->kind == SEND_GRAD;
    return s->p->stage + (before ? -1 : 1);
}

/* A group: two or more messages with one neighbour. NCCL moves them at the same time only if they
 * are operations of one communicator. */
static trine_status check_group(const stage_state *s, const instr *i) {
    const program *p = s->p;
    int first = program_group_first(p, s->at), last = program_group_last(p, s->at);
    REQUIRE(p->spec->queue == ONE_QUEUE, "is in a group, which only programs for one queue have");
    REQUIRE(check_is_message((instr_kind)i->kind), "is in a group, and no message");
    REQUIRE(first < last, "is alone in group %d", i->group);
    int peer = check_neighbour(s, i), other = check_neighbour(s, &p->code[first]);
    REQUIRE(peer == other, "is with stage %d, and its group with stage %d", peer, other);
    return TRINE_OK;
}

trine_status check_fields(const stage_state *s, const instr *i) {
    const program *p = s->p;
    instr_kind k = (instr_kind)i->kind;
    bool compute = k == FORWARD || k == BACKWARD;
    bool act = k == LOAD || compute || k == RECV_ACT || k == SEND_ACT;
    bool grad = k == BACKWARD || k == RECV_GRAD || k == SEND_GRAD;
    bool unit = compute || k == GATHER || k == REDUCE || k == REDUCE_TP || k == UPDATE;
    bool micro = act || grad || k == REDUCE;
    int c = unit && i->unit >= 0 ? (int)spec_class(p->spec, i->unit) : 0;
    REQUIRE(!p->spec->forward_only ||
                !(grad || k == REDUCE || k == REDUCE_TP || k == TIE || k == UPDATE),
            "an evaluation runs no backward pass");
    REQUIRE(unit ? i->unit >= 0 && spec_holds(p->spec, p->stage, i->unit) : i->unit == -1,
            "unit %d is not on this stage", i->unit);
    REQUIRE(micro ? i->micro >= 0 && i->micro < p->spec->micros : i->micro == -1,
            "there are %d micro-batches", p->spec->micros);
    REQUIRE(act ? i->slot >= 0 && i->slot < p->slots : i->slot == -1, "there are %d slots",
            p->slots);
    REQUIRE(grad ? i->stream >= 0 && i->stream < p->streams : i->stream == -1,
            "there are %d gradient streams", p->streams);
    int gathers = compute || k == GATHER ? p->gathers[c] : 0;
    int reduces = k == BACKWARD || k == REDUCE ? p->reduces[c] : 0;
    REQUIRE(i->gather >= -1 && i->gather < gathers, "there are %d gather buffers", gathers);
    REQUIRE(i->reduce >= -1 && i->reduce < reduces, "there are %d reduce buffers", reduces);
    REQUIRE(i->group >= -1, "there is no group %d", i->group);
    return i->group < 0 ? TRINE_OK : check_group(s, i);
}

trine_status check_rules(stage_state *s, const instr *i) {
    switch ((instr_kind)i->kind) {
    case LOAD: return check_load(s, i);
    case FORWARD: return check_forward(s, i);
    case BACKWARD: return check_backward(s, i);
    case RECV_ACT: return check_recv_act(s, i);
    case SEND_ACT: return check_send_act(s, i);
    case RECV_GRAD: return check_recv_grad(s, i);
    case SEND_GRAD: return check_send_grad(s, i);
    case GATHER: return check_gather(s, i);
    case REDUCE: return check_reduce(s, i);
    case REDUCE_TP: return check_reduce_tp(s, i);
    case TIE: return check_tie(s);
    case NORM: return check_norm(s);
    case UPDATE: return check_update(s, i);
    case INSTR_KINDS: break;
    }
    return check_fault(s, "unknown instruction");
}

/* ---- The end ---- */

static trine_status check_unit_end(const stage_state *s, int u) {
    const program_spec *spec = s->p->spec;
    const unit_state *unit = &s->units[u];
    REQUIRE(unit->forwards == spec->micros, "FORWARD of unit %d on micro-batch %d never runs", u,
            unit->forwards);
    if (spec->forward_only) return TRINE_OK;
    REQUIRE(unit->backwards == spec->micros, "BACKWARD of unit %d on micro-batch %d never runs", u,
            unit->backwards);
    REQUIRE(unit->updates == 1, "UPDATE of unit %d never runs", u);
    bool gather = spec->zero == TRINE_ZERO_1 || spec->zero == TRINE_ZERO_2;
    REQUIRE(!gather || spec_gather_unit(spec, u) != u || unit->gathers,
            "GATHER of unit %d never runs", u);
    return TRINE_OK;
}

static trine_status check_buffers_end(const stage_state *s) {
    const program *p = s->p;
    for (int n = 0; n < p->slots; n++) {
        REQUIRE(s->slots[n].micro >= 0, "slot %d of %d is never used", n, p->slots);
        REQUIRE(!s->slots[n].busy, "slot %d still holds micro-batch %d", n, s->slots[n].micro);
    }
    for (int n = 0; n < p->streams; n++) {
        REQUIRE(s->streams[n].micro >= 0, "gradient stream %d of %d is never used", n, p->streams);
        REQUIRE(!s->streams[n].busy, "gradient stream %d still holds micro-batch %d", n,
                s->streams[n].micro);
    }
    for (int c = 0; c < CLASSES; c++) {
        for (int n = 0; n < p->gathers[c]; n++)
            REQUIRE(s->gathers[c][n].full && s->gathers[c][n].read,
                    "gather buffer %d of %d is filled and not read, or never used", n,
                    p->gathers[c]);
        for (int n = 0; n < p->reduces[c]; n++) {
            REQUIRE(s->reduces[c][n].read, "reduce buffer %d of %d is never used", n,
                    p->reduces[c]);
        }
    }
    return TRINE_OK;
}

trine_status check_stage_end(const stage_state *s) {
    const program *p = s->p;
    for (int u = spec_first(p->spec, p->stage); u <= spec_last(p->spec, p->stage); u++)
        TRY(check_unit_end(s, u));
    TRY(check_buffers_end(s));
    REQUIRE(s->norms == 1, "NORM never runs");
    return TRINE_OK;
}
