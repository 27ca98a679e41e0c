/* A rank's state as a checkpoint sees it (ckpt/slice.h): the tensors of the full model, and the shards
 * of them that this rank writes or loads.
 *
 *   saved    a dp slice of every range: weights, masters, moments. Every dp rank also has what ZeRO does
 *            not shard; each writes its slice. A tied matrix belongs to the embedding
 *   loaded   the rank state: full weights or, with ZeRO-3, the slice; masters and moments as the
 *            optimizer owns them; a tied matrix on the last stage too
 *
 * Invariant: the shards that all ranks save are disjoint, except for tensors that tp does not split,
 * which the first tp rank writes, and cover every tensor. Cost: tables, no memory of the model's size. */
#ifndef TRINE_TRAIN_SHARDS_H
#define TRINE_TRAIN_SHARDS_H

#include "ckpt/slice.h"
#include "state/state.h"

/* Shards point into the state, which must outlive them. */
typedef struct {
    st_entry *tensors; /* [tensor_count] of the full model, the same on every rank; only for saving */
    ckpt_kind *kinds;  /* [tensor_count] */
    size_t tensor_count;
    ckpt_shard *shards;
    size_t shard_count;
} shard_set;

/* apart: without what is frozen, the base of adapters, which have PEFT's names then (ckpt/base.h). Errors:
 * TRINE_ENOMEM. *p is released by shards_free in any case. Not collective. */
trine_status shards_to_save(const rank_state *h, bool apart, shard_set *p);
/* weights_only: no moments. Errors: TRINE_ENOMEM. *p is released by shards_free in any case. Not
 * collective. */
trine_status shards_to_load(const rank_state *h, bool weights_only, shard_set *p);
void shards_free(shard_set *p);
/* The moments that this rank owns become zeros, as of a new optimizer. Queued. Not collective. */
void shards_clear_moments(const rank_state *h, device *dev);

#endif
