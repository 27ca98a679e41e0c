/* Added tokens: texts that are found before anything else, and become their ids. Of those that begin at the leftmost
 * place the longest counts. One list is of tokens that are found in the text as it is, one of those that are found in
 * the normalized text ("normalized": true). */
#ifndef TRINE_TOKENIZER_ADDED_H
#define TRINE_TOKENIZER_ADDED_H

#include "tokenizer/text.h"

typedef struct {
    char *text; /* owned; no terminator */
    size_t length;
    int32_t id;
    bool special;
    bool single_word;    /* only where no letter or digit is beside it */
    bool lstrip, rstrip; /* takes the white space before it, behind it */
} added_token;

typedef struct {
    added_token *rows; /* owned; sorted by text once added_sort was called */
    size_t count;
    bool begins[256]; /* whether a token begins with this byte */
    bool single_word; /* whether one has the mark */
} added_list;

/* Copies the text. Errors: TRINE_ENOMEM. */
trine_status added_add(added_list *list, const added_token *token);
void added_sort(added_list *list);
/* Whether two tokens of a sorted list have the same text: *first and *second. */
bool added_equal(const added_list *list, const added_token **first, const added_token **second);
void added_free(added_list *list);

/* A walk through a text: {list, text, bytes, cut} and zeros, or `plain` to leave out special tokens. */
typedef struct {
    const added_list *list;
    const char *text;
    size_t bytes;
    bool plain;
    size_t cut;    /* the text may be cut here; SIZE_MAX: nowhere */
    size_t at;     /* end of the last token, or 0: text from here on is not yet passed */
    size_t search;
    bool broken;   /* the cut lies in what looks like a token and is none: others would be found behind it */
} added_walk;

/* The next token in valid UTF-8: *token takes [*begin, *end); text[walk->at before the call, *begin) lies before it.
 * NULL: none, and the rest of the text is from walk->at on. Pure. Cost: a table look-up a byte. */
const added_token *added_next(added_walk *walk, size_t *begin, size_t *end);

#endif
