#include <stdarg.h>

#include "base/status.h"
#include "core/check_state.h"

trine_status check_fault(const stage_state *s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    trine_status status = program_fault(s->p, s->at, format, args);
    va_end(args);
    return status;
}

/* ---- What rules share ---- */

chunk_facts check_chunk_number(const stage_state *s, int c) {
    int first = spec_chunk_first(s->p->spec, c), last = spec_chunk_last(s->p->spec, c);
    return (chunk_facts){c, first, last, last - first + 1, spec_chunk_backs(s->p->spec, c)};
}

chunk_facts check_chunk_of(const stage_state *s, const instr *i) {
    return check_chunk_number(s, program_chunk(s->p, i));
}

trine_status check_slot(const stage_state *s, const instr *i) {
    const slot_state *slot = &s->slots[i->slot];
    int chunk = program_chunk(s->p, i);
    REQUIRE(slot->busy && slot->micro == i->micro, "slot %d does not hold micro-batch %d", i->slot,
            i->micro);
    REQUIRE(slot->chunk == chunk, "slot %d holds micro-batch %d of chunk %d, not of chunk %d",
            i->slot, i->micro, slot->chunk, chunk);
    return TRINE_OK;
}

trine_status check_claim_slot(stage_state *s, const instr *i) {
    slot_state *slot = &s->slots[i->slot];
    int chunk = program_chunk(s->p, i);
    if (slot->busy && slot->micro == i->micro && slot->chunk == chunk) return TRINE_OK;
    REQUIRE(!slot->busy, "slot %d still holds micro-batch %d", i->slot, slot->micro);
    *slot = (slot_state){.chunk = chunk, .micro = i->micro, .busy = true};
    if (++s->busy_slots > s->facts.slots) s->facts.slots = s->busy_slots;
    return TRINE_OK;
}

void check_release_slot(stage_state *s, slot_state *slot, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    bool last = c.index == spec_edges(spec);
    bool done = slot->forwards == c.units && (spec->forward_only || slot->weights == c.backs);
    if (!done || !(last || slot->sent)) return;
    slot->busy = false;
    s->busy_slots--;
}

trine_status check_claim_stream(stage_state *s, const instr *i, int unit) {
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(!stream->busy, "gradient stream %d still holds micro-batch %d", i->stream,
            stream->micro);
    *stream = (stream_state){.micro = i->micro, .unit = unit, .busy = true};
    if (++s->busy_streams > s->facts.streams) s->facts.streams = s->busy_streams;
    return TRINE_OK;
}

void check_release_stream(stage_state *s, stream_state *stream) {
    stream->busy = false;
    s->busy_streams--;
}

trine_status check_no_gather(const stage_state *s, const instr *i) {
    REQUIRE(i->gather < 0,
            "field b%d must be unset: ZeRO-%d has no gather buffers; only ZeRO-3 has", i->gather,
            (int)s->p->spec->parallel.zero);
    return TRINE_OK;
}

trine_status check_no_reduce(const stage_state *s, const instr *i) {
    REQUIRE(i->reduce < 0,
            "field r%d must be unset: this program accumulates gradients at rest, as ZeRO-%d does "
            "in lanes of several micro-batches; it has no reduce buffers",
            i->reduce, (int)s->p->spec->parallel.zero);
    return TRINE_OK;
}

trine_status check_reduced(const stage_state *s, int unit) {
    int reduces = s->units[unit].reduces, all = spec_reduces(s->p->spec);
    REQUIRE(reduces == all, "unit %d is reduced %d of %d times; REDUCE must come first", unit,
            reduces, all);
    return TRINE_OK;
}

bool check_ties(const stage_state *s) {
    const program_spec *spec = s->p->spec;
    return !spec->forward_only && spec_tied_unit(spec, s->p->stage) >= 0;
}

/* Once for each unit that it names, or once. */
static trine_status check_once(stage_state *s, const instr *i) {
    bool *done = &s->units[i->unit < 0 ? 0 : i->unit].others[i->kind];
    REQUIRE(!*done, "runs twice");
    *done = true;
    return TRINE_OK;
}

trine_status check_rules(const check_rule rules[INSTR_KINDS], stage_state *s, const instr *i) {
    check_rule rule = rules[i->kind]; /* check_fields has checked the kind */
    return rule ? rule(s, i) : check_once(s, i);
}

/* ---- The end ---- */

static trine_status check_unit_end(const stage_state *s, int u) {
    const program_spec *spec = s->p->spec;
    const unit_state *unit = &s->units[u];
    REQUIRE(unit->forwards == spec->micros, "FORWARD of unit %d on micro-batch %d never runs", u,
            unit->forwards);
    bool gather = spec_zero(spec)->gather == GATHER_AFTER_UPDATE && !spec->forward_only;
    bool gathered = spec_gather_unit(spec, u) == u && spec_gather_changes(spec, u);
    REQUIRE(!gather || !gathered || unit->gathers, "GATHER of unit %d never runs", u);
    if (spec->forward_only || !spec_goes_back(spec, u)) return TRINE_OK;
    REQUIRE(unit->backwards == spec->micros, "BACKWARD of unit %d on micro-batch %d never runs", u,
            unit->backwards);
    REQUIRE(unit->weights == spec->micros,
            "BACKWARD_WEIGHT of unit %d on micro-batch %d never runs", u, unit->weights);
    REQUIRE(unit->updates == 1, "UPDATE of unit %d never runs", u);
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
