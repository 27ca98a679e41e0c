#include "pp/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "core/machine.h"

/* ---- Costs ------------------------------------------------------------------------------------ */

/* The first unit of a chunk, in backward order, whose backward pass splits; else its first one. */
static int first_split(const program_spec *s, int chunk) {
    int unit = spec_chunk_last(s, chunk);
    while (unit > spec_chunk_first(s, chunk) && spec_unit(s, unit).backward != BACKWARD_SPLITS)
        unit--;
    return unit;
}

double pp_unit_cost(const void *context, const program *p, const instr *i) {
    const program_spec *s = p->spec;
    (void)context;
    if (!instr_computes((instr_kind)i->kind)) return 0;
    int chunk = spec_chunk_of(s, i->unit);
    if (i->kind == FORWARD) return i->unit == spec_chunk_first(s, chunk);
    if (!program_changes_stream(p, i)) return i->unit == first_split(s, chunk);
    if (i->unit != spec_chunk_last(s, chunk)) return 0;
    bool parts = s->parallel.split_backward &&
                 spec_unit(s, first_split(s, chunk)).backward == BACKWARD_SPLITS;
    return parts ? 1 : 2;
}

/* ---- Running ---------------------------------------------------------------------------------- */

typedef struct {
    machine m;
    pp_times *out;
    double *clock; /* (stages) */
    pp_cost cost;
    const void *context;
    int started; /* instructions */
} simulation;

static trine_status starts(void *context, const program *p, int at) {
    simulation *w = context;
    double *clock = &w->clock[p->stage], cost = w->cost(w->context, p, &p->code[at]);
    w->out->at[p->stage][at] = (pp_time){*clock, *clock + cost, w->started, w->started};
    w->started++;
    *clock += cost;
    w->out->busy[p->stage] += cost;
    w->out->makespan = fmax(w->out->makespan, *clock);
    return TRINE_OK;
}

/* A message is complete when both sides have started it; the stage has waited until then. */
static trine_status ends(void *context, const program *p, int at) {
    simulation *w = context;
    const instr *i = &p->code[at];
    if (!instr_is_message((instr_kind)i->kind)) return TRINE_OK;
    const machine_message *message = machine_message_of(&w->m, p, i);
    int peer = instr_sends((instr_kind)i->kind) ? MACHINE_RECEIVER : MACHINE_SENDER;
    pp_time *own = &w->out->at[p->stage][at];
    const pp_time *other = &w->out->at[message->by[peer].stage][message->by[peer].at];
    own->end = fmax(own->start, other->start);
    own->end_order = own->start_order > other->start_order ? own->start_order : other->start_order;
    w->clock[p->stage] = fmax(w->clock[p->stage], own->end);
    return TRINE_OK;
}

static trine_status run(simulation *w) {
    TRY(machine_run(&w->m, &(machine_hook){.context = w, .starts = starts, .ends = ends}));
    for (int p = 0; p < w->m.spec->stages; p++)
        CHECK(machine_ended(&w->m, p), TRINE_EPROGRAM, "stage %d waits for ever at instruction %d",
              p, w->m.now[p].at);
    return TRINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

static trine_status setup(simulation *w, const program *stages) {
    int count = stages->spec->stages;
    TRY(machine_create(&w->m, stages, MACHINE_BUFFERS));
    *w->out = (pp_times){.stages = count};
    bool ok = (w->out->at = calloc((size_t)count, sizeof *w->out->at)) &&
              (w->out->busy = calloc((size_t)count, sizeof *w->out->busy)) &&
              (w->clock = calloc((size_t)count, sizeof *w->clock));
    for (int p = 0; ok && p < count; p++)
        ok = (w->out->at[p] = calloc((size_t)stages[p].count + 1, sizeof **w->out->at));
    CHECK(ok, TRINE_ENOMEM, "no memory to simulate %d programs", count);
    return TRINE_OK;
}

void pp_times_destroy(pp_times *t) {
    for (int p = 0; t->at && p < t->stages; p++) free(t->at[p]);
    free(t->at);
    free(t->busy);
    *t = (pp_times){0};
}

trine_status pp_simulate(const program *stages, pp_cost cost, const void *context, pp_times *out) {
    simulation w = {.out = out, .cost = cost, .context = context};
    *out = (pp_times){0};
    trine_status status = setup(&w, stages);
    if (status == TRINE_OK) status = run(&w);
    machine_destroy(&w.m);
    free(w.clock);
    if (status != TRINE_OK) pp_times_destroy(out);
    return status;
}

double pp_times_idle(const pp_times *t) {
    double busy = 0;
    for (int p = 0; p < t->stages; p++) busy += t->busy[p];
    return 1 - busy / (t->makespan * t->stages);
}
