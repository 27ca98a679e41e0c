#include "base/status.h"
#include "dp/dp.h"

static bool every_micro_batch(const program_spec *s) {
    return !zero_stage(s->zero)->full_grads;
}

/* Whether the instruction completes the gradients of its unit's parameters from one micro-batch. */
static bool makes_grads(const instr *i) {
    return i->kind == BACKWARD || i->kind == BACKWARD_WEIGHT;
}

static trine_status reduce(const program *p, program *out) {
    bool every = every_micro_batch(p->spec);
    for (int n = 0; n < p->count; n++) {
        instr i = p->code[n];
        bool makes = makes_grads(&i);
        if (makes && every) i.reduce = 0;
        TRY(program_append(out, i));
        if (!makes || !(every || i.micro == p->spec->micros - 1)) continue;
        instr sum = program_instr(REDUCE, i.unit, i.micro);
        sum.reduce = i.reduce;
        TRY(program_append(out, sum));
    }
    return TRINE_OK;
}

trine_status dp_reduce(program *p) {
    if (p->spec->forward_only) return TRINE_OK;
    for (int c = 0; c < CLASSES; c++)
        p->reduces[c] =
            every_micro_batch(p->spec) && spec_units_of(p->spec, p->stage, (unit_class)c) > 0;
    return program_rewrite(p, reduce);
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

/* PARTIAL -> the placement at rest. Full gradients are reduced in place; those in a reduce buffer are reduced to
 * this rank's slice of it, which is then added to the shard. */
static trine_status reduce_range(step_run *r, held_unit *u, int n, void *base, bool first) {
    const rank_state *s = r->state;
    const flat_range *range = &u->layout.ranges[n];
    trine_comm *over = step_axes(r, range->sharded);
    trine_dtype type = r->dev->grads;
    const zero_row *zero = zero_stage(s->config.spec->zero);
    if (zero->grads == REPLICATE) {
        TRY(flat_redistribute(over, PARTIAL, REPLICATE, base, base, range->count, type));
        return sum_replicas(r, range, base, range->count);
    }
    flat_part slice = state_slice(s, u, n);
    void *own = (char *)base + slice.begin * state_grad_bytes(s);
    TRY(flat_redistribute(over, PARTIAL, SHARD, own, base, range->count, type));
    TRY(sum_replicas(r, range, own, slice.count));
    if (zero->full_grads) return TRINE_OK;
    void *shard = state_grad(s, u, n, slice);
    if (!first) return r->dev->ops->add(r->dev, shard, own, slice.count);
    device_copy(r->dev, shard, own, slice.count * state_grad_bytes(s));
    return TRINE_OK;
}

trine_status dp_run_reduce(step_run *r, const instr *i) {
    held_unit *u = state_unit(r->state, i->unit);
    void *base[FLAT_RANGES];
    state_grad_bases(r->state, u, i->reduce, base);
    for (int n = 0; n < u->layout.range_count; n++)
        TRY(reduce_range(r, u, n, base[n], i->micro == 0));
    return TRINE_OK;
}

/* all: ZeRO-0, where every rank gets the sum: a reduce-scatter and an all-gather. */
static uint64_t range_bytes(const rank_state *s, const flat_range *range, bool all) {
    trine_dtype type = s->config.dev->grads;
    trine_group over = axes_group(range->sharded);
    size_t slices = (size_t)axes_size(s->config.layout, range->sharded);
    uint64_t bytes = state_bytes(s, over, TRINE_TALLY_REDUCE_SCATTER, range->count, type);
    if (all) bytes += state_bytes(s, over, TRINE_TALLY_ALL_GATHER, range->count, type);
    if (replicated(range))
        bytes += state_bytes(s, axes_group(replicated(range)), TRINE_TALLY_ALL_REDUCE,
                             all ? range->count : range->count / slices, type);
    return bytes;
}

uint64_t dp_reduce_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = state_unit(s, i->unit);
    bool all = zero_stage(p->spec->zero)->grads == REPLICATE;
    uint64_t bytes = 0;
    for (int r = 0; r < u->layout.range_count; r++)
        bytes += range_bytes(s, &u->layout.ranges[r], all);
    return bytes;
}
