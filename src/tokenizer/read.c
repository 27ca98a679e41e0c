/* Reads tokenizer.json, and GPT-2's two files, into a tokenizer. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/tokenizer_parts.h"

/* ---- Tokens ---- */

static trine_status id_of(const tokenizer *t, const cJSON *item, const char *token, uint64_t *id) {
    CHECK(json_integer(item, id) && *id < INT32_MAX, TRINE_EDATA,
          "%s: token \"%.80s\" has no valid id", t->path, token);
    return TRINE_OK;
}

/* One more than the largest id among {"token": id, ...}, and their number. */
static trine_status measure(const tokenizer *t, const cJSON *vocabulary, const cJSON *added,
                            size_t *count, uint64_t *size) {
    const cJSON *item;
    uint64_t id;
    *count = 0;
    *size = 0;
    cJSON_ArrayForEach(item, vocabulary) {
        TRY(id_of(t, item, item->string, &id));
        if (id >= *size) *size = id + 1;
        ++*count;
    }
    cJSON_ArrayForEach(item, added) {
        const char *content = json_text(json_member(item, "content"));
        TRY(id_of(t, json_member(item, "id"), content ? content : "", &id));
        if (id >= *size) *size = id + 1;
        ++*count;
    }
    return TRINE_OK;
}

static trine_status add_model_tokens(tokenizer *t, const cJSON *vocabulary) {
    const cJSON *item;
    cJSON_ArrayForEach(item, vocabulary)
        TRY(vocab_add(&t->words, item->string, strlen(item->string), (uint64_t)item->valuedouble,
                      VOCAB_MODEL, t->path));
    return TRINE_OK;
}

/* A token of the model may be added too; its id is the model's. */
static trine_status add_token_text(tokenizer *t, const char *content, uint64_t id, bool special) {
    unsigned flags = VOCAB_ADDED | (special ? VOCAB_SPECIAL : 0u);
    int32_t there = vocab_find(&t->words, content, strlen(content));
    if (there < 0) return vocab_add(&t->words, content, strlen(content), id, flags, t->path);
    CHECK((uint64_t)there == id, TRINE_EDATA,
          "%s: token \"%.80s\" has the id %" PRId32 " in the model, and %" PRIu64
          " among the added tokens",
          t->path, content, there, id);
    t->words.tokens[id].flags |= (unsigned char)flags;
    return TRINE_OK;
}

/* A token that is found in the normalized text is searched for in its own normalized form. */
static trine_status add_normalized(tokenizer *t, added_token token) {
    text_buffer form = {0}, spare = {0};
    pattern_scratch *s;
    TRY(pattern_scratch_create(&s));
    text_place place = {0};
    trine_status status =
        normalizer_apply(&t->normalizers, s, token.text, token.length, &place, &form, &spare);
    if (t->normalizers.count) {
        token.text = form.text;
        token.length = form.count;
    }
    if (status == TRINE_OK && !token.length)
        status = RAISE(TRINE_EUNSUPPORTED,
                       "%s: added token %" PRId32 " becomes empty when it is normalized, which is "
                       "not supported",
                       t->path, token.id);
    if (status == TRINE_OK) status = added_add(&t->normalized, &token);
    pattern_scratch_destroy(&s);
    free(form.text);
    free(spare.text);
    return status;
}

static bool flag(const cJSON *entry, const char *name) {
    return cJSON_IsTrue(json_member(entry, name));
}

static trine_status add_added_token(tokenizer *t, const cJSON *entry) {
    const char *content = json_text(json_member(entry, "content"));
    uint64_t id;
    CHECK(content, TRINE_EDATA, "%s: an added token without a content", t->path);
    if (!*content) return TRINE_OK; /* it is never found */
    TRY(id_of(t, json_member(entry, "id"), content, &id));
    TRY(add_token_text(t, content, id, flag(entry, "special")));
    added_token token = {.text = (char *)(uintptr_t)content, /* copied, not changed */
                         .length = strlen(content),
                         .id = (int32_t)id,
                         .special = flag(entry, "special"),
                         .single_word = flag(entry, "single_word"),
                         .lstrip = flag(entry, "lstrip"),
                         .rstrip = flag(entry, "rstrip")};
    return flag(entry, "normalized") ? add_normalized(t, token) : added_add(&t->raw, &token);
}

/* `tokenizers` takes no ids from the file: tokens that the model does not have follow its last one. */
static trine_status check_ids(const tokenizer *t, const cJSON *added, int32_t first) {
    const cJSON *item;
    int32_t next = first;
    cJSON_ArrayForEach(item, added) {
        const char *content = json_text(json_member(item, "content"));
        int32_t id = content && *content ? vocab_find(&t->words, content, strlen(content)) : -1;
        bool seen = id >= first && id < next;
        if (id < 0 || seen || vocab_is(&t->words, id, VOCAB_MODEL)) continue;
        CHECK(id == next, TRINE_EUNSUPPORTED,
              "%s: added token \"%.80s\" has the id %" PRId32
              ", and Hugging Face's tokenizers gives it the id %" PRId32
              ", as it follows the %" PRId32 " tokens of the model",
              t->path, content, id, next, first);
        next++;
    }
    return TRINE_OK;
}

/* Of two added tokens with the same normalized form `tokenizers` takes one, and not always the same one. */
static trine_status check_forms(const tokenizer *t) {
    const added_token *a, *b;
    CHECK(!added_equal(&t->normalized, &a, &b), TRINE_EUNSUPPORTED,
          "%s: the added tokens with the ids %" PRId32 " and %" PRId32
          " have the same normalized form \"%.*s\", and Hugging Face's tokenizers chooses one of "
          "them arbitrarily",
          t->path, a->id, b->id, (int)(a->length < 80 ? a->length : 80), a->text);
    return TRINE_OK;
}

static trine_status add_added_tokens(tokenizer *t, const cJSON *added, int first) {
    const cJSON *item;
    cJSON_ArrayForEach(item, added) TRY(add_added_token(t, item));
    added_sort(&t->raw);
    added_sort(&t->normalized);
    TRY(check_ids(t, added, first));
    return check_forms(t);
}

/* ---- tokenizer.json ---- */

/* Files from before 2020 lack the model's type. */
static trine_status check_model(const tokenizer *t, const cJSON *model) {
    const char *type = json_text(json_member(model, "type"));
    CHECK(cJSON_IsObject(model), TRINE_EDATA, "%s: no model", t->path);
    CHECK(!type || !strcmp(type, "BPE"), TRINE_EUNSUPPORTED,
          "%s: model %.60s is not supported; supported: BPE", t->path, type);
    CHECK(cJSON_IsObject(json_member(model, "vocab")), TRINE_EDATA, "%s: the model lacks its vocab",
          t->path);
    return TRINE_OK;
}

static trine_status read_root(tokenizer *t, const cJSON *root) {
    const cJSON *model = json_member(root, "model"), *added = json_member(root, "added_tokens");
    size_t count;
    uint64_t size;
    TRY(check_model(t, model));
    const cJSON *vocabulary = json_member(model, "vocab");
    TRY(normalizer_read(&t->normalizers, json_member(root, "normalizer"), t->path));
    TRY(split_read(&t->splits, json_member(root, "pre_tokenizer"), t->path));
    TRY(measure(t, vocabulary, added, &count, &size));
    CHECK(size, TRINE_EDATA, "%s: no tokens", t->path);
    TRY(vocab_create(&t->words, count, size, t->path));
    TRY(add_model_tokens(t, vocabulary));
    TRY(add_added_tokens(t, added, cJSON_GetArraySize(vocabulary)));
    TRY(bpe_read(&t->model, &t->words, t->splits.bytes, model, t->path));
    TRY(tokenizer_read_template(t, json_member(root, "post_processor")));
    TRY(decode_read(&t->decoders, json_member(root, "decoder"), t->path));
    return tokenizer_make_hash(t);
}

trine_status tokenizer_read_json(tokenizer *t, const char *json, size_t bytes) {
    cJSON *root;
    TRY(json_read(&root, json, bytes, t->path));
    size_t valid = text_valid(json, bytes);
    trine_status status = valid == bytes
                              ? read_root(t, root)
                              : RAISE(TRINE_EDATA, "%s: invalid UTF-8 at byte %zu", t->path, valid);
    cJSON_Delete(root);
    return status;
}

/* ---- GPT-2 ---- */

#define END_OF_TEXT "<|endoftext|>"

static trine_status read_gpt2_root(tokenizer *t, const cJSON *vocabulary, const char *merges,
                                   size_t bytes) {
    size_t count;
    uint64_t size;
    TRY(split_gpt2(&t->splits, t->path));
    TRY(measure(t, vocabulary, NULL, &count, &size));
    CHECK(size, TRINE_EDATA, "%s: no tokens", t->path);
    TRY(vocab_create(&t->words, count, size, t->path));
    TRY(add_model_tokens(t, vocabulary));
    int32_t end = vocab_find(&t->words, END_OF_TEXT, strlen(END_OF_TEXT));
    CHECK(end >= 0, TRINE_EUNSUPPORTED,
          "%s: no token %s, and so not GPT-2's vocabulary; others need a tokenizer.json", t->path,
          END_OF_TEXT);
    char text[] = END_OF_TEXT;
    TRY(add_token_text(t, text, (uint64_t)end, true));
    TRY(add_normalized(
        t, (added_token){.text = text, .length = strlen(text), .id = end, .special = true}));
    TRY(bpe_read_lines(&t->model, &t->words, merges, bytes, t->path));
    t->decoders.byte_level = true;
    return tokenizer_make_hash(t);
}

trine_status tokenizer_read_gpt2(tokenizer *t, const char *vocabulary, size_t vocabulary_bytes,
                                 const char *merges, size_t merges_bytes) {
    cJSON *root;
    TRY(json_read(&root, vocabulary, vocabulary_bytes, t->path));
    size_t valid = text_valid(vocabulary, vocabulary_bytes);
    trine_status status = valid == vocabulary_bytes
                              ? read_gpt2_root(t, root, merges, merges_bytes)
                              : RAISE(TRINE_EDATA, "%s: invalid UTF-8 at byte %zu", t->path, valid);
    cJSON_Delete(root);
    return status;
}
