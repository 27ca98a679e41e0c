/* A rank's state as a checkpoint sees it (ckpt/slice.h): the tensors of the whole model, and the pieces of
 * them that this rank writes or fills.
 *
 *   saved    a dp slice of every range: weights, masters, moments. What ZeRO does not shard all dp ranks
 *            hold; each writes its slice of it. A tied matrix is the embedding's
 *   loaded   what is held: weights whole or, with ZeRO-3, the slice; masters and moments as the
 *            optimizer owns them; a tied matrix on the last stage too
 *
 * Invariant: the pieces that all ranks save are disjoint, but for tensors that tp does not split, which
 * the first tp rank writes, and cover every tensor. Cost: tables, no memory of the model's size. */
#ifndef TRINE_TRAIN_SHARDS_H
#define TRINE_TRAIN_SHARDS_H

#include "ckpt/slice.h"
#include "state/state.h"

/* Pieces point into the state, which must outlive them. */
typedef struct {
    st_entry *tensors; /* [tensor_count] of the whole model, the same on every rank; to save only */
    ckpt_kind *kinds;  /* [tensor_count] */
    size_t tensor_count;
    ckpt_shard *pieces;
    size_t piece_count;
} pieces;

/* Errors: TRINE_ENOMEM. *p is ended by shards_free in any case. Not collective. */
trine_status shards_to_save(const rank_state *h, pieces *p);
/* weights_only: no moments. Errors: TRINE_ENOMEM. *p is ended by shards_free in any case. Not
 * collective. */
trine_status shards_to_load(const rank_state *h, bool weights_only, pieces *p);
void shards_free(pieces *p);

#endif
