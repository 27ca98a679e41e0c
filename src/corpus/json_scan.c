#include "corpus/json_scan.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

trine_status json_scan_fault(const json_scan *s, size_t at, const char *what) {
    return RAISE(TRINE_EDATA, "%s:%" PRIu64 ": column %zu: %s", s->place.path, s->place.number,
                 at + 1, what);
}

/* The next byte; -1 at the end. */
int json_scan_peek(const json_scan *s) {
    return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1;
}

bool json_scan_take(json_scan *s, char c) {
    if (json_scan_peek(s) != (unsigned char)c) return false;
    s->at++;
    return true;
}

void json_scan_blanks(json_scan *s) {
    while (s->at < s->bytes && memchr(" \t\r\n", s->text[s->at], 4)) s->at++;
}

/* ---- Strings ---- */

static void put(json_taker *t, const char *bytes, size_t count) {
    if (t->out) memmove(t->out + t->count, bytes, count);
    if (t->want && !t->differs)
        t->differs =
            count > t->want_bytes - t->count || memcmp(t->want + t->count, bytes, count) != 0;
    if (!t->differs) t->count += count;
}

/* code: a character, no half of a pair. */
static void put_code(json_taker *t, uint32_t code) {
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
static trine_status read_unit(json_scan *s, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        int digit = hex_digit(json_scan_peek(s));
        if (digit < 0) return json_scan_fault(s, s->at, "\\u needs four hexadecimal digits");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return TRINE_OK;
}

/* Whether the low half of a surrogate pair comes next; then *low is it. */
static bool has_low(json_scan *s, uint32_t *low) {
    if (s->bytes - s->at < 6 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u') return false;
    *low = 0;
    for (size_t i = 2; i < 6; i++) {
        int digit = hex_digit(s->text[s->at + i]);
        if (digit < 0) return false; /* reported when it is read */
        *low = *low << 4 | (uint32_t)digit;
    }
    return *low >= 0xdc00 && *low <= 0xdfff;
}

static trine_status read_code(json_scan *s, json_taker *t) {
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

static trine_status read_escape(json_scan *s, json_taker *t) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = json_scan_peek(s);
    if (c == 'u') {
        s->at++;
        return read_code(s, t);
    }
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (!found) return json_scan_fault(s, s->at, "unknown escape in a string");
    s->at++;
    put(t, values + (found - names), 1);
    return TRINE_OK;
}

/* From the first quotation mark to behind the last. */
trine_status json_scan_string(json_scan *s, json_taker *t) {
    size_t begin = s->at;
    if (!json_scan_take(s, '"')) return json_scan_fault(s, s->at, "expected a string");
    for (;;) {
        size_t from = s->at;
        int c;
        while ((c = json_scan_peek(s)) >= ' ' && c != '"' && c != '\\') s->at++;
        put(t, s->text + from, s->at - from);
        if (c < 0) return json_scan_fault(s, begin, "the string does not end on this line");
        if (c < ' ') return json_scan_fault(s, s->at, "control character in a string");
        s->at++;
        if (c == '"') return TRINE_OK;
        TRY(read_escape(s, t));
    }
}

/* ---- Values ---- */

static trine_status digits(json_scan *s) {
    size_t begin = s->at;
    while (json_scan_peek(s) >= '0' && json_scan_peek(s) <= '9') s->at++;
    return s->at > begin ? TRINE_OK : json_scan_fault(s, s->at, "expected a digit");
}

static trine_status read_number(json_scan *s) {
    (void)json_scan_take(s, '-');
    if (!json_scan_take(s, '0')) TRY(digits(s));
    if (json_scan_take(s, '.')) TRY(digits(s));
    if (json_scan_take(s, 'e') || json_scan_take(s, 'E')) {
        if (!json_scan_take(s, '+')) (void)json_scan_take(s, '-');
        TRY(digits(s));
    }
    return TRINE_OK;
}

static trine_status read_word(json_scan *s) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if (s->bytes - s->at < length || memcmp(s->text + s->at, words[i], length)) continue;
        s->at += length;
        return TRINE_OK;
    }
    return json_scan_fault(s, s->at, "expected a JSON value");
}

trine_status json_scan_name(json_scan *s, json_taker *t) {
    TRY(json_scan_string(s, t));
    json_scan_blanks(s);
    if (!json_scan_take(s, ':')) return json_scan_fault(s, s->at, "expected :");
    json_scan_blanks(s);
    return TRINE_OK;
}

/* After an element: whether another follows; `end` is consumed. */
static trine_status more_of(json_scan *s, char end, bool *more) {
    json_scan_blanks(s);
    *more = json_scan_take(s, ',');
    if (!*more && !json_scan_take(s, end))
        return json_scan_fault(s, s->at, end == '}' ? "expected , or }" : "expected , or ]");
    json_scan_blanks(s);
    return TRINE_OK;
}

trine_status json_scan_each(json_scan *s, char end, json_visit visit, void *context) {
    json_scan_blanks(s);
    for (bool more = !json_scan_take(s, end); more;) {
        TRY(visit(s, context));
        TRY(more_of(s, end, &more));
    }
    return TRINE_OK;
}

static trine_status skip_element(json_scan *s, void *context) {
    const int *depth = context;
    return json_scan_value(s, *depth);
}

static trine_status skip_member(json_scan *s, void *context) {
    TRY(json_scan_name(s, &(json_taker){0}));
    return skip_element(s, context);
}

/* Behind the opening bracket. */
static trine_status skip_each(json_scan *s, char end, int depth) {
    if (depth == JSON_LINE_DEPTH) return json_scan_fault(s, s->at, "nested too deeply");
    depth++;
    return json_scan_each(s, end, end == '}' ? skip_member : skip_element, &depth);
}

trine_status json_scan_value(json_scan *s, int depth) {
    int c = json_scan_peek(s);
    if (c == '"') return json_scan_string(s, &(json_taker){0});
    if (json_scan_take(s, '{')) return skip_each(s, '}', depth);
    if (json_scan_take(s, '[')) return skip_each(s, ']', depth);
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(s);
    return read_word(s);
}

trine_status json_scan_line(json_scan *s, json_visit visit, void *context) {
    json_scan_blanks(s);
    if (!json_scan_take(s, '{')) return json_scan_fault(s, s->at, "no JSON object; expected {");
    TRY(json_scan_each(s, '}', visit, context));
    json_scan_blanks(s);
    if (s->at < s->bytes) return json_scan_fault(s, s->at, "the line goes on after its object");
    return TRINE_OK;
}
