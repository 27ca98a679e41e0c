/* A clock over the groups of a mesh: transport/timed.h measures; this file starts, stops and reads
 * it. */
#include "comm/transport/timed.h"
#include "comm/transport/stack.h"
#include "base/status.h"

#include <stdlib.h>

trine_status comm_clock_create(comm_clock **clock, const trine_mesh *mesh) {
    comm_clock *c = *clock = calloc(1, sizeof *c);
    CHECK(c, TRINE_ENOMEM, "no memory for the clock of the mesh");
    c->mesh = mesh;
    return TRINE_OK;
}

void comm_clock_destroy(comm_clock **clock) {
    if (!*clock) return;
    comm_clock_stop(*clock);
    free(*clock);
    *clock = NULL;
}

void comm_clock_start(comm_clock *c) {
    if (c->running) return;
    c->running = true;
    c->left = 0;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(c->mesh, (trine_group)g);
        if (comm->size == 1) continue;
        ASSERT(comm->group == (trine_group)g && !comm->clock);
        comm->clock = c;
        stack_build(comm);
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) c->before[g][k] = comm->tally[k];
    }
}

void comm_clock_stop(comm_clock *c) {
    if (!c->running) return;
    c->running = false;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(c->mesh, (trine_group)g);
        if (comm->clock != c) continue;
        comm->clock = NULL;
        stack_build(comm);
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            c->times[g][k].calls += comm->tally[k].calls - c->before[g][k].calls;
            c->times[g][k].bytes += comm->tally[k].bytes - c->before[g][k].bytes;
        }
    }
}

comm_time comm_clock_time(const comm_clock *clock, trine_group group, trine_tally_kind kind) {
    return clock->times[group][kind];
}

comm_overlap comm_clock_overlap(const comm_clock *clock) {
    return clock->overlap;
}

uint64_t comm_clock_ns(const comm_clock *clock) {
    return clock->ns;
}
