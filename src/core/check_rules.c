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

#define ASCENDING "micro-batches come in ascending order"
/* The field, the ZeRO stage. */
#define ZERO_3   "field b%d must be unset: ZeRO-%d has no gather buffers; only ZeRO-3 has"
#define ZERO_2_3 "field r%d must be unset: ZeRO-%d has no reduce buffers; only ZeRO-2 and 3 have"
/* The unit, how often, how often it must be. */
#define REDUCED "unit %d is reduced %d of %d times; REDUCE must come first"

/* ---- One function per instruction ---- */

/* An instruction's chunk and its units. */
typedef struct {
    int index, first, last, units;
} chunk_facts;

static chunk_facts chunk_number(const stage_state *s, int c) {
    int first = spec_chunk_first(s->p->spec, c), last = spec_chunk_last(s->p->spec, c);
    return (chunk_facts){c, first, last, last - first + 1};
}

static chunk_facts chunk_of(const stage_state *s, const instr *i) {
    return chunk_number(s, program_chunk(s->p, i));
}

/* Slot i->slot must hold micro-batch i->micro of the instruction's chunk. */
static trine_status check_slot(const stage_state *s, const instr *i) {
    const slot_state *slot = &s->slots[i->slot];
    int chunk = program_chunk(s->p, i);
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->chunk == chunk, "slot %d holds micro-batch %d of chunk %d, not of chunk %d",
            i->slot, i->micro, slot->chunk, chunk);
    return TRINE_OK;
}

/* Slot i->slot now belongs to micro-batch i->micro of the instruction's chunk. */
static trine_status claim_slot(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    int chunk = program_chunk(s->p, i);
    if (slot->busy && slot->micro == i->micro && slot->chunk == chunk) return TRINE_OK;
    REQUIRE(!slot->busy, "slot %d still holds micro-batch %d", i->slot, slot->micro);
    *slot = (slot_state){.chunk = chunk, .micro = i->micro, .busy = true};
    if (++s->busy_slots > s->facts.slots) s->facts.slots = s->busy_slots;
    return TRINE_OK;
}

/* Frees the slot when no computation and no message needs it any more. */
static void release_slot(stage_state *s, slot_state *slot, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    bool last = c.index == spec_edges(spec);
    int done = spec->forward_only ? slot->forwards : slot->weights;
    if (done != c.units || !(last || slot->sent)) return;
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

static trine_status check_load(stage_state *s, const instr *i) {
    chunk_facts c = chunk_of(s, i);
    REQUIRE(spec_takes_batch(s->p->spec, c.first) || spec_takes_batch(s->p->spec, c.last),
            "chunk %d has no unit that reads tokens or targets", c.index);
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

/* A computation reads its own unit's parameters. */
static trine_status check_params(stage_state *s, const instr *i) {
    if (zero_stage(s->p->spec->zero)->gather != GATHER_BEFORE_USE) {
        REQUIRE(i->gather < 0, ZERO_3, i->gather, (int)s->p->spec->zero);
        return TRINE_OK;
    }
    int unit = spec_gather_unit(s->p->spec, i->unit);
    REQUIRE(i->gather >= 0, "field b is missing: ZeRO-3 reads parameters from a gather buffer");
    buffer_state *b = &s->gathers[spec_class(s->p->spec, unit)][i->gather];
    REQUIRE(b->full, "gather buffer %d is empty; gather unit %d into it first", i->gather, unit);
    REQUIRE(b->unit == unit, "gather buffer %d holds unit %d, not unit %d", i->gather, b->unit,
            unit);
    b->read = true;
    return TRINE_OK;
}

/* No later instruction reads the slot of the input. */
static void release_input(stage_state *s, const instr *i, chunk_facts c) {
    if (i->input < 0) return;
    s->slots[i->input].sent = true;
    release_slot(s, &s->slots[i->input], chunk_number(s, c.index - 1));
}

/* Slot i->input must hold the output of the previous chunk, if that is on this stage. */
static trine_status check_input_slot(const stage_state *s, const instr *i, chunk_facts c) {
    int before = c.index - 1;
    bool reads = program_reads_slot(s->p, i);
    REQUIRE(reads || i->input < 0,
            "field i%d must be unset: unit %d does not read the output of another slot", i->input,
            i->unit);
    if (!reads) return TRINE_OK;
    REQUIRE(i->input >= 0, "field i is missing: unit %d reads the output of chunk %d from its slot",
            i->unit, before);
    const slot_state *slot = &s->slots[i->input];
    REQUIRE(slot->busy, "slot %d is free; it does not hold the input, micro-batch %d of chunk %d",
            i->input, i->micro, before);
    REQUIRE(slot->micro == i->micro && slot->chunk == before,
            "slot %d holds micro-batch %d of chunk %d, not the input, micro-batch %d of chunk %d",
            i->input, slot->micro, slot->chunk, i->micro, before);
    REQUIRE(slot->forwards == chunk_number(s, before).units,
            "chunk %d has not run forward on micro-batch %d", before, i->micro);
    return TRINE_OK;
}

/* The first unit of a chunk takes its input from a message, or from the slot of the previous chunk. */
static trine_status check_input(const stage_state *s, const instr *i, chunk_facts c) {
    bool receives = i->unit == c.first && spec_receives(s->p->spec, c.index);
    REQUIRE(!receives || s->slots[i->slot].received,
            "the input of chunk %d was not received for micro-batch %d", c.index, i->micro);
    return check_input_slot(s, i, c);
}

static trine_status check_forward(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    chunk_facts c = chunk_of(s, i);
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    if (i->unit == c.first) TRY(claim_slot(s, i));
    TRY(check_slot(s, i));
    REQUIRE(unit->forwards == i->micro,
            "unit %d has run forward on %d of %d micro-batches; " ASCENDING, i->unit,
            unit->forwards, spec->micros);
    REQUIRE(c.first + slot->forwards == i->unit,
            "unit %d is next in slot %d; units run forward in ascending order",
            c.first + slot->forwards, i->slot);
    TRY(check_input(s, i, c));
    REQUIRE(!spec_takes_batch(spec, i->unit) || slot->loaded,
            "micro-batch %d was not loaded into slot %d", i->micro, i->slot);
    TRY(check_params(s, i));
    unit->forwards++;
    slot->forwards++;
    if (!spec->forward_only) return TRINE_OK;
    release_input(s, i, c);
    release_slot(s, slot, c);
    return TRINE_OK;
}

static trine_status check_send_act(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    chunk_facts c = chunk_of(s, i);
    TRY(check_slot(s, i));
    REQUIRE(slot->forwards == c.units,
            "the output of chunk %d is not computed: %d of %d units have run forward", c.index,
            slot->forwards, c.units);
    REQUIRE(!slot->sent, "micro-batch %d is sent twice", i->micro);
    slot->sent = true;
    release_slot(s, slot, c);
    return TRINE_OK;
}

static trine_status check_recv_grad(stage_state *s, const instr *i) {
    return claim_stream(s, i, chunk_of(s, i).last);
}

/* The destination of parameter gradients: a reduce buffer, or the gradients at rest. */
static trine_status check_grads(stage_state *s, const instr *i) {
    if (zero_stage(s->p->spec->zero)->full_grads) {
        REQUIRE(i->reduce < 0, ZERO_2_3, i->reduce, (int)s->p->spec->zero);
        return TRINE_OK;
    }
    REQUIRE(i->reduce >= 0, "field r is missing: ZeRO-%d writes gradients into a reduce buffer",
            (int)s->p->spec->zero);
    buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    REQUIRE(!b->full,
            "reduce buffer %d still holds unit %d of micro-batch %d, which must be reduced first",
            i->reduce, b->unit, b->micro);
    *b = (buffer_state){.unit = i->unit, .micro = i->micro, .full = true};
    return TRINE_OK;
}

/* All backward instructions: their inputs exist. */
static trine_status check_slot_back(const stage_state *s, const instr *i, chunk_facts c) {
    const slot_state *slot = &s->slots[i->slot];
    TRY(check_slot(s, i));
    REQUIRE(slot->forwards == c.units,
            "the forward pass of chunk %d is not complete: %d of %d units have run", c.index,
            slot->forwards, c.units);
    return check_input(s, i, c);
}

/* The stream changes from the gradient of the unit's output to that of its input. Micro-batches come in
 * ascending order, in which gradients are added: no bit depends on the schedule. */
static trine_status check_stream_back(stage_state *s, const instr *i, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->backwards == i->micro,
            "unit %d has run backward on %d of %d micro-batches; " ASCENDING, i->unit,
            unit->backwards, spec->micros);
    REQUIRE(c.last - slot->backwards == i->unit,
            "unit %d is next in slot %d; units run backward in descending order",
            c.last - slot->backwards, i->slot);
    if (spec_unit(spec, i->unit).makes_loss) TRY(claim_stream(s, i, i->unit));
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro && stream->unit == i->unit,
            "gradient stream %d does not hold the gradient of unit %d's output for micro-batch %d",
            i->stream, i->unit, i->micro);
    unit->backwards++;
    slot->backwards++;
    stream->unit--;
    if (spec_unit(spec, i->unit).reads_tokens) release_stream(s, stream);
    return TRINE_OK;
}

/* The gradients of the unit's parameters. */
static trine_status check_weights_back(stage_state *s, const instr *i, chunk_facts c) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->weights == i->micro,
            "unit %d has parameter gradients of %d of %d micro-batches; " ASCENDING, i->unit,
            unit->weights, s->p->spec->micros);
    TRY(check_grads(s, i));
    unit->weights++;
    s->slots[i->slot].weights++;
    release_input(s, i, c);
    release_slot(s, &s->slots[i->slot], c);
    return TRINE_OK;
}

/* Whether the unit's backward pass is split as the program and the unit allow. */
static trine_status check_way(const stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_backward way = spec_unit(spec, i->unit).backward;
    bool unsplit = i->kind == BACKWARD;
    REQUIRE(unsplit || spec->split_backward,
            "this program does not split backward passes; use BACKWARD");
    REQUIRE(unsplit || way != BACKWARD_UNSPLIT,
            "the backward pass of unit %d cannot be split; use BACKWARD", i->unit);
    REQUIRE(!unsplit || way != BACKWARD_WEIGHT_ONLY || !spec->split_backward,
            "unit %d has no input gradient; use BACKWARD_WEIGHT alone", i->unit);
    REQUIRE(i->kind != BACKWARD_INPUT || way == BACKWARD_SPLITS,
            "unit %d has no input gradient; use BACKWARD_WEIGHT alone", i->unit);
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
        REQUIRE(i->stream >= 0 && i->keep < 0,
                "unit %d has no BACKWARD_INPUT; field d must be set, field k unset", i->unit);
        TRY(check_stream_back(s, i, c));
        return check_weights_back(s, i, c);
    }
    REQUIRE(i->stream < 0 && i->keep >= 0,
            "unit %d reads what BACKWARD_INPUT kept; field k must be set, field d unset", i->unit);
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
            "gradient stream %d does not hold the gradient of chunk %d's input for micro-batch %d",
            i->stream, chunk_of(s, i).index, i->micro);
    release_stream(s, stream);
    return TRINE_OK;
}

static trine_status check_reduce(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(!s->norms && !s->ties, "REDUCE must come before TIE and NORM");
    if (zero_stage(s->p->spec->zero)->full_grads) {
        int micros = s->p->spec->micros;
        REQUIRE(i->reduce < 0, ZERO_2_3, i->reduce, (int)s->p->spec->zero);
        REQUIRE(!unit->reduces, "unit %d is reduced twice", i->unit);
        REQUIRE(unit->weights == micros && i->micro == unit->weights - 1,
                "%d of %d micro-batches are added; ZeRO-%d has one REDUCE u%d m%d, after the last",
                unit->weights, micros, (int)s->p->spec->zero, i->unit, micros - 1);
    } else {
        REQUIRE(i->reduce >= 0, "field r is missing: ZeRO-%d reduces from a reduce buffer",
                (int)s->p->spec->zero);
        buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
        REQUIRE(b->full && b->unit == i->unit && b->micro == i->micro,
                "reduce buffer %d does not hold unit %d of micro-batch %d", i->reduce, i->unit,
                i->micro);
        REQUIRE(unit->reduces == i->micro,
                "unit %d is reduced over %d of %d micro-batches; " ASCENDING, i->unit,
                unit->reduces, s->p->spec->micros);
        b->full = false;
        b->read = true;
    }
    unit->reduces++;
    s->facts.reduces[spec_class(s->p->spec, i->unit)]++;
    return TRINE_OK;
}

static trine_status check_reduce_tp(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(s->p->spec->tp_partial, "this program has no gradients that are partial over tp");
    REQUIRE(!s->ties && !s->norms, "REDUCE_TP must come before TIE and NORM");
    REQUIRE(unit->reduces == spec_reduces(s->p->spec), REDUCED, i->unit, unit->reduces,
            spec_reduces(s->p->spec));
    REQUIRE(!unit->tp_reduces, "REDUCE_TP of unit %d runs twice", i->unit);
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
    REQUIRE(ties(s), "this stage has no tied token matrix");
    REQUIRE(!s->ties && !s->norms, "TIE must run once, before NORM");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(spec_unit(spec, u).twin < 0 || s->units[u].reduces == spec_reduces(spec), REDUCED,
                u, s->units[u].reduces, spec_reduces(spec));
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
        REQUIRE(s->units[u].forwards == spec->micros,
                "unit %d has run forward on %d of %d micro-batches", u, s->units[u].forwards,
                spec->micros);
        REQUIRE(spec->forward_only || s->units[u].reduces == spec_reduces(spec), REDUCED, u,
                s->units[u].reduces, spec_reduces(spec));
        REQUIRE(spec->forward_only || !spec->tp_partial || s->units[u].tp_reduces,
                "REDUCE_TP of unit %d has not run", u);
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
    REQUIRE(i->gather < 0, ZERO_3, i->gather, (int)spec->zero);
    REQUIRE(!s->units[i->unit].gathers, "unit %d is gathered twice", i->unit);
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(spec_gather_unit(spec, u) != i->unit || s->units[u].updates,
                "UPDATE of unit %d has not run", u);
    }
    s->units[i->unit].gathers++;
    return TRINE_OK;
}

static trine_status check_gather(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_class c = spec_class(spec, i->unit);
    zero_gather_when when = zero_stage(spec->zero)->gather;
    REQUIRE(when != GATHER_NEVER, "ZeRO-0 has no sharded parameters to gather");
    REQUIRE(spec_gather_unit(spec, i->unit) == i->unit,
            "unit %d is gathered with unit %d and has no GATHER of its own", i->unit,
            spec_gather_unit(spec, i->unit));
    s->facts.gathers[c]++;
    if (when == GATHER_AFTER_UPDATE) return check_gather_after_update(s, i);
    REQUIRE(i->gather >= 0, "field b is missing: ZeRO-3 gathers into a gather buffer");
    REQUIRE(!s->norms, "GATHER after NORM: no computation follows that could read it");
    buffer_state *b = &s->gathers[c][i->gather];
    REQUIRE(!b->full || b->read, "overwrites unit %d in gather buffer %d, which was not read",
            b->unit, i->gather);
    for (int n = 0; n < s->p->gathers[c]; n++)
        REQUIRE(!s->gathers[c][n].full || s->gathers[c][n].unit != i->unit,
                "gather buffer %d already holds unit %d", n, i->unit);
    *b = (buffer_state){.unit = i->unit, .full = true};
    return TRINE_OK;
}

/* An instruction without a rule of its own: once per unit that it names, or once. */
static trine_status check_other(stage_state *s, const instr *i) {
    bool *done = &s->units[i->unit < 0 ? 0 : i->unit].others[i->kind];
    REQUIRE(!*done, "runs twice");
    *done = true;
    return TRINE_OK;
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
    check_rule rule = rules[i->kind]; /* check_fields has checked the kind */
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
                "keep buffer %d of %d is filled and not read, or never used", n, p->keeps);
    for (int c = 0; c < CLASSES; c++) {
        for (int n = 0; n < p->gathers[c]; n++)
            REQUIRE(s->gathers[c][n].full && s->gathers[c][n].read,
                    "gather buffer %d of %d is filled and not read, or never used", n,
                    p->gathers[c]);
        for (int n = 0; n < p->reduces[c]; n++)
            REQUIRE(s->reduces[c][n].read, "reduce buffer %d of %d is never used", n,
                    p->reduces[c]);
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
