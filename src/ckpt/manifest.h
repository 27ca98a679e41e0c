/* manifest.json of a checkpoint. It is written last, so a folder with a complete manifest is a complete
 * checkpoint, provided that its files are as the manifest says.
 *
 * Invariant: a function of the run alone: no times, hosts or paths, so that equal runs write equal files.
 * Its last line is the XXH3 of all bytes before that line; manifest_parse refuses a manifest that was
 * truncated or changed. 64-bit numbers are strings, because JSON numbers are doubles. */
#ifndef TRINE_CKPT_MANIFEST_H
#define TRINE_CKPT_MANIFEST_H

#include "trine_types.h"

#define MANIFEST_FILE    "manifest.json"
#define MANIFEST_VERSION 1
#define MANIFEST_FILES   1024 /* at most */
#define MANIFEST_BYTES   ((uint64_t)256 << 20) /* at most: that of 50 TB, with some 20 bytes for every 4 MiB */
#define CKPT_MODEL_FILE     "model.safetensors"     /* weights, as the run computes with them */
#define CKPT_OPTIMIZER_FILE "optimizer.safetensors" /* masters of 16-bit weights, moments */
#define CKPT_OPTIONS_FILE "options.txt" /* the run's options, for people; not listed in the manifest */
#define CKPT_KEEP_FILE "keep.txt" /* in a checkpoint that no cleaning removes, whoever has put it there */
#define CKPT_BLOCK ((uint64_t)4 << 20) /* bytes of a file block, which has its own hash */

/* State of a run, the same on every rank. No padding: states are compared as bytes. */
typedef struct {
    int64_t step, updates;  /* steps done; steps that updated the parameters */
    uint64_t samples, seed; /* samples consumed, the index of the next one */
    double loss_scale;
    int good, left;         /* loss scaler: consecutive steps without overflow; hysteresis left */
    int64_t finite_step;    /* last step with a finite norm, and that norm; 0: none yet */
    double finite_norm;
    int64_t sets_lr; /* 1: the program has set the learning rate, to lr; 0: it is the schedule's */
    double lr;
    int64_t decay_step, decay_update; /* after which a decay of the learning rate has begun by time; 0: none */
} ckpt_state;

/* Fingerprint of the run's last token files (data/tokens.h). files = 0: unknown, as in checkpoints of
 * earlier versions. */
typedef struct {
    uint64_t files, tokens, hash;
} ckpt_data;

typedef struct {
    char name[64]; /* in the folder; no "/" */
    uint64_t bytes;
    uint64_t *blocks; /* [(bytes + CKPT_BLOCK - 1) / CKPT_BLOCK] XXH3_64bits of each; owned */
    bool carried;     /* one of the tokenizer's (tokenizer_files.h), without tensors */
} manifest_file;

#define MANIFEST_EXACT 256

typedef struct {
    ckpt_state state;
    ckpt_data data;
    uint64_t tokenizer; /* tokenizer_hash of what made the run's tokens; 0: unknown */
    uint64_t base;    /* hash of the base, which is not in the checkpoint (base.h); 0: it is */
    char *config;     /* a JSON object (settings.h), as text; owned */
    char library[32]; /* TRINE_VERSION of the writer */
    char exact[MANIFEST_EXACT]; /* of a run with parallel.exact: what its bits depend on (ckpt.h); else "" */
    manifest_file *files; /* [count], those with tensors first; owned */
    int count;
} manifest;

/* Number of file blocks in `bytes` bytes. Pure. */
static inline size_t manifest_blocks(uint64_t bytes) {
    return (size_t)((bytes + CKPT_BLOCK - 1) / CKPT_BLOCK);
}

/* The manifest as text, owned by the caller (free). Errors: TRINE_ENOMEM; TRINE_EDATA when config is not a
 * JSON object. Pure. */
trine_status manifest_print(const manifest *m, char **text, size_t *bytes);

/* `path` is for messages. *m is freed by manifest_free. Errors: TRINE_EDATA names the fault; TRINE_ENOMEM.
 * Pure. */
trine_status manifest_parse(manifest *m, const char *text, size_t bytes, const char *path);
void manifest_free(manifest *m);

/* hashes[i] (of `count`) = XXH3 of file block first + i stride, and *sum += slice_sum of its elements of
 * `width` bytes from byte `data` on (width 0: no sum). Reads through one buffer of CKPT_BLOCK. Errors:
 * TRINE_EIO (also for a file shorter than `bytes`), TRINE_ENOMEM. Not collective. */
trine_status manifest_hash(const char *path, uint64_t bytes, size_t first, size_t stride,
                           size_t count, uint64_t *hashes, uint64_t data, size_t width,
                           uint64_t *sum);

#endif
