#include "base/status.h"
#include "pp/pp.h"

static bool splits(const program *p, const instr *i) {
    return i->kind == BACKWARD && spec_unit(p->spec, i->unit).backward == BACKWARD_SPLITS;
}

/* The keep buffer of a unit: its index among the units of its chunk that split, counted from the last. */
static int keep_of(const program_spec *s, int unit) {
    int count = -1;
    for (int u = spec_chunk_last(s, spec_chunk_of(s, unit)); u >= unit; u--)
        count += spec_unit(s, u).backward == BACKWARD_SPLITS;
    return count;
}

/* The instruction that replaces a BACKWARD. */
static instr first_part(const program *p, const instr *i) {
    instr part = *i;
    if (splits(p, i)) {
        part.kind = BACKWARD_INPUT;
        part.keep = keep_of(p->spec, i->unit);
    } else if (i->kind == BACKWARD &&
               spec_unit(p->spec, i->unit).backward == BACKWARD_WEIGHT_ONLY) {
        part.kind = BACKWARD_WEIGHT;
    }
    return part;
}

/* Appends the BACKWARD_WEIGHTs of a chunk and micro-batch, after its first unit's backward instruction. */
static trine_status append_weights(program *out, const instr *i) {
    const program_spec *s = out->spec;
    for (int u = spec_chunk_last(s, spec_chunk_of(s, i->unit)); u >= i->unit; u--) {
        if (spec_unit(s, u).backward != BACKWARD_SPLITS) continue;
        instr weight = program_instr(BACKWARD_WEIGHT, u, i->micro);
        weight.slot = i->slot;
        weight.keep = keep_of(s, u);
        if (weight.keep >= out->keeps) out->keeps = weight.keep + 1;
        TRY(program_append(out, weight));
    }
    return TRINE_OK;
}

static trine_status split(const program *p, program *out) {
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        TRY(program_append(out, first_part(p, i)));
        bool back = i->kind == BACKWARD;
        if (back && i->unit == spec_chunk_first(p->spec, spec_chunk_of(p->spec, i->unit)))
            TRY(append_weights(out, i));
    }
    return TRINE_OK;
}

trine_status pp_split_backward(program *p) {
    return p->spec->split_backward && !p->spec->forward_only ? program_rewrite(p, split) : TRINE_OK;
}
