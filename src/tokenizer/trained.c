#include "tokenizer/trained.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer_parts.h"

/* ---- Special tokens ---- */

static bool is_byte(const char *text) {
    const char *next;
    uint32_t c = text_char(text, &next);
    return !*next && bytes_byte(c) >= 0;
}

trine_status trained_check(const trained_form *f, const char *option) {
    for (uint32_t i = 0; i < f->special_count; i++) {
        const char *text = f->specials[i];
        size_t bytes = strlen(text), valid = text_valid(text, bytes);
        CHECK(valid == bytes, TRINE_EINVAL, "%s \"%s\": invalid UTF-8 at byte %zu", option, text,
              valid);
        CHECK(!is_byte(text), TRINE_EINVAL,
              "%s \"%s\": that is how a tokenizer.json writes the byte %d; a special token needs "
              "another text",
              option, text, bytes_byte(text_char(text, &(const char *){NULL})));
        for (uint32_t k = 0; k < i; k++)
            CHECK(strcmp(text, f->specials[k]) != 0, TRINE_EINVAL,
                  "%s \"%s\" is given twice, as special tokens %u and %u", option, text, k + 1,
                  i + 1);
    }
    return TRINE_OK;
}

/* ---- Parts of a tokenizer.json: false: no memory ---- */

/* A member of the object; NULL: no memory. */
static cJSON *add_typed(cJSON *object, const char *name, const char *type) {
    cJSON *o = cJSON_AddObjectToObject(object, name);
    return json_add_text(o, "type", type) ? o : NULL;
}

static bool add_flags(cJSON *o, const char *const names[], const bool values[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!cJSON_AddBoolToObject(o, names[i], values[i])) return false;
    return true;
}

/* What is no pre-tokenizer ignores add_prefix_space, and has Hugging Face's default. */
static bool fill_byte_level(cJSON *o, bool prefix_space, bool trim_offsets, bool use_regex) {
    static const char *const names[] = {"add_prefix_space", "trim_offsets", "use_regex"};
    return json_add_text(o, "type", "ByteLevel") &&
           add_flags(o, names, (const bool[]){prefix_space, trim_offsets, use_regex}, 3);
}

static bool add_pre_tokenizer(cJSON *root, trained_split split) {
    static const char *const names[] = {"invert"};
    if (split == TRAINED_GPT2)
        return fill_byte_level(cJSON_AddObjectToObject(root, "pre_tokenizer"), false, true, true);
    cJSON *all = add_typed(root, "pre_tokenizer", "Sequence"),
          *stages = cJSON_AddArrayToObject(all, "pretokenizers"), *first = json_add_object(stages);
    return json_add_text(first, "type", "Split") &&
           json_add_text(cJSON_AddObjectToObject(first, "pattern"), "Regex",
                         SPLIT_LLAMA3("\\p{N}{1,3}")) &&
           json_add_text(first, "behavior", "Isolated") &&
           add_flags(first, names, (const bool[]){false}, 1) &&
           fill_byte_level(json_add_object(stages), false, true, false);
}

static bool add_added_tokens(cJSON *root, const trained_form *f) {
    static const char *const names[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    static const bool values[] = {false, false, false, false, true};
    cJSON *list = cJSON_AddArrayToObject(root, "added_tokens");
    for (uint32_t i = 0; i < f->special_count; i++) {
        cJSON *token = json_add_object(list);
        if (!json_add_number(token, "id", i) || !json_add_text(token, "content", f->specials[i]) ||
            !add_flags(token, names, values, 5))
            return false;
    }
    return list != NULL;
}

static bool add_nulls(cJSON *o, const char *const names[], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!cJSON_AddNullToObject(o, names[i])) return false;
    return true;
}

static bool add_stages(cJSON *root, const trained_form *f) {
    static const char *const without[] = {"truncation", "padding"}, *const change[] = {
                                                                        "normalizer"};
    return json_add_text(root, "version", "1.0") && add_nulls(root, without, 2) &&
           add_added_tokens(root, f) && add_nulls(root, change, 1) &&
           add_pre_tokenizer(root, f->split) &&
           fill_byte_level(cJSON_AddObjectToObject(root, "post_processor"), false, false, true) &&
           fill_byte_level(cJSON_AddObjectToObject(root, "decoder"), true, true, true);
}

static bool fill_model(cJSON *model) {
    static const char *const without[] = {"dropout", "unk_token", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    static const char *const names[] = {"fuse_unk", "byte_fallback", "ignore_merges"};
    return add_nulls(model, without, 4) &&
           add_flags(model, names, (const bool[]){false, false, false}, 3);
}

/* ---- The model ---- */

/* Appends a token as characters; number: from the first byte's on. */
static trine_status spell(text_buffer *to, const bpe_trained *t, uint32_t number) {
    size_t count;
    const char *bytes = bpe_trained_text(t, number, &count);
    TRY(text_reserve(to, 4 * count + 1));
    for (size_t i = 0; i < count; i++)
        to->count += text_put(to->text + to->count, bytes_char((unsigned char)bytes[i]));
    return TRINE_OK;
}

/* The specials, the bytes, the merges. */
static trine_status add_vocabulary(cJSON *list, const trained_form *f, const bpe_trained *t,
                                   text_buffer *text) {
    bool ok = list;
    for (uint32_t i = 0; i < f->special_count; i++) ok &= json_add_number(list, f->specials[i], i);
    for (uint32_t i = 0; ok && i < BPE_TRAIN_BYTES + t->count; i++) {
        text->count = 0;
        TRY(spell(text, t, i));
        text->text[text->count] = '\0';
        ok = json_add_number(list, text->text, f->special_count + i);
    }
    CHECK(ok, TRINE_ENOMEM, "no memory for a vocabulary");
    return TRINE_OK;
}

/* As "left right", which every version of `tokenizers` reads: no token has a space. */
static trine_status add_merges(cJSON *list, const trained_form *f, const bpe_trained *t,
                               text_buffer *text) {
    bool ok = list;
    for (uint32_t i = 0; ok && i < t->count; i++) {
        text->count = 0;
        TRY(spell(text, t, t->merges[i].left - f->special_count));
        TRY(text_add(text, " ", 1));
        TRY(spell(text, t, t->merges[i].right - f->special_count));
        text->text[text->count] = '\0';
        ok = cJSON_AddItemToArray(list, cJSON_CreateString(text->text));
    }
    CHECK(ok, TRINE_ENOMEM, "no memory for a list of merges");
    return TRINE_OK;
}

static trine_status add_all(cJSON *root, const trained_form *f, const bpe_trained *t,
                            text_buffer *text) {
    bool ok = add_stages(root, f);
    cJSON *model = add_typed(root, "model", "BPE");
    CHECK(ok && fill_model(model), TRINE_ENOMEM, "no memory for a tokenizer.json");
    TRY(add_vocabulary(cJSON_AddObjectToObject(model, "vocab"), f, t, text));
    return add_merges(cJSON_AddArrayToObject(model, "merges"), f, t, text);
}

/* ---- Files ---- */

trine_status trained_json(char **text, const trained_form *f, const bpe_trained *trained) {
    text_buffer spelled = {0};
    *text = NULL;
    cJSON *root = cJSON_CreateObject();
    trine_status status = add_all(root, f, trained, &spelled);
    if (status == TRINE_OK) *text = json_print(root, true);
    cJSON_Delete(root);
    free(spelled.text);
    TRY(status);
    CHECK(*text, TRINE_ENOMEM, "no memory for a tokenizer.json");
    return TRINE_OK;
}

trine_status trained_config(char **text, const trained_form *f) {
    static const char *const names[] = {"add_prefix_space", "clean_up_tokenization_spaces"};
    cJSON *root = cJSON_CreateObject();
    bool ok = add_flags(root, names, (const bool[]){false, false}, 2) &&
              json_add_text(root, "eos_token", f->specials[0]) &&
              json_add_text(root, "tokenizer_class", "PreTrainedTokenizerFast");
    *text = ok ? json_print(root, true) : NULL;
    cJSON_Delete(root);
    CHECK(*text, TRINE_ENOMEM, "no memory for a tokenizer_config.json");
    return TRINE_OK;
}

/* ignore_merges: where a probe asks for ids, it does not cut words either (encode.c, add_word). */
trine_status trained_splitter(tokenizer **t, const trained_form *f) {
    size_t ends[BPE_TRAIN_BYTES];
    unsigned char bytes[BPE_TRAIN_BYTES];
    bpe_train_bytes(bytes);
    for (size_t i = 0; i < BPE_TRAIN_BYTES; i++) ends[i] = i + 1;
    const bpe_trained none = {.texts = {(char *)bytes, BPE_TRAIN_BYTES, BPE_TRAIN_BYTES},
                              .ends = ends};
    char *text;
    *t = NULL;
    TRY(trained_json(&text, f, &none));
    trine_status status = tokenizer_parse(t, text, strlen(text), "the words' tokenizer");
    if (status == TRINE_OK) (*t)->model.ignore_merges = true;
    cJSON_free(text);
    return status;
}
