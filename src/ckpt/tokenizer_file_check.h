/* What the files of a model's tokenizer must be, one row for each that is carried (tokenizer_files.h): nothing is
 * copied into a checkpoint that is not what its name says. That a tokenizer is one that Trine can compute with is not
 * asked here. */
#ifndef TRINE_CKPT_TOKENIZER_FILE_CHECK_H
#define TRINE_CKPT_TOKENIZER_FILE_CHECK_H

#include "base/json.h"

typedef struct {
    const char *name; /* of the file in a model's folder */
    trine_status (*text)(const char *data, size_t bytes, const char *path); /* checks a text; NULL: it is JSON */
    trine_status (*json)(const cJSON *root, const char *path);              /* checks its object */
} tokenizer_file_row;

/* tokenizer.json is the first. */
#define TOKENIZER_FILES 9
extern const tokenizer_file_row tokenizer_file_rows[TOKENIZER_FILES];

/* Checks the bytes of a file; `path` is for messages. Errors: TRINE_EDATA, the message starts with `path`;
 * TRINE_ENOMEM. Pure. */
trine_status tokenizer_file_check(const tokenizer_file_row *row, const char *data, size_t bytes, const char *path);

#endif
