/* Checkpoints: saved from any layout, loaded into any other. A checkpoint is a folder step-N of safetensors
 * files in global shapes (slice.h) and a manifest (manifest.h). Hugging Face GPT-2 folders are read
 * unchanged (hf.h), as weights without state.
 *
 *   save   rank 0 creates the folder, and the files with their headers and sizes; the ranks of each node
 *          assemble their data in blocks and write them (blocks.h); while a file is synced, every rank hashes
 *          its share of it as the file system returns it, and the sum of what was read must equal the sum of
 *          what was written (slice_sum); rank 0 writes config.json (hf.h), the tokenizer's files (tokenizer_files.h)
 *          and the manifest, and publishes
 *   load   every rank verifies its share of the blocks and all ranks agree; then each reads what it needs
 *
 * Invariant: the newest committed checkpoint is always there under its name; a failure on one rank is
 * returned on all ranks and does not affect it. No rank holds more than its own part of the model and a few
 * buffers. The folder must be on a file system that all ranks share. Cost: each byte is written once and
 * read back once. */
#ifndef TRINE_CKPT_CKPT_H
#define TRINE_CKPT_CKPT_H

#include "ckpt/blocks.h"
#include "ckpt/tokenizer_files.h"
#include "ckpt/file.h"
#include "ckpt/hf/hf.h"
#include "ckpt/lease.h"
#include "ckpt/manifest.h"
#include "ckpt/slice.h"
#include "comm/api/comm.h"

/* What is saved. `tensors` lists the full model, in the same order on every rank, once for each kind that
 * is saved (slice_entry); `shards` are this rank's shards. All borrowed. */
typedef struct {
    device *dev;
    const st_entry *tensors; /* CKPT_WEIGHT goes into CKPT_MODEL_FILE or, with `base`, PEFT's; others into
                                CKPT_OPTIMIZER_FILE */
    const ckpt_kind *kinds;  /* [tensor_count] */
    size_t tensor_count;
    const ckpt_shard *shards;
    size_t shard_count;
    ckpt_state state;
    ckpt_data data;
    const char *config; /* settings_print */
    const char *options; /* rank 0: the text of CKPT_OPTIONS_FILE; NULL: none */
    const char *keep;    /* rank 0: the text of CKPT_KEEP_FILE; NULL: none */
    const char *exact;  /* what the bits of a run with parallel.exact depend on, beside its inputs: a line of fewer
                           than MANIFEST_EXACT bytes; "" or NULL: it has no such promise */
    const trine_model *model; /* of which adapter_config.json is about; used with `base` */
    const char *base;       /* the folder of the model that the adapters belong to; NULL: its tensors are here */
    uint64_t base_hash;     /* base.h; 0 without `base` */
    const tokenizer_files *carried; /* rank 0: the tokenizer's files; NULL: none */
    uint64_t tokenizer;     /* rank 0: tokenizer_hash of what made the run's tokens; 0: unknown */
    const hf_tokens *tokens; /* rank 0: that begin and end its texts; NULL: unknown */
    /* All zero, or left by an earlier save of these tensors. The caller destroys it before the mesh:
     * creating and destroying one is collective and uses blocking MPI calls. */
    blocks_writer *writer;
    /* *lease is NULL, or left by ckpt_hold or an earlier save; the caller gives it back. */
    lease **lease;
} ckpt_image;

/* Takes the lease of DIR for this job, unless the job holds it already; rank 0 then has it in *l (NULL, or left by
 * an earlier call; a lease of another folder is given back). Creates DIR if needed. `token` = the token in the
 * names of files that this job is writing. On `out` (NULL: nothing) rank 0 reports which owner it waits for; the
 * wait ends when `asked` (NULL: never) is true on any rank. Errors, on every rank: TRINE_EBUSY names the job that
 * saves there or has taken over this job's lease, or says that the wait was ended; TRINE_EDATA for a name that no
 * lease has; TRINE_EIO, TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status ckpt_hold(trine_comm *world, lease **l, const char *dir, bool (*asked)(void), FILE *out,
                       char token[FILE_TOKEN]);

/* Saves to DIR/step-N (N = state.step) under the folder's lease, and removes all but the `keep` newest
 * checkpoints (0: none) of those without CKPT_KEEP_FILE; failing to remove an old one is not an error. On `out`
 * (NULL: nothing) rank 0 reports what was done. Errors, on every rank: TRINE_EIO names rank, file and cause;
 * TRINE_ENOMEM; TRINE_EDATA when a file does not contain what was written; those of ckpt_hold. Earlier checkpoints
 * are not affected. Collective over: world. */
trine_status ckpt_save(trine_mesh *mesh, const ckpt_image *image, const char *dir, int keep,
                       FILE *out);

typedef struct ckpt_source ckpt_source;

/* Opens and verifies `path`: a checkpoint step-N, a folder of checkpoints (its newest complete one), a Hugging Face
 * folder, or a folder of adapters (hf/peft.h), which names its base. Rank 0 reports on `out` which checkpoints were
 * skipped and why. *source is owned by the caller. Errors, on every rank alike: TRINE_EIO, TRINE_EDATA when there
 * is no complete checkpoint, with the reasons; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status ckpt_open(ckpt_source **source, trine_comm *world, const char *path, FILE *out);

/* Adds the adapters of a folder as PEFT writes them to what was opened, whose model has none. Errors, on every rank
 * alike: those of peft_attach. Collective over: world. */
trine_status ckpt_adapt(ckpt_source *source, trine_comm *world, const char *folder);

/* The same for a folder of checkpoints, which may be empty or absent: then *source is NULL. A folder whose
 * checkpoints are all broken is an error. Collective over: world. */
trine_status ckpt_open_newest(ckpt_source **source, trine_comm *world, const char *dir, FILE *out);

/* The model of what `path` names, in the sense of ckpt_open, from its manifest or config.json alone; dropout is 0.
 * *found is false for a folder without checkpoints, or none; *model is then unchanged. Errors: TRINE_EIO,
 * TRINE_EDATA, TRINE_EINVAL, TRINE_ENOMEM. Not collective. */
trine_status ckpt_peek(trine_model *model, bool *found, const char *path);

/* The folder of the adapters that were added, by ckpt_adapt or by ckpt_open of it; NULL: none. Pure. */
const char *ckpt_adapters(const ckpt_source *source);

/* The folder of the base of a checkpoint that has adapters alone (base.h); NULL: it has all tensors. Pure. */
const char *ckpt_base(const ckpt_source *source);

/* Closes and frees; sets *source, which may be NULL, to NULL. Not collective. */
void ckpt_close(ckpt_source **source);

/* The folder that was opened; never NULL. Pure. */
const char *ckpt_path(const ckpt_source *source);
/* Its model: all of trine_model but dropout. Errors: TRINE_EDATA, TRINE_EINVAL. Pure. */
trine_status ckpt_model(const ckpt_source *source, trine_model *model);
/* State and configuration (settings.h) of its run; NULL for weights alone (Hugging Face). Pure. */
const ckpt_state *ckpt_saved_state(const ckpt_source *source);
const char *ckpt_saved_config(const ckpt_source *source);
/* Its `exact`; "": it had no such promise, or is no checkpoint. */
const char *ckpt_saved_exact(const ckpt_source *source);
/* Its training data; files = 0 if unknown. Pure. */
ckpt_data ckpt_saved_data(const ckpt_source *source);
/* tokenizer_hash of what made its tokens; 0 if unknown. Pure. */
uint64_t ckpt_saved_tokenizer(const ckpt_source *source);

/* Fills the shards. CKPT_WEIGHT and CKPT_MASTER are read from the saved master if there is one, else from
 * the saved weight; 16-bit weights are its rounding. Padding and gaps are not touched. Errors, on this rank
 * alone: TRINE_EDATA names a tensor that is missing or has another shape or a type that is not a float; the
 * device's. Not collective. */
trine_status ckpt_read(const ckpt_source *source, device *dev, const ckpt_shard *shards,
                       size_t count);

/* The same while this rank answers the other ranks of `world` (comm_with_files), for host memory; a GPU is
 * used by the calling thread only. Not collective. */
trine_status ckpt_read_answering(const ckpt_source *source, trine_world *world, device *dev,
                                 const ckpt_shard *shards, size_t count);

#endif
