/* The tokenizer of a run: what its model, its token files and its checkpoints have in common. World rank 0 alone
 * reads and compares it, since all ranks have the same model and data; on other ranks it stays {0}. */
#ifndef TRINE_TRAIN_RUN_TOKENIZER_H
#define TRINE_TRAIN_RUN_TOKENIZER_H

#include "ckpt/ckpt.h"
#include "data/blend.h"

/* {0}: none is known. */
typedef struct {
    char *path;     /* the file that was read; NULL: none. Owned */
    uint32_t vocab; /* tokenizer_vocab */
    uint64_t hash;  /* tokenizer_hash; without a tokenizer that in the token files; 0: unknown */
    bool chosen;    /* the configuration names it */
    char why_not[512]; /* why a loaded folder's tokenizer is not read, only carried; "": it has none or is read */
    tokenizer_files files;  /* for checkpoints */
    hf_tokens ends; /* that begin and end its texts, if `path`; otherwise those of the folder that was loaded */
    bool has_ends;
} run_tokenizer;

/* What a tokenizer must fit. */
typedef struct {
    const trine_config *config; /* with its vocabulary */
    const blend *train, *val;   /* val NULL: no validation */
} run_tokenizer_fit;

/* Reads the tokenizer that the configuration names, if any, and the hash in the token files. Errors: TRINE_EINVAL
 * when the model's vocabulary is too small for it, or when token files are another tokenizer's; those of
 * tokenizer_files_read and tokenizer_open. run_tokenizer_free frees *r in any case. Not collective. */
trine_status run_tokenizer_begin(run_tokenizer *r, const run_tokenizer_fit *fit);

/* The same for the folder that weights are loaded from: its tokenizer is the run's, unless the configuration names
 * one. A run that is resumed (not weights_only) must have the tokenizer it had. One that Trine cannot read
 * (TRINE_EUNSUPPORTED) is carried unread. Errors: as above; TRINE_EINVAL for another tokenizer. Not collective. */
trine_status run_tokenizer_load(run_tokenizer *r, const run_tokenizer_fit *fit,
                                const ckpt_source *source, bool weights_only);

/* Prints a line on what was loaded; nothing if no tokenizer is known. */
void run_tokenizer_report(const run_tokenizer *r, const ckpt_source *source, FILE *out);

void run_tokenizer_free(run_tokenizer *r);

#endif
