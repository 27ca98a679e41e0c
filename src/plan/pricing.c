#include "plan/pricing.h"

#include <string.h>

#include "base/status.h"
#include "trine.h"

/* ---- Units ------------------------------------------------------------------------------------ */

static int pass_index(instr_kind kind) {
    return kind == FORWARD ? 0 : kind == BACKWARD ? 1 : kind == BACKWARD_INPUT ? 2 : 3;
}

/* Whether the same tensors of two blocks are frozen. */
static bool alike(const pricing *w, int a, int b) {
    flat_unit of_a, of_b;
    gpt_unit_layout(&w->shape, a, 1, &of_a);
    gpt_unit_layout(&w->shape, b, 1, &of_b);
    return !memcmp(of_a.order, of_b.order, sizeof of_a.order);
}

/* The row of the unit's prices. If there are too many the last is made anew. */
static int row_of(pricing *w, int unit) {
    unit_kind kind = gpt_unit_kind(&w->shape, unit);
    int n = 0;
    if (kind != UNIT_BLOCK || !w->shape.freezes) return (int)kind;
    while (n < w->block_count && !alike(w, w->blocks[n], unit)) n++;
    if (n < w->block_count) return UNIT_KINDS + n;
    if (n == PRICE_BLOCKS) n--;
    w->blocks[n] = unit;
    w->block_count = n + 1;
    memset(w->units[UNIT_KINDS + n], 0, sizeof w->units[UNIT_KINDS + n]);
    return UNIT_KINDS + n;
}

const unit_seconds *price_pass(pricing *w, int unit, unit_pass pass) {
    price *at = &w->units[row_of(w, unit)][pass_index(pass.kind)][pass.adds + 2 * pass.keeps];
    if (at->known) return &at->seconds;
    trine_status status = unit_cost(&w->rules, &w->shape, w->dev, unit, pass, &at->seconds);
    if (w->status == TRINE_OK) w->status = status;
    at->known = true;
    return &at->seconds;
}

/* ---- The optimizer ---------------------------------------------------------------------------- */

size_t price_elements(const rank_state *h, const held_unit *u) {
    size_t count = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++)
        if (!state_borrowed(u, r) && state_trains(u, r)) count += state_owned(h, u, r).count;
    return count;
}

static trine_status run_optimizer(device *d, bool update, size_t n, bool copies) {
    static const adamw_args args;
    static float numbers[1];
    static double sums[1];
    if (!update) return ops_sum_squares(d, sums, numbers, n);
    return ops_adamw(d, numbers, numbers, numbers, copies ? numbers : NULL, numbers, n, &args);
}

trine_status price_optimizer(const pricing *w, const rank_state *h, bool update, size_t n,
                             double *seconds) {
    count_trace t = {.tp = 1};
    count_device d;
    count_device_init(&d, w->dev, &t);
    trine_status status = n ? run_optimizer(&d.device, update, n, state_has_master(h)) : TRINE_OK;
    unit_seconds sum = trace_cost(&w->rules, &t, w->shape.compute);
    *seconds = cost_has(&w->rules.machine, COST_UPDATE) ? sum.memory : 0;
    count_trace_destroy(&t);
    return status;
}

/* ---- Communication ---------------------------------------------------------------------------- */

static group_place place_along(const trine_config *c, int ranks, trine_axis axis) {
    trine_layout l = c->parallel.layout;
    trine_coord next = {0};
    next.at[axis] = 1;
    int size = axis_size(l, axis);
    return (group_place){size, size > 1 ? trine_layout_rank(l, next) : 1, ranks};
}

double price_message(const pricing *w, double bytes) {
    const machine_cost *m = &w->rules.machine;
    group_place pp = place_along(w->config, w->ranks, TRINE_AXIS_PP);
    int tp = w->rules.tp.size;
    bool shared = gpt_splits_rows(&w->shape); /* each tp rank has its own rows */
    if (!cost_has(m, COST_MESSAGES)) return 0;
    if (!w->rules.by->scatters || tp == 1 || shared) return op_message(m, pp, bytes);
    return op_message(m, pp, bytes / tp) +
           op_collective(m, w->rules.tp, TRINE_TALLY_ALL_GATHER, bytes / tp * (tp - 1));
}

static double collective_time(const pricing *w, const program *p, const instr *i, double bytes) {
    const machine_cost *m = &w->rules.machine;
    trine_axis axis = i->kind == REDUCE_TP ? TRINE_AXIS_TP
                      : i->kind == TIE     ? TRINE_AXIS_PP
                                           : TRINE_AXIS_DP;
    group_place at = place_along(w->config, w->ranks, axis);
    bool all_reduce = i->kind != GATHER && spec_zero(p->spec)->grads != SHARD;
    trine_tally_kind kind = all_reduce          ? TRINE_TALLY_ALL_REDUCE
                            : i->kind == GATHER ? TRINE_TALLY_ALL_GATHER
                                                : TRINE_TALLY_REDUCE_SCATTER;
    if (!cost_has(m, COST_DP)) return 0;
    if (i->kind == TIE) at.stride *= at.size - 1, at.size = 2;
    return op_collective(m, at, kind, bytes);
}

double price_communication(const pricing *w, const rank_state *h, const program *p,
                           const instr *i) {
    const instr_part *part = run_part_of((instr_kind)i->kind);
    double bytes = part->bytes ? (double)part->bytes(h, p, i) : 0;
    if (instr_is_message((instr_kind)i->kind)) return price_message(w, bytes);
    return bytes > 0 ? collective_time(w, p, i, bytes) : 0;
}

/* ---- All together ------------------------------------------------------------------------------ */

bool forecast_late(const forecast_rules *rules, int stages) {
    return stages > 1 ? rules->by->late : rules->by->late_alone;
}

pricing pricing_of(const forecast_rules *rules, const trine_config *config, int ranks,
                   const device *dev, int micros) {
    pricing w = {
        .config = config,
        .ranks = ranks,
        .dev = dev,
        .rules = {.machine = {rules->machine, rules->without, ranks, config->parallel.threads},
                  .by = rules->by,
                  .tp = place_along(config, ranks, TRINE_AXIS_TP),
                  .recompute = config->parallel.recompute,
                  .adds_apart = rules->by->add_bytes > 0 && micros > 1}};
    gpt_shape shape = resolve_shape(config, dev, 0);
    w.shape = cost_shape(&w.rules, &shape);
    return w;
}
