#include "norm/exact_norm.h"

#include "base/status.h"
#include "device/ops.h"

_Static_assert(FLAT_ALIGN % EXACT_BLOCK == 0, "slices start at a block's start");

trine_status norm_exact_local(device *d, const flat_range *range, int part, size_t begin,
                              size_t count, const void *g, int64_t *digits) {
    ops_part parts[OPS_PARTS];
    int n = 0;
    ASSERT(begin % FLAT_ALIGN == 0);
    for (int i = 0; i < range->tensor_count; i++) {
        size_t from, to;
        tensor t = flat_tensor(range, part, i);
        if (t.copy || !flat_overlap(&t, begin, count, &from, &to)) continue;
        if (n == OPS_PARTS) {
            TRY(d->ops->sum_squares_exact(d, digits, g, parts, n));
            n = 0;
        }
        parts[n++] = (ops_part){.at = from - begin, .n = to - from};
    }
    TRY(d->ops->sum_squares_exact(d, digits, g, parts, n));
    return TRINE_OK;
}

trine_status norm_exact_global(const trine_mesh *mesh, int64_t *digits, double *squares) {
    TRY(trine_all_reduce(trine_mesh_group(mesh, TRINE_WORLD), digits, digits, SQUARES_DIGITS,
                         TRINE_I64, TRINE_SUM));
    *squares = exact_value(digits);
    return TRINE_OK;
}
