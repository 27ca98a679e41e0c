#include "tokenizer/text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/status.h"

trine_status text_reserve(text_buffer *b, size_t more) {
    if (more <= b->capacity - b->count) return TRINE_OK;
    size_t capacity = b->capacity + b->capacity / 2;
    if (capacity < b->count + more) capacity = b->count + more;
    char *text = realloc(b->text, capacity);
    CHECK(text, TRINE_ENOMEM, "no memory for a text of %zu bytes", b->count + more);
    b->text = text;
    b->capacity = capacity;
    return TRINE_OK;
}

trine_status text_add(text_buffer *b, const char *text, size_t bytes) {
    if (!bytes) return TRINE_OK;
    TRY(text_reserve(b, bytes));
    memcpy(b->text + b->count, text, bytes);
    b->count += bytes;
    return TRINE_OK;
}

/* ---- UTF-8 ---- */

/* The valid range of the second byte, and the number of bytes, after this first byte; 0: it begins no character of
 * several bytes. Table 3-7 of the Unicode Standard. */
static int first_byte(unsigned char c, unsigned char *low, unsigned char *high) {
    *low = 0x80;
    *high = 0xBF;
    if (c < 0xC2 || c > 0xF4) return 0;
    if (c == 0xE0) *low = 0xA0;
    if (c == 0xED) *high = 0x9F;
    if (c == 0xF0) *low = 0x90;
    if (c == 0xF4) *high = 0x8F;
    return c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Bytes of `text` that belong to one character; *complete: whether it is all there. 0: none begins here. */
static size_t char_bytes(const unsigned char *text, size_t bytes, bool *complete) {
    unsigned char low, high;
    size_t wanted = (size_t)first_byte(text[0], &low, &high), n = 1;
    *complete = false;
    if (!wanted) return 0;
    for (; n < wanted; n++) {
        if (n == bytes || text[n] < low || text[n] > high) return n;
        low = 0x80;
        high = 0xBF;
    }
    *complete = true;
    return n;
}

size_t text_ascii(const char *text, size_t bytes) {
    size_t n = 0;
    for (uint64_t word; n + sizeof word <= bytes; n += sizeof word) {
        memcpy(&word, text + n, sizeof word);
        if (word & 0x8080808080808080u) break;
    }
    while (n < bytes && !((unsigned char)text[n] & 0x80)) n++;
    return n;
}

size_t text_valid(const char *text, size_t bytes) {
    size_t n = 0;
    bool complete = true;
    while (n < bytes) {
        if (!((unsigned char)text[n] & 0x80)) {
            n += text_ascii(text + n, bytes - n);
            continue;
        }
        size_t more = char_bytes((const unsigned char *)text + n, bytes - n, &complete);
        if (!complete) break;
        n += more;
    }
    return n;
}

size_t text_invalid(const char *text, size_t bytes, bool *incomplete) {
    bool complete;
    size_t n = char_bytes((const unsigned char *)text, bytes, &complete);
    *incomplete = n && n == bytes;
    return n ? n : 1;
}

trine_status text_add_valid(text_buffer *b, const char *text, size_t bytes, uint64_t *replaced) {
    for (;;) {
        size_t n = text_valid(text, bytes);
        bool incomplete;
        TRY(text_add(b, text, n));
        if (n == bytes) return TRINE_OK;
        TRY(text_add(b, TEXT_REPLACEMENT, 3));
        n += text_invalid(text + n, bytes - n, &incomplete);
        text += n;
        bytes -= n;
        ++*replaced;
    }
}

/* ---- Properties ---- */

bool text_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

int text_fold(uint32_t c, uint32_t to[TEXT_FOLDED]) {
    utf8proc_int32_t folded[TEXT_FOLDED];
    int class = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)c, folded, TEXT_FOLDED,
                                                     UTF8PROC_CASEFOLD, &class);
    for (int i = 0; i < count && i < TEXT_FOLDED; i++) to[i] = (uint32_t)folded[i];
    if (count < 1) to[0] = c; /* c is no character */
    return count < 1 ? 1 : (int)count;
}

int text_foldings(text_folding list[TEXT_FOLDINGS]) {
    int count = 0;
    for (uint32_t c = 0xDF; c < 0x10000; c++) { /* no other character becomes several */
        text_folding f = {.from = c};
        f.count = text_fold(c, f.to);
        if (f.count == 1) continue;
        ASSERT(count < TEXT_FOLDINGS);
        list[count++] = f;
    }
    return count;
}

bool text_word(uint32_t c) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool joins = c == 0x200C || c == 0x200D;
    bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                   (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || joins || circled;
}
