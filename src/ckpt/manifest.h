/* What stands beside the tensors of a checkpoint: manifest.json. It is the last file to be written,
 * so a folder that has a whole one is a whole checkpoint, if the files are as it says.
 *
 * Invariant: a function of the run alone: no times, no hosts, no paths, so that equal runs give
 * equal files. Its last line is the XXH3 of all bytes before that line, which manifest_parse
 * demands: a manifest that was cut or changed is none. 64-bit numbers are strings, JSON's numbers
 * being doubles. */
#ifndef TRINE_CKPT_MANIFEST_H
#define TRINE_CKPT_MANIFEST_H

#include "trine.h"

#define MANIFEST_FILE    "manifest.json"
#define MANIFEST_VERSION 1
#define MANIFEST_FILES   1024 /* at most */
#define CKPT_MODEL_FILE     "model.safetensors"     /* weights, as the run computes with them */
#define CKPT_OPTIMIZER_FILE "optimizer.safetensors" /* masters of 16-bit weights, moments */
#define CKPT_BLOCK ((uint64_t)4 << 20) /* bytes of a file that have a hash of their own */

/* Where a run stands. All of it is the same on every rank. */
typedef struct {
    int64_t step, updates;  /* steps done; those that changed the parameters */
    uint64_t samples, seed; /* samples consumed: of the next step the first */
    double loss_scale;
    int good, left;         /* the scaler's: steps in a row without overflow, of its hysteresis */
    int64_t finite_step;    /* the last step with a finite norm, and that; 0: none yet */
    double finite_norm;
} ckpt_state;

/* The data that the run trained with last: a fingerprint of its token files (data/tokens.h). files 0:
 * it is not known, as in checkpoints of earlier versions. */
typedef struct {
    uint64_t files, tokens, hash;
} ckpt_data;

typedef struct {
    char name[64]; /* in the folder; no "/" */
    uint64_t bytes;
    uint64_t *blocks; /* [(bytes + CKPT_BLOCK - 1) / CKPT_BLOCK] XXH3_64bits of each; owned */
} manifest_file;

typedef struct {
    ckpt_state state;
    ckpt_data data;
    char *config;     /* a JSON object (settings.h), as text; owned */
    char library[32]; /* TRINE_VERSION of who wrote it */
    manifest_file *files; /* [count]; owned */
    int count;
} manifest;

/* Number of blocks of a file of `bytes` bytes. Pure. */
static inline size_t manifest_blocks(uint64_t bytes) {
    return (size_t)((bytes + CKPT_BLOCK - 1) / CKPT_BLOCK);
}

/* The manifest as text, owned by the caller (free). Errors: TRINE_ENOMEM; TRINE_EDATA when config
 * is no JSON object. Pure. */
trine_status manifest_print(const manifest *m, char **text, size_t *bytes);

/* `path` is for messages. *m is ended by manifest_free. Errors: TRINE_EDATA says what is wrong;
 * TRINE_ENOMEM. Pure. */
trine_status manifest_parse(manifest *m, const char *text, size_t bytes, const char *path);
void manifest_free(manifest *m);

/* hashes[i] (of `count`) = XXH3 of block first + i stride of the file, and *sum += slice_sum of its
 * elements of `width` bytes from byte `data` on (width 0: no sum). Reads through one buffer of
 * CKPT_BLOCK. Errors: TRINE_EIO (also a file that is shorter than `bytes`), TRINE_ENOMEM. Not
 * collective. */
trine_status manifest_hash(const char *path, uint64_t bytes, size_t first, size_t stride,
                           size_t count, uint64_t *hashes, uint64_t data, size_t width,
                           uint64_t *sum);

#endif
