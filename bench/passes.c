#include "passes.h"

#include <math.h>

#include "base/clock.h"
#include "base/status.h"
#include "pp/simulate.h"

pass_role pass_role_of(const program_spec *spec, int unit) {
    unit_facts facts = spec_unit(spec, unit);
    return facts.reads_tokens ? PASS_EMBEDDING : facts.makes_loss ? PASS_HEAD : PASS_BLOCK;
}

/* PASS_KINDS: not a pass. */
static pass_kind kind_of(int kind) {
    switch (kind) {
    case FORWARD: return PASS_FORWARD;
    case BACKWARD: return PASS_BACKWARD;
    case BACKWARD_INPUT: return PASS_INPUT;
    case BACKWARD_WEIGHT: return PASS_WEIGHT;
    default: return PASS_KINDS;
    }
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static void waited(void *context, const program *p, int at) {
    (void)p, (void)at;
    ((pass_clock *)context)->since = clock_ns();
}

static void executed(void *context, const program *p, int at) {
    pass_clock *c = context;
    uint64_t ns = clock_ns() - c->since;
    if (at == p->count) return;
    const instr *i = &p->code[at];
    pass_kind k = kind_of(i->kind);
    if (i->kind == UPDATE) c->update += ns;
    if (k == PASS_KINDS) return;
    pass_role role = pass_role_of(p->spec, i->unit);
    c->ns[role][k] += ns;
    c->calls[role][k]++;
}

void pass_clock_init(pass_clock *c) {
    *c = (pass_clock){
        .observer = {.context = c, .on = {[EXEC_WAITED] = waited, [EXEC_EXECUTED] = executed}}};
}

void pass_clock_step(pass_clock *c) {
    c->steps++;
}

pass_times pass_clock_means(const pass_clock *c) {
    pass_times t = {.update = c->steps ? 1e-9 * (double)c->update / c->steps : 0};
    for (int r = 0; r < PASS_ROLES; r++)
        for (int k = 0; k < PASS_KINDS; k++)
            if (c->calls[r][k]) t.of[r][k] = 1e-9 * (double)c->ns[r][k] / (double)c->calls[r][k];
    return t;
}

/* ---- Simulating ------------------------------------------------------------------------------ */

double pass_cost(const void *context, const program *p, const instr *i) {
    const pass_times *times = context;
    pass_kind k = kind_of(i->kind);
    if (k == PASS_KINDS) return 0;
    return times[p->stage].of[pass_role_of(p->spec, i->unit)][k];
}

trine_status pass_simulate(const program *stages, const pass_times *times, pass_forecast *out) {
    pp_times at;
    double tail = 0;
    TRY(pp_simulate(stages, pass_cost, NULL, times, &at));
    *out = (pass_forecast){.passes = at.makespan, .idle = pp_times_idle(&at)};
    for (int p = 0; p < at.stages; p++) {
        tail = fmax(tail, times[p].update);
        out->busiest = fmax(out->busiest, at.busy[p]);
    }
    out->step = out->passes + tail;
    pp_times_destroy(&at);
    return TRINE_OK;
}
