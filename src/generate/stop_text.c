#include "generate/stop_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

void stop_text_begin(stop_text *s) {
    s->used = s->given = 0;
    s->found = false;
}

void stop_text_free(stop_text *s) {
    free(s->held);
    s->held = NULL;
}

typedef enum { NONE, BEGINS, WHOLE } match;

/* Whether a stop text is at the place, or may be there once more of the text is known. */
static match match_at(const stop_text *s, size_t at) {
    size_t left = s->used - at;
    match best = NONE;
    for (size_t i = 0; i < s->count && best != WHOLE; i++) {
        size_t length = strlen(s->texts[i]);
        if (memcmp(s->texts[i], s->held + at, length < left ? length : left)) continue;
        best = length <= left ? WHOLE : BEGINS;
    }
    return best;
}

/* The first place with at least this match. */
static size_t find(const stop_text *s, match least) {
    size_t at = 0;
    while (at < s->used && match_at(s, at) < least) at++;
    return at;
}

static void drop_given(stop_text *s) {
    s->used -= s->given;
    if (s->used) memmove(s->held, s->held + s->given, s->used);
    s->given = 0;
}

trine_status stop_text_add(stop_text *s, const char *piece, size_t bytes, const char **out,
                           size_t *out_bytes) {
    drop_given(s);
    if (s->found) bytes = 0;
    if (s->used + bytes > s->capacity) {
        size_t capacity = 2 * s->capacity + bytes;
        char *held = realloc(s->held, capacity);
        CHECK(held, TRINE_ENOMEM, "no memory for a text of %zu bytes", capacity);
        s->held = held;
        s->capacity = capacity;
    }
    if (bytes) memcpy(s->held + s->used, piece, bytes);
    s->used += bytes;
    s->given = find(s, BEGINS);
    if (s->given < s->used && match_at(s, s->given) == WHOLE) s->found = true, s->used = s->given;
    *out = s->held ? s->held : "";
    *out_bytes = s->given;
    return TRINE_OK;
}

void stop_text_end(stop_text *s, const char **out, size_t *out_bytes) {
    drop_given(s);
    size_t end = find(s, WHOLE); /* what was to be a longer one is none */
    s->found = s->found || end < s->used;
    *out = s->held ? s->held : "";
    *out_bytes = s->given = s->used = end;
}
