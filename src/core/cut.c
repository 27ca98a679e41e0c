#include "core/cut.h"

#include "base/status.h"

static trine_status fault(const program *p, int at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    trine_status status = program_fault(p, at, format, args);
    va_end(args);
    return status;
}

static bool changes_params(const operand *o) {
    return o->what == RES_PARAMS && o->write;
}

/* Parameters, also in gather buffers, and finished gradients. */
static bool belongs_behind(const operand *o) {
    return o->what == RES_PARAMS || o->what == RES_GATHER || (o->what == RES_GRADS && !o->write);
}

static trine_status check_before(const program *p, int at) {
    operand o[INSTR_OPERANDS];
    int count = program_operands(p, &p->code[at], o);
    for (int n = 0; n < count; n++)
        if (changes_params(&o[n]))
            return fault(p, at, "changes parameters before NORM: the step cannot run in parts");
    return TRINE_OK;
}

static trine_status check_behind(const program *p, int at) {
    operand o[INSTR_OPERANDS];
    int count = program_operands(p, &p->code[at], o);
    bool fits = !instr_is_message((instr_kind)p->code[at].kind);
    for (int n = 0; n < count; n++) fits = fits && belongs_behind(&o[n]);
    if (fits) return TRINE_OK;
    return fault(p, at,
                 "comes after NORM, and is about more than parameters: the step cannot run "
                 "in parts");
}

trine_status cut_program(const program *p, int *norm) {
    int at = 0;
    for (; at < p->count && p->code[at].kind != NORM; at++) TRY(check_before(p, at));
    if (at == p->count) return fault(p, at, "there is no NORM: the step cannot run in parts");
    *norm = at;
    while (++at < p->count) TRY(check_behind(p, at));
    return TRINE_OK;
}
