#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "device/ops.h"
#include "norm/exact_norm.h"
#include "norm/grad_norm.h"
#include "state/part.h"

_Static_assert(FLAT_TENSORS <= OPS_PARTS, "a range is one call");

static trine_status insert_norm(program *p) {
    return program_append(p, program_instr(NORM, -1, -1));
}

static trine_status check_norm(stage_state *s, const instr *i) {
    (void)i;
    const program_spec *spec = s->p->spec;
    REQUIRE(!s->norms, "NORM runs twice");
    for (int n = 0; n < spec_stage_units(spec, s->p->stage); n++) {
        int u = spec_stage_unit(spec, s->p->stage, n);
        REQUIRE(s->units[u].forwards == spec->micros,
                "unit %d has run forward on %d of %d micro-batches", u, s->units[u].forwards,
                spec->micros);
        bool back = !spec->forward_only && spec_goes_back(spec, u);
        if (back) TRY(check_reduced(s, u));
        REQUIRE(!back || !spec->tp_partial || s->units[u].tp_reduces,
                "REDUCE_TP of unit %d has not run", u);
    }
    REQUIRE(!check_ties(s) || s->ties, "TIE has not run");
    s->norms++;
    return TRINE_OK;
}

static trine_status prove_norm(prove_stage *s, const instr *i) {
    (void)i;
    PROVE(!s->normed, "NORM runs twice");
    if (!s->p->spec->forward_only) TRY(prove_complete(s));
    TRY(prove_loss(s));
    s->normed = true;
    return TRINE_OK;
}

/* ---- One range -------------------------------------------------------------------------------- */

/* Whether a tensor has elements in the slice that count here; [*from, *to) are they. */
static bool counts(const tensor *t, size_t begin, size_t count, size_t *from, size_t *to) {
    return !t->copy && flat_overlap(t, begin, count, from, to);
}

int norm_count(const flat_range *range, size_t begin, size_t count) {
    int n = 0;
    size_t from, to;
    for (int i = 0; i < range->tensor_count; i++)
        n += counts(&range->tensors[i], begin, count, &from, &to);
    return n;
}

trine_status norm_local(device *d, const flat_range *range, size_t begin, size_t count,
                        const void *g, double *sums) {
    ops_part parts[OPS_PARTS];
    int n = 0;
    for (int i = 0; i < range->tensor_count; i++) {
        size_t from, to;
        if (!counts(&range->tensors[i], begin, count, &from, &to)) continue;
        parts[n++] = (ops_part){.at = from - begin, .n = to - from};
    }
    TRY(d->ops->sum_squares(d, sums, g, parts, n));
    return TRINE_OK;
}

double norm_add(const double *sums, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += sums[i];
    return sum;
}

/* ---- The global sums -------------------------------------------------------------------------- */

/* The axes within a stage, in the order in which numbers are gathered. */
static bool inside_stage(int axis) {
    return axis != TRINE_AXIS_PP;
}

size_t norm_scratch(int units, trine_layout layout) {
    size_t each = (size_t)units + 1, ranks = 1, rows = 1;
    for (int a = 0; a < TRINE_AXES; a++)
        if (inside_stage(a)) rows += ranks *= (size_t)axis_size(layout, (trine_axis)a);
    return each * (rows + (size_t)axis_size(layout, TRINE_AXIS_PP));
}

/* Gathers the rows of all ranks of this stage, axis by axis; the last axis is the outermost. In: *rows (each) is
 * this rank's row. Out: *rows (ranks, each) follows it in the same buffer. */
static trine_status gather_stage(const trine_mesh *mesh, double **rows, size_t each,
                                 size_t *ranks) {
    trine_layout l = trine_mesh_layout(mesh);
    *ranks = 1;
    for (int a = 0; a < TRINE_AXES; a++) {
        if (!inside_stage(a)) continue;
        double *own = *rows, *all = own + *ranks * each;
        *ranks *= (size_t)axis_size(l, (trine_axis)a);
        TRY(trine_all_gather(trine_mesh_group(mesh, axes_group(AXIS(a))), all, own, *ranks * each,
                             TRINE_F64));
        *rows = all;
    }
    return TRINE_OK;
}

/* Whether the loss of row r, in gather_stage's order, counts: of ranks that read the same samples only the first
 * counts. */
static bool has_samples(trine_layout l, size_t r) {
    for (int a = 0; a < TRINE_AXES; a++) {
        if (!inside_stage(a)) continue;
        size_t size = (size_t)axis_size(l, (trine_axis)a);
        if (r % size && !(axes_of_samples() & AXIS(a))) return false;
        r /= size;
    }
    return true;
}

/* stage (each) = sum of the rows in their order; the loss is the last number of a row. */
static void add_stage(trine_layout l, double *stage, const double *rows, size_t ranks,
                      size_t each) {
    memset(stage, 0, each * sizeof *stage);
    for (size_t r = 0; r < ranks; r++) {
        for (size_t u = 0; u + 1 < each; u++) stage[u] += rows[r * each + u];
        if (has_samples(l, r)) stage[each - 1] += rows[r * each + each - 1];
    }
}

trine_status norm_global(const trine_mesh *mesh, const norm_sums *own, int units, double *scratch,
                         double *squares, double *loss) {
    trine_layout l = trine_mesh_layout(mesh);
    size_t each = (size_t)units + 1, pp = (size_t)axis_size(l, TRINE_AXIS_PP), ranks;
    double *stage = scratch, *rows = scratch;
    memcpy(stage, own->squares, (size_t)units * sizeof *stage);
    stage[units] = own->loss;
    TRY(gather_stage(mesh, &rows, each, &ranks));
    double *stages = rows + ranks * each;
    add_stage(l, stage, rows, ranks, each);
    TRY(trine_all_gather(trine_mesh_group(mesh, TRINE_PP), stages, stage, pp * each, TRINE_F64));
    /* A unit is on one stage, the others have zero; adding zeros changes no bit. */
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

/* ---- Memory ----------------------------------------------------------------------------------- */

/* With parallel.exact losses are added at the end, in the order of micro-batches. */
static int loss_count(const rank_state *h) {
    return h->config.spec->parallel.exact ? h->config.spec->micros : 1;
}

/* Micro-batches of a step, of all ranks. */
static size_t step_micros(const rank_state *h) {
    return (size_t)h->config.spec->micros * (size_t)axes_size(h->config.layout, axes_of_samples());
}

/* The losses, and the squares of each tensor. */
static size_t sum_count(const rank_state *h) {
    size_t count = (size_t)loss_count(h);
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < h->units[n].layout.range_count; r++)
            if (!h->units[n].layout.ranges[r].frozen)
                count += (size_t)h->units[n].layout.ranges[r].tensor_count;
    return count;
}

static size_t norm_record(const rank_state *h) {
    bool host = h->config.dev->memory->host;
    return sizeof(norm_memory) + (host ? 2 * sum_count(h) * sizeof(double) : 0);
}

static void take_exact(const rank_state *h, norm_memory *own, arena *a) {
    size_t bytes = SQUARES_DIGITS * sizeof *own->digits;
    if (!h->config.spec->parallel.exact) return;
    own->all_losses = arena_take_host(a, MEM_WORKSPACE, step_micros(h) * sizeof(double));
    own->digits = arena_take(a, MEM_WORKSPACE, bytes);
    own->digits_read = a->on_device ? arena_take_host(a, MEM_WORKSPACE, bytes) : own->digits;
}

static void take_norm(rank_state *h, arena *a) {
    norm_memory *own = h->own[NORM];
    size_t units = (size_t)h->config.spec->units, count = sum_count(h);
    size_t scratch = norm_scratch(h->config.spec->units, h->config.layout);
    own->losses = loss_count(h);
    own->squares = arena_take_host(a, MEM_WORKSPACE, units * sizeof(double));
    own->scratch = arena_take_host(a, MEM_WORKSPACE, scratch * sizeof(double));
    own->sums = own->on_host;
    own->read = own->on_host + count;
    if (a->on_device) {
        own->sums = arena_take(a, MEM_WORKSPACE, count * sizeof(double));
        own->read = arena_take_host(a, MEM_WORKSPACE, count * sizeof(double));
    }
    h->loss = own->sums;
    take_exact(h, own, a);
}

const norm_memory *norm_memory_of(const rank_state *h) {
    return h->own[NORM];
}

/* ---- Execution --------------------------------------------------------------------------------- */

/* Whether this rank counts a range: one that is trained. A tied matrix counts with its owner. */
static bool range_counts(const rank_state *s, const held_unit *u, int range) {
    bool matrix = flat_kind(&u->layout, range) == 0;
    return state_trains(u, range) && state_first_replica(s, state_range(u, range)) &&
           !(matrix && spec_owner(s->config.spec, u->unit) != u->unit);
}

/* The number of sums of a range; 0: it does not count here. */
static int range_sums(const rank_state *s, const held_unit *u, int range) {
    flat_part slice = state_slice(s, u, range);
    if (!range_counts(s, u, range)) return 0;
    return norm_count(state_range(u, range), slice.begin, slice.count);
}

/* Starts the sums of squares of a unit's tensors on the device, into sums from *at on. */
static trine_status start_squares(step_run *r, const held_unit *u, int *at) {
    const rank_state *s = r->state;
    for (int n = 0; n < flat_ranges(&u->layout); n++) {
        int sums = range_sums(s, u, n);
        if (!sums) continue;
        flat_part slice = state_slice(s, u, n);
        const void *g = state_grad(s, u, n, slice);
        TRY(norm_local(r->dev, state_range(u, n), slice.begin, slice.count, g,
                       norm_memory_of(s)->sums + *at));
        *at += sums;
    }
    return TRINE_OK;
}

/* Adds the sums of a unit, read back from the device, in the same order. */
static double add_squares(const rank_state *s, const held_unit *u, int *at) {
    double sum = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++) {
        int n = range_sums(s, u, r);
        sum += norm_add(norm_memory_of(s)->read + *at, n);
        *at += n;
    }
    return sum;
}

/* squares (units) and *loss of this rank, with one wait for the device. */
static trine_status read_sums(step_run *r, double *squares, double *loss) {
    const rank_state *s = r->state;
    const norm_memory *own = norm_memory_of(s);
    int units = r->program->spec->forward_only ? 0 : s->count;
    int count = 1, at = 1; /* after the loss */
    for (int n = 0; n < units; n++) TRY(start_squares(r, &s->units[n], &count));
    TRY(device_read(r->dev, own->read, own->sums, (size_t)count * sizeof(double)));
    memset(squares, 0, (size_t)r->program->spec->units * sizeof(double));
    for (int n = 0; n < units; n++) squares[s->units[n].unit] = add_squares(s, &s->units[n], &at);
    *loss = own->read[0];
    device_zero(r->dev, s->loss, sizeof *s->loss); /* for the next run */
    return TRINE_OK;
}

/* ---- Without an order -------------------------------------------------------------------------- */

/* own->digits_read = this rank's sum, in integers. */
static trine_status read_digits(step_run *r) {
    const rank_state *s = r->state;
    const norm_memory *own = norm_memory_of(s);
    device_zero(r->dev, own->digits, SQUARES_DIGITS * sizeof *own->digits);
    for (int n = 0; n < s->count; n++) {
        const held_unit *u = &s->units[n];
        for (int k = 0; k < flat_ranges(&u->layout); k++) {
            flat_part slice = state_slice(s, u, k);
            if (range_counts(s, u, k))
                TRY(norm_exact_local(r->dev, state_range(u, k), flat_part_of(&u->layout, k),
                                     slice.begin, slice.count, state_grad(s, u, k, slice),
                                     own->digits));
        }
    }
    if (own->digits_read == own->digits) return TRINE_OK;
    return device_read(r->dev, own->digits_read, own->digits, SQUARES_DIGITS * sizeof *own->digits);
}

/* Whether this rank's losses count: of ranks that read the same samples only the first does. */
static bool first_of_samples(const rank_state *s) {
    axis_set others = ALL_AXES & ~axes_of_samples() & ~AXIS(TRINE_AXIS_PP);
    return axes_place(s->config.layout, others, s->config.coord) == 0;
}

/* *loss = the sum of the losses of all micro-batches, in their order. One rank has each: adding zeros changes no bit. */
static trine_status add_losses(step_run *r, double *loss) {
    const rank_state *s = r->state;
    const norm_memory *own = norm_memory_of(s);
    size_t all = step_micros(s), bytes = (size_t)own->losses * sizeof(double);
    TRY(device_read(r->dev, own->read, s->loss, bytes));
    device_zero(r->dev, s->loss, bytes); /* for the next run */
    memset(own->all_losses, 0, all * sizeof(double));
    for (int m = 0; m < own->losses && first_of_samples(s); m++)
        own->all_losses[step_number(r, m)] = own->read[m];
    TRY(trine_all_reduce(step_group(r, TRINE_WORLD), own->all_losses, own->all_losses, all,
                         TRINE_F64, TRINE_SUM));
    *loss = norm_add(own->all_losses, (int)all);
    return TRINE_OK;
}

static trine_status exact_sums(step_run *r, double *squares, double *loss) {
    *squares = 0;
    TRY(add_losses(r, loss));
    if (r->program->spec->forward_only) return TRINE_OK;
    TRY(read_digits(r));
    return norm_exact_global(r->mesh, norm_memory_of(r->state)->digits_read, squares);
}

static trine_status ordered_sums(step_run *r, double *squares, double *loss) {
    const norm_memory *memory = norm_memory_of(r->state);
    norm_sums own = {.squares = memory->squares};
    TRY(read_sums(r, own.squares, &own.loss));
    return norm_global(r->mesh, &own, r->program->spec->units, memory->scratch, squares, loss);
}

/* Sets the step's loss, gradient norm and gradient scale, and whether it is skipped. Collective over: dp, tp and pp. */
static trine_status run_norm(step_run *r, const instr *i) {
    bool exact = r->program->spec->parallel.exact;
    step_io *io = r->io;
    double squares;
    (void)i;
    TRY((exact ? exact_sums : ordered_sums)(r, &squares, &io->loss));
    io->norm = sqrt(squares) / io->loss_scale;
    io->skipped = !isfinite(io->norm);
    bool clip = io->clip > 0 && io->norm > io->clip;
    double factor = clip ? io->clip / io->norm : 1.0;
    io->adamw.scale = (float)(factor / io->loss_scale);
    return TRINE_OK;
}

static uint64_t exact_bytes(const rank_state *s, bool squares) {
    uint64_t losses =
        state_bytes(s, TRINE_WORLD, TRINE_TALLY_ALL_REDUCE, step_micros(s), TRINE_F64);
    uint64_t digits =
        state_bytes(s, TRINE_WORLD, TRINE_TALLY_ALL_REDUCE, SQUARES_DIGITS, TRINE_I64);
    return losses + (squares ? digits : 0);
}

static uint64_t norm_bytes(const rank_state *s, const program *p, const instr *i) {
    trine_layout l = s->config.layout;
    size_t numbers = (size_t)p->spec->units + 1;
    size_t stages = numbers * (size_t)axis_size(l, TRINE_AXIS_PP);
    uint64_t sum = state_bytes(s, TRINE_PP, TRINE_TALLY_ALL_GATHER, stages, TRINE_F64);
    (void)i;
    if (p->spec->parallel.exact) return exact_bytes(s, !p->spec->forward_only);
    for (int a = 0; a < TRINE_AXES; a++) {
        if (!inside_stage(a)) continue;
        numbers *= (size_t)axis_size(l, (trine_axis)a);
        sum += state_bytes(s, axes_group(AXIS(a)), TRINE_TALLY_ALL_GATHER, numbers, TRINE_F64);
    }
    return sum;
}

const instr_part part_NORM = {.pass = insert_norm,
                              .check = check_norm,
                              .prove = prove_norm,
                              .record = norm_record,
                              .take = take_norm,
                              .run = run_norm,
                              .bytes = norm_bytes};
