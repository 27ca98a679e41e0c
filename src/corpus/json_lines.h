/* JSON lines: the text of one member of an object on one line, as corpora have it: {"text": "Once upon ...", ...}.
 * The line is from anyone. It is checked as a whole and strictly (RFC 8259), but only the one string is decoded: no
 * tree, no memory, and a line may have any length.
 *
 * \u0000 is a byte of 0. Half of a surrogate pair, which is no character, becomes U+FFFD. Bytes of a string that are
 * no UTF-8 stay as they are: the encoder replaces and counts them. */
#ifndef TRINE_CORPUS_JSON_LINES_H
#define TRINE_CORPUS_JSON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

/* Levels of nested arrays and objects below the line's object. */
#define JSON_LINE_DEPTH 64

/* Where a line is from, for messages, which start with "path:number:". */
typedef struct {
    const char *path;
    uint64_t number;
} json_line_place;

typedef struct {
    size_t bytes;      /* of the text */
    uint64_t replaced; /* halves of surrogate pairs */
} json_line_value;

/* Writes the value of the member `key` of the object in `line` to `out`, which has room for `bytes` bytes (the text
 * is never longer than the line), without a terminator. `out` may be `line` itself: the text then overwrites it.
 * `bytes` is without the line break; blanks around the object are allowed. Only members of the object itself count,
 * not those of objects inside it. Errors: TRINE_EDATA names path, line, fault and column (in bytes, from 1): not
 * JSON, no object, the key is missing, is there twice, or its value is no string; `out` then has undefined bytes.
 * Pure. Cost: one pass. */
trine_status json_line_text(const char *line, size_t bytes, const char *key, char *out,
                            json_line_value *value, json_line_place place);

#endif
