#include "base/status.h"
#include "dp/dp.h"

static bool every_micro_batch(const program_spec *s) {
    return s->zero >= TRINE_ZERO_2;
}

static trine_status reduce(const program *p, program *out) {
    bool every = every_micro_batch(p->spec);
    for (int n = 0; n < p->count; n++) {
        instr i = p->code[n];
        bool backward = i.kind == BACKWARD;
        if (backward && every) i.reduce = 0;
        TRY(program_append(out, i));
        if (!backward || !(every || i.micro == p->spec->micros - 1)) continue;
        instr sum = program_instr(REDUCE, i.unit, i.micro);
        sum.reduce = i.reduce;
        TRY(program_append(out, sum));
    }
    return TRINE_OK;
}

trine_status dp_reduce(program *p) {
    if (p->spec->forward_only) return TRINE_OK;
    for (int c = 0; c < CLASSES; c++)
        p->reduces[c] =
            every_micro_batch(p->spec) && spec_units_of(p->spec, p->stage, (unit_class)c) > 0;
    return program_rewrite(p, reduce);
}

trine_status dp_norm(program *p) {
    return program_append(p, program_instr(NORM, -1, -1));
}
