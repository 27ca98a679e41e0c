/* What the files of a model's tokenizer must be, one row for each that is carried (carried.h): nothing is copied
 * into a checkpoint that is not what its name says. That a tokenizer is one that Trine can compute with is not
 * asked here. */
#ifndef TRINE_CKPT_CARRIED_CHECK_H
#define TRINE_CKPT_CARRIED_CHECK_H

#include "trine.h"

/* Checks the bytes of a file; `path` is for messages. Errors: TRINE_EDATA, the message starts with `path`;
 * TRINE_ENOMEM. Pure. */
typedef trine_status carried_check(const char *data, size_t bytes, const char *path);

typedef struct {
    const char *name;     /* of the file in a model's folder */
    carried_check *check;
} carried_row;

/* tokenizer.json is the first. */
#define CARRIED_FILES 9
extern const carried_row carried_rows[CARRIED_FILES];

#endif
