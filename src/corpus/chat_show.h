/* Rows of conversations as people can check them: the text that a model reads, and what of it is supervised. */
#ifndef TRINE_CORPUS_CHAT_SHOW_H
#define TRINE_CORPUS_CHAT_SHOW_H

#include <stdio.h>

#include "corpus/corpus.h"

/* What surrounds supervised text. */
#define CHAT_SHOW_OPENS  "[["
#define CHAT_SHOW_CLOSES "]]"

/* Encodes all inputs, rows of s->chat, and prints the first `rows` of them to `to`, decoded from their tokens: a line
 * with the row's number, tokens and supervised tokens, then the text with its special tokens, in which each run of
 * supervised tokens stands between CHAT_SHOW_OPENS and CHAT_SHOW_CLOSES, then an empty line. Where a character has
 * tokens on both sides of a mark, it stands behind the mark. *counts: of all rows. Errors: those of corpus_encode;
 * TRINE_ENOMEM. Not collective. */
trine_status chat_show(FILE *to, uint64_t rows, const tokenizer *t, const inputs *in, const corpus_settings *s,
                       corpus_watch watch, corpus_counts *counts);

#endif
