#include "base/status.h"
#include "zero/zero.h"

/* What lies between tensors is padding and stays zero: it is not visited. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count,
                        const zero_state *s, const adamw_args *args, bool decay_all) {
    size_t param = trine_dtype_bytes(d->compute), grad = trine_dtype_bytes(d->grads);
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        size_t from, to;
        if (!flat_overlap(t, begin, count, &from, &to)) continue;
        adamw_args own = *args;
        if (!t->matrix && !decay_all) own.decay = 0;
        size_t at = from - begin;
        void *copy = s->copy ? (char *)s->copy + at * param : NULL;
        TRY(d->ops->adamw(d, s->w + at, s->m + at, s->v + at, copy, (const char *)s->g + at * grad,
                          to - from, &own));
    }
    return TRINE_OK;
}
