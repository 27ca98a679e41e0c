/* Characters that are newer than the Unicode of the PCRE2 that is linked: they are neither letters nor digits there,
 * and Hugging Face's tokenizers may split them in another way. */
#ifndef TRINE_TOKENIZER_NEWER_H
#define TRINE_TOKENIZER_NEWER_H

#include <stddef.h>

#include "tokenizer/tokenizer.h" /* newer_chars */

/* Which blocks of 64 characters have some that are newer. */
typedef struct {
    int version; /* ten times Unicode's major version plus the minor one: 140 */
    bool any, leads[256]; /* leads: the first byte of a character that may be newer */
    unsigned char blocks[0x110000 / 64 / 8];
} newer_table;

/* For characters that are newer than this version of Unicode, up to 16.0 (which tokenizers 0.23 has). Pure. */
void newer_table_fill(newer_table *t, int version);

/* Adds those of a valid text. Cost: a look-up a character that is not ASCII. */
void newer_count(const newer_table *t, const char *text, size_t bytes, newer_chars *to);

#endif
