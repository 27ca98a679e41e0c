/* Stop texts: a text that comes in pieces ends before the first of them. What could still become one is held back
 * until it is decided.
 *
 * Invariant: all that has been given out and what is held back are the text so far; of several stop texts that occur,
 * the one that begins first ends the text. Pieces may be of any length: a stop text may end in the middle of one.
 * Cost: for each piece, the bytes held back and its own, times the bytes of the stop texts. */
#ifndef TRINE_GENERATE_STOP_TEXT_H
#define TRINE_GENERATE_STOP_TEXT_H

#include "trine_types.h"

typedef struct {
    const char *const *texts; /* [count], borrowed, none empty */
    size_t count;
    char *held; /* owned; its first `given` bytes are what the last call has given out */
    size_t used, given, capacity;
    bool found;
} stop_text;

/* Begins a text: {.texts, .count} keeps them. Frees nothing. Pure. */
void stop_text_begin(stop_text *s);
void stop_text_free(stop_text *s);

/* Adds a piece and sets *out to what can be written, owned by `s` until the next call. After a stop text was found,
 * s->found, nothing comes any more. Errors: TRINE_ENOMEM. Not collective. */
trine_status stop_text_add(stop_text *s, const char *piece, size_t bytes, const char **out,
                           size_t *out_bytes);

/* What is held back at the end of the text, up to a stop text in it. Pure. */
void stop_text_end(stop_text *s, const char **out, size_t *out_bytes);

#endif
