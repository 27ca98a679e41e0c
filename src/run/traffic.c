#include "run/traffic.h"

#include "run/parts.h"

traffic traffic_of(const rank_state *h, const program *p) {
    traffic t = {0};
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        const instr_part *part = run_part_of((instr_kind)i->kind);
        if (part->bytes) t.bytes[i->kind] += part->bytes(h, p, i);
    }
    return t;
}
