#include "tokenizer/decoders.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define DEPTH 4
#define MOST  32 /* steps */

static trine_status unsupported(const char *what, const char *path) {
    return RAISE(TRINE_EUNSUPPORTED, "%s: decoder %s is not supported at this place", path, what);
}

static trine_status add_step(decode_list *list, decode_step **step, const char *what,
                             const char *path) {
    *step = NULL;
    if (list->fused || list->byte_level || list->byte_fallback || list->count == MOST)
        return unsupported(what, path);
    decode_step *steps = realloc(list->steps, (list->count + 1) * sizeof *steps);
    CHECK(steps, TRINE_ENOMEM, "%s: no memory for a decoder", path);
    list->steps = steps;
    *step = &steps[list->count++];
    **step = (decode_step){0};
    return TRINE_OK;
}

static trine_status copy(char **to, const char *text, const char *what, const char *path) {
    CHECK(text, TRINE_EDATA, "%s: decoder %s lacks a text", path, what);
    *to = strdup(text);
    CHECK(*to, TRINE_ENOMEM, "%s: no memory for a decoder", path);
    return TRINE_OK;
}

static trine_status read_byte_level(decode_list *list, const cJSON *entry, const char *path) {
    (void)entry;
    if (list->fused || list->byte_fallback) return unsupported("ByteLevel", path);
    list->byte_level = list->fused = true;
    return TRINE_OK;
}

static trine_status read_byte_fallback(decode_list *list, const cJSON *entry, const char *path) {
    (void)entry;
    if (list->fused) return unsupported("ByteFallback", path);
    list->byte_fallback = true;
    return TRINE_OK;
}

static trine_status read_fuse(decode_list *list, const cJSON *entry, const char *path) {
    (void)entry, (void)path;
    list->fused = true;
    return TRINE_OK;
}

static trine_status read_replace(decode_list *list, const cJSON *entry, const char *path) {
    decode_step *step;
    const char *what = json_text(json_member(json_member(entry, "pattern"), "String"));
    if (!what || !*what) return unsupported("Replace without a text (String)", path);
    TRY(add_step(list, &step, "Replace", path));
    step->kind = DECODE_REPLACE;
    TRY(copy(&step->what, what, "Replace", path));
    return copy(&step->content, json_text(json_member(entry, "content")), "Replace", path);
}

/* One character. */
static bool is_char(const char *text) {
    const char *next;
    if (!text || !*text) return false;
    text_char(text, &next);
    return !*next;
}

static trine_status read_strip(decode_list *list, const cJSON *entry, const char *path) {
    decode_step *step;
    const char *what = json_text(json_member(entry, "content"));
    uint64_t start, stop;
    CHECK(is_char(what) && json_integer(json_member(entry, "start"), &start) &&
              json_integer(json_member(entry, "stop"), &stop),
          TRINE_EDATA, "%s: decoder Strip lacks a character, start or stop", path);
    if (list->fused) {
        if (stop || list->strip_most) return unsupported("Strip of the end of the text", path);
        strcpy(list->strip, what);
        list->strip_most = start;
        return TRINE_OK;
    }
    TRY(add_step(list, &step, "Strip", path));
    step->kind = DECODE_STRIP;
    step->start = start;
    step->stop = stop;
    return copy(&step->what, what, "Strip", path);
}

static trine_status read_metaspace(decode_list *list, const cJSON *entry, const char *path) {
    decode_step *step;
    const char *what = json_text(json_member(entry, "replacement"));
    const char *scheme = json_text(json_member(entry, "prepend_scheme"));
    const cJSON *prefix = json_member(entry, "add_prefix_space");
    CHECK(is_char(what), TRINE_EDATA, "%s: decoder Metaspace lacks a character", path);
    TRY(add_step(list, &step, "Metaspace", path));
    step->kind = DECODE_METASPACE;
    step->prefixed = scheme ? strcmp(scheme, "never") != 0 : !prefix || cJSON_IsTrue(prefix);
    return copy(&step->what, what, "Metaspace", path);
}

static const struct {
    const char *name;
    trine_status (*read)(decode_list *list, const cJSON *entry, const char *path);
} kinds[] = {
    {"ByteLevel", read_byte_level},
    {"ByteFallback", read_byte_fallback},
    {"Fuse", read_fuse},
    {"Replace", read_replace},
    {"Strip", read_strip},
    {"Metaspace", read_metaspace},
};

static trine_status read_entry(decode_list *list, const cJSON *entry, const char *path, int depth) {
    const char *name = json_text(json_member(entry, "type"));
    CHECK(name, TRINE_EDATA, "%s: a decoder without a type", path);
    if (!strcmp(name, "Sequence")) {
        const cJSON *rows = json_member(entry, "decoders"), *row;
        CHECK(cJSON_IsArray(rows) && depth < DEPTH, TRINE_EDATA, "%s: invalid decoder Sequence",
              path);
        cJSON_ArrayForEach(row, rows) TRY(read_entry(list, row, path, depth + 1));
        return TRINE_OK;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i].name)) return kinds[i].read(list, entry, path);
    return RAISE(TRINE_EUNSUPPORTED, "%s: decoder %.60s is not supported", path, name);
}

trine_status decode_read(decode_list *list, const cJSON *entry, const char *path) {
    list->spaced = !entry || cJSON_IsNull(entry);
    return list->spaced ? TRINE_OK : read_entry(list, entry, path, 0);
}

void decode_list_free(decode_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->steps[i].what);
        free(list->steps[i].content);
    }
    free(list->steps);
    *list = (decode_list){0};
}
