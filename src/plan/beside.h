/* What a rank with a GPU takes beside its plan: of the host's memory, and of the GPU's before the plan. */
#ifndef TRINE_PLAN_BESIDE_H
#define TRINE_PLAN_BESIDE_H

#include "base/arena.h"
#include "trine.h"

/* Bytes of the host's memory that a far plan takes: the mirror, if there is one, and what the host
 * needs itself. 0 for a plan of processors, whose bytes are all the host's. Pure. */
size_t beside_staging_buffer(const arena *plan);
size_t beside_host(const arena *plan);
/* About what a rank's libraries take of its GPU before the plan (device/cuda/sizes.h). Pure. */
size_t beside_libraries(trine_layout layout);

#endif
