/* Regular expressions of Oniguruma's syntax (ONIG_SYNTAX_ONIGURUMA, in UTF-8 without options), which is what a
 * tokenizer.json has, in PCRE2's syntax. The two differ in what classes, escapes, options and repeats mean. An
 * expression is parsed, and written again so that it matches the same; what cannot be written so, and what is rare,
 * is refused by name. Differences that the table of this file covers:
 *
 *   \s \w \d \h \v \R \N \O \b    other sets of characters; \w has six more outside of brackets than inside
 *   \p{...}, [:name:]             general categories, scripts and POSIX names, whatever their case, spaces and dashes
 *   [a[bc]], [a&&b]               sets of sets, as alternatives and lookaheads of one character
 *   {,n}                          {0,n}
 *   {n}?, {n,m}+                  a repeat that is optional, that is repeated
 *   (?i) and what follows         a group up to the end of the group that it is in, alternatives included
 *   (?m)                          "." matches a newline
 *   (?i) of several characters    "ss" is "ß" for Oniguruma: refused */
#ifndef TRINE_TOKENIZER_ONIGURUMA_H
#define TRINE_TOKENIZER_ONIGURUMA_H

#include "tokenizer/text.h"

typedef struct {
    bool behind; /* a match can depend on what is before its start */
    bool atomic; /* there is a group that is not entered again: (?>...), (...)++ */
} oniguruma_facts;

/* Appends the expression in PCRE2's syntax, for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE and "\n" as the newline.
 * Errors: TRINE_EUNSUPPORTED: the message starts with `path`, and has the expression and what is not supported;
 * TRINE_ENOMEM. Pure, but for memory. */
trine_status oniguruma_translate(text_buffer *to, oniguruma_facts *facts, const char *expression,
                                 const char *path);

#endif
