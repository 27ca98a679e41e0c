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
    int next[CLASSES] = {0};
    for (int n = 0; n < p->count; n++) {
        instr i = p->code[n];
        bool makes = makes_grads(&i);
        if (makes && every) {
            unit_class c = spec_class(p->spec, i.unit);
            i.reduce = next[c]++ % p->reduces[c];
        }
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
    for (int c = 0; c < CLASSES && every_micro_batch(p->spec); c++) {
        int all = spec_units_of(p->spec, p->stage, (unit_class)c) * p->spec->micros;
        int asked = p->spec->reduce_buffers ? p->spec->reduce_buffers : 1;
        p->reduces[c] = asked < all ? asked : all;
    }
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

/* What a rank gets of a range: all of it, or its slice. */
static flat_part result_of(const rank_state *s, const held_unit *u, int n) {
    if (zero_stage(s->config.spec->zero)->grads == SHARD) return state_slice(s, u, n);
    return (flat_part){0, u->layout.ranges[n].count};
}

/* PARTIAL -> the placement at rest, in place: of full gradients, or within a reduce buffer. */
static trine_status start_range(step_run *r, const held_unit *u, int n, char *base,
                                comm_request *request) {
    const rank_state *s = r->state;
    const flat_range *range = &u->layout.ranges[n];
    void *own = base + result_of(s, u, n).begin * state_grad_bytes(s);
    return flat_reduce_start(step_axes(r, range->sharded), zero_stage(s->config.spec->zero)->grads,
                             own, base, range->count, r->dev->grads, request);
}

/* The slice of a reduce buffer is added to the shard. */
static trine_status finish_range(step_run *r, const held_unit *u, int n, char *base, bool first) {
    const rank_state *s = r->state;
    flat_part part = result_of(s, u, n);
    void *own = base + part.begin * state_grad_bytes(s);
    TRY(sum_replicas(r, &u->layout.ranges[n], own, part.count));
    if (zero_stage(s->config.spec->zero)->full_grads) return TRINE_OK;
    void *shard = state_grad(s, u, n, part);
    if (!first) return r->dev->ops->add(r->dev, shard, own, part.count);
    device_copy(r->dev, shard, own, part.count * state_grad_bytes(s));
    return TRINE_OK;
}

static trine_status finish_reduce(step_run *r, const instr *i) {
    const held_unit *u = state_unit(r->state, i->unit);
    void *base[FLAT_RANGES];
    state_grad_bases(r->state, u, i->reduce, base);
    for (int n = 0; n < u->layout.range_count; n++)
        TRY(finish_range(r, u, n, base[n], i->micro == 0));
    return TRINE_OK;
}

trine_status dp_run_reduce(step_run *r, const instr *i) {
    const held_unit *u = state_unit(r->state, i->unit);
    step_reduction *started = step_reduce(r, i, finish_reduce);
    void *base[FLAT_RANGES];
    bool alone = true;
    state_grad_bases(r->state, u, i->reduce, base);
    for (int n = 0; n < u->layout.range_count; n++) {
        TRY(start_range(r, u, n, base[n], &started->requests[n]));
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
    uint64_t bytes = state_bytes(s, over, kind, range->count, type);
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
