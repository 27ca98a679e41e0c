/* A scan of one line of JSON, strict (RFC 8259), without a tree: for json_lines.h and chat_rows.h, which decode a few
 * strings of it and pass over the rest. Pure. */
#ifndef TRINE_CORPUS_JSON_SCAN_H
#define TRINE_CORPUS_JSON_SCAN_H

#include <stdbool.h>

#include "corpus/json_lines.h"

typedef struct {
    const char *text;
    size_t at, bytes;
    json_line_place place;
} json_scan;

/* What a string is decoded for: its text goes to `out` (may be NULL), or is compared with `want` (may be NULL). */
typedef struct {
    char *out;
    const char *want;
    size_t want_bytes, count; /* count: bytes of the text */
    bool differs;
    uint64_t replaced; /* halves of surrogate pairs, which became U+FFFD */
} json_taker;

/* Raises TRINE_EDATA with path, line and column (`at` + 1). */
trine_status json_scan_fault(const json_scan *s, size_t at, const char *what);

/* The next byte; -1 at the end. */
int json_scan_peek(const json_scan *s);
/* Passes over the byte, if it is next. */
bool json_scan_take(json_scan *s, char c);
void json_scan_blanks(json_scan *s);

/* From the first quotation mark to behind the last. `out` may be where the string begins: it is never longer. */
trine_status json_scan_string(json_scan *s, json_taker *t);
/* A member's name, up to its value. */
trine_status json_scan_name(json_scan *s, json_taker *t);
/* Any value; `depth`: arrays and objects around it, below the line's. */
trine_status json_scan_value(json_scan *s, int depth);

/* Reads an element of an array, or a member of an object, its name included. */
typedef trine_status (*json_visit)(json_scan *s, void *context);
/* The elements behind an opening bracket; `end`, ] or }, is consumed. */
trine_status json_scan_each(json_scan *s, char end, json_visit visit, void *context);
/* The members of the line's one object; nothing but blanks may be around it. */
trine_status json_scan_line(json_scan *s, json_visit visit, void *context);

#endif
