#include "plan/forecast.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

const char *forecast_text(forecast_part part) {
    static const char *const texts[] = {
#define TEXT(name, text) [name] = text,
        FORECAST_LIST(TEXT)
#undef TEXT
    };
    return texts[part];
}

enum {
    PASSES = 4,
    WAYS = 4
}; /* kinds of passes of a unit; with or without adding, and with a keep buffer */

typedef struct {
    bool known;
    unit_seconds seconds;
} price;

/* The prices of a step. */
typedef struct {
    const rehearsal *r;
    cost_rules rules;
    gpt_shape shape;
    const program *programs; /* of all stages */
    const forecast_listener *listener;
    rank_state *states; /* (stages): sizes only */
    int stated;         /* of them exist */
    price units[UNIT_KINDS][PASSES][WAYS];
    double *updates;     /* (units) seconds of UPDATE; of NORM's squares behind: (stages) */
    trine_status status; /* of a price that could not be made */
} pricing;

/* ---- Units ------------------------------------------------------------------------------------ */

static int pass_index(int kind) {
    return kind == FORWARD ? 0 : kind == BACKWARD ? 1 : kind == BACKWARD_INPUT ? 2 : 3;
}

static const unit_seconds *unit_price(pricing *w, const program *p, const instr *i) {
    unit_kind kind = gpt_unit_kind(&w->shape, i->unit);
    unit_pass pass = {.kind = (instr_kind)i->kind,
                      .adds = i->kind != FORWARD && !spec_begins_lane(p->spec, i->micro),
                      .keeps = i->keep >= 0};
    price *at = &w->units[kind][pass_index(i->kind)][pass.adds + 2 * pass.keeps];
    if (at->known) return &at->seconds;
    trine_status status = unit_cost(&w->rules, &w->shape, w->r->dev, i->unit, pass, &at->seconds);
    if (w->status == TRINE_OK) w->status = status;
    at->known = true;
    return &at->seconds;
}

/* ---- The optimizer ---------------------------------------------------------------------------- */

/* Elements of a unit that a rank updates. */
static size_t owned(const rank_state *h, const held_unit *u) {
    size_t count = 0;
    for (int r = 0; r < flat_ranges(&u->layout); r++)
        if (!state_borrowed(u, r)) count += state_owned(h, u, r).count;
    return count;
}

static trine_status run_optimizer(device *d, bool update, size_t n, bool copies) {
    static const adamw_args args;
    static float numbers[1];
    static double sums[1];
    if (!update) return ops_sum_squares(d, sums, numbers, n);
    return ops_adamw(d, numbers, numbers, numbers, copies ? numbers : NULL, numbers, n, &args);
}

/* Seconds of AdamW, or of the norm's squares, over n elements. */
static trine_status optimizer_price(pricing *w, const rank_state *h, bool update, size_t n,
                                    double *seconds) {
    count_trace t = {.tp = 1};
    count_device d;
    count_device_init(&d, w->r->dev, &t);
    trine_status status = n ? run_optimizer(&d.device, update, n, state_has_master(h)) : TRINE_OK;
    unit_seconds sum = trace_cost(&w->rules, &t, w->shape.compute);
    *seconds = cost_has(&w->rules.machine, COST_UPDATE) ? sum.memory : 0;
    count_trace_destroy(&t);
    return status;
}

static trine_status price_stage(pricing *w, int stage) {
    rank_state *h = &w->states[stage];
    state_config config =
        resolve_state(&w->r->config, w->programs, &w->shape, w->r->dev, (trine_coord){.pp = stage});
    size_t all = 0;
    TRY(state_create(h, &config));
    w->stated++;
    for (int n = 0; n < h->count; n++) {
        size_t count = owned(h, &h->units[n]);
        all += count;
        TRY(optimizer_price(w, h, true, count, &w->updates[h->units[n].unit]));
    }
    return optimizer_price(w, h, false, all, &w->updates[w->r->spec.units + stage]);
}

/* ---- Communication ---------------------------------------------------------------------------- */

static group_place place_along(const trine_config *c, int ranks, trine_axis axis) {
    trine_layout l = c->parallel.layout;
    trine_coord next = {0};
    next.at[axis] = 1;
    int size = axis_size(l, axis);
    return (group_place){size, size > 1 ? trine_layout_rank(l, next) : 1, ranks};
}

/* A message: all of a stream, or the share of a tp rank, which the receiving node then gathers. */
static double message_time(const pricing *w, double bytes) {
    const machine_cost *m = &w->rules.machine;
    group_place pp = place_along(&w->r->config, w->r->ranks, TRINE_AXIS_PP);
    int tp = w->rules.tp.size;
    bool shared = gpt_splits_rows(&w->shape); /* each tp rank has its own rows */
    if (!cost_has(m, COST_MESSAGES)) return 0;
    if (!w->rules.by->scatters || tp == 1 || shared) return op_message(m, pp, bytes);
    return op_message(m, pp, bytes / tp) + op_collective(m, w->rules.tp, bytes / tp * (tp - 1), 1);
}

static double collective_time(const pricing *w, const instr *i, double bytes) {
    const machine_cost *m = &w->rules.machine;
    trine_axis axis = i->kind == REDUCE_TP ? TRINE_AXIS_TP
                      : i->kind == TIE     ? TRINE_AXIS_PP
                                           : TRINE_AXIS_DP;
    group_place at = place_along(&w->r->config, w->r->ranks, axis);
    bool all_reduce = i->kind != GATHER && spec_zero(&w->r->spec)->grads != SHARD;
    if (!cost_has(m, COST_DP)) return 0;
    if (i->kind == TIE) at.stride *= at.size - 1, at.size = 2;
    return op_collective(m, at, bytes, all_reduce ? 2 : 1);
}

static double communication_time(const void *context, const program *p, const instr *i) {
    const pricing *w = context;
    const instr_part *part = run_part_of((instr_kind)i->kind);
    double bytes = part->bytes ? (double)part->bytes(&w->states[p->stage], p, i) : 0;
    if (instr_is_message((instr_kind)i->kind)) return message_time(w, bytes);
    return bytes > 0 ? collective_time(w, i, bytes) : 0;
}

/* ---- A step ----------------------------------------------------------------------------------- */

static double stage_time(const void *context, const program *p, const instr *i) {
    pricing *w = (pricing *)context; /* which keeps prices */
    if (i->kind == UPDATE) return w->updates[i->unit];
    if (i->kind == NORM) return w->updates[w->r->spec.units + p->stage];
    if (!instr_computes((instr_kind)i->kind)) return 0;
    const unit_seconds *s = unit_price(w, p, i);
    return s->compute + s->memory + s->tp;
}

/* The parts of what a stage computes. */
static void add_busy(pricing *w, const program *p, double parts[FORECAST_PARTS]) {
    for (int n = 0; n < p->count; n++) {
        const instr *i = &p->code[n];
        if (!instr_computes((instr_kind)i->kind)) {
            parts[FORECAST_UPDATE] += stage_time(w, p, i);
            continue;
        }
        const unit_seconds *s = unit_price(w, p, i);
        parts[FORECAST_COMPUTE] += s->compute;
        parts[FORECAST_MEMORY] += s->memory;
        parts[FORECAST_TP] += s->tp;
    }
}

static trine_status create(forecast *f, int stages) {
    *f = (forecast){.stages = stages, .stage = calloc((size_t)stages, sizeof *f->stage)};
    CHECK(f->stage, TRINE_ENOMEM, "no memory to forecast %d stages", stages);
    return TRINE_OK;
}

static trine_status simulate(pricing *w, forecast *f) {
    const implementation *by = w->rules.by;
    int stages = w->programs->spec->stages;
    bool late = stages > 1 ? by->late : by->late_alone;
    pp_durations durations = {communication_time, by->blocks, late};
    pp_times t;
    TRY(pp_simulate(w->programs, stage_time, &durations, w, &t));
    f->step = t.step;
    for (int p = 0; p < stages; p++) {
        add_busy(w, &w->programs[p], f->stage[p]);
        f->stage[p][FORECAST_WAITING] = t.waits[p][PP_WAITS_PEER];
        f->stage[p][FORECAST_MESSAGES] = t.waits[p][PP_WAITS_MESSAGE];
        f->stage[p][FORECAST_DP] = t.waits[p][PP_WAITS_COLLECTIVE];
    }
    const forecast_listener *l = w->listener;
    if (l && w->status == TRINE_OK) l->on_times(l->to, w->programs, &t, stage_time, w);
    pp_times_destroy(&t);
    return w->status;
}

static trine_status price_and_simulate(pricing *w, forecast *f) {
    int stages = w->programs->spec->stages;
    size_t units = (size_t)w->programs->spec->units;
    w->states = calloc((size_t)stages, sizeof *w->states);
    w->updates = calloc(units + (size_t)stages, sizeof *w->updates);
    CHECK(w->states && w->updates, TRINE_ENOMEM, "no memory to forecast %d stages", stages);
    for (int p = 0; p < stages; p++) TRY(price_stage(w, p));
    return simulate(w, f);
}

/* Of these programs. */
static trine_status forecast_programs(const rehearsal *r, const forecast_rules *rules,
                                      const program *programs, const forecast_listener *listener,
                                      forecast *f) {
    pricing w = {.r = r,
                 .listener = listener,
                 .programs = programs,
                 .rules = {.machine = {rules->machine, rules->without},
                           .by = rules->by,
                           .tp = place_along(&r->config, r->ranks, TRINE_AXIS_TP),
                           .recompute = r->config.parallel.recompute,
                           .adds_apart = rules->by->add_bytes > 0 && r->spec.micros > 1}};
    gpt_shape shape = resolve_shape(&r->config, r->dev, 0);
    w.shape = cost_shape(&w.rules, &shape);
    TRY(create(f, programs->spec->stages));
    trine_status status = price_and_simulate(&w, f);
    for (int p = 0; p < w.stated; p++) state_destroy(&w.states[p]);
    free(w.states);
    free(w.updates);
    if (status != TRINE_OK) forecast_destroy(f);
    return status;
}

/* What grows by `each` a period, after the first step. */
static void continue_steady(forecast *f, const forecast *longer, double periods) {
    f->step += (longer->step - f->step) * periods;
    for (int p = 0; p < f->stages; p++)
        for (int k = 0; k < FORECAST_PARTS; k++)
            f->stage[p][k] += (longer->stage[p][k] - f->stage[p][k]) * periods;
}

/* Without the bubble: the stage that is busy longest. */
static void drop_waiting(forecast *f) {
    double longest = 0;
    for (int p = 0; p < f->stages; p++)
        longest = fmax(longest, f->step - f->stage[p][FORECAST_WAITING]);
    for (int p = 0; p < f->stages; p++) f->stage[p][FORECAST_WAITING] -= f->step - longest;
    f->step = longest;
}

trine_status forecast_step(const rehearsal *r, const forecast_rules *rules, forecast *out) {
    return forecast_times(r, rules, NULL, out);
}

trine_status forecast_times(const rehearsal *r, const forecast_rules *rules,
                            const forecast_listener *listener, forecast *out) {
    forecast longer;
    const program *first = r->is_steady ? r->steady.steps[0] : r->stages;
    TRY(forecast_programs(r, rules, first, r->is_steady ? NULL : listener, out));
    if (r->is_steady) {
        trine_status status = forecast_programs(r, rules, r->steady.steps[1], NULL, &longer);
        if (status != TRINE_OK) forecast_destroy(out);
        TRY(status);
        continue_steady(out, &longer, (double)r->steady.periods);
        forecast_destroy(&longer);
    }
    if (rules->without >> COST_BUBBLE & 1) drop_waiting(out);
    return TRINE_OK;
}

void forecast_destroy(forecast *f) {
    free(f->stage);
    *f = (forecast){0};
}
