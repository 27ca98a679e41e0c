#include "run/parts.h"

#include "base/status.h"
#include "pp/pp.h"

const run_pass *run_passes(void) {
    static const run_pass passes[] = {{.stage = pp_order},
                                      {.of = &part_SEND_ACT},
                                      {.all = pp_message_order},
                                      {.all = pp_buffers},
                                      {.of = &part_REDUCE},
                                      {.of = &part_REDUCE_TP},
                                      {.of = &part_TIE},
                                      {.of = &part_NORM},
                                      {.of = &part_UPDATE},
                                      {.of = &part_GATHER},
                                      {0}};
    return passes;
}

const instr_part *run_part_of(instr_kind kind) {
#define PART(name, fields, where, queue, operands, meaning) [name] = &part_##name,
    static const instr_part *const parts[] = {INSTR_LIST(PART)};
#undef PART
    ASSERT((unsigned)kind < INSTR_KINDS);
    return parts[kind];
}

traffic traffic_of(const rank_state *h, const program *p) {
    traffic t = {0};
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        const instr_part *part = run_part_of((instr_kind)i->kind);
        if (part->bytes) t.bytes[i->kind] += part->bytes(h, p, i);
    }
    return t;
}

void traffic_largest(const rank_state *h, const program *p, size_t largest[TRINE_GROUPS]) {
    rank_state noted = *h;
    noted.largest = largest;
    for (int g = 0; g < TRINE_GROUPS; g++) largest[g] = 0;
    (void)traffic_of(&noted, p);
}
