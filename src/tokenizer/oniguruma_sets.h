/* The sets of characters that have a name in Oniguruma, in PCRE2's syntax. */
#ifndef TRINE_TOKENIZER_ONIGURUMA_SETS_H
#define TRINE_TOKENIZER_ONIGURUMA_SETS_H

#include "tokenizer/text.h"

/* What a bracket would have for the set, and for all other characters; one of the two may be NULL. */
typedef struct {
    const char *members, *others;
    bool closed; /* no letter of it has another case that is not in it, or becomes several letters in it */
    bool ascii;
    char owned[2][64]; /* of a script's name */
} named_set;

/* \s \S \w \W \d \D \h \H. Whether there is such an escape. */
bool named_set_escape(named_set *s, char escape, bool in_bracket, bool *negative);
/* The name of \p{name}, in any case, with or without spaces, dashes and underscores. False: no such set. A name that
 * is none of the table's may be a script's, which is found out when PCRE2 compiles. */
bool named_set_property(named_set *s, const char *name, bool in_bracket);
/* The name of [:name:]. */
bool named_set_posix(named_set *s, const char *name);

/* Appends the set, or all other characters, as an expression of one character. Errors: TRINE_ENOMEM. */
trine_status named_set_write(text_buffer *to, const named_set *s, bool negative);

/* What \b \B \A \z \Z \R \N \O are in PCRE2's syntax; NULL: no such escape. *anchor: it matches no characters. */
const char *named_escape(char escape, bool *anchor);

#endif
