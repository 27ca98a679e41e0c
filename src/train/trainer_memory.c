#include "train/trainer_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/api/device_memory.h"
#include "comm/api/gpu.h"
#include "device/cuda/sizes.h"
#include "plan/outside_plan.h"
#include "plan/oom.h"
#include "train/gpus.h"

#define PAGE ((size_t)4096)

static bool on_device(const trine_trainer *t) {
    return !t->dev->memory->host;
}

/* Whether device memory of this rank is staged through host memory. */
static bool stages(const trine_trainer *t) {
    return comm_gpu_stages(t->mesh);
}

static trine_status refuse(const trine_trainer *t) {
    const cuda_info *gpu = &t->gpus[trine_world_rank(t->world)].info;
    oom_question q = {.config = &t->config,
                      .dev = t->dev,
                      .plan = &t->memory,
                      .free_bytes = gpu->free_bytes,
                      .bytes = gpu->bytes,
                      .sharers = gpus_sharers(t),
                      .beside = ""};
    return oom_refuse(&q);
}

trine_status memory_plan(trine_trainer *t) {
    trine_coord coord = trine_mesh_coord(t->mesh);
    t->shape = resolve_shape(&t->config, t->dev, coord.tp);
    state_config hc = resolve_state(&t->config, t->stages, &t->shape, t->dev, coord);
    TRY(state_create(&t->held, &hc));
    arena_init(&t->memory, NULL, 0);
    if (on_device(t)) arena_device(&t->memory, (arena_region){0}, (arena_region){0});
    state_take(&t->held, &t->memory);
    t->own_bytes = t->memory.used;
    if (!on_device(t) && mesh_shares(t->mesh)) t->own_bytes -= t->memory.shared_used;
    trine_status status = device_alloc(t->dev, &t->base, t->own_bytes);
    return status == TRINE_ENOMEM && on_device(t) ? refuse(t) : status;
}

/* Pins host memory; false: it stays unpinned, and the banner reports it. */
static bool pin(trine_trainer *t, void *p, size_t bytes) {
    trainer_pageable *refused = &t->pageable;
    if (bytes == 0) return false;
    if (device_pin(t->dev, p, bytes) == TRINE_OK) return true;
    if (!refused->bytes) snprintf(refused->why, sizeof refused->why, "%s", status_message());
    refused->bytes += bytes;
    status_clear();
    return false;
}

/* Distributes how many ranks could not pin memory, and the first one's reason. Collective over: world. */
static trine_status compare_pageable(trine_trainer *t) {
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    trainer_pageable *p = &t->pageable;
    int64_t size = trine_comm_size(world), own = p->bytes > 0;
    int64_t most[2] = {(int64_t)p->bytes, own ? size - trine_comm_rank(world) : 0};
    TRY(trine_all_reduce(world, &p->ranks, &own, 1, TRINE_I64, TRINE_SUM));
    if (p->ranks == 0) return TRINE_OK;
    TRY(trine_all_reduce(world, most, most, 2, TRINE_I64, TRINE_MAX));
    p->most = (uint64_t)most[0], p->first = size - most[1];
    return trine_broadcast(world, p->why, sizeof p->why, TRINE_U8, (int)p->first);
}

/* Allocates the host memory of a GPU rank: `staging` bytes for what is exchanged but not shared, then the
 * host's own buffers. */
static trine_status take_host(trine_trainer *t, const arena *plan, size_t staging) {
    size_t bytes = (staging + plan->host.used + PAGE - 1) / PAGE * PAGE;
    t->host = aligned_alloc(PAGE, bytes);
    CHECK(t->host, TRINE_ENOMEM, "no memory for %zu bytes of host buffers", bytes);
    memset(t->host, 0, bytes);
    t->host_pinned = pin(t, t->host, bytes);
    if (stages(t)) t->shared_pinned = pin(t, t->shared, plan->shared_used);
    return TRINE_OK;
}

/* Registers the exchanged device memory with the groups. */
static trine_status register_memory(const trine_trainer *t, char *base, const arena *plan) {
    device_region memory = {.dev = t->dev,
                            .base = base,
                            .bytes = outside_plan_staging_buffer(plan),
                            .rest = t->base,
                            .rest_bytes = (size_t)(base - (char *)t->base),
                            .shared = stages(t) ? t->shared : NULL,
                            .shared_bytes = plan->shared_used,
                            .own = stages(t) ? t->host : NULL,
                            .reached = t->mpi_reaches};
    TRY(comm_device_memory(t->mesh, &memory));
    return TRINE_OK;
}

/* Private, shared and exchanged memory, in one region of the GPU's memory. */
static trine_status assign_device(trine_trainer *t) {
    arena plan = t->memory;
    size_t own = plan.used - plan.shared_used - plan.exchanged.used;
    size_t staging = stages(t) ? plan.exchanged.used : 0;
    char *shared = (char *)t->base + own, *exchanged = shared + plan.shared_used;
    TRY(take_host(t, &plan, staging));
    TRY(register_memory(t, shared, &plan));
    char *host = (char *)t->host + staging;
    arena_init(&t->memory, t->base, own);
    arena_share(&t->memory, shared, plan.shared_used);
    arena_device(&t->memory, (arena_region){.base = exchanged, .capacity = plan.exchanged.used},
                 (arena_region){.base = host, .capacity = plan.host.used});
    state_take(&t->held, &t->memory);
    return TRINE_OK;
}

/* Called with all plans allocated. Ranks that share a GPU see the same free memory. */
static trine_status keep_reserve(const trine_trainer *t) {
    cuda_gpu own;
    TRY(cuda_describe(t->dev, &own));
    if (own.info.free_bytes >= CUDA_RESERVE * (size_t)gpus_sharers(t)) return TRINE_OK;
    return refuse(t);
}

static trine_status write_scratch(const trine_trainer *t) {
    const state_model *m = &t->held.config.model;
    return m->write_scratch ? m->write_scratch(m->shape, t->dev, t->held.scratch) : TRINE_OK;
}

trine_status memory_take(trine_trainer *t) {
    bool wanted = on_device(t) ? stages(t) : mesh_shares(t->mesh);
    size_t shared = wanted ? t->memory.shared_used : 0;
    TRY(trine_mesh_alloc(t->mesh, &t->shared, shared));
    if (on_device(t)) {
        TRY(trine_world_agree(t->world, keep_reserve(t)));
        TRY(trine_world_agree(t->world, assign_device(t)));
        TRY(trine_world_agree(t->world, write_scratch(t)));
        return compare_pageable(t);
    }
    arena_init(&t->memory, t->base, t->own_bytes);
    if (mesh_shares(t->mesh)) arena_share(&t->memory, t->shared, shared);
    state_take(&t->held, &t->memory);
    return trine_world_agree(t->world, write_scratch(t));
}

void memory_free(trine_trainer *t) {
    if (t->mesh) (void)comm_device_memory(t->mesh, NULL);
    if (t->mesh) comm_gpu_destroy(t->mesh);
    if (t->shared_pinned) device_unpin(t->dev, t->shared);
    if (t->host_pinned) device_unpin(t->dev, t->host);
    free(t->host);
    if (t->base) device_free(t->dev, t->base, t->own_bytes);
    if (t->mesh) trine_mesh_free(t->mesh, &t->shared);
}
