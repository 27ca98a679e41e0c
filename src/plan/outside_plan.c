#include "plan/outside_plan.h"

#include "comm/api/axes.h"
#include "device/cuda/sizes.h"

size_t outside_plan_staging_buffer(const arena *plan) {
    return plan->on_device ? plan->shared_used + plan->exchanged.used : 0;
}

size_t outside_plan_libraries(trine_layout l) {
    size_t own = CUDA_SCRATCH_BYTES + CUDA_WORKSPACE, groups = (size_t)axes_adding(l);
    /* Rings and trees; a stage has neighbours. */
    size_t connections = 2 * groups + (l.pp > 1 ? 2 : 0);
    return CUDA_CONTEXT + own + connections * CUDA_NCCL_CHANNELS * CUDA_NCCL_CONNECTION;
}
