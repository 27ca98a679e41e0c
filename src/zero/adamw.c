#include "base/status.h"
#include "zero/zero.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

/* What lies between tensors is padding and stays zero: it is not visited. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *s, const adamw_args *args, bool decay_all) {
    ops_part parts[OPS_PARTS];
    int n = 0;
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        size_t from, to;
        if (!flat_overlap(t, begin, count, &from, &to)) continue;
        parts[n++] = (ops_part){from - begin, to - from, t->matrix || decay_all};
    }
    TRY(d->ops->adamw(d, s->w, s->m, s->v, s->copy, s->g, parts, n, args));
    return TRINE_OK;
}
