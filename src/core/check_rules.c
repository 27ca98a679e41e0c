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

/* The chunk of an instruction, and what it holds. */
typedef struct {
    int index, first, last, units;
} chunk_facts;

static chunk_facts chunk_of(const stage_state *s, const instr *i) {
    int c = program_chunk(s->p, i), first = spec_chunk_first(s->p->spec, c);
    int last = spec_chunk_last(s->p->spec, c);
    return (chunk_facts){c, first, last, last - first + 1};
}

/* The chunk of a slot. */
static int slot_chunk(const stage_state *s, int slot) {
    return spec_stage_chunk(s->p->spec, s->p->stage, program_slot_chunk(s->p, slot));
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
static void release_slot(stage_state *s, slot_state *slot, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    bool last = c.index == spec_edges(spec);
    int done = spec->forward_only ? slot->forwards : slot->weights;
    if (done != c.units || !(last || slot->sent)) return;
    slot->busy = false;
    s->busy_slots--;
}

/* The slot of this stage that holds a micro-batch of a chunk; NULL: none does. */
static slot_state *find_slot(stage_state *s, int chunk, int micro) {
    for (int n = 0; n < s->p->slots; n++)
        if (s->slots[n].busy && s->slots[n].micro == micro && slot_chunk(s, n) == chunk)
            return &s->slots[n];
    return NULL;
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

static trine_status check_load(stage_state *s, const instr *i) {
    chunk_facts c = chunk_of(s, i);
    REQUIRE(spec_takes_batch(s->p->spec, c.first) || spec_takes_batch(s->p->spec, c.last),
            "no unit of this stage reads tokens");
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
    if (zero_stage(s->p->spec->zero)->gather != GATHER_BEFORE_USE) {
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

/* The first unit of a chunk has its input from a message, or from the chunk before on this stage, whose
 * slot is free after that in an evaluation. */
static trine_status check_input(stage_state *s, const instr *i, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    if (i->unit != c.first || c.index == 0) return TRINE_OK;
    if (spec_receives(spec, c.index)) {
        REQUIRE(s->slots[i->slot].received, "the stage's input was not received");
        return TRINE_OK;
    }
    int first = spec_chunk_first(spec, c.index - 1), last = spec_chunk_last(spec, c.index - 1);
    slot_state *before = find_slot(s, c.index - 1, i->micro);
    REQUIRE(before && before->forwards == last - first + 1, "the chunk before is not computed");
    before->sent = true;
    release_slot(s, before, (chunk_facts){c.index - 1, first, last, last - first + 1});
    return TRINE_OK;
}

static trine_status check_forward(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    chunk_facts c = chunk_of(s, i);
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    if (i->unit == c.first) TRY(claim_slot(s, i));
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(unit->forwards == i->micro, "unit %d has run forward on %d micro-batches", i->unit,
            unit->forwards);
    REQUIRE(c.first + slot->forwards == i->unit, "unit %d is next in slot %d",
            c.first + slot->forwards, i->slot);
    TRY(check_input(s, i, c));
    REQUIRE(!spec_takes_batch(spec, i->unit) || slot->loaded, "no tokens were loaded");
    TRY(check_params(s, i));
    unit->forwards++;
    slot->forwards++;
    if (spec->forward_only) release_slot(s, slot, c);
    return TRINE_OK;
}

static trine_status check_send_act(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    chunk_facts c = chunk_of(s, i);
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->forwards == c.units, "the stage's output is not computed");
    REQUIRE(!slot->sent, "micro-batch %d is sent twice", i->micro);
    slot->sent = true;
    release_slot(s, slot, c);
    return TRINE_OK;
}

static trine_status check_recv_grad(stage_state *s, const instr *i) {
    return claim_stream(s, i, chunk_of(s, i).last);
}

/* Where a BACKWARD's parameter gradients go. */
static trine_status check_grads(stage_state *s, const instr *i) {
    if (zero_stage(s->p->spec->zero)->full_grads) {
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

/* All backwards: what they read is there, and comes in the order of micro-batches, which is that in
 * which gradients are added: no bit depends on the schedule. */
static trine_status check_slot_back(const stage_state *s, const instr *i, chunk_facts c) {
    const slot_state *slot = &s->slots[i->slot];
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->forwards == c.units, "the stage's forward has not run");
    return TRINE_OK;
}

/* The stream turns from the gradient of the unit's output into that of its input. */
static trine_status check_stream_back(stage_state *s, const instr *i, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->backwards == i->micro, "unit %d has run backward on %d micro-batches", i->unit,
            unit->backwards);
    REQUIRE(c.last - slot->backwards == i->unit, "unit %d is next in slot %d",
            c.last - slot->backwards, i->slot);
    if (spec_unit(spec, i->unit).makes_loss) TRY(claim_stream(s, i, i->unit));
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro && stream->unit == i->unit,
            "gradient stream %d does not hold the gradient of unit %d's output", i->stream,
            i->unit);
    unit->backwards++;
    slot->backwards++;
    stream->unit--;
    if (spec_unit(spec, i->unit).reads_tokens) release_stream(s, stream);
    return TRINE_OK;
}

/* The gradients of the unit's parameters. */
static trine_status check_weights_back(stage_state *s, const instr *i, chunk_facts c) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->weights == i->micro, "unit %d has made gradients of %d micro-batches", i->unit,
            unit->weights);
    TRY(check_grads(s, i));
    unit->weights++;
    s->slots[i->slot].weights++;
    release_slot(s, &s->slots[i->slot], c);
    return TRINE_OK;
}

/* Whole, or in parts? Each unit has one way in a program, but for those that may do both. */
static trine_status check_way(const stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_backward way = spec_unit(spec, i->unit).backward;
    bool whole = i->kind == BACKWARD;
    REQUIRE(whole || spec->split_backward, "no backward pass is split");
    REQUIRE(whole || way != BACKWARD_WHOLE, "the backward pass of unit %d is not split", i->unit);
    REQUIRE(!whole || way != BACKWARD_WEIGHT_ONLY || !spec->split_backward,
            "unit %d has a BACKWARD_WEIGHT only", i->unit);
    REQUIRE(i->kind != BACKWARD_INPUT || way == BACKWARD_SPLITS,
            "unit %d has a BACKWARD_WEIGHT only", i->unit);
    return TRINE_OK;
}

static trine_status check_backward(stage_state *s, const instr *i) {
    chunk_facts c = chunk_of(s, i);
    TRY(check_way(s, i));
    TRY(check_slot_back(s, i, c));
    TRY(check_stream_back(s, i, c));
    TRY(check_params(s, i));
    return check_weights_back(s, i, c);
}

static trine_status check_backward_input(stage_state *s, const instr *i) {
    chunk_facts c = chunk_of(s, i);
    buffer_state *keep = &s->keeps[i->keep];
    TRY(check_way(s, i));
    REQUIRE(!keep->full, "keep buffer %d still holds unit %d of micro-batch %d", i->keep,
            keep->unit, keep->micro);
    TRY(check_slot_back(s, i, c));
    TRY(check_stream_back(s, i, c));
    *keep = (buffer_state){.unit = i->unit, .micro = i->micro, .full = true};
    return check_params(s, i);
}

static trine_status check_backward_weight(stage_state *s, const instr *i) {
    chunk_facts c = chunk_of(s, i);
    unit_backward backward = spec_unit(s->p->spec, i->unit).backward;
    TRY(check_way(s, i));
    TRY(check_slot_back(s, i, c));
    if (backward == BACKWARD_WEIGHT_ONLY) {
        REQUIRE(i->stream >= 0 && i->keep < 0, "unit %d is done from a gradient stream", i->unit);
        TRY(check_stream_back(s, i, c));
        return check_weights_back(s, i, c);
    }
    REQUIRE(i->stream < 0 && i->keep >= 0, "unit %d is done from a keep buffer", i->unit);
    buffer_state *keep = &s->keeps[i->keep];
    REQUIRE(keep->full && keep->unit == i->unit && keep->micro == i->micro,
            "keep buffer %d does not hold unit %d of micro-batch %d", i->keep, i->unit, i->micro);
    keep->full = false;
    keep->read = true;
    return check_weights_back(s, i, c);
}

static trine_status check_send_grad(stage_state *s, const instr *i) {
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro && stream->unit == chunk_of(s, i).first - 1,
            "gradient stream %d does not hold the gradient of the stage's input", i->stream);
    release_stream(s, stream);
    return TRINE_OK;
}

static trine_status check_reduce(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(!s->norms && !s->ties, "gradients are reduced after TIE or NORM");
    if (zero_stage(s->p->spec->zero)->full_grads) {
        REQUIRE(i->reduce < 0, "has a reduce buffer, which only ZeRO-2 and 3 use");
        REQUIRE(!unit->reduces, "unit %d is reduced twice", i->unit);
        REQUIRE(unit->weights == s->p->spec->micros && i->micro == unit->weights - 1,
                "%d of %d micro-batches are added", unit->weights, s->p->spec->micros);
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

static trine_status check_reduce_tp(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(s->p->spec->tp_partial, "no gradient is made from a tp rank's own rows");
    REQUIRE(!s->ties && !s->norms, "gradients are summed over tp after TIE or NORM");
    REQUIRE(unit->reduces == spec_reduces(s->p->spec), "unit %d is not reduced", i->unit);
    REQUIRE(!unit->tp_reduces, "unit %d is summed over tp twice", i->unit);
    unit->tp_reduces++;
    return TRINE_OK;
}

static bool ties(const stage_state *s) {
    const program_spec *spec = s->p->spec;
    return !spec->forward_only && spec_tied_unit(spec, s->p->stage) >= 0;
}

static trine_status check_tie(stage_state *s, const instr *i) {
    (void)i;
    const program_spec *spec = s->p->spec;
    REQUIRE(ties(s), "this stage has no tied matrix");
    REQUIRE(!s->ties && !s->norms, "tied gradients are added twice or after NORM");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(spec_unit(spec, u).twin < 0 || s->units[u].reduces == spec_reduces(spec),
                "unit %d is not reduced", u);
    }
    s->ties++;
    return TRINE_OK;
}

static trine_status check_norm(stage_state *s, const instr *i) {
    (void)i;
    const program_spec *spec = s->p->spec;
    REQUIRE(!s->norms, "NORM runs twice");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(s->units[u].forwards == spec->micros, "unit %d has run forward on %d of %d", u,
                s->units[u].forwards, spec->micros);
        REQUIRE(spec->forward_only || s->units[u].reduces == spec_reduces(spec),
                "unit %d is reduced %d times, not %d", u, s->units[u].reduces, spec_reduces(spec));
        REQUIRE(spec->forward_only || !spec->tp_partial || s->units[u].tp_reduces,
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
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(spec_gather_unit(spec, u) != i->unit || s->units[u].updates,
                "unit %d is not updated", u);
    }
    s->units[i->unit].gathers++;
    return TRINE_OK;
}

static trine_status check_gather(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_class c = spec_class(spec, i->unit);
    zero_gather_when when = zero_stage(spec->zero)->gather;
    REQUIRE(when != GATHER_NEVER, "ZeRO-0 has nothing to gather");
    REQUIRE(spec_gather_unit(spec, i->unit) == i->unit, "unit %d comes with unit %d", i->unit,
            spec_gather_unit(spec, i->unit));
    s->facts.gathers[c]++;
    if (when == GATHER_AFTER_UPDATE) return check_gather_after_update(s, i);
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

/* An instruction that has no rule of its own: once for the unit that it names, or once. */
static trine_status check_other(stage_state *s, const instr *i) {
    bool *done = &s->units[i->unit < 0 ? 0 : i->unit].others[i->kind];
    REQUIRE(!*done, "runs twice");
    *done = true;
    return TRINE_OK;
}

int check_edge(const stage_state *s, const instr *message) {
    instr_kind kind = (instr_kind)message->kind;
    bool before =
        instr_carries_acts(kind) != instr_sends(kind); /* the edge from the chunk before */
    int edge = program_chunk(s->p, message) - before;
    bool there = edge >= 0 && edge < spec_edges(s->p->spec) &&
                 spec_edge_of(s->p->spec, edge).kind != EDGE_LOCAL;
    return there ? edge : -1;
}

int check_neighbour(const stage_state *s, const instr *message) {
    int edge = check_edge(s, message);
    if (edge < 0) return -1;
    spec_edge e = spec_edge_of(s->p->spec, edge);
    return e.from == s->p->stage ? e.to : e.from;
}

/* A group: two or more messages with one neighbour. NCCL moves them at the same time only if they
 * are operations of one communicator. */
static trine_status check_group(const stage_state *s, const instr *i) {
    const program *p = s->p;
    int first = program_group_first(p, s->at), last = program_group_last(p, s->at);
    REQUIRE(p->spec->queue == ONE_QUEUE, "is in a group, which only programs for one queue have");
    REQUIRE(instr_is_message((instr_kind)i->kind), "is in a group, and no message");
    REQUIRE(first < last, "is alone in group %d", i->group);
    int peer = check_neighbour(s, i), other = check_neighbour(s, &p->code[first]);
    REQUIRE(peer == other, "is with stage %d, and its group with stage %d", peer, other);
    return TRINE_OK;
}

/* Whether a field is set as its kind of instruction has it, below `count`. */
static bool fits(const instr *i, char field, int count) {
    int value = instr_field(i, field);
    field_use use = instr_field_use((instr_kind)i->kind, field);
    if (value == -1) return use != FIELD_REQUIRED;
    return use != FIELD_NONE && value >= 0 && value < count;
}

/* Slots are numbered over all chunks of a stage. */
static trine_status check_chunk(const stage_state *s, const instr *i) {
    const program *p = s->p;
    int chunks = spec_stage_chunks(p->spec, p->stage);
    bool names = instr_field_use((instr_kind)i->kind, 'c') != FIELD_NONE;
    REQUIRE(fits(i, 'c', chunks), "there are %d chunks", chunks);
    REQUIRE(!names || (i->chunk >= 0) == (chunks > 1), "names no chunk, or the only one");
    REQUIRE(i->slot < 0 || slot_chunk(s, i->slot) == program_chunk(p, i),
            "slot %d is another chunk's", i->slot);
    return TRINE_OK;
}

trine_status check_fields(const stage_state *s, const instr *i) {
    const program *p = s->p;
    REQUIRE(i->kind >= 0 && i->kind < INSTR_KINDS, "unknown instruction");
    const instr_row *row = instr_row_of((instr_kind)i->kind);
    REQUIRE(!p->spec->forward_only || row->where == ANY_PROGRAM,
            "an evaluation runs no backward pass");
    REQUIRE(fits(i, 'u', p->spec->units) && (i->unit < 0 || spec_holds(p->spec, p->stage, i->unit)),
            "unit %d is not on this stage", i->unit);
    unit_class c = i->unit >= 0 ? spec_class(p->spec, i->unit) : CLASS_BLOCK;
    int gathers = instr_field_use((instr_kind)i->kind, 'b') ? p->gathers[c] : 0;
    int reduces = instr_field_use((instr_kind)i->kind, 'r') ? p->reduces[c] : 0;
    REQUIRE(fits(i, 'm', p->spec->micros), "there are %d micro-batches", p->spec->micros);
    REQUIRE(fits(i, 's', p->slots), "there are %d slots", p->slots);
    REQUIRE(fits(i, 'd', p->streams), "there are %d gradient streams", p->streams);
    REQUIRE(fits(i, 'b', gathers), "there are %d gather buffers", gathers);
    REQUIRE(fits(i, 'r', reduces), "there are %d reduce buffers", reduces);
    REQUIRE(fits(i, 'k', p->keeps), "there are %d keep buffers", p->keeps);
    REQUIRE(i->group >= -1, "there is no group %d", i->group);
    TRY(check_chunk(s, i));
    return i->group < 0 ? TRINE_OK : check_group(s, i);
}

typedef trine_status (*check_rule)(stage_state *s, const instr *i);

trine_status check_rules(stage_state *s, const instr *i) {
    static const check_rule rules[INSTR_KINDS] = {
        [LOAD] = check_load,
        [FORWARD] = check_forward,
        [BACKWARD] = check_backward,
        [BACKWARD_INPUT] = check_backward_input,
        [BACKWARD_WEIGHT] = check_backward_weight,
        [RECV_ACT] = check_recv_act,
        [SEND_ACT] = check_send_act,
        [RECV_GRAD] = check_recv_grad,
        [SEND_GRAD] = check_send_grad,
        [GATHER] = check_gather,
        [REDUCE] = check_reduce,
        [REDUCE_TP] = check_reduce_tp,
        [TIE] = check_tie,
        [NORM] = check_norm,
        [UPDATE] = check_update,
    };
    check_rule rule = rules[i->kind]; /* check_fields has seen the kind */
    return rule ? rule(s, i) : check_other(s, i);
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
    REQUIRE(unit->weights == spec->micros,
            "BACKWARD_WEIGHT of unit %d on micro-batch %d never runs", u, unit->weights);
    REQUIRE(unit->updates == 1, "UPDATE of unit %d never runs", u);
    bool gather = zero_stage(spec->zero)->gather == GATHER_AFTER_UPDATE;
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
    for (int n = 0; n < p->keeps; n++)
        REQUIRE(s->keeps[n].read && !s->keeps[n].full,
                "keep buffer %d of %d is filled and not read", n, p->keeps);
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
    for (int n = 0; n < spec_stage_units(p->spec, p->stage); n++)
        TRY(check_unit_end(s, spec_stage_unit(p->spec, p->stage, n)));
    TRY(check_buffers_end(s));
    REQUIRE(s->norms == 1, "NORM never runs");
    return TRINE_OK;
}
