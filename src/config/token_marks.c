#include "config/token_marks.h"

#include <string.h>

#include "base/status.h"

static uint64_t unit_of(char c) {
    return c == 'K' ? 1000 : c == 'M' ? 1000000 : c == 'G' ? 1000000000 : 1;
}

/* The count at `text`, up to the comma; false: it is none. */
static bool read_count(const char *text, size_t length, uint64_t *count) {
    *count = 0;
    uint64_t unit = length ? unit_of(text[length - 1]) : 1;
    if (unit > 1) length--;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*count, (uint64_t)10, count) ||
            __builtin_add_overflow(*count, (uint64_t)(text[i] - '0'), count))
            return false;
    return *count && !__builtin_mul_overflow(*count, unit, count);
}

/* The next count of the list; false at its end. *length: 0 of an empty one. */
static bool next(const char **at, const char **text, size_t *length) {
    if (!*at) return false;
    *text = *at;
    *length = strcspn(*at, ",");
    *at = (*at)[*length] ? *at + *length + 1 : NULL;
    return true;
}

trine_status token_marks_check(const char *list) {
    uint64_t before = 0, count;
    const char *text;
    size_t length;
    for (const char *at = list; next(&at, &text, &length); before = count) {
        CHECK(read_count(text, length, &count), TRINE_EINVAL,
              "\"%.*s\" is not a count of tokens, 5000000 or 5M (K, M and G: 10^3, 10^6 and 10^9)",
              (int)(length < 40 ? length : 40), text);
        CHECK(count > before, TRINE_EINVAL, "\"%.*s\" is not above the count before it",
              (int)(length < 40 ? length : 40), text);
    }
    return TRINE_OK;
}

uint64_t token_marks_between(const char *list, uint64_t before, uint64_t after) {
    uint64_t found = 0, count;
    const char *text;
    size_t length;
    for (const char *at = list; next(&at, &text, &length);)
        if (read_count(text, length, &count) && count > before && count <= after) found = count;
    return found;
}
