/* The template: which tokens stand before and after a text ("post_processor"). */
#include <string.h>

#include "base/status.h"
#include "tokenizer/tokenizer_parts.h"

#define DEPTH 4

trine_status tokenizer_before(const tokenizer *t, token_list *out) {
    return token_list_add(out, t->before.ids, t->before.count);
}

trine_status tokenizer_after(const tokenizer *t, token_list *out) {
    return token_list_add(out, t->after.ids, t->after.count);
}

/* The ids that "special_tokens" gives a name. */
static trine_status add_special(tokenizer *t, const cJSON *special, const char *name,
                                token_list *to) {
    const cJSON *ids = name ? json_member(json_member(special, name), "ids") : NULL, *id;
    CHECK(cJSON_IsArray(ids), TRINE_EDATA, "%s: the template's token \"%.60s\" has no ids", t->path,
          name ? name : "");
    cJSON_ArrayForEach(id, ids) {
        uint64_t number;
        CHECK(json_integer(id, &number) && number < t->words.size, TRINE_EDATA,
              "%s: the template's token \"%.60s\" has an id that the tokenizer does not have",
              t->path, name);
        TRY(token_list_add(to, &(int32_t){(int32_t)number}, 1));
    }
    return TRINE_OK;
}

/* "single" is for one text, "pair" for two, which is not read. */
static trine_status read_single(tokenizer *t, const cJSON *entry) {
    const cJSON *single = json_member(entry, "single"), *piece;
    bool text = false;
    CHECK(cJSON_IsArray(single), TRINE_EDATA, "%s: TemplateProcessing lacks its list \"single\"",
          t->path);
    t->before.count = t->after.count = 0;
    cJSON_ArrayForEach(piece, single) {
        const cJSON *token = json_member(piece, "SpecialToken"),
                    *sequence = json_member(piece, "Sequence");
        CHECK((!token) != (!sequence) && !(sequence && text), TRINE_EUNSUPPORTED,
              "%s: template entries must be tokens or the text; the text once", t->path);
        if (sequence)
            text = true;
        else
            TRY(add_special(t, json_member(entry, "special_tokens"),
                            json_text(json_member(token, "id")), text ? &t->after : &t->before));
    }
    CHECK(text, TRINE_EDATA, "%s: the template has no place for the text", t->path);
    return TRINE_OK;
}

static trine_status read_entry(tokenizer *t, const cJSON *entry, int depth) {
    if (!entry || cJSON_IsNull(entry)) return TRINE_OK;
    const char *name = json_text(json_member(entry, "type"));
    CHECK(name, TRINE_EDATA, "%s: a post-processor without a type", t->path);
    if (!strcmp(name, "ByteLevel")) return TRINE_OK; /* it changes offsets, which we have not */
    if (!strcmp(name, "TemplateProcessing")) return read_single(t, entry);
    CHECK(!strcmp(name, "Sequence"), TRINE_EUNSUPPORTED,
          "%s: post-processor %.60s is not supported", t->path, name);
    const cJSON *rows = json_member(entry, "processors"), *row;
    CHECK(cJSON_IsArray(rows) && depth < DEPTH, TRINE_EDATA, "%s: invalid post-processor Sequence",
          t->path);
    cJSON_ArrayForEach(row, rows) TRY(read_entry(t, row, depth + 1));
    return TRINE_OK;
}

trine_status tokenizer_read_template(tokenizer *t, const cJSON *entry) {
    return read_entry(t, entry, 0);
}
