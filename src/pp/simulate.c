#include "pp/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

/* ---- Costs ------------------------------------------------------------------------------------ */

/* The first unit of a chunk, in the order of the pass, for which `runs` holds. */
static int first_back(const program_spec *s, int chunk, bool splits) {
    int unit = spec_chunk_last(s, chunk);
    while (splits && unit > spec_chunk_first(s, chunk) &&
           spec_unit(s, unit).backward != BACKWARD_SPLITS)
        unit--;
    return unit;
}

double pp_unit_cost(const void *context, const program *p, const instr *i) {
    const program_spec *s = p->spec;
    (void)context;
    if (!instr_computes((instr_kind)i->kind)) return 0;
    int chunk = spec_chunk_of(s, i->unit);
    if (i->kind == FORWARD) return i->unit == spec_chunk_first(s, chunk);
    if (!program_changes_stream(p, i)) return i->unit == first_back(s, chunk, true);
    if (i->unit != spec_chunk_last(s, chunk)) return 0;
    bool parts = s->parallel.split_backward &&
                 spec_unit(s, first_back(s, chunk, true)).backward == BACKWARD_SPLITS;
    return parts ? 1 : 2;
}

/* ---- Messages --------------------------------------------------------------------------------- */

/* One message: where it stands on both sides; -1: not started. */
typedef struct {
    int from, sent_at, to, received_at;
} message;

/* The pending message on a buffer. */
typedef struct {
    const message *on;
    bool write;
} under_way;

typedef struct {
    const program *p;
    int at;
    double clock;
    under_way *waits[RESOURCES];
    pp_time *times;
} lane;

typedef struct {
    const program *stages;
    pp_times *out;
    lane *lanes;
    message *messages; /* (2 edges)(micro-batches): activations, gradients */
    pp_cost cost;
    const void *context;
    int started; /* instructions */
} simulation;

static message *message_of(const simulation *w, const program *p, const instr *i) {
    int place = 2 * program_edge(p, i) + !instr_carries_acts((instr_kind)i->kind);
    return &w->messages[place * p->spec->micros + i->micro];
}

/* When the message is complete; infinite: one side has not started it. */
static double complete(const simulation *w, const message *m) {
    if (m->sent_at < 0 || m->received_at < 0) return INFINITY;
    return fmax(w->out->at[m->from][m->sent_at].start, w->out->at[m->to][m->received_at].start);
}

static void end_message(const simulation *w, const message *m, pp_time *at) {
    const pp_time *sent = &w->out->at[m->from][m->sent_at];
    const pp_time *received = &w->out->at[m->to][m->received_at];
    const pp_time *last = sent->start_order > received->start_order ? sent : received;
    at->end = complete(w, m);
    at->end_order = last->start_order;
}

static void start_message(simulation *w, lane *l, const instr *i) {
    message *m = message_of(w, l->p, i);
    operand cargo[INSTR_OPERANDS];
    if (instr_sends((instr_kind)i->kind))
        m->from = l->p->stage, m->sent_at = l->at;
    else
        m->to = l->p->stage, m->received_at = l->at;
    program_operands(l->p, i, cargo);
    l->waits[cargo->what][cargo->index] = (under_way){m, cargo->write};
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* Advances the lane's clock to the time at which instruction i may start; false if not yet known. */
static bool wait_for_operands(const simulation *w, lane *l, const instr *i) {
    operand o[INSTR_OPERANDS];
    int count = program_operands(l->p, i, o);
    double clock = l->clock;
    for (int n = 0; n < count; n++) {
        const under_way *u = &l->waits[o[n].what][o[n].index];
        if (o[n].count != 1) continue; /* gradients, which no message carries */
        if (u->on && (u->write || o[n].write)) clock = fmax(clock, complete(w, u->on));
    }
    if (isinf(clock)) return false;
    l->clock = clock;
    return true;
}

static bool run_lane(simulation *w, lane *l) {
    bool moved = false;
    for (; l->at < l->p->count; l->at++, moved = true) {
        const instr *i = &l->p->code[l->at];
        if (!wait_for_operands(w, l, i)) break;
        double cost = w->cost(w->context, l->p, i);
        l->times[l->at] = (pp_time){l->clock, l->clock + cost, w->started, w->started};
        w->started++;
        l->clock += cost;
        w->out->busy[l->p->stage] += cost;
        if (instr_is_message((instr_kind)i->kind)) start_message(w, l, i);
    }
    return moved;
}

static trine_status finish(simulation *w) {
    const program_spec *s = w->stages->spec;
    for (int p = 0; p < s->stages; p++) {
        const lane *l = &w->lanes[p];
        CHECK(l->at == l->p->count, TRINE_EPROGRAM, "stage %d waits for ever at instruction %d", p,
              l->at);
        w->out->makespan = fmax(w->out->makespan, l->clock);
        for (int n = 0; n < l->p->count; n++)
            if (instr_is_message((instr_kind)l->p->code[n].kind))
                end_message(w, message_of(w, l->p, &l->p->code[n]), &l->times[n]);
    }
    return TRINE_OK;
}

/* ---- Memory ----------------------------------------------------------------------------------- */

static bool setup_lane(lane *l, const program *p, pp_times *out) {
    *l = (lane){.p = p};
    bool ok = (l->times = out->at[p->stage] = calloc((size_t)p->count + 1, sizeof *l->times));
    for (int r = 0; ok && r < RESOURCES; r++) {
        size_t count = (size_t)program_resource_count(p, (resource)r);
        ok = (l->waits[r] = calloc(count + 1, sizeof *l->waits[r]));
    }
    return ok;
}

static bool setup(simulation *w) {
    const program_spec *s = w->stages->spec;
    size_t stages = (size_t)s->stages, messages = 2 * (size_t)spec_edges(s) * (size_t)s->micros;
    *w->out = (pp_times){.stages = s->stages};
    bool ok = (w->out->at = calloc(stages, sizeof *w->out->at)) &&
              (w->out->busy = calloc(stages, sizeof *w->out->busy)) &&
              (w->lanes = calloc(stages, sizeof *w->lanes)) &&
              (w->messages = malloc((messages + 1) * sizeof *w->messages));
    for (size_t n = 0; ok && n < messages; n++) w->messages[n] = (message){-1, -1, -1, -1};
    for (size_t p = 0; ok && p < stages; p++) ok = setup_lane(&w->lanes[p], &w->stages[p], w->out);
    return ok;
}

static void release(simulation *w) {
    for (int p = 0; w->lanes && p < w->stages->spec->stages; p++)
        for (int r = 0; r < RESOURCES; r++) free(w->lanes[p].waits[r]);
    free(w->lanes);
    free(w->messages);
}

void pp_times_destroy(pp_times *t) {
    for (int p = 0; t->at && p < t->stages; p++) free(t->at[p]);
    free(t->at);
    free(t->busy);
    *t = (pp_times){0};
}

trine_status pp_simulate(const program *stages, pp_cost cost, const void *context, pp_times *out) {
    simulation w = {.stages = stages, .out = out, .cost = cost, .context = context};
    trine_status status = TRINE_OK;
    if (!setup(&w))
        status = RAISE(TRINE_ENOMEM, "no memory to simulate %d programs", stages->spec->stages);
    for (bool moved = status == TRINE_OK; moved;) {
        moved = false;
        for (int p = 0; p < stages->spec->stages; p++) moved |= run_lane(&w, &w.lanes[p]);
    }
    if (status == TRINE_OK) status = finish(&w);
    release(&w);
    if (status != TRINE_OK) pp_times_destroy(out);
    return status;
}

double pp_times_idle(const pp_times *t) {
    double busy = 0;
    for (int p = 0; p < t->stages; p++) busy += t->busy[p];
    return 1 - busy / (t->makespan * t->stages);
}
