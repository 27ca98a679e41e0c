/* REDUCE: the sum of gradients over dp.
 *
 * Every micro-batch's loss is divided once by the tokens of the global batch, so every reduction is a plain sum.
 * Gradient accumulation over micro-batches: ZeRO-0/1 add locally and reduce once, ZeRO-2/3 reduce every micro-batch and
 * add the sums. Invariant: in the program a REDUCE directly follows the BACKWARD that completes the unit's gradient, at
 * the position of PyTorch DDP's buckets (Li et al., VLDB 2020, section 3.2); it is only started there, progresses
 * between later instructions, and is finished, in program order, when one of these needs its gradients or its reduce
 * buffer (state/step.h). */
#include "base/status.h"
#include "core/check_state.h"
#include "core/prove_state.h"
#include "device/ops.h"
#include "state/part.h"
#include "state/step.h"

/* Whether the gradients of a micro-batch are in a reduce buffer, not accumulated in a full one. */
static bool buffered(const program_spec *s) {
    return !spec_zero(s)->full_grads;
}

/* Whether the sum of a lane is added to that of the lanes before where it lies, in the collective itself: as if their
 * sum were the addend of a rank before the first. */
static bool adds_onto(const program_spec *s) {
    return s->parallel.exact && spec_reduces(s) > 1;
}

/* Whether the instruction completes the gradients of its unit's parameters from one micro-batch. */
static bool makes_grads(const instr *i) {
    return i->kind == BACKWARD || i->kind == BACKWARD_WEIGHT;
}

static trine_status insert_after(const program *p, program *out) {
    bool every = buffered(p->spec);
    int next[CLASSES] = {0};
    for (int n = 0; n < p->count; n++) {
        instr i = p->code[n];
        bool makes = makes_grads(&i);
        if (makes && every) {
            unit_class c = spec_class(p->spec, i.unit);
            i.reduce = next[c]++ % p->reduces[c];
        }
        TRY(program_append(out, i));
        if (!makes || !spec_ends_lane(p->spec, i.micro)) continue;
        instr sum = program_instr(REDUCE, i.unit, i.micro);
        sum.reduce = i.reduce;
        TRY(program_append(out, sum));
    }
    return TRINE_OK;
}

static int reduced_units(const program *p, unit_class c) {
    int count = 0;
    for (int n = 0; n < spec_stage_units(p->spec, p->stage); n++) {
        int u = spec_stage_unit(p->spec, p->stage, n);
        count += spec_class(p->spec, u) == c && spec_goes_back(p->spec, u);
    }
    return count;
}

/* REDUCE after a unit's last BACKWARD of each lane: with ZeRO-2/3 after every BACKWARD, through reduce buffers, which the
 * units of a class take in turn. Sets p->reduces: as many a class as the spec asks for, but no more than it has
 * REDUCEs. */
static trine_status insert_reduces(program *p) {
    if (p->spec->forward_only) return TRINE_OK;
    for (int c = 0; c < CLASSES && buffered(p->spec); c++) {
        int all = reduced_units(p, (unit_class)c) * p->spec->micros;
        int asked = p->spec->parallel.reduce_buffers ? p->spec->parallel.reduce_buffers : 1;
        p->reduces[c] = asked < all ? asked : all;
    }
    return program_rewrite(p, insert_after);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static trine_status check_reduce(stage_state *s, const instr *i) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(!s->norms && !s->ties, "REDUCE must come before TIE and NORM");
    if (spec_zero(s->p->spec)->full_grads) {
        int each = spec_lane_micros(s->p->spec), micros = (unit->reduces + 1) * each;
        TRY(check_no_reduce(s, i));
        REQUIRE(micros <= s->p->spec->micros, "unit %d is reduced %d times, once too often",
                i->unit, unit->reduces + 1);
        REQUIRE(
            unit->weights == micros && i->micro == unit->weights - 1,
            "%d of %d micro-batches are added; with ZeRO-%d REDUCE u%d m%d comes after the last",
            unit->weights, micros, (int)s->p->spec->parallel.zero, i->unit, micros - 1);
    } else {
        REQUIRE(i->reduce >= 0, "field r is missing: ZeRO-%d reduces from a reduce buffer",
                (int)s->p->spec->parallel.zero);
        buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
        REQUIRE(b->full && b->unit == i->unit && b->micro == i->micro,
                "reduce buffer %d does not hold unit %d of micro-batch %d", i->reduce, i->unit,
                i->micro);
        REQUIRE(unit->reduces == i->micro,
                "unit %d is reduced over %d of %d micro-batches; " ASCENDING, i->unit,
                unit->reduces, s->p->spec->micros);
        b->full = false;
        b->read = true;
    }
    unit->reduces++;
    s->facts.reduces[spec_class(s->p->spec, i->unit)]++;
    return TRINE_OK;
}

/* ---- Proving ---------------------------------------------------------------------------------- */

static trine_status prove_reduce(prove_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    const bool first = i->micro < spec_lane_micros(spec);
    prove_unit *unit = &s->units[i->unit];
    prove_buffer *b = NULL;
    prove_strand strands[PROVE_STRANDS];
    int count = prove_strands(s, i->unit, strands);
    PROVE(!s->normed, "comes after NORM: the step does not have its sum");
    if (i->reduce >= 0) {
        b = &s->reduces[program_buffer_index(s->p->reduces, spec_class(spec, i->unit), i->reduce)];
        PROVE(b->unit == i->unit && b->micro == i->micro,
              "reduce buffer %d has gradients of unit %d of micro-batch %d, not of unit %d of "
              "micro-batch %d",
              i->reduce, b->unit, b->micro, i->unit, i->micro);
        b->unit = -1;
    }
    for (int k = 0; k < count; k++) {
        prove_grad *g = &unit->grads[k];
        PROVE(!g->over_tp && !g->tied, "comes after %s of %s", g->tied ? "TIE" : "REDUCE_TP",
              strands[k].name);
        TRY(prove_sum_dp(s, strands[k].name, b ? &b->lanes[k] : &g->lane, &g->sum, first,
                         adds_onto(spec)));
    }
    return TRINE_OK;
}

/* ---- Execution --------------------------------------------------------------------------------- */

/* The axes over which gradients are summed but not sharded: along these ranks have the same slice. */
static axis_set replicated(const flat_range *range) {
    return range->reduced & ~range->sharded;
}

/* Sums own[0, count) over these axes. */
static trine_status sum_replicas(step_run *r, const flat_range *range, void *own, size_t count) {
    if (!replicated(range)) return TRINE_OK;
    trine_comm *over = step_axes(r, replicated(range));
    return trine_all_reduce(over, own, own, count, r->dev->grads, TRINE_SUM);
}

/* What a rank gets of a range: all of it, or its slice. */
static flat_part result_of(const rank_state *s, const held_unit *u, int n) {
    if (spec_zero(s->config.spec)->grads == SHARD) return state_slice(s, u, n);
    return (flat_part){0, state_range(u, n)->count};
}

/* PARTIAL -> the placement at rest, in place: of full gradients, or within a reduce buffer. */
static trine_status start_in_place(step_run *r, const held_unit *u, int n, char *base,
                                   comm_request *request) {
    const rank_state *s = r->state;
    const flat_range *range = state_range(u, n);
    void *own = base + result_of(s, u, n).begin * state_grad_bytes(s);
    return flat_reduce_start(step_axes(r, range->sharded), spec_zero(s->config.spec)->grads, own,
                             base, range->count, r->dev->grads, request);
}

/* PARTIAL -> SHARD: the shard is set by the first lane, and is the first addend of the others. */
static trine_status start_onto(step_run *r, const held_unit *u, int n, const void *base, bool first,
                               comm_request *request) {
    const flat_range *range = state_range(u, n);
    trine_comm *over = step_axes(r, range->sharded);
    void *shard = state_shard(r->state, u, n);
    if (first)
        return flat_reduce_start(over, SHARD, shard, base, range->count, r->dev->grads, request);
    return comm_reduce_scatter_onto_start(over, shard, base, range->count, r->dev->grads, request);
}

/* After the last lane: the shard is complete, and with ZeRO-0 goes to all ranks. */
static trine_status finish_onto(step_run *r, const held_unit *u, int n) {
    const rank_state *s = r->state;
    const flat_range *range = state_range(u, n);
    void *shard = state_shard(s, u, n);
    TRY(sum_replicas(r, range, shard, state_slice(s, u, n).count));
    if (spec_zero(s->config.spec)->grads == SHARD) return TRINE_OK;
    void *all = state_grad(s, u, n, (flat_part){0, range->count});
    return trine_all_gather(step_axes(r, range->sharded), all, shard, range->count, r->dev->grads);
}

/* The slice of a reduce buffer is added to the shard. */
static trine_status finish_range(step_run *r, const held_unit *u, int n, char *base, bool first) {
    const rank_state *s = r->state;
    flat_part part = result_of(s, u, n);
    void *own = base + part.begin * state_grad_bytes(s);
    TRY(sum_replicas(r, state_range(u, n), own, part.count));
    if (spec_zero(s->config.spec)->full_grads) return TRINE_OK;
    void *shard = state_grad(s, u, n, part);
    if (!first) return r->dev->ops->add(r->dev, shard, own, part.count);
    device_copy(r->dev, shard, own, part.count * state_grad_bytes(s));
    return TRINE_OK;
}

/* Whether it is the REDUCE of the first lane. */
static bool is_first(const program_spec *s, const instr *i) {
    return i->micro < spec_lane_micros(s);
}

static char *range_at(const step_run *r, const held_unit *u, void *const base[FLAT_RANGES], int n) {
    return state_range_at(u, base, n, state_grad_bytes(r->state));
}

static trine_status finish_reduce(step_run *r, const instr *i) {
    const held_unit *u = state_unit(r->state, i->unit);
    void *base[FLAT_RANGES];
    const program_spec *spec = r->program->spec;
    bool onto = adds_onto(spec), last = i->micro == spec->micros - 1;
    state_grad_bases(r->state, u, i->reduce, base);
    for (int n = 0; n < flat_ranges(&u->layout); n++)
        if (!state_trains(u, n))
            continue;
        else if (!onto)
            TRY(finish_range(r, u, n, range_at(r, u, base, n), is_first(spec, i)));
        else if (last)
            TRY(finish_onto(r, u, n));
    return TRINE_OK;
}

/* Starts it; over groups of one rank it is finished at once. Collective over: the axes over which each range is
 * reduced (dp). */
static trine_status run_reduce(step_run *r, const instr *i) {
    const held_unit *u = state_unit(r->state, i->unit);
    const program_spec *spec = r->program->spec;
    step_reduction *started = step_reduce(r, i, finish_reduce);
    void *base[FLAT_RANGES];
    bool alone = true;
    state_grad_bases(r->state, u, i->reduce, base);
    for (int n = 0; n < flat_ranges(&u->layout); n++) {
        if (!state_trains(u, n)) continue;
        comm_request *request = &started->requests[n];
        char *full = range_at(r, u, base, n);
        TRY(adds_onto(spec) ? start_onto(r, u, n, full, is_first(spec, i), request)
                            : start_in_place(r, u, n, full, request));
        alone = alone && trine_comm_size(started->requests[n].comm) == 1;
    }
    return alone ? step_finish_reductions(r) : TRINE_OK;
}

/* all: ZeRO-0, where every rank gets the sum. */
static uint64_t range_bytes(const rank_state *s, const flat_range *range, bool all) {
    trine_dtype type = s->config.dev->grads;
    trine_group over = axes_group(range->sharded);
    size_t slices = (size_t)axes_size(s->config.layout, range->sharded);
    trine_tally_kind kind = all ? TRINE_TALLY_ALL_REDUCE : TRINE_TALLY_REDUCE_SCATTER;
    uint64_t sum = state_bytes(s, over, kind, range->count, type);
    if (replicated(range))
        sum += state_bytes(s, axes_group(replicated(range)), TRINE_TALLY_ALL_REDUCE,
                           all ? range->count : range->count / slices, type);
    return sum;
}

/* last: of the last lane, which gathers in ZeRO-0 (all). */
static uint64_t onto_bytes(const rank_state *s, const flat_range *range, bool all, bool last) {
    trine_dtype type = s->config.dev->grads;
    trine_group over = axes_group(range->sharded);
    size_t slice = range->count / (size_t)axes_size(s->config.layout, range->sharded);
    uint64_t sum = state_bytes(s, over, TRINE_TALLY_REDUCE_SCATTER, range->count, type);
    if (last && replicated(range))
        sum += state_bytes(s, axes_group(replicated(range)), TRINE_TALLY_ALL_REDUCE, slice, type);
    if (last && all) sum += state_bytes(s, over, TRINE_TALLY_ALL_GATHER, range->count, type);
    return sum;
}

static uint64_t reduce_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = state_unit(s, i->unit);
    bool all = spec_zero(p->spec)->grads == REPLICATE, last = i->micro == p->spec->micros - 1;
    uint64_t sum = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++)
        if (state_trains(u, r))
            sum += adds_onto(p->spec) ? onto_bytes(s, state_range(u, r), all, last)
                                      : range_bytes(s, state_range(u, r), all);
    return sum;
}

const instr_part part_REDUCE = {.pass = insert_reduces,
                                .check = check_reduce,
                                .prove = prove_reduce,
                                .run = run_reduce,
                                .bytes = reduce_bytes};
