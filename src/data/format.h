/* The two kinds of token file (see tokens.h), for the reader and the writer. */
#ifndef TRINE_DATA_FORMAT_H
#define TRINE_DATA_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define FORMAT_HEADER    256 /* int32 */
#define FORMAT_TOKENIZER 4   /* the header's first int32 of the tokenizer's hash: uint64, low word first */

typedef struct {
    int32_t magic, version;
    size_t width; /* bytes a token */
} token_format;

static const token_format FORMAT_U16 = {20240520, 1, 2}, FORMAT_U32 = {20240801, 7, 4};

/* The format with this magic number; NULL: unknown. */
static inline const token_format *format_of(int32_t magic) {
    if (magic == FORMAT_U16.magic) return &FORMAT_U16;
    return magic == FORMAT_U32.magic ? &FORMAT_U32 : NULL;
}

#endif
