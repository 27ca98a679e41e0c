/* The base of low-rank adapters: a model that a run computes with and does not change. A checkpoint of such a run has
 * its adapters alone, as PEFT's files (hf/peft.h), and tells the base from another one: adapter_config.json has the
 * folder, and may be edited when the base is moved; the manifest has a hash of the folder's files with tensors, which
 * must be equal. Only a Hugging Face folder is a base: checkpoints of a run may be removed by it. */
#ifndef TRINE_CKPT_BASE_H
#define TRINE_CKPT_BASE_H

#include "ckpt/ckpt.h"

/* Whether checkpoints of a model can do without its base: all adapters are trained, and nothing else is. Pure. */
bool base_is_apart(const trine_model *m);

/* The base of what was opened: *path = its folder, without links, owned by the caller (free), and *hash; NULL and 0:
 * it is in the checkpoint itself. Each rank reads its share of the base's files. Errors, on every rank alike:
 * TRINE_EIO, TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status base_of(const ckpt_source *source, trine_comm *world, char **path, uint64_t *hash);

/* Whether a checkpoint whose manifest was read is without its base. Pure. */
bool base_is_missing(const ckpt_source *source);

/* Adds the files of its base to such a checkpoint; *share = base_share of them. Errors: TRINE_EINVAL if
 * adapter_config.json names no folder; those of hf_open. Not collective. */
trine_status base_attach(ckpt_source *source, trine_comm *world, uint64_t *share);

/* Compares the sum of all ranks' shares with the manifest. Errors: TRINE_EINVAL has both hashes. Collective over:
 * world. */
trine_status base_compare(const ckpt_source *source, trine_comm *world, uint64_t share);

#endif
