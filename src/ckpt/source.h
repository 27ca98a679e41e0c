/* Internals of a ckpt_source: open files with tensors, and their origin. source.c opens and verifies
 * checkpoints, hf.c Hugging Face folders; both fill this. */
#ifndef TRINE_CKPT_SOURCE_H
#define TRINE_CKPT_SOURCE_H

#include "ckpt/ckpt.h"
#include "trine.h"

struct ckpt_source {
    char *path;
    st_file *files; /* [file_count] */
    int file_count;
    trine_model model;
    trine_lora lora;  /* of adapters that were added (peft_attach), in the last of `files`; rank 0: none */
    char *adapters;   /* their folder; NULL: none */
    char *base;       /* folder of the base whose files follow its own (base.h); NULL: it has all tensors itself */
    bool has_state;   /* a checkpoint, with state, not weights alone */
    manifest written; /* where has_state */
    uint64_t fingerprint;   /* XXH3 of all JSON read from a Hugging Face folder */
};

/* Whether `path` is a Hugging Face folder: it has a config.json and no manifest. With an optimizer file it
 * is not one either, but a checkpoint that was never committed or has lost its manifest, whose weights may
 * be incomplete. Not collective. */
bool hf_is(const char *path);

/* Opens a Hugging Face folder: config.json into source->model, and model.safetensors or all files in
 * model.safetensors.index.json into source->files. Errors: TRINE_EINVAL names an entry of the configuration
 * that is not supported (architecture, activation, epsilon ...); TRINE_EIO, TRINE_EDATA, TRINE_ENOMEM.
 * ckpt_close frees what was filled in any case. Not collective. */
trine_status hf_open(ckpt_source *source, const char *path);

/* Writes `source` (a checkpoint or a Hugging Face folder) as a Hugging Face folder: config.json with the tokens,
 * and model.safetensors with the fp32 masters if there are any, else the weights unchanged, and the tokenizer's
 * files that its folder has (tokenizer_files.h). Adapters are added to the weights that they belong to. Errors:
 * TRINE_EIO, also when `out` exists and is not an empty folder; TRINE_EDATA, TRINE_ENOMEM. Not collective. */
trine_status hf_export(const ckpt_source *source, const hf_tokens *tokens, const char *out);

/* The same for its adapters alone, as PEFT writes them (hf/peft.h). base: the folder or the name of the model that
 * they belong to, NULL: not known. Not collective. */
trine_status peft_export(const ckpt_source *source, const char *base, const char *out);

/* The tensor `name` ("h.0.ln_1.weight") of a kind, in any of the files, under its name there or, weights
 * only, without "transformer."; NULL if there is none. *file = its file. Pure. */
const st_entry *source_find(const ckpt_source *source, const tensor *t, ckpt_kind kind,
                            const st_file **file);

/* Where the weights of a tensor are: the master if there is one, since 16-bit weights are its rounding. *file and
 * *entry are the source's. Errors: TRINE_EDATA if there is none, or of another shape. Pure. */
trine_status source_values(const ckpt_source *source, const tensor *t, const st_file **file, const st_entry **entry);

/* *mode = the permission bits that all files with tensors have. Errors: TRINE_EIO. Not collective. */
trine_status source_mode(const ckpt_source *source, unsigned *mode);

#endif
