#include "report/page_sample.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/input.h"
#include "base/status.h"
#include "base/text_mark.h"
#include "report/page_json.h"

#define REPLACEMENT "\xef\xbf\xbd"

/* Of the character at `at`: one that is not shown as itself, or changes what is shown around it: C0, DEL, C1, and what
 * embeds, overrides and isolates directions. */
static bool is_control(const unsigned char *at, int bytes) {
    const int code = bytes == 1   ? at[0]
                     : bytes == 2 ? (at[0] & 0x1f) << 6 | (at[1] & 0x3f)
                     : bytes == 3 ? (at[0] & 0xf) << 12 | (at[1] & 0x3f) << 6 | (at[2] & 0x3f)
                                  : 0x10000;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* Of the beginning of a text, with a zero behind it: the bytes without a last character that is cut off. */
static size_t whole_characters(const char *from, size_t bytes) {
    size_t end = bytes;
    for (int back = 0; back < 4 && end > 0; back++) {
        end--;
        if (((unsigned char)from[end] & 0xc0) == 0x80) continue;
        return page_character(from + end) ? bytes : end;
    }
    return bytes; /* no character is as long: this is no UTF-8 */
}

/* from [at, bytes), with a zero behind it, to `to`, which has room for three times as much. */
static trine_status copy(char *to, const char *from, size_t at, size_t bytes, const char *path) {
    while (at < bytes) {
        const int length = page_character(from + at);
        const bool end = from[at] == '\r', shown = from[at] == '\n' || from[at] == '\t';
        CHECK(length, TRINE_EDATA, "%s: is not UTF-8 at byte %zu; --sample shows text", path, at);
        if (end && from[at + 1] != '\n')
            *to++ = '\n';
        else if (!end && !shown && is_control((const unsigned char *)from + at, length))
            to = stpcpy(to, REPLACEMENT);
        else if (!end)
            to = (char *)memcpy(to, from + at, (size_t)length) + length;
        at += (size_t)length;
    }
    *to = '\0';
    return TRINE_OK;
}

static trine_status read_open(page_sample *s, int fd, uint64_t size, const char *path) {
    char from[PAGE_SAMPLE_BYTES + 1] = "";
    size_t bytes = size > PAGE_SAMPLE_BYTES ? PAGE_SAMPLE_BYTES : (size_t)size;
    TRY(input_read(fd, path, from, bytes, 0));
    TRY(text_mark_check(from, bytes, path));
    s->cut = size > bytes;
    if (s->cut) bytes = whole_characters(from, bytes);
    from[bytes] = '\0';
    s->text = malloc(3 * bytes + 1);
    CHECK(s->text, TRINE_ENOMEM, "no memory for %s", path);
    return copy(s->text, from, text_mark(from, bytes), bytes, path);
}

trine_status page_sample_read(page_sample *s, const char *path) {
    int fd;
    uint64_t size;
    *s = (page_sample){.path = path};
    TRY(input_open(&fd, &size, path));
    trine_status status = read_open(s, fd, size, path);
    close(fd);
    return status;
}

void page_sample_destroy(page_sample *s) {
    free(s->text);
    *s = (page_sample){0};
}
