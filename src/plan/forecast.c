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

/* The prices of a step. */
typedef struct {
    const rehearsal *r;
    const forecast_rules *rules;
    pricing prices;
    const program *programs; /* of all stages */
    const forecast_listener *listener;
    rank_state *states; /* (stages): sizes only */
    int stated;         /* of them exist */
    double *updates;    /* (units) seconds of UPDATE; of NORM's squares behind: (stages) */
} step_prices;

static const unit_seconds *unit_price(step_prices *w, const program *p, const instr *i) {
    unit_pass pass = {.kind = (instr_kind)i->kind,
                      .adds = i->kind != FORWARD && !spec_begins_lane(p->spec, i->micro),
                      .keeps = i->keep >= 0};
    return price_pass(&w->prices, i->unit, pass);
}

static trine_status price_stage(step_prices *w, int stage) {
    rank_state *h = &w->states[stage];
    state_config config = resolve_state(&w->r->config, w->programs, &w->prices.shape, w->r->dev,
                                        (trine_coord){.pp = stage});
    size_t all = 0;
    TRY(state_create(h, &config));
    w->stated++;
    for (int n = 0; n < h->count; n++) {
        size_t count = price_elements(h, &h->units[n]);
        all += count;
        TRY(price_optimizer(&w->prices, h, true, count, &w->updates[h->units[n].unit]));
    }
    return price_optimizer(&w->prices, h, false, all, &w->updates[w->r->spec.units + stage]);
}

static double communication_time(const void *context, const program *p, const instr *i) {
    const step_prices *w = context;
    return price_communication(&w->prices, &w->states[p->stage], p, i);
}

/* ---- A step ----------------------------------------------------------------------------------- */

static double stage_time(const void *context, const program *p, const instr *i) {
    step_prices *w = (step_prices *)context; /* which keeps prices */
    if (i->kind == UPDATE) return w->updates[i->unit];
    if (i->kind == NORM) return w->updates[w->r->spec.units + p->stage];
    if (!instr_computes((instr_kind)i->kind)) return 0;
    const unit_seconds *s = unit_price(w, p, i);
    return s->compute + s->memory + s->tp;
}

/* The parts of what a stage computes. */
static void add_busy(step_prices *w, const program *p, double parts[FORECAST_PARTS]) {
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

static trine_status simulate(step_prices *w, forecast *f) {
    int stages = w->programs->spec->stages;
    bool occupies = w->rules->machine->host_moves > 0;
    pp_durations durations = {communication_time, w->rules->by->blocks,
                              forecast_late(w->rules, stages), occupies};
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
    if (l && w->prices.status == TRINE_OK) l->on_times(l->to, w->programs, &t, stage_time, w);
    pp_times_destroy(&t);
    return w->prices.status;
}

static trine_status price_and_simulate(step_prices *w, forecast *f) {
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
    step_prices w = {.r = r,
                     .listener = listener,
                     .rules = rules,
                     .prices = pricing_of(rules, &r->config, r->ranks, r->dev, r->spec.micros),
                     .programs = programs};
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
