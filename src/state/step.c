#include "state/step.h"

#include <stdlib.h>

#include "base/status.h"

trine_status step_create(step_run *r, rank_state *state, const trine_mesh *mesh, device *dev) {
    const program *p = state->config.program;
    *r = (step_run){.state = state, .mesh = mesh, .dev = dev};
    /* Each is on a reduce buffer, or on the gradients of a unit. */
    r->room = program_resource_count(p, RES_REDUCE) + program_resource_count(p, RES_GRADS);
    r->reductions = calloc((size_t)r->room, sizeof *r->reductions);
    CHECK(r->reductions, TRINE_ENOMEM, "no memory for the reductions in progress");
    for (int what = 0; what < RESOURCES; what++) {
        int count = program_resource_count(p, (resource)what);
        r->waits[what] = calloc(count > 0 ? (size_t)count : 1, sizeof *r->waits[what]);
        if (r->waits[what]) continue;
        step_destroy(r);
        return RAISE(TRINE_ENOMEM, "no memory for the scoreboard");
    }
    return TRINE_OK;
}

void step_destroy(step_run *r) {
    for (int what = 0; what < RESOURCES; what++) free(r->waits[what]);
    free(r->reductions);
    *r = (step_run){0};
}

int step_number(const step_run *r, int micro) {
    const state_config *c = &r->state->config;
    axis_set axes = axes_of_samples();
    return spec_micro_number(r->program->spec, axes_size(c->layout, axes),
                             axes_place(c->layout, axes, c->coord), micro);
}

uint64_t step_sample(const step_run *r, int micro) {
    return r->io->first_sample + (uint64_t)step_number(r, micro) * r->state->config.model.batch;
}

trine_comm *step_group(const step_run *r, trine_group g) {
    return trine_mesh_group(r->mesh, g);
}

trine_comm *step_axes(const step_run *r, axis_set axes) {
    ASSERT(axes_group(axes) < TRINE_GROUPS);
    return step_group(r, axes_group(axes));
}

static trine_status complete(step_pending *w) {
    for (int n = 0; n < w->count; n++) TRY(comm_wait(&w->requests[n]));
    w->count = 0;
    return TRINE_OK;
}

comm_request *step_start(step_run *r, resource what, int index, bool write) {
    step_pending *w = &r->waits[what][index];
    ASSERT(w->count < STEP_REQUESTS && (w->count == 0 || w->on.write == write));
    w->on = (operand){what, index, write, 1};
    comm_request *request = &w->requests[w->count++];
    *request = (comm_request){0};
    return request;
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static step_reduction *reduction_at(const step_run *r, int n) {
    return &r->reductions[(r->oldest + n) % r->room];
}

step_reduction *step_reduce(step_run *r, const instr *i,
                            trine_status (*finish)(step_run *r, const instr *i)) {
    ASSERT(r->reducing < r->room);
    step_reduction *w = reduction_at(r, r->reducing++);
    *w = (step_reduction){.reduce = *i, .finish = finish};
    w->operand_count = program_operands(r->program, i, w->operands);
    return w;
}

static trine_status finish_oldest(step_run *r) {
    step_reduction *w = reduction_at(r, 0);
    for (int n = 0; n < FLAT_RANGES; n++) TRY(comm_wait(&w->requests[n]));
    TRY(w->finish(r, &w->reduce));
    r->oldest = (r->oldest + 1) % r->room;
    r->reducing--;
    return TRINE_OK;
}

trine_status step_finish_reductions(step_run *r) {
    while (r->reducing) TRY(finish_oldest(r));
    return TRINE_OK;
}

static bool conflicts(const step_reduction *w, const operand *operands, int count) {
    for (int a = 0; a < w->operand_count; a++)
        for (int b = 0; b < count; b++)
            if (operand_conflicts(&w->operands[a], &operands[b])) return true;
    return false;
}

static trine_status wait_for_reductions(step_run *r, const operand *operands, int count) {
    int last = r->reducing;
    while (last && !conflicts(reduction_at(r, last - 1), operands, count)) last--;
    while (last--) TRY(finish_oldest(r));
    return TRINE_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

trine_status step_wait(step_run *r, const instr *i) {
    operand operands[INSTR_OPERANDS];
    int count = program_operands(r->program, i, operands);
    if (r->reducing) TRY(wait_for_reductions(r, operands, count));
    for (int o = 0; o < count; o++)
        for (int n = 0; n < operands[o].count; n++) {
            step_pending *w = &r->waits[operands[o].what][operands[o].index + n];
            if (w->count && operand_conflicts(&w->on, &operands[o])) TRY(complete(w));
        }
    return TRINE_OK;
}

trine_status step_drain(step_run *r, bool sends) {
    TRY(step_finish_reductions(r));
    for (int what = 0; what < RESOURCES; what++)
        for (int n = 0; n < program_resource_count(r->program, (resource)what); n++) {
            step_pending *w = &r->waits[what][n];
            if (w->count && (sends || w->on.write)) TRY(complete(w));
        }
    return TRINE_OK;
}
