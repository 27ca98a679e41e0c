/* Telling the groups of a mesh where far memory lies (far.h). */
#include "comm/api/gpu.h"
#include "comm/transport/stack.h"
#include "comm/transport/staging/staging.h"
#include "base/status.h"

#include <stdlib.h>

static void forget(const trine_mesh *mesh, struct comm_far *f) {
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)g);
        ASSERT(comm->far == f && !comm->clock);
        comm->far = NULL;
        stack_build(comm);
    }
    free(f);
}

static void check_memory(const far_memory *m, bool mirrored) {
    ASSERT(m->dev && !m->dev->memory->host && m->shared_bytes <= m->bytes);
    ASSERT(!mirrored || m->shared || m->shared_bytes == 0);
    ASSERT(!mirrored || m->own || m->shared_bytes == m->bytes);
}

trine_status comm_far_memory(trine_mesh *mesh, const far_memory *memory) {
    trine_comm *any = trine_mesh_group(mesh, TRINE_DP);
    if (any && any->far) forget(mesh, any->far);
    if (!memory) return TRINE_OK;
    bool mirrored = comm_gpu_stages(mesh);
    check_memory(memory, mirrored);
    struct comm_far *f = calloc(1, sizeof *f);
    CHECK(f, TRINE_ENOMEM, "no memory for the groups of far memory");
    f->memory = *memory;
    f->mirrored = mirrored;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)g);
        ASSERT(!comm->far && !comm->clock);
        comm->far = f;
        stack_build(comm);
    }
    return TRINE_OK;
}
