/* The files of a model's folder that say what its token ids mean: its tokenizer's, and the ids that end a text. Trine
 * carries them unchanged from the folder a run starts with to its checkpoints and exports, so that text can be turned
 * into tokens there, by trine-generate or transformers. They are read once, at the start: a run saves what it
 * started with, whatever becomes of the folder.
 *
 * A file must be the folder's own (base/inside.h: no link that leaves it) and be what its name says
 * (tokenizer_file_check.h). Its copy may be read by nobody who could not read the file. */
#ifndef TRINE_CKPT_TOKENIZER_FILES_H
#define TRINE_CKPT_TOKENIZER_FILES_H

#include "ckpt/tokenizer_file_check.h"
#include "ckpt/manifest.h"

#define TOKENIZER_FILE_BYTES ((uint64_t)64 << 20) /* of a file, at most */

typedef struct {
    const char *name; /* in the folder */
    char *data;       /* owned */
    size_t bytes;
    unsigned mode; /* permission bits of the file it was read from */
    uint64_t blocks[TOKENIZER_FILE_BYTES / CKPT_BLOCK]; /* XXH3 of each file block */
} tokenizer_file;

/* {0}: no files. */
typedef struct {
    tokenizer_file files[TOKENIZER_FILES]; /* [count], in the same order for the same names */
    int count;
} tokenizer_files;

/* Reads the files at `path` that exist: tokenizer.json, vocab.json and so on, in a folder, or beside a file that is
 * the tokenizer; a tokenizer.json of another name is carried as tokenizer.json. *c is freed by tokenizer_files_free
 * and empty after an error. Errors: TRINE_EIO, also for a link that leaves the folder; TRINE_EDATA for a file of more
 * than TOKENIZER_FILE_BYTES, or that is not what its name says; TRINE_ENOMEM. Not collective. */
trine_status tokenizer_files_read(tokenizer_files *c, const char *path);
void tokenizer_files_free(tokenizer_files *c);

/* Bytes of all files. Pure. */
uint64_t tokenizer_files_bytes(const tokenizer_files *c);

/* Writes them as new files in `folder`, syncs them and reads them back. Errors: TRINE_EIO; TRINE_EDATA when a file
 * does not contain what was written; TRINE_ENOMEM. Not collective. */
trine_status tokenizer_files_save(const tokenizer_files *c, const char *folder);

#endif
