/* Tells the groups of a mesh where device memory lies (device_memory.h). */
#include "comm/api/gpu.h"
#include "comm/transport/stack.h"
#include "comm/transport/staging/staging.h"
#include "base/status.h"

#include <stdlib.h>

static void forget(const trine_mesh *mesh, struct comm_device_state *f) {
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)g);
        ASSERT(comm->device_state == f && !comm->clock);
        comm->device_state = NULL;
        stack_build(comm);
    }
    free(f);
}

static void check_memory(const device_region *m, bool staged_by_host) {
    ASSERT(m->dev && !m->dev->memory->host && m->shared_bytes <= m->bytes);
    ASSERT(!staged_by_host || m->shared || m->shared_bytes == 0);
    ASSERT(!staged_by_host || m->own || m->shared_bytes == m->bytes);
}

trine_status comm_device_memory(trine_mesh *mesh, const device_region *memory) {
    trine_comm *any = trine_mesh_group(mesh, TRINE_DP);
    if (any && any->device_state) forget(mesh, any->device_state);
    if (!memory) return TRINE_OK;
    bool staged_by_host = comm_gpu_stages(mesh);
    check_memory(memory, staged_by_host);
    struct comm_device_state *f = calloc(1, sizeof *f);
    CHECK(f, TRINE_ENOMEM, "no memory for the device-memory state of the groups");
    f->memory = *memory;
    f->staged_by_host = staged_by_host;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)g);
        ASSERT(!comm->device_state && !comm->clock);
        comm->device_state = f;
        stack_build(comm);
    }
    return TRINE_OK;
}
