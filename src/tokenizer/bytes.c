#include "tokenizer/bytes.h"

#include "tokenizer/text.h"

/* Of the bytes below 0x100, those that are not printable, in order: 0-32, 127-160, 173. */
static int number_of(unsigned char byte) {
    if (byte <= 32) return byte;
    if (byte >= 127 && byte <= 160) return byte - 127 + 33;
    return byte == 173 ? 67 : -1;
}

uint32_t bytes_char(unsigned char byte) {
    int number = number_of(byte);
    return number < 0 ? byte : 0x100u + (uint32_t)number;
}

int bytes_byte(uint32_t c) {
    if (c < 0x100) return number_of((unsigned char)c) < 0 ? (int)c : -1;
    if (c >= BYTES_END) return -1;
    int number = (int)c - 0x100;
    return number <= 32 ? number : number < 67 ? number - 33 + 127 : 173;
}

ptrdiff_t bytes_of(char *to, const char *text, size_t length) {
    const char *end = text + length;
    ptrdiff_t count = 0;
    while (text < end) {
        int byte = bytes_byte(text_char(text, &text));
        if (byte < 0) return -1;
        to[count++] = (char)byte;
    }
    return count;
}
