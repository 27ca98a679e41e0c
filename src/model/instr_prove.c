#include "model/instr_prove.h"

#include "base/status.h"
#include "core/prove_state.h"

/* The output of the unit before, for micro-batch i->micro: received, in the slot of the previous chunk, or in the same
 * slot. */
static trine_status prove_input(prove_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    const int chunk = program_chunk(s->p, i);
    const thing wanted = {THING_OUTPUT, i->unit - 1, i->micro};
    if (i->unit == 0) return TRINE_OK;
    if (i->unit != spec_chunk_first(spec, chunk))
        return prove_thing(s, "slot", i->slot, *prove_acts(s, i->slot, i->unit - 1), wanted);
    if (spec_receives(spec, chunk))
        return prove_thing(s, "the input of slot", i->slot, s->inputs[i->slot], wanted);
    PROVE(i->input >= 0, "has no slot from which to read the output of unit %d", i->unit - 1);
    return prove_thing(s, "the output of slot", i->input, s->outputs[i->input], wanted);
}

static trine_status prove_batch(prove_stage *s, const instr *i) {
    if (!spec_takes_batch(s->p->spec, i->unit)) return TRINE_OK;
    return prove_thing(s, "slot", i->slot, s->batches[i->slot], (thing){THING_BATCH, -1, i->micro});
}

/* Chunks of a stage share the memory of a slot. */
static void prove_enter(prove_stage *s, const instr *i) {
    const int chunk = program_chunk(s->p, i);
    if (s->chunks[i->slot] == chunk) return;
    s->chunks[i->slot] = chunk;
    s->outputs[i->slot] = (thing){0};
    for (int u = 0; u < s->p->spec->units; u++) *prove_acts(s, i->slot, u) = (thing){0};
}

/* The loss of a micro-batch is added where it is computed: in training with its gradient. */
static void prove_add_loss(prove_stage *s, const instr *i) {
    term_pool *pool = prove_pool(s);
    term own = term_own(pool, i->micro);
    if (spec_unit(s->p->spec, i->unit).makes_loss)
        s->loss = s->loss == TERM_NONE ? own : term_add(pool, s->loss, own);
}

trine_status gpt_prove_forward(prove_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    const thing output = {THING_OUTPUT, i->unit, i->micro};
    prove_enter(s, i);
    TRY(prove_input(s, i));
    TRY(prove_batch(s, i));
    TRY(prove_params(s, i));
    *prove_acts(s, i->slot, i->unit) = output;
    if (i->unit == spec_chunk_last(spec, program_chunk(s->p, i))) s->outputs[i->slot] = output;
    if (spec->forward_only) prove_add_loss(s, i);
    return TRINE_OK;
}

/* What all backward instructions read. */
static trine_status prove_back(prove_stage *s, const instr *i) {
    TRY(prove_thing(s, "slot", i->slot, *prove_acts(s, i->slot, i->unit),
                    (thing){THING_OUTPUT, i->unit, i->micro}));
    TRY(prove_input(s, i));
    return prove_batch(s, i);
}

static trine_status prove_stream(prove_stage *s, const instr *i) {
    thing *stream = &s->streams[i->stream];
    if (!spec_unit(s->p->spec, i->unit).makes_loss)
        TRY(prove_thing(s, "gradient stream", i->stream, *stream,
                        (thing){THING_GRADIENT, i->unit, i->micro}));
    *stream = (thing){THING_GRADIENT, i->unit - 1, i->micro};
    prove_add_loss(s, i);
    return TRINE_OK;
}

/* Where the gradients of strand k go: a reduce buffer, or at rest. */
static term *prove_lane(prove_stage *s, const instr *i, int k) {
    if (i->reduce < 0) return &s->units[i->unit].grads[k].lane;
    unit_class c = spec_class(s->p->spec, i->unit);
    return &s->reduces[program_buffer_index(s->p->reduces, c, i->reduce)].lanes[k];
}

static trine_status prove_claim(prove_stage *s, const instr *i) {
    if (i->reduce < 0) return TRINE_OK;
    unit_class c = spec_class(s->p->spec, i->unit);
    prove_buffer *b = &s->reduces[program_buffer_index(s->p->reduces, c, i->reduce)];
    PROVE(b->unit < 0, "overwrites gradients of unit %d of micro-batch %d in reduce buffer %d",
          b->unit, b->micro, i->reduce);
    b->unit = i->unit, b->micro = i->micro;
    for (int k = 0; k < PROVE_STRANDS; k++) b->lanes[k] = TERM_NONE;
    return TRINE_OK;
}

trine_status gpt_prove_backward(prove_stage *s, const instr *i) {
    prove_strand strands[PROVE_STRANDS];
    int count = prove_strands(s, i->unit, strands);
    TRY(prove_back(s, i));
    if (instr_reads_params((instr_kind)i->kind)) TRY(prove_params(s, i));
    TRY(prove_stream(s, i));
    TRY(prove_claim(s, i));
    for (int k = 0; k < count; k++)
        TRY(prove_contribute(s, i, strands[k].name, prove_lane(s, i, k)));
    return TRINE_OK;
}

/* The small gradients are added here: at rest, or to those of the lane's BACKWARD_INPUT before, in the keep buffer. */
trine_status gpt_prove_backward_input(prove_stage *s, const instr *i) {
    const bool rest = spec_small_at_rest(s->p->spec);
    prove_strand strands[PROVE_STRANDS];
    int count = prove_strands(s, i->unit, strands);
    prove_unit *unit = &s->units[i->unit];
    prove_buffer *keep = &s->keeps[i->keep];
    PROVE(keep->unit < 0, "overwrites what unit %d kept of micro-batch %d in keep buffer %d",
          keep->unit, keep->micro, i->keep);
    TRY(prove_back(s, i));
    TRY(prove_params(s, i));
    TRY(prove_stream(s, i));
    keep->unit = i->unit, keep->micro = i->micro;
    for (int k = 0; k < count; k++) {
        if (!strands[k].small) continue;
        if (!rest && spec_begins_lane(s->p->spec, i->micro)) unit->small[k] = TERM_NONE;
        TRY(prove_contribute(s, i, strands[k].name, rest ? &unit->grads[k].lane : &unit->small[k]));
        if (!rest) keep->lanes[k] = unit->small[k];
    }
    return TRINE_OK;
}

static trine_status prove_kept(prove_stage *s, const instr *i) {
    prove_strand strands[PROVE_STRANDS];
    int count = prove_strands(s, i->unit, strands);
    prove_buffer *keep = &s->keeps[i->keep];
    PROVE(keep->unit == i->unit && keep->micro == i->micro,
          "keep buffer %d has what unit %d kept of micro-batch %d, not unit %d of micro-batch %d",
          i->keep, keep->unit, keep->micro, i->unit, i->micro);
    keep->unit = -1;
    for (int k = 0; k < count; k++)
        if (!strands[k].small)
            TRY(prove_contribute(s, i, strands[k].name, prove_lane(s, i, k)));
        else if (!spec_small_at_rest(s->p->spec))
            *prove_lane(s, i, k) = keep->lanes[k];
    return TRINE_OK;
}

trine_status gpt_prove_backward_weight(prove_stage *s, const instr *i) {
    if (i->keep < 0) return gpt_prove_backward(s, i);
    TRY(prove_back(s, i));
    TRY(prove_claim(s, i));
    return prove_kept(s, i);
}
