/* Memory of a rank with a GPU outside its plan: host memory, and GPU memory taken before the plan. */
#ifndef TRINE_PLAN_OUTSIDE_PLAN_H
#define TRINE_PLAN_OUTSIDE_PLAN_H

#include "base/arena.h"
#include "trine.h"

/* The staging buffer in host memory of a plan in device memory. 0 for a plan of CPU ranks, which has none. Pure. */
size_t outside_plan_staging_buffer(const arena *plan);
/* Estimate of the GPU memory that a rank's libraries take before the plan (device/cuda/sizes.h). Pure. */
size_t outside_plan_libraries(trine_layout layout);

#endif
