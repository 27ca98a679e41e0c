/* Text: a buffer that grows, and UTF-8 (Unicode 15, section 3.9). Pure, but for memory. */
#ifndef TRINE_TOKENIZER_TEXT_H
#define TRINE_TOKENIZER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "trine_types.h" /* trine_status */

/* Owned by the caller (free(b.text)); {0} is empty. No terminator. */
typedef struct {
    char *text;
    size_t count, capacity;
} text_buffer;

/* Errors: TRINE_ENOMEM. */
trine_status text_reserve(text_buffer *b, size_t more);
trine_status text_add(text_buffer *b, const char *text, size_t bytes);

#define TEXT_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Bytes of the longest prefix that is UTF-8: no surrogates, no overlong forms, nothing above U+10FFFF. */
size_t text_valid(const char *text, size_t bytes);

/* Bytes of the longest prefix that is ASCII. */
size_t text_ascii(const char *text, size_t bytes);

/* Bytes at the start of `text`, which is no UTF-8 there, that one U+FFFD replaces: the maximal part of a character,
 * or one byte, as in Python's errors="replace". *incomplete: the text ends within what may be a character. */
size_t text_invalid(const char *text, size_t bytes, bool *incomplete);

/* Appends the text with U+FFFD for every invalid sequence; adds their number to *replaced. Errors: TRINE_ENOMEM. */
trine_status text_add_valid(text_buffer *b, const char *text, size_t bytes, uint64_t *replaced);

/* The character at `at` in valid text; *next is behind it. */
static inline uint32_t text_char(const char *at, const char **next) {
    const unsigned char *s = (const unsigned char *)at;
    if (s[0] < 0x80) return *next = at + 1, s[0];
    if (s[0] < 0xE0) return *next = at + 2, (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
    if (s[0] < 0xF0)
        return *next = at + 3, (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    return *next = at + 4, (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
}

/* The character that ends before `end` in valid text from `begin`, which is not empty; *at is its first byte. */
static inline uint32_t text_char_before(const char *begin, const char *end, const char **at) {
    const char *s = end - 1, *next;
    while (s > begin && ((unsigned char)*s & 0xC0) == 0x80) s--;
    *at = s;
    return text_char(s, &next);
}

/* Writes the character; returns the number of bytes, 1 to 4. */
static inline size_t text_put(char to[4], uint32_t c) {
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xC0 | c >> 6), to[1] = (char)(0x80 | (c & 0x3F)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xE0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 0x3F)),
               to[2] = (char)(0x80 | (c & 0x3F)), 3;
    return to[0] = (char)(0xF0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 0x3F)),
           to[2] = (char)(0x80 | (c >> 6 & 0x3F)), to[3] = (char)(0x80 | (c & 0x3F)), 4;
}

/* Unicode's White_Space. */
bool text_space(uint32_t c);
/* What Python's str.strip removes, of ASCII. */
static inline bool text_blank(char c) {
    return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= ' ');
}

/* Case folding (Unicode Standard, section 3.13, with characters that become several): the characters that `c`
 * becomes; returns their number. */
#define TEXT_FOLDED 4
int text_fold(uint32_t c, uint32_t to[TEXT_FOLDED]);
/* The characters that become several; returns their number. Cost: some milliseconds. */
typedef struct {
    uint32_t from, to[TEXT_FOLDED];
    int count;
} text_folding;
#define TEXT_FOLDINGS 128
int text_foldings(text_folding list[TEXT_FOLDINGS]);

/* A letter, mark, digit or connecting punctuation: \w of a regular expression over Unicode. */
bool text_word(uint32_t c);

#endif
