/* Tells the groups of a mesh where device memory lies (device_memory.h). */
#include "comm/api/gpu.h"
#include "comm/transport/stack.h"
#include "comm/transport/staging/staging.h"
#include "base/status.h"

#include <stdlib.h>

static void tell_groups(const trine_mesh *mesh, struct comm_device_state *f) {
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)g);
        ASSERT(!comm->device_state == (f != NULL) && !comm->clock);
        comm->device_state = f;
        stack_build(comm);
    }
}

static void check_memory(const device_region *m, bool staged_by_host) {
    ASSERT(m->dev && !m->dev->memory->host && m->shared_bytes <= m->bytes);
    ASSERT(!staged_by_host || m->shared || m->shared_bytes == 0);
    ASSERT(!staged_by_host || m->own || m->shared_bytes == m->bytes);
}

trine_status comm_device_memory(trine_mesh *mesh, const device_region *memory) {
    trine_comm *any = trine_mesh_group(mesh, TRINE_DP);
    struct comm_device_state *f = any ? any->device_state : NULL;
    if (f) tell_groups(mesh, NULL);
    free(f);
    if (!memory) return TRINE_OK;
    bool staged_by_host = comm_gpu_stages(mesh);
    check_memory(memory, staged_by_host);
    f = calloc(1, sizeof *f);
    CHECK(f, TRINE_ENOMEM, "no memory for the device-memory state of the groups");
    f->memory = *memory;
    f->staged_by_host = staged_by_host;
    tell_groups(mesh, f);
    return TRINE_OK;
}
