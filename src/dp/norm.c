#include <string.h>

#include "base/status.h"
#include "dp/dp.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

/* Whether a tensor has elements in the slice that count here; [*from, *to) are they. */
static bool counts(const tensor *t, size_t begin, size_t count, int tp_rank, size_t *from,
                   size_t *to) {
    if (t->split == SPLIT_NONE && tp_rank != 0) return false;
    return flat_overlap(t, begin, count, from, to);
}

int dp_norm_count(const flat_range *range, size_t begin, size_t count, int tp_rank) {
    int n = 0;
    size_t from, to;
    for (int i = 0; i < range->tensor_count; i++)
        n += counts(&range->tensors[i], begin, count, tp_rank, &from, &to);
    return n;
}

trine_status dp_norm_local(device *d, const flat_range *range, size_t begin, size_t count,
                           const void *g, int tp_rank, double *sums) {
    ops_part parts[OPS_PARTS];
    int n = 0;
    for (int i = 0; i < range->tensor_count; i++) {
        size_t from, to;
        if (!counts(&range->tensors[i], begin, count, tp_rank, &from, &to)) continue;
        parts[n++] = (ops_part){.at = from - begin, .n = to - from};
    }
    TRY(d->ops->sum_squares(d, sums, g, parts, n));
    return TRINE_OK;
}

double dp_norm_add(const double *sums, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += sums[i];
    return sum;
}

size_t dp_norm_scratch(int units, trine_layout layout) {
    size_t each = (size_t)units + 1;
    return each *
           (1 + (size_t)layout.dp + (size_t)layout.dp * (size_t)layout.tp + (size_t)layout.pp);
}

/* own (units + 1) -> parts (tp, dp, units + 1) of this stage. */
static trine_status gather_stage(const trine_mesh *mesh, const double *own, double *row,
                                 double *parts, size_t each) {
    trine_layout l = trine_mesh_layout(mesh);
    size_t dp = (size_t)l.dp, tp = (size_t)l.tp;
    TRY(trine_all_gather(trine_mesh_group(mesh, TRINE_DP), row, own, dp * each, TRINE_F64));
    return trine_all_gather(trine_mesh_group(mesh, TRINE_TP), parts, row, tp * dp * each,
                            TRINE_F64);
}

/* stage (units + 1) = parts added in (tp, dp) order; the loss, equal on all tp ranks, over dp of
 * tp rank 0 only. */
static void add_stage(double *stage, const double *parts, size_t units, size_t tp, size_t dp) {
    size_t each = units + 1;
    memset(stage, 0, each * sizeof *stage);
    for (size_t r = 0; r < tp * dp; r++) {
        for (size_t u = 0; u < units; u++) stage[u] += parts[r * each + u];
        if (r < dp) stage[units] += parts[r * each + units];
    }
}

trine_status dp_norm_global(const trine_mesh *mesh, const dp_sums *own, int units, double *scratch,
                            double *squares, double *loss) {
    trine_layout l = trine_mesh_layout(mesh);
    size_t each = (size_t)units + 1, dp = (size_t)l.dp, tp = (size_t)l.tp, pp = (size_t)l.pp;
    double *stage = scratch, *row = stage + each, *parts = row + dp * each,
           *stages = parts + tp * dp * each;
    memcpy(stage, own->squares, (size_t)units * sizeof *stage);
    stage[units] = own->loss;
    TRY(gather_stage(mesh, stage, row, parts, each));
    add_stage(stage, parts, (size_t)units, tp, dp);
    TRY(trine_all_gather(trine_mesh_group(mesh, TRINE_PP), stages, stage, pp * each, TRINE_F64));
    /* A unit lives on one stage, the others hold zero; adding zeros changes no bit. */
    *squares = 0;
    for (size_t u = 0; u < (size_t)units; u++) {
        double unit = 0;
        for (size_t p = 0; p < pp; p++) unit += stages[p * each + u];
        *squares += unit;
    }
    *loss = 0;
    for (size_t p = 0; p < pp; p++) *loss += stages[p * each + (size_t)units];
    return TRINE_OK;
}
