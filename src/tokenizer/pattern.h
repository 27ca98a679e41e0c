/* Regular expressions of a tokenizer.json, which are Oniguruma's, by PCRE2: translated by oniguruma.h, compiled with
 * Unicode properties, and to machine code where PCRE2 can. */
#ifndef TRINE_TOKENIZER_PATTERN_H
#define TRINE_TOKENIZER_PATTERN_H

#include "tokenizer/text.h"

typedef struct pattern pattern;

#define PATTERN_BYTES 8192 /* of the longest expression */

/* Compiles an expression. Owned by the caller; NULL after an error. Errors: TRINE_EUNSUPPORTED: the message starts
 * with `path`, and has the expression and what is not supported; TRINE_ENOMEM. Not collective. */
trine_status pattern_create(pattern **p, const char *expression, const char *path);
/* The same for a text that is searched for as it is. */
trine_status pattern_literal(pattern **p, const char *text, const char *path);
void pattern_destroy(pattern **p);

/* PCRE2's version, and that of its Unicode: "10.42 2022-12-11", "14.0.0". */
#define PATTERN_VERSION 64
void pattern_versions(char pcre2[PATTERN_VERSION], char unicode[PATTERN_VERSION]);

/* Whether a match can depend on what is before its start (lookbehind, ^): then a text cannot be cut. */
bool pattern_looks_behind(const pattern *p);

/* Whether there is an empty text that it matches; true as well where PCRE2 cannot tell. */
bool pattern_matches_empty(const pattern *p);

/* The expression as the file has it, for the tokenizer's hash. Errors: TRINE_ENOMEM. */
trine_status pattern_describe(const pattern *p, text_buffer *out);

/* What matching needs; one for each thread. Owned by the caller. Errors: TRINE_ENOMEM. */
typedef struct pattern_scratch pattern_scratch;
trine_status pattern_scratch_create(pattern_scratch **s);
void pattern_scratch_destroy(pattern_scratch **s);

/* The first match in text[from, bytes), which is valid UTF-8: *begin and *end; *begin == SIZE_MAX: none. Errors:
 * TRINE_EDATA when PCRE2 gives up (its limit of steps or memory). */
trine_status pattern_find(const pattern *p, pattern_scratch *s, const char *text, size_t bytes,
                          size_t from, size_t *begin, size_t *end);

/* All matches, one after the other, as `tokenizers` has them: skips an empty match at the previous match's end. */
typedef struct {
    size_t search, last; /* {0, SIZE_MAX} begins; the end of the last match */
} pattern_walk;
trine_status pattern_next(const pattern *p, pattern_scratch *s, const char *text, size_t bytes,
                          pattern_walk *walk, size_t *begin, size_t *end);

#endif
