#include "state/step.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The parts of this rank, of which a communication on a buffer has a request each. */
static size_t parts_of(const step_run *r) {
    return r->state->count ? (size_t)flat_parts(&r->state->units[0].layout) : 1;
}

static size_t count_requests(const step_run *r) {
    size_t count = (size_t)r->room * FLAT_RANGES;
    for (int what = 0; what < RESOURCES; what++)
        count += (size_t)program_resource_count(r->state->config.program, (resource)what) *
                 STEP_REQUESTS;
    return count * parts_of(r);
}

/* Hands out the requests of buffers and reductions. */
static void place_requests(step_run *r) {
    comm_request *next = r->requests;
    for (int what = 0; what < RESOURCES; what++)
        for (int n = 0; n < program_resource_count(r->state->config.program, (resource)what); n++) {
            r->waits[what][n].requests = next;
            next += STEP_REQUESTS * parts_of(r);
        }
    for (int n = 0; n < r->room; n++) {
        r->reductions[n].requests = next;
        next += FLAT_RANGES * parts_of(r);
    }
}

static bool make_tables(step_run *r) {
    const program *p = r->state->config.program;
    /* Each is on a reduce buffer, or on the gradients of a unit. */
    r->room = program_resource_count(p, RES_REDUCE) + program_resource_count(p, RES_GRADS);
    r->reductions = calloc((size_t)r->room, sizeof *r->reductions);
    for (int what = 0; what < RESOURCES; what++) {
        int count = program_resource_count(p, (resource)what);
        r->waits[what] = calloc(count > 0 ? (size_t)count : 1, sizeof *r->waits[what]);
        if (!r->waits[what]) return false;
    }
    if (!r->reductions) return false;
    r->requests = calloc(count_requests(r), sizeof *r->requests);
    if (r->requests) place_requests(r);
    return r->requests != NULL;
}

trine_status step_create(step_run *r, rank_state *state, const trine_mesh *mesh, device *dev) {
    *r = (step_run){.state = state, .mesh = mesh, .dev = dev};
    if (make_tables(r)) return TRINE_OK;
    step_destroy(r);
    return RAISE(TRINE_ENOMEM, "no memory for the scoreboard");
}

void step_destroy(step_run *r) {
    for (int what = 0; what < RESOURCES; what++) free(r->waits[what]);
    free(r->reductions);
    free(r->requests);
    *r = (step_run){0};
}

int step_number(const step_run *r, int micro) {
    const state_config *c = &r->state->config;
    axis_set axes = axes_of_samples();
    return spec_micro_number(r->program->spec, axes_size(c->layout, axes),
                             axes_place(c->layout, axes, c->coord), micro);
}

uint64_t step_sample(const step_run *r, int micro) {
    const state_config *c = &r->state->config;
    axis_set axes = axes_of_samples();
    int ranks = axes_size(c->layout, axes), place = axes_place(c->layout, axes, c->coord);
    return r->io->first_sample + spec_sample(r->program->spec, ranks, place, micro, c->model.batch);
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
    ASSERT(w->count == 0 || w->on.write == write);
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
    *w = (step_reduction){.reduce = *i, .finish = finish, .requests = w->requests};
    w->request_count = flat_ranges(&state_unit(r->state, i->unit)->layout);
    memset(w->requests, 0, (size_t)w->request_count * sizeof *w->requests);
    w->operand_count = program_operands(r->program, i, w->operands);
    return w;
}

static trine_status finish_oldest(step_run *r) {
    step_reduction *w = reduction_at(r, 0);
    for (int n = 0; n < w->request_count; n++) TRY(comm_wait(&w->requests[n]));
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
