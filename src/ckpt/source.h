/* Inside of a ckpt_source: open files to find tensors in, and what is known of where they came
 * from. source.c opens and verifies checkpoints, hf.c Hugging Face's folders; both fill this. */
#ifndef TRINE_CKPT_SOURCE_H
#define TRINE_CKPT_SOURCE_H

#include "ckpt/ckpt.h"

struct ckpt_source {
    char *path;
    st_file *files; /* [file_count] */
    int file_count;
    trine_model model;
    bool has_state;   /* a checkpoint, not weights alone */
    manifest written; /* where has_state */
    uint64_t print;   /* of a Hugging Face folder's JSON: XXH3 of all that was read */
};

/* Whether `path` is a Hugging Face folder: it has a config.json and, unlike a checkpoint, no manifest. One
 * with an optimizer's file is none, either, but a checkpoint that has lost its manifest, or was never
 * whole: its weights need not be. Not collective. */
bool hf_is(const char *path);

/* Opens one: config.json into source->model, model.safetensors or all that
 * model.safetensors.index.json names into source->files. Errors: TRINE_EINVAL names what of the
 * configuration cannot be run here (another architecture, activation, epsilon ...); TRINE_EIO,
 * TRINE_EDATA, TRINE_ENOMEM. What was filled is freed by ckpt_close in any case. Not collective. */
trine_status hf_open(ckpt_source *source, const char *path);

/* Writes `source` (a checkpoint or a Hugging Face folder) as a Hugging Face folder: config.json,
 * model.safetensors of fp32 masters where there are some, else of the weights as they are. Errors:
 * TRINE_EIO, also when `out` exists and is no empty folder; TRINE_ENOMEM. Not collective. */
trine_status hf_export(const ckpt_source *source, const char *out);

/* Says on `to` which folders beside `out` are of exports to it that did not end, or are under way.
 * Errors: TRINE_EIO, TRINE_EINVAL, TRINE_ENOMEM. Not collective. */
trine_status hf_export_leftovers(const char *out, FILE *to);

/* The tensor `name` ("h.0.ln_1.weight") of a kind, in any of the files, under its name there or,
 * weights only, without "transformer."; NULL if there is none. *file is where. Pure. */
const st_entry *source_find(const ckpt_source *source, const char *name, ckpt_kind kind,
                            const st_file **file);

#endif
