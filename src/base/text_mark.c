#include "base/text_mark.h"

#include <string.h>

#include "base/status.h"

size_t text_mark(const char *text, size_t bytes) {
    return bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

trine_status text_mark_check(const char *text, size_t bytes, const char *path) {
    bool little = bytes >= 2 && !memcmp(text, "\xff\xfe", 2);
    bool big = bytes >= 2 && !memcmp(text, "\xfe\xff", 2);
    bool wide = bytes >= 4 && !memcmp(text, "\0\0\xfe\xff", 4);
    CHECK(!little && !big && !wide, TRINE_EDATA,
          "%s: is UTF-16 or UTF-32, as its byte order mark says; save it as UTF-8 (iconv -f UTF-16 "
          "-t UTF-8)",
          path);
    return TRINE_OK;
}
