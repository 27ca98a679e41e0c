#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "base/text_mark.h"

static bool white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bounds the cost of parsing the text and refuses strings that would end early. Wherever this scan and
 * cJSON disagree about strings, cJSON has already failed. */
static trine_status look(const char *text, size_t bytes, const char *path) {
    size_t values = 1, depth = 0;
    bool string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        CHECK((unsigned char)c >= ' ' || (!string && white(c)), TRINE_EDATA,
              "%s: control character at byte %zu", path, i);
        if (c == '"') string = !string;
        if (string && c == '\\') {
            CHECK(bytes - i < 6 || memcmp(text + i, "\\u0000", 6) != 0, TRINE_EDATA,
                  "%s: string contains \\u0000 at byte %zu", path, i);
            i++; /* an escaped character never ends the string */
        }
        if (string) continue;
        bool opens = c == '{' || c == '[';
        if (opens) depth++;
        if ((c == '}' || c == ']') && depth) depth--;
        if (opens || c == ',') values++;
        CHECK(depth <= JSON_DEPTH, TRINE_EDATA, "%s: nested more than %d levels deep at byte %zu",
              path, JSON_DEPTH, i);
    }
    CHECK(values <= bytes / JSON_SPARSE + JSON_FREE_VALUES, TRINE_EDATA,
          "%s: %zu values in %zu bytes; the limit is %zu values", path, values, bytes,
          bytes / JSON_SPARSE + JSON_FREE_VALUES);
    return TRINE_OK;
}

/* " (line 3)" of a text of several lines; "" of one. */
static void place_in(char *place, size_t size, const char *text, const char *at) {
    size_t line = 1;
    for (const char *c = text; c < at; c++) line += *c == '\n';
    *place = '\0';
    if (line > 1) snprintf(place, size, " (line %zu)", line);
}

trine_status json_read(cJSON **root, const char *text, size_t bytes, const char *path) {
    *root = NULL;
    TRY(text_mark_check(text, bytes, path));
    TRY(look(text, bytes, path));
    const char *end = text;
    errno = 0;                          /* cJSON does not report why it fails; malloc does */
    locale_t before = c_locale_enter(); /* cJSON takes one byte of the locale's decimal point */
    cJSON *tree = bytes ? cJSON_ParseWithLengthOpts(text, bytes, &end, false) : NULL;
    c_locale_leave(before);
    CHECK(tree || errno != ENOMEM, TRINE_ENOMEM, "%s: no memory to parse it", path);
    char place[64];
    place_in(place, sizeof place, text, tree ? text : end);
    CHECK(tree, TRINE_EDATA, "%s: invalid JSON at byte %zu%s", path, (size_t)(end - text), place);
    while (end < text + bytes && white(*end)) end++;
    bool object = cJSON_IsObject(tree), complete = end == text + bytes;
    if (object && complete) {
        *root = tree;
        return TRINE_OK;
    }
    cJSON_Delete(tree);
    CHECK(object, TRINE_EDATA, "%s: the JSON is not an object", path);
    return RAISE(TRINE_EDATA, "%s: unexpected data after the JSON object at byte %zu", path,
                 (size_t)(end - text));
}

cJSON *json_member(const cJSON *object, const char *name) {
    cJSON *found = NULL;
    for (cJSON *item = cJSON_IsObject(object) ? object->child : NULL; item; item = item->next) {
        if (strcmp(item->string, name) != 0) continue;
        if (found) return NULL;
        found = item;
    }
    return found;
}

bool json_integer(const cJSON *item, uint64_t *value) {
    if (!cJSON_IsNumber(item)) return false;
    double d = item->valuedouble;
    if (!(d >= 0 && d < 0x1p53)) return false;
    *value = (uint64_t)d;
    return (double)*value == d;
}

const char *json_number(char text[JSON_NUMBER], double x) {
    if (isinf(x)) return strcpy(text, x < 0 ? "-1e999" : "1e999");
    c_snprintf(text, JSON_NUMBER, "%.15g", x);
    if (c_strtod(text, NULL) != x) c_snprintf(text, JSON_NUMBER, "%.17g", x);
    return text;
}

bool json_exact(cJSON *item) {
    char text[JSON_NUMBER];
    for (cJSON *child = item->child; child; child = child->next)
        if (!json_exact(child)) return false;
    if (!cJSON_IsNumber(item)) return true;
    cJSON *raw = cJSON_CreateRaw(json_number(text, item->valuedouble));
    if (!raw) return false;
    item->valuestring = raw->valuestring;
    item->type = (item->type & ~cJSON_Number) | cJSON_Raw;
    raw->valuestring = NULL;
    cJSON_Delete(raw);
    return true;
}

cJSON *json_parse(const char *text) {
    locale_t before = c_locale_enter();
    cJSON *item = cJSON_Parse(text);
    c_locale_leave(before);
    return item;
}

char *json_print(const cJSON *item, bool lines) {
    locale_t before = c_locale_enter();
    char *text = lines ? cJSON_Print(item) : cJSON_PrintUnformatted(item);
    c_locale_leave(before);
    return text;
}

const char *json_text(const cJSON *item) {
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool json_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
    return true;
}

bool json_add_number(cJSON *object, const char *name, double value) {
    return cJSON_AddNumberToObject(object, name, value) != NULL;
}

bool json_add_text(cJSON *object, const char *name, const char *value) {
    return cJSON_AddStringToObject(object, name, value) != NULL;
}

cJSON *json_add_object(cJSON *array) {
    cJSON *o = cJSON_CreateObject();
    if (o && cJSON_AddItemToArray(array, o)) return o;
    cJSON_Delete(o);
    return NULL;
}
