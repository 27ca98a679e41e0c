#include "plan/bound_parts.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "comm/api/axes.h"
#include "pp/order.h"
#include "trine.h"

int bound_micros(const trine_config *c) {
    return c->global_batch_size / c->micro_batch_size /
           axes_size(c->parallel.layout, axes_of_samples());
}

static bool splits(const trine_config *c) {
    return c->parallel.split_backward || pp_schedule_of(c->parallel.schedule)->splits;
}

/* ---- Units ------------------------------------------------------------------------------------- */

void unit_bounds_key(const trine_config *c, int key[BOUND_KEY]) {
    const trine_parallel *p = &c->parallel;
    const int own[BOUND_KEY] = {p->layout.tp,         c->micro_batch_size, (int)p->recompute,
                                p->sequence_parallel, splits(c),           bound_micros(c) > 1};
    memcpy(key, own, sizeof own);
}

/* With the first micro-batch or a later one. */
static double pass_seconds(pricing *w, int unit, instr_kind kind, bool keeps) {
    double least = INFINITY;
    for (int adds = 0; adds < (kind == FORWARD ? 1 : 2); adds++) {
        const unit_seconds *s = price_pass(w, unit, (unit_pass){kind, adds, keeps});
        least = fmin(least, s->compute + s->memory + s->tp);
    }
    return least;
}

static void price_units(unit_bounds *out, bool split) {
    const int units[UNIT_KINDS] = {[UNIT_BLOCK] = 1, [UNIT_HEAD] = (int)out->prices.shape.L + 1};
    for (int k = 0; k < UNIT_KINDS; k++) {
        instr_kind backward = !split                ? BACKWARD
                              : k == UNIT_EMBEDDING ? BACKWARD_WEIGHT
                              : k == UNIT_BLOCK     ? BACKWARD_INPUT
                                                    : BACKWARD;
        bool keeps = backward == BACKWARD_INPUT;
        out->forward[k] = pass_seconds(&out->prices, units[k], FORWARD, false);
        out->input[k] = pass_seconds(&out->prices, units[k], backward, keeps);
        /* The embedding of adapters is frozen; the first block, whose prices these are, has the shortest way back. */
        if (k == UNIT_EMBEDDING && out->prices.shape.freezes) out->input[k] = 0;
        if (keeps) out->weight[k] = pass_seconds(&out->prices, units[k], BACKWARD_WEIGHT, true);
    }
}

static void declare(arena *a, const device *dev) {
    arena_init(a, NULL, 0);
    if (!dev->memory->host) arena_device(a, (arena_region){0}, (arena_region){0});
}

static void measure_units(unit_bounds *out, const gpt_shape *s, const device *dev) {
    gpt_scratch scratch;
    arena a;
    for (int set = 1; set < 1 << UNIT_KINDS; set++) {
        bool has[UNIT_KINDS];
        for (int k = 0; k < UNIT_KINDS; k++) has[k] = set >> k & 1;
        declare(&a, dev);
        gpt_scratch_take(&a, s, dev, has, &scratch);
        out->scratch[set] = (double)a.used;
    }
    const int units[UNIT_KINDS] = {[UNIT_BLOCK] = 1, [UNIT_HEAD] = (int)s->L + 1};
    for (int k = 0; k < UNIT_KINDS; k++) {
        gpt_acts acts;
        declare(&a, dev);
        gpt_acts_take(&a, s, dev, units[k], &scratch, &acts);
        out->acts[k] = (double)a.used;
    }
    gpt_keep keep;
    declare(&a, dev);
    gpt_keep_take(&a, s, dev, false, &keep);
    out->keep = (double)a.used;
    out->stream = (double)(gpt_rows(s).count * s->C * trine_dtype_bytes(s->compute));
    out->batch = 2.0 * (double)(s->B * s->T * sizeof(int32_t));
}

trine_status unit_bounds_make(unit_bounds *out, const forecast_rules *rules, const trine_config *c,
                              int ranks, const device *dev) {
    out->prices = pricing_of(rules, c, ranks, dev, bound_micros(c));
    gpt_shape shape = resolve_shape(c, dev, 0);
    price_units(out, splits(c));
    measure_units(out, &shape, dev);
    return out->prices.status;
}

/* ---- State ------------------------------------------------------------------------------------- */

void state_bounds_key(const trine_config *c, const step_order *o, int key[BOUND_KEY]) {
    const trine_parallel *p = &c->parallel;
    int last = spec_chunks(&o->spec) - 1;
    bool local = o->chunks[0].stage == o->chunks[last].stage;
    const int own[BOUND_KEY] = {p->layout.tp,         p->layout.dp, (int)p->zero,
                                p->sequence_parallel, local,        p->layout.pp};
    memcpy(key, own, sizeof own);
}

/* Parameters, gradients and optimizer of a unit. */
static double unit_bytes(const rank_state *h, const held_unit *u) {
    const zero_row *z = spec_zero(h->config.spec);
    double rest = state_has_master(h) ? 12 : 8, sum = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++) {
        double all = (double)state_range(u, r)->count, slice = (double)state_slice(h, u, r).count;
        bool whole = z->full_grads || z->grads != SHARD, trains = state_trains(u, r);
        if (trains) sum += (double)state_grad_bytes(h) * (whole ? all : slice);
        if (state_borrowed(u, r)) continue;
        sum += (double)state_param_bytes(h) * (z->params == SHARD ? slice : all);
        if (trains) sum += rest * (z->optimizer == SHARD ? slice : all);
    }
    return sum;
}

/* Of a unit of a stage that has one of its kind. */
static trine_status bound_unit(state_bounds *out, const pricing *w, const rank_state *h,
                               const program *p, const held_unit *u) {
    const zero_row *z = spec_zero(p->spec);
    int unit = u->unit;
    instr reduce = program_instr(REDUCE, unit, p->spec->micros - 1);
    instr sum = program_instr(REDUCE_TP, unit, -1), gather = program_instr(GATHER, unit, -1);
    bool alone = spec_gather_unit(p->spec, unit) == unit;
    size_t gathered = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++)
        if (!state_borrowed(u, r)) gathered += state_range(u, r)->count;
    out->bytes[unit] = unit_bytes(h, u);
    out->gather_bytes[unit] = (double)(gathered * state_param_bytes(h));
    out->reduce_bytes[unit] = (double)(flat_unit_trained(&u->layout) * state_grad_bytes(h));
    if (!p->spec->parallel.exact) out->reduce[unit] = price_communication(w, h, p, &reduce);
    if (p->spec->tp_partial) out->reduce_tp[unit] = price_communication(w, h, p, &sum);
    if (z->gather != GATHER_NEVER && alone)
        out->gather[unit] = price_communication(w, h, p, &gather);
    return price_optimizer(w, h, true, price_elements(h, u), &out->update[unit]);
}

static trine_status bound_stage(state_bounds *out, const pricing *w, const trine_config *small,
                                const program *stages, int stage) {
    gpt_shape shape = resolve_shape(small, w->dev, 0);
    state_config config = resolve_state(small, stages, &shape, w->dev, (trine_coord){.pp = stage});
    const program *p = &stages[stage];
    rank_state h;
    TRY(state_create(&h, &config));
    trine_status status = TRINE_OK;
    for (int n = 0; n < h.count && status == TRINE_OK; n++)
        status = bound_unit(out, w, &h, p, &h.units[n]);
    instr tie = program_instr(TIE, -1, -1);
    if (spec_tied_unit(p->spec, stage) >= 0) out->tie = price_communication(w, &h, p, &tie);
    state_destroy(&h);
    return status;
}

/* The units are those of a model with one block: an embedding, a block and a head, on one stage if the two ends are, else
 * on one each. */
trine_status state_bounds_make(state_bounds *out, const forecast_rules *rules,
                               const trine_config *c, int ranks, const device *dev) {
    trine_config small = *c;
    trine_parallel *p = &small.parallel;
    program_spec spec;
    program stages[UNIT_KINDS];
    pricing w = pricing_of(rules, c, ranks, dev, bound_micros(c));
    small.model.num_layers = 1;
    p->layout.pp = out->key[4] ? 1 : UNIT_KINDS;
    p->schedule = TRINE_1F1B;
    p->virtual_stages = 0;
    p->schedule_file = p->pp_split = NULL;
    TRY(resolve_spec(&small, &spec));
    const zero_row *z = spec_zero(&spec);
    out->once = z->full_grads;
    out->gathers_first = z->gather == GATHER_BEFORE_USE;
    out->gathers_last = z->gather == GATHER_AFTER_UPDATE;
    out->buffers = p->gather_buffers;
    out->reduces = spec.parallel.reduce_buffers ? spec.parallel.reduce_buffers : 1;
    for (int n = 0; n < spec.stages; n++) program_create(&stages[n], &spec, n);
    for (int n = 0; n < spec.stages; n++) TRY(bound_stage(out, &w, &small, stages, n));
    return TRINE_OK;
}

/* ---- Orders ------------------------------------------------------------------------------------ */

static bool follows(const trine_config *c) {
    const trine_parallel *p = &c->parallel;
    return splits(c) && p->recompute == TRINE_RECOMPUTE_FULL && !p->keep_recomputed;
}

void order_bounds_key(const trine_config *c, int key[BOUND_KEY]) {
    const trine_parallel *p = &c->parallel;
    const int own[BOUND_KEY] = {p->layout.pp,    p->virtual_stages, (int)p->schedule,
                                bound_micros(c), follows(c),        p->exact};
    memcpy(key, own, sizeof own);
}

trine_status order_bounds_make(order_bounds *out, const trine_config *c, const order_bounds *like) {
    program_spec spec;
    if (!like || c->parallel.exact || c->parallel.schedule_file) {
        TRY(resolve_spec(c, &spec));
    } else {
        spec = like->order.spec;
        spec.micros = bound_micros(c);
        spec.weight_follows = follows(c);
    }
    return step_order_create(&out->order, &spec);
}
