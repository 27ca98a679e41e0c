/* The error message of a rank whose plan does not fit into its GPU, or into --memory: the memory it needs, and the
 * three cheapest changes of the configuration that fit, with the bytes that each saves. The bytes are
 * those of the plans of the changed configurations (resolve_plan), not estimates; each of them leaves
 * CUDA_RESERVE free (device/cuda/sizes.h).
 *
 * "Cheapest" is the order of this table, by what a step loses:
 *
 *   --schedule 1f1b      nothing: gpipe keeps the activations of all micro-batches
 *   --zero 1             nothing: the same traffic
 *   --gather-buffers 1   ZeRO-3's gathers overlap less
 *   --reduce-buffers 1   ZeRO-2's and 3's reductions overlap less
 *   --recompute-granularity selective   operators between matmuls run twice
 *   --micro-batch-size   smaller matmuls; the largest that fits
 *   --zero 2, --zero 3   a reduction (and gathers) for every micro-batch
 *   --recompute-granularity full        a second forward pass
 *   --dp, --tp, --pp     twice the ranks
 *
 * and, if one is not enough, two of them together. Cost: a program and a plan for each, once, in a
 * job that aborts. */
#ifndef TRINE_PLAN_OOM_H
#define TRINE_PLAN_OOM_H

#include "plan/rehearse.h"
#include "plan/resolve.h"

/* The memory needed, and the memory available. */
typedef struct {
    const trine_config *config; /* checked */
    const device *dev;
    const arena *plan;          /* of this rank */
    size_t free_bytes, bytes;   /* of its GPU */
    int sharers;                /* ranks on that GPU, including this one */
    const char *beside;         /* what else needs memory: " in addition to ...", or "" */
    size_t limit;               /* 0, or --memory: then the members from `plan` on are not read */
} oom_question;

/* Raises TRINE_ENOMEM with the message, and returns it. Not collective. */
trine_status oom_refuse(const oom_question *q);

/* The same for --memory: TRINE_EINVAL if the heaviest rank of this rehearsal needs more bytes (rehearsal_bytes) than
 * config.parallel.memory, with the changes that fit; else *bytes is what it needs. Cost: that of `rehearse` for each
 * change that is looked at, and only if the layout does not fit. Not collective. */
trine_status oom_check_limit(const rehearsal *h, size_t *bytes);

#endif
