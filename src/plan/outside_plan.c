#include "plan/outside_plan.h"

#include "comm/api/axes.h"
#include "comm/api/gpu.h"
#include "device/cuda/sizes.h"
#include "plan/resolve.h"
#include "trine.h"

size_t outside_plan_staging_buffer(const arena *plan) {
    return plan->on_device ? plan->shared_used + plan->exchanged.used : 0;
}

/* A rank has one neighbour in a ring to receive from, and two or fewer in a tree. */
static size_t sums(int size) {
    size_t connections = 1 + (size_t)(size > 2 ? 2 : 1);
    return connections * CUDA_NCCL_CHANNELS * CUDA_NCCL_CONNECTION + CUDA_NCCL_NVLS;
}

static size_t messages(int peers, int channels) {
    size_t most = channels ? (size_t)channels : CUDA_NCCL_MESSAGE_CHANNELS;
    if (most > CUDA_NCCL_MESSAGE_CHANNELS) most = CUDA_NCCL_MESSAGE_CHANNELS;
    return (size_t)peers * most * CUDA_NCCL_CONNECTION;
}

/* Of the groups of a mesh of this layout that add, with our own buffers. */
static size_t adding(const trine_config *c, trine_layout layout) {
    size_t bytes = comm_gpu_scratch(layout);
    for (int g = 0; g < TRINE_GROUPS; g++) {
        int size = axes_size(layout, axes_of((trine_group)g));
        if (!axes_add((trine_group)g) || size < 2) continue;
        bytes += sums(size) + (resolve_ordered(c) ? messages(size - 1, 0) : 0);
    }
    return bytes;
}

/* Where tp has more ranks than the model has heads of keys and values, those that share one add over TRINE_TP_PART. */
static trine_layout parts_of(const trine_config *c) {
    int tp = c->parallel.layout.tp, heads = c->model.num_query_groups;
    return (trine_layout){.dp = 1, .tp = heads && heads < tp ? tp / heads : 1, .pp = 1};
}

size_t outside_plan_nccl(const trine_config *c) {
    const trine_parallel *p = &c->parallel;
    if (p->transport != TRINE_TRANSPORT_AUTO && p->transport != TRINE_TRANSPORT_NCCL) return 0;
    size_t bytes = adding(c, p->layout) + adding(c, parts_of(c));
    if (p->layout.pp < 2) return bytes;
    return bytes + messages(2, p->nccl_lane_ctas) + (c->model.untied ? 0 : messages(1, 0));
}

size_t outside_plan_libraries(const trine_config *c) {
    return CUDA_CONTEXT + CUDA_SCRATCH_BYTES + CUDA_WORKSPACE + outside_plan_nccl(c);
}
