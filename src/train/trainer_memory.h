/* A rank's memory, as its plan (state_take, declaring) says, and nothing beside it:
 *
 *   processors   the plan's bytes; what peers of the node read lies in a window, if the mesh shares
 *   GPUs (far)   the plan's bytes in one piece of the GPU's memory, of which CUDA_RESERVE stays free
 *                for each rank: what is this rank's alone, then
 *                what goes through groups (base/arena.h). In the host's memory, pinned: a mirror of
 *                the latter (comm/api/device_memory.h), the shared part of it in a window if the mesh shares, the
 *                rest in one block with what the host needs itself (staged batches, sums). Where
 *                all groups go through NCCL there is no mirror
 *
 * Pinning may be refused; such memory is used all the same, and the banner says so.
 * Invariant: all is taken here, before the first step. Cost: that of the plan. */
#ifndef TRINE_TRAIN_TRAINER_MEMORY_H
#define TRINE_TRAIN_TRAINER_MEMORY_H

#include "train/trainer.h"

/* Makes the state, declares everything, and takes what is this rank's alone.
 * Errors: TRINE_ENOMEM; on a GPU with ways to fit (plan/oom.h). Not collective. */
trine_status memory_plan(trine_trainer *t);
/* Takes what peers read, and hands all of it out. Errors: TRINE_ENOMEM. Collective over: world. */
trine_status memory_take(trine_trainer *t);
/* Collective over: world, when there is a mesh. */
void memory_free(trine_trainer *t);

#endif
