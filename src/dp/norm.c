#include <math.h>
#include <string.h>

#include "base/status.h"
#include "dp/dp.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

trine_status dp_norm(program *p) {
    return program_append(p, program_instr(NORM, -1, -1));
}

/* ---- One range -------------------------------------------------------------------------------- */

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

/* ---- The global sums -------------------------------------------------------------------------- */

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

/* ---- Running ---------------------------------------------------------------------------------- */

/* How many sums a range has; 0: it does not count. A tied matrix counts where its owner is. */
static int range_sums(const rank_state *s, const held_unit *u, int range) {
    flat_part slice = state_slice(s, u, range);
    if (range == 0 && spec_owner(s->config.spec, u->unit) != u->unit) return 0;
    return dp_norm_count(&u->layout.ranges[range], slice.begin, slice.count, s->config.coord.tp);
}

/* The device sums the squares of a unit's tensors into sums from *at on. */
static trine_status start_squares(step_run *r, const held_unit *u, int *at) {
    const rank_state *s = r->state;
    for (int n = 0; n < u->layout.range_count; n++) {
        int sums = range_sums(s, u, n);
        if (!sums) continue;
        flat_part slice = state_slice(s, u, n);
        const void *g = state_grad(s, u, n, slice);
        TRY(dp_norm_local(r->dev, &u->layout.ranges[n], slice.begin, slice.count, g,
                          s->config.coord.tp, s->sums + *at));
        *at += sums;
    }
    return TRINE_OK;
}

/* The same way through the sums that were read back. */
static double add_squares(const rank_state *s, const held_unit *u, int *at) {
    double sum = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        int n = range_sums(s, u, r);
        sum += dp_norm_add(s->sums_read + *at, n);
        *at += n;
    }
    return sum;
}

/* squares (units) and *loss: this rank's, with one wait for the device. */
static trine_status read_sums(step_run *r, double *squares, double *loss) {
    const rank_state *s = r->state;
    int units = r->program->spec->forward_only ? 0 : s->count;
    int count = 1, at = 1; /* behind the loss */
    for (int n = 0; n < units; n++) TRY(start_squares(r, &s->units[n], &count));
    TRY(device_read(r->dev, s->sums_read, s->sums, (size_t)count * sizeof(double)));
    memset(squares, 0, (size_t)r->program->spec->units * sizeof(double));
    for (int n = 0; n < units; n++) squares[s->units[n].unit] = add_squares(s, &s->units[n], &at);
    *loss = s->sums_read[0];
    device_zero(r->dev, s->sums, sizeof *s->sums); /* the next run's */
    return TRINE_OK;
}

trine_status dp_run_norm(step_run *r, const instr *i) {
    const program_spec *spec = r->program->spec;
    step_io *io = r->io;
    dp_sums own = {.squares = r->state->squares};
    (void)i;
    TRY(read_sums(r, own.squares, &own.loss));
    double squares;
    TRY(dp_norm_global(r->mesh, &own, spec->units, r->state->norm_scratch, &squares, &io->loss));
    io->norm = sqrt(squares) / io->loss_scale;
    io->skipped = !isfinite(io->norm);
    bool clip = io->clip > 0 && io->norm > io->clip;
    double factor = clip ? io->clip / io->norm : 1.0;
    io->adamw.scale = (float)(factor / io->loss_scale);
    return TRINE_OK;
}

uint64_t dp_norm_bytes(const rank_state *s, const program *p, const instr *i) {
    trine_layout l = s->config.layout;
    size_t each = (size_t)p->spec->units + 1, dp = (size_t)l.dp, tp = (size_t)l.tp;
    (void)i;
    return state_bytes(s, TRINE_DP, TRINE_TALLY_ALL_GATHER, dp * each, TRINE_F64) +
           state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_GATHER, tp * dp * each, TRINE_F64) +
           state_bytes(s, TRINE_PP, TRINE_TALLY_ALL_GATHER, (size_t)l.pp * each, TRINE_F64);
}
