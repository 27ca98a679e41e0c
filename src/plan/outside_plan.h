/* Memory of a rank with a GPU outside its plan: host memory, and GPU memory taken before the plan. */
#ifndef TRINE_PLAN_OUTSIDE_PLAN_H
#define TRINE_PLAN_OUTSIDE_PLAN_H

#include "base/arena.h"
#include "trine_types.h"

/* The staging buffer in host memory of a plan in device memory. 0 for a plan of CPU ranks, which has none. Pure. */
size_t outside_plan_staging_buffer(const arena *plan);
/* Estimate of the GPU memory that NCCL takes on a rank (device/cuda/sizes.h), with our own buffers for its groups, if
 * all groups use it and each algorithm and connection that they may have exists: a ring and a tree of each group
 * that adds, its multicast buffers, messages to all of its ranks if it adds in rank order; messages to the stages
 * before and behind, and to the stage that shares the token matrix. 0 where the transport excludes it. Pure. */
size_t outside_plan_nccl(const trine_config *config);
/* The same of all libraries: NCCL, the context, the device's workspaces. Pure. */
size_t outside_plan_libraries(const trine_config *config);

#endif
