#include "state/step.h"

#include <stdlib.h>

#include "base/status.h"

trine_status step_create(step_run *r, rank_state *state, const trine_mesh *mesh, device *dev) {
    *r = (step_run){.state = state, .mesh = mesh, .dev = dev};
    for (int what = 0; what < RESOURCES; what++) {
        int count = program_resource_count(state->config.program, (resource)what);
        r->waits[what] = calloc(count > 0 ? (size_t)count : 1, sizeof *r->waits[what]);
        if (r->waits[what]) continue;
        step_destroy(r);
        return RAISE(TRINE_ENOMEM, "no memory for the scoreboard");
    }
    return TRINE_OK;
}

void step_destroy(step_run *r) {
    for (int what = 0; what < RESOURCES; what++) free(r->waits[what]);
    *r = (step_run){0};
}

trine_comm *step_group(const step_run *r, trine_group g) {
    return trine_mesh_group(r->mesh, g);
}

trine_comm *step_axes(const step_run *r, axis_set axes) {
    ASSERT(axes_group(axes) < TRINE_GROUPS);
    return step_group(r, axes_group(axes));
}

static trine_status finish(step_pending *w) {
    for (int n = 0; n < w->count; n++) TRY(comm_wait(&w->requests[n]));
    w->count = 0;
    return TRINE_OK;
}

comm_request *step_start(step_run *r, resource what, int index, bool write) {
    step_pending *w = &r->waits[what][index];
    ASSERT(w->count < STEP_REQUESTS && (w->count == 0 || w->write == write));
    w->write = write;
    comm_request *request = &w->requests[w->count++];
    *request = (comm_request){0};
    return request;
}

trine_status step_wait(step_run *r, const instr *i) {
    operand operands[INSTR_OPERANDS];
    int count = program_operands(r->program, i, operands);
    for (int o = 0; o < count; o++) {
        step_pending *w = &r->waits[operands[o].what][operands[o].index];
        if (w->count && (w->write || operands[o].write)) TRY(finish(w));
    }
    return TRINE_OK;
}

trine_status step_drain(step_run *r, bool sends) {
    for (int what = 0; what < RESOURCES; what++)
        for (int n = 0; n < program_resource_count(r->program, (resource)what); n++) {
            step_pending *w = &r->waits[what][n];
            if (w->count && (sends || w->write)) TRY(finish(w));
        }
    return TRINE_OK;
}
