#include "base/status.h"
#include "tp/reduce.h"

trine_status tp_reduce(program *p) {
    const program_spec *s = p->spec;
    if (s->forward_only || !s->by_rows) return TRINE_OK;
    for (int u = spec_first(s, p->stage); u <= spec_last(s, p->stage); u++)
        TRY(program_append(p, program_instr(REDUCE_TP, u, -1)));
    return TRINE_OK;
}

/* Neighbours in the buffer are one run: what lies between them is padding, zero on all ranks. */
bool tp_run_next(const flat_range *range, size_t begin, size_t count, int *next, size_t *from,
                 size_t *to) {
    bool found = false;
    for (; *next < range->tensor_count; ++*next) {
        size_t first, last;
        const tensor *t = &range->tensors[*next];
        if (found && !t->by_rows) return true;
        if (!t->by_rows || !flat_overlap(t, begin, count, &first, &last)) continue;
        if (!found) *from = first;
        *to = last;
        found = true;
    }
    return found;
}
