/* GPT-2's characters for bytes: printable bytes of Latin-1 are themselves, the 68 others are U+0100 and up in order
 * (Radford et al. 2019; bytes_to_unicode of its encoder.py). */
#ifndef TRINE_TOKENIZER_BYTES_H
#define TRINE_TOKENIZER_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "trine_types.h"

#define BYTES_END 0x144 /* characters are below */

/* The character of a byte. */
uint32_t bytes_char(unsigned char byte);
/* The byte of a character; -1: it stands for none. */
int bytes_byte(uint32_t c);

/* Writes the bytes of a token's text, at most `length` of them, to `to`; -1 if a character stands for none. `text` is
 * valid UTF-8. */
ptrdiff_t bytes_of(char *to, const char *text, size_t length);

#endif
