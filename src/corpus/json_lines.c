#include "corpus/json_lines.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

typedef struct {
    const char *text;
    size_t at, bytes;
    json_line_place place;
} scanner;

/* What a string is decoded for: its text goes to `out` (may be NULL), or is compared with `want` (may be NULL). */
typedef struct {
    char *out;
    const char *want;
    size_t want_bytes, count;
    bool differs;
    uint64_t replaced;
} taker;

static trine_status fault(const scanner *s, size_t at, const char *what) {
    return RAISE(TRINE_EDATA, "%s:%" PRIu64 ": column %zu: %s", s->place.path, s->place.number,
                 at + 1, what);
}

/* The next byte; -1 at the end. */
static int peek(const scanner *s) {
    return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1;
}

static bool take(scanner *s, char c) {
    if (peek(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

static void blanks(scanner *s) {
    while (s->at < s->bytes && memchr(" \t\r\n", s->text[s->at], 4)) s->at++;
}

/* ---- Strings ---- */

static void put(taker *t, const char *bytes, size_t count) {
    if (t->out) memmove(t->out + t->count, bytes, count);
    if (t->want && !t->differs)
        t->differs =
            count > t->want_bytes - t->count || memcmp(t->want + t->count, bytes, count) != 0;
    if (!t->differs) t->count += count;
}

/* code: a character, no half of a pair. */
static void put_code(taker *t, uint32_t code) {
    char utf8[4];
    size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, code >>= 6) utf8[i] = (char)(0x80 | (code & 0x3f));
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    utf8[0] = (char)(lead[count - 1] | code);
    put(t, utf8, count);
}

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u. */
static trine_status read_unit(scanner *s, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int digit = hex_digit(peek(s));
        if (digit < 0) return fault(s, s->at, "\\u needs four hexadecimal digits");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return TRINE_OK;
}

/* Whether the low half of a surrogate pair comes next; then *low is it. */
static bool has_low(scanner *s, uint32_t *low) {
    if (s->bytes - s->at < 6 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u') return false;
    *low = 0;
    for (size_t i = 2; i < 6; i++) {
        int digit = hex_digit(s->text[s->at + i]);
        if (digit < 0) return false; /* reported when it is read */
        *low = *low << 4 | (uint32_t)digit;
    }
    return *low >= 0xdc00 && *low <= 0xdfff;
}

static trine_status read_code(scanner *s, taker *t) {
    uint32_t code, low;
    TRY(read_unit(s, &code));
    if (code >= 0xd800 && code <= 0xdbff && has_low(s, &low)) {
        s->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code <= 0xdfff) {
        code = 0xfffd;
        t->replaced++;
    }
    put_code(t, code);
    return TRINE_OK;
}

static trine_status read_escape(scanner *s, taker *t) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = peek(s);
    if (c == 'u') {
        s->at++;
        return read_code(s, t);
    }
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (!found) return fault(s, s->at, "unknown escape in a string");
    s->at++;
    put(t, values + (found - names), 1);
    return TRINE_OK;
}

/* From the first quotation mark to behind the last. */
static trine_status read_string(scanner *s, taker *t) {
    size_t begin = s->at;
    if (!take(s, '"')) return fault(s, s->at, "expected a string");
    for (;;) {
        size_t from = s->at;
        int c;
        while ((c = peek(s)) >= ' ' && c != '"' && c != '\\') s->at++;
        put(t, s->text + from, s->at - from);
        if (c < 0) return fault(s, begin, "the string does not end on this line");
        if (c < ' ') return fault(s, s->at, "control character in a string");
        s->at++;
        if (c == '"') return TRINE_OK;
        TRY(read_escape(s, t));
    }
}

/* ---- Values ---- */

static trine_status digits(scanner *s) {
    size_t begin = s->at;
    while (peek(s) >= '0' && peek(s) <= '9') s->at++;
    return s->at > begin ? TRINE_OK : fault(s, s->at, "expected a digit");
}

static trine_status read_number(scanner *s) {
    (void)take(s, '-');
    if (!take(s, '0')) TRY(digits(s));
    if (take(s, '.')) TRY(digits(s));
    if (take(s, 'e') || take(s, 'E')) {
        if (!take(s, '+')) (void)take(s, '-');
        TRY(digits(s));
    }
    return TRINE_OK;
}

static trine_status read_word(scanner *s) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (s->bytes - s->at < length || memcmp(s->text + s->at, words[i], length)) continue;
        s->at += length;
        return TRINE_OK;
    }
    return fault(s, s->at, "expected a JSON value");
}

/* After an element: whether another follows; `end` is consumed. */
static trine_status more_of(scanner *s, char end, bool *more) {
    blanks(s);
    *more = take(s, ',');
    if (!*more && !take(s, end))
        return fault(s, s->at, end == '}' ? "expected , or }" : "expected , or ]");
    blanks(s);
    return TRINE_OK;
}

static trine_status read_value(scanner *s, int depth);

static trine_status read_name(scanner *s, taker *t) {
    TRY(read_string(s, t));
    blanks(s);
    if (!take(s, ':')) return fault(s, s->at, "expected :");
    blanks(s);
    return TRINE_OK;
}

/* Behind the opening bracket. */
static trine_status read_elements(scanner *s, char end, int depth) {
    if (depth == JSON_LINE_DEPTH) return fault(s, s->at, "nested too deeply");
    blanks(s);
    if (take(s, end)) return TRINE_OK;
    for (bool more = true; more;) {
        if (end == '}') TRY(read_name(s, &(taker){0}));
        TRY(read_value(s, depth + 1));
        TRY(more_of(s, end, &more));
    }
    return TRINE_OK;
}

static trine_status read_value(scanner *s, int depth) {
    int c = peek(s);
    if (c == '"') return read_string(s, &(taker){0});
    if (take(s, '{')) return read_elements(s, '}', depth);
    if (take(s, '[')) return read_elements(s, ']', depth);
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(s);
    return read_word(s);
}

/* ---- The line ---- */

static trine_status read_text(scanner *s, char *out, json_line_value *value) {
    taker text = {.out = out};
    if (peek(s) != '"') return fault(s, s->at, "the text is no string");
    TRY(read_string(s, &text));
    *value = (json_line_value){text.count, text.replaced};
    return TRINE_OK;
}

static trine_status read_member(scanner *s, const char *key, char *out, json_line_value *value,
                                bool *found) {
    size_t begin = s->at;
    taker name = {.want = key, .want_bytes = strlen(key)};
    TRY(read_name(s, &name));
    if (name.differs || name.count < name.want_bytes) return read_value(s, 0);
    if (*found) return fault(s, begin, "the key of the text occurs twice");
    *found = true;
    return read_text(s, out, value);
}

trine_status json_line_text(const char *line, size_t bytes, const char *key, char *out,
                            json_line_value *value, json_line_place place) {
    scanner s = {line, 0, bytes, place};
    bool found = false;
    *value = (json_line_value){0};
    blanks(&s);
    if (!take(&s, '{')) return fault(&s, s.at, "no JSON object; expected {");
    blanks(&s);
    for (bool more = !take(&s, '}'); more;) {
        TRY(read_member(&s, key, out, value, &found));
        TRY(more_of(&s, '}', &more));
    }
    blanks(&s);
    if (s.at < bytes) return fault(&s, s.at, "the line goes on after its object");
    CHECK(found, TRINE_EDATA, "%s:%" PRIu64 ": the object has no \"%s\"; --json-key names the key",
          place.path, place.number, key);
    return TRINE_OK;
}
