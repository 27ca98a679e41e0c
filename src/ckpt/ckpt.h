/* Checkpoints: saving from any layout, loading into any. A checkpoint is a folder step-N of
 * safetensors files in global shapes (slice.h) and a manifest (manifest.h). Hugging Face's folders
 * of a GPT-2 are read as they are (hf.h), as weights without a state.
 *
 *   save   rank 0 makes the folder, headers and sizes; the ranks of each node put what they have
 *          together and write it into place (blocks.h); every rank hashes its share of the file as
 *          the file system has it, while it is synced, and what it finds there must be what all
 *          wrote (slice_sum); rank 0 writes config.json (hf.h) and the manifest, publishes
 *   load   every rank verifies its share of the blocks, all agree; then each reads what it needs
 *
 * Invariant: at every moment the newest whole checkpoint is there under its name; a rank's failure
 * is all ranks' and leaves it there. Nobody ever holds more than its own part of the model and a
 * few buffers. The folder must be one that all ranks see. Cost: the bytes once to the disk, once
 * back. */
#ifndef TRINE_CKPT_CKPT_H
#define TRINE_CKPT_CKPT_H

#include "ckpt/blocks.h"
#include "ckpt/file.h"
#include "ckpt/lease.h"
#include "ckpt/manifest.h"
#include "ckpt/slice.h"
#include "comm/api/comm.h"

/* What is saved. The tensors are those of the whole model, in one order, the same on every rank: of
 * every kind that is saved (slice_entry); pieces are this rank's. All borrowed. */
typedef struct {
    device *dev;
    const st_entry *tensors; /* CKPT_WEIGHT: go into CKPT_MODEL_FILE; others: CKPT_OPTIMIZER_FILE */
    const ckpt_kind *kinds;  /* [tensor_count] */
    size_t tensor_count;
    const ckpt_shard *pieces;
    size_t piece_count;
    ckpt_state state;
    ckpt_data data;
    const char *config; /* settings_print */
    /* All zero, or as an earlier save of these tensors has left it. The caller ends it before the
     * mesh: making and ending one is collective, in calls of MPI that block. */
    blocks_writer *writer;
    /* NULL in it, or as ckpt_hold or an earlier save has left it; the caller gives it back. */
    lease **lease;
} ckpt_image;

/* Takes the lease of DIR for this job, unless it is held already; rank 0 has it then in *l (NULL, or as
 * an earlier call has left it; that of another folder is given back). Makes DIR if need be. `token` =
 * what stands in the names of files that this job is writing. On `out` (NULL: nothing) rank 0 says
 * for whose end it waits. Errors, on every rank: TRINE_EBUSY names the job that saves there, or that has
 * taken this one's lease over; TRINE_EIO, TRINE_ENOMEM; the collectives' own. Collective over:
 * world. */
trine_status ckpt_hold(trine_comm *world, lease **l, const char *dir, FILE *out,
                       char token[FILE_TOKEN]);

/* Saves to DIR/step-N, N being state.step, under the folder's lease, and removes all but the `keep`
 * newest (0: none); an old one that cannot be removed stays, and is no error. On `out` (NULL:
 * nothing) rank 0 says what was done. Errors, on every rank: TRINE_EIO names rank, file and cause; TRINE_ENOMEM; TRINE_EDATA when
 * a file does not have what was written; those of ckpt_hold. What was saved before is still
 * there. Collective over: world. */
trine_status ckpt_save(trine_mesh *mesh, const ckpt_image *image, const char *dir, int keep,
                       FILE *out);

typedef struct ckpt_source ckpt_source;

/* Opens and verifies what `path` names: a folder step-N, a folder of them (the newest whole one),
 * or a Hugging Face folder. What was passed over, and why, is said on `out` by rank 0. *source is
 * owned by the caller. Errors, on every rank alike: TRINE_EIO, TRINE_EDATA when there is nothing
 * whole, with the reasons; TRINE_ENOMEM; the collectives' own. Collective over: world. */
trine_status ckpt_open(ckpt_source **source, trine_comm *world, const char *path, FILE *out);

/* The same for a folder that checkpoints are saved in, which may be empty or absent: then *source
 * is NULL. One that has checkpoints of which none is whole is an error. Collective over: world. */
trine_status ckpt_open_newest(ckpt_source **source, trine_comm *world, const char *dir, FILE *out);

/* Closes and frees; *source becomes NULL, and may be it. Not collective. */
void ckpt_close(ckpt_source **source);

/* The folder that was chosen; never NULL. Pure. */
const char *ckpt_path(const ckpt_source *source);
/* Sizes of the model in it: all of trine_model but dropout. Errors: TRINE_EDATA, TRINE_EINVAL.
 * Pure. */
trine_status ckpt_model(const ckpt_source *source, trine_model *model);
/* Where its run stood, and its configuration (settings.h); NULL of weights alone (Hugging Face).
 * Pure. */
const ckpt_state *ckpt_saved_state(const ckpt_source *source);
const char *ckpt_saved_config(const ckpt_source *source);
/* The data that it was trained with; files 0 where that is not known. Pure. */
ckpt_data ckpt_saved_data(const ckpt_source *source);

/* Fills the pieces. CKPT_WEIGHT and CKPT_MASTER are made from the saved master where there is one,
 * else from the saved weight; in 16 bits they are its rounding. Padding and gaps are not touched.
 * Errors, this rank's alone: TRINE_EDATA names a tensor that is missing or has another shape or no
 * float type; the device's. Not collective. */
trine_status ckpt_read(const ckpt_source *source, device *dev, const ckpt_shard *pieces,
                       size_t count);

/* The same, while this rank answers the others of `world` (comm_with_files), into memory of the host: a
 * GPU is this thread's alone. Not collective. */
trine_status ckpt_read_answering(const ckpt_source *source, trine_world *world, device *dev,
                                 const ckpt_shard *pieces, size_t count);

#endif
