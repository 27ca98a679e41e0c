/* Normalizers: text to text, before words are cut. A kind is a row of the table in normalize.c:
 *
 *   NFC, NFD, NFKC, NFKD   normal forms (Unicode Standard Annex 15), by utf8proc
 *   Prepend                a text before a text that is not empty
 *   Replace                a text, or what a regular expression matches, by a text
 *   Sequence               several of these
 *
 * A pre-tokenizer Metaspace, and ByteLevel's add_prefix_space, change the text too: they become rows here. */
#ifndef TRINE_TOKENIZER_NORMALIZE_H
#define TRINE_TOKENIZER_NORMALIZE_H

#include "base/json.h"
#include "tokenizer/pattern.h"

/* What the text is to the whole text. */
typedef struct {
    bool continues; /* a part of a text whose part before is elsewhere */
    size_t head;    /* bytes at the start that stand for the first character of the whole text */
} text_place;

typedef struct normalizer normalizer;

typedef struct {
    const char *name;
    /* Reads the entry into *n, which is zeroed but for `kind`. Messages start with `path`. */
    trine_status (*read)(normalizer *n, const cJSON *entry, const char *path);
    /* Appends the normalized text; place->head becomes that of the result. */
    trine_status (*apply)(const normalizer *n, pattern_scratch *s, const char *text, size_t bytes,
                          text_place *place, text_buffer *out);
} normalizer_kind;

struct normalizer {
    const normalizer_kind *kind;
    char *content;      /* owned: Prepend's and Replace's text */
    pattern *what;      /* owned: what Replace replaces */
    size_t span;        /* bytes of a literal `what`; 0: a regular expression */
    bool wide;          /* `what` may match several characters */
    unsigned char *stable; /* owned: characters that a normal form leaves alone wherever they are, a bit each */
    int form;           /* utf8proc's options of a normal form */
};

typedef struct {
    normalizer *rows; /* owned */
    size_t count;
} normalizer_list;

/* Appends the rows of tokenizer.json's "normalizer", which may be null. Errors: TRINE_EUNSUPPORTED names an unknown
 * kind; TRINE_EDATA; TRINE_ENOMEM. */
trine_status normalizer_read(normalizer_list *list, const cJSON *entry, const char *path);
/* Appends a row that replaces " " by `by`, and one that prepends `what` unless the text begins with it: to every
 * text, or to one that begins with what the first character of the whole text became. */
typedef enum { PREPEND_ALWAYS, PREPEND_FIRST } prepend_scheme;
trine_status normalizer_add_spaces(normalizer_list *list, const char *by);
trine_status normalizer_add_prefix(normalizer_list *list, const char *what, prepend_scheme scheme);
void normalizer_list_free(normalizer_list *list);

/* *out = the normalized text, in out->text or, if there are no rows, `text` itself; place->head becomes its. `spare`
 * is a second buffer. Errors: TRINE_ENOMEM, the pattern's. */
trine_status normalizer_apply(const normalizer_list *list, pattern_scratch *s, const char *text,
                              size_t bytes, text_place *place, text_buffer *out, text_buffer *spare);

/* Whether text[0, at) and text[at, bytes) may be normalized apart. Looks at the characters around `at`. */
bool normalizer_parts(const normalizer_list *list, const char *text, size_t bytes, size_t at);

/* What decides ids, as text, for the tokenizer's hash. Errors: TRINE_ENOMEM. */
trine_status normalizer_describe(const normalizer_list *list, text_buffer *out);

#endif
