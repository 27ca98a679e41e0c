/* Allocates a rank's memory as its plan (the counting run of state_take) says, and nothing else:
 *
 *   CPU    the plan's bytes; what peers of the node read lies in a window, if the mesh shares
 *   GPU    the plan's bytes in one region of the GPU's memory, of which CUDA_RESERVE stays free for
 *          each rank: private memory first, then what groups exchange (base/arena.h). In pinned host
 *          memory: a staging buffer for the latter (comm/api/device_memory.h), its shared part in a
 *          window if the mesh shares, the rest in one allocation with the host's own buffers (staged
 *          batches, sums). Without a staging buffer if all groups use NCCL
 *
 * If pinning is refused, the memory is used unpinned, and the banner reports it.
 * Invariant: all memory is allocated here, before the first step. Cost: that of the plan. */
#ifndef TRINE_TRAIN_TRAINER_MEMORY_H
#define TRINE_TRAIN_TRAINER_MEMORY_H

#include "train/trainer.h"

/* Creates the state, counts its memory, and allocates the private part.
 * Errors: TRINE_ENOMEM; on a GPU with suggestions (plan/oom.h). Not collective. */
trine_status memory_plan(trine_trainer *t);
/* Allocates what peers read, and assigns all memory to the state. Errors: TRINE_ENOMEM. Collective over: world. */
trine_status memory_take(trine_trainer *t);
/* Collective over: world, if there is a mesh. */
void memory_free(trine_trainer *t);

#endif
