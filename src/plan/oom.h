/* What a rank says when its GPU has no room for its plan: who asked for what, and the three
 * cheapest changes of the configuration that fit, with the bytes that each saves. The bytes are
 * those of the plans of the changed configurations (resolve_plan): what would be taken, not an
 * estimate; with each of them CUDA_RESERVE stays free (device/cuda/sizes.h).
 *
 * "Cheapest" is the order of this table, by what a step loses:
 *
 *   --schedule 1f1b      nothing: gpipe holds all micro-batches' activations
 *   --zero 1             nothing: the same traffic
 *   --gather-buffers 1   ZeRO-3's gathers overlap less
 *   --micro-batch-size   smaller matmuls; the largest that fits
 *   --zero 2, --zero 3   a reduction (and gathers) for every micro-batch
 *   --dp, --tp, --pp     twice the ranks
 *
 * and where that is not enough two of them together. Cost: a program and a plan for each, once, in
 * a job that ends. */
#ifndef TRINE_PLAN_OOM_H
#define TRINE_PLAN_OOM_H

#include "plan/resolve.h"

/* What was asked for, and what there is. */
typedef struct {
    const trine_config *config; /* checked */
    const device *dev;
    const arena *plan;          /* of the rank that asks */
    size_t free_bytes, bytes;   /* of its GPU */
    int sharers;                /* ranks on that GPU, this one among them */
    const char *beside;         /* what else was asked for: " beside ...", or "" */
} oom_question;

/* Raises TRINE_ENOMEM with the message, and returns it. Not collective. */
trine_status oom_refuse(const oom_question *q);

#endif
