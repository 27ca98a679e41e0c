#include "base/status.h"
#include "zero/zero.h"

/* What lies between tensors is padding and stays zero: it is not visited. */
trine_status zero_adamw(device *d, const flat_range *range, size_t begin, size_t count, float *w,
                        float *m, float *v, const float *g, const adamw_args *args,
                        bool decay_all) {
    for (int i = 0; i < range->tensor_count; i++) {
        const tensor *t = &range->tensors[i];
        size_t from, to;
        if (!flat_overlap(t, begin, count, &from, &to)) continue;
        adamw_args own = *args;
        if (!t->matrix && !decay_all) own.decay = 0;
        size_t at = from - begin;
        TRY(d->ops->adamw(d, w + at, m + at, v + at, NULL, g + at, to - from, &own));
    }
    return TRINE_OK;
}
