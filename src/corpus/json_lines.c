#include "corpus/json_lines.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"
#include "corpus/json_scan.h"

/* What is looked for, and where it goes. */
typedef struct {
    const char *key;
    char *out;
    json_line_value *value;
    bool found;
} search;

static trine_status read_text(json_scan *s, const search *of) {
    json_taker text = {.out = of->out};
    if (json_scan_peek(s) != '"') return json_scan_fault(s, s->at, "the text is not a string");
    TRY(json_scan_string(s, &text));
    *of->value = (json_line_value){text.count, text.replaced};
    return TRINE_OK;
}

static trine_status read_member(json_scan *s, void *context) {
    search *of = context;
    size_t begin = s->at;
    json_taker name = {.want = of->key, .want_bytes = strlen(of->key)};
    TRY(json_scan_name(s, &name));
    if (name.differs || name.count < name.want_bytes) return json_scan_value(s, 0);
    if (of->found) return json_scan_fault(s, begin, "the key of the text occurs twice");
    of->found = true;
    return read_text(s, of);
}

trine_status json_line_text(const char *line, size_t bytes, const char *key, char *out,
                            json_line_value *value, json_line_place place) {
    json_scan s = {line, 0, bytes, place};
    search of = {key, out, value, false};
    *value = (json_line_value){0};
    TRY(json_scan_line(&s, read_member, &of));
    CHECK(of.found, TRINE_EDATA,
          "%s:%" PRIu64 ": the object has no \"%s\"; --json-key names the key", place.path,
          place.number, key);
    return TRINE_OK;
}
