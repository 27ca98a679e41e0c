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

/* ---- Running ---------------------------------------------------------------------------------- */

/* PARTIAL -> the placement at rest. Full gradients are reduced where they lie; those in a buffer
 * end in their own slice of it, which is then added to the shard. */
static trine_status reduce_range(step_run *r, held_unit *u, int range, void *base, bool first) {
    const rank_state *s = r->state;
    trine_comm *dp = step_group(r, TRINE_DP);
    trine_dtype type = r->dev->grads;
    const zero_row *zero = zero_stage(s->config.spec->zero);
    size_t count = u->layout.ranges[range].count;
    if (zero->grads == REPLICATE)
        return flat_redistribute(dp, PARTIAL, REPLICATE, base, base, count, type);
    flat_part slice = state_slice(s, u, range);
    void *own = (char *)base + slice.begin * state_grad_bytes(s);
    TRY(flat_redistribute(dp, PARTIAL, SHARD, own, base, count, type));
    if (zero->full_grads) return TRINE_OK;
    void *shard = state_grad(s, u, range, slice);
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

/* ZeRO-0 takes the sum to everybody: a reduce-scatter and an all-gather. */
uint64_t dp_reduce_bytes(const rank_state *s, const program *p, const instr *i) {
    const held_unit *u = state_unit(s, i->unit);
    bool all = zero_stage(p->spec->zero)->grads == REPLICATE;
    trine_dtype type = s->config.dev->grads;
    uint64_t bytes = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        size_t count = u->layout.ranges[r].count;
        bytes += state_bytes(s, TRINE_DP, TRINE_TALLY_REDUCE_SCATTER, count, type);
        if (all) bytes += state_bytes(s, TRINE_DP, TRINE_TALLY_ALL_GATHER, count, type);
    }
    return bytes;
}
