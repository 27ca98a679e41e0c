#include "tokenizer/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

trine_status vocab_create(vocab *v, size_t tokens, uint64_t size, const char *path) {
    CHECK(size <= 2 * (uint64_t)tokens + 1024, TRINE_EDATA,
          "%s: an id of %" PRIu64 " in a vocabulary of %zu tokens", path, size - 1, tokens);
    v->size = (uint32_t)size;
    for (v->table_size = 16; v->table_size < 2 * tokens; v->table_size *= 2) continue;
    v->tokens = calloc(size ? size : 1, sizeof *v->tokens);
    v->table = malloc(v->table_size * sizeof *v->table);
    CHECK(v->tokens && v->table, TRINE_ENOMEM, "%s: no memory for a vocabulary of %zu tokens", path,
          tokens);
    memset(v->table, 0xFF, v->table_size * sizeof *v->table);
    return text_reserve(&v->texts, 1); /* an address, if all tokens are empty */
}

void vocab_free(vocab *v) {
    free(v->texts.text);
    free(v->tokens);
    free(v->table);
    *v = (vocab){0};
}

/* The place of the token in the table, or the free one where it would be. */
static uint32_t place_of(const vocab *v, const char *text, size_t length) {
    uint32_t at = (uint32_t)XXH3_64bits(text, length) & (v->table_size - 1);
    for (; v->table[at] >= 0; at = (at + 1) & (v->table_size - 1)) {
        const struct vocab_token *t = &v->tokens[v->table[at]];
        if (t->length == length && !memcmp(v->texts.text + t->at, text, length)) break;
    }
    return at;
}

trine_status vocab_add(vocab *v, const char *text, size_t length, uint64_t id, unsigned flags,
                       const char *path) {
    uint32_t place = place_of(v, text, length);
    ASSERT(id < v->size);
    CHECK(v->table[place] < 0, TRINE_EDATA, "%s: token \"%.*s\" has two entries", path,
          (int)(length < 80 ? length : 80), text);
    CHECK(!v->tokens[id].flags, TRINE_EDATA, "%s: two tokens have the id %" PRIu64, path, id);
    CHECK(length < UINT32_MAX - v->texts.count, TRINE_EDATA, "%s: the tokens' texts are too long",
          path);
    v->tokens[id] =
        (struct vocab_token){(uint32_t)v->texts.count, (uint32_t)length, (unsigned char)flags};
    TRY(text_add(&v->texts, text, length));
    v->table[place] = (int32_t)id;
    return TRINE_OK;
}

int32_t vocab_find(const vocab *v, const char *text, size_t length) {
    return v->table[place_of(v, text, length)];
}

int32_t vocab_find_model(const vocab *v, const char *text, size_t length) {
    int32_t id = vocab_find(v, text, length);
    return id >= 0 && v->tokens[id].flags & VOCAB_MODEL ? id : -1;
}

const char *vocab_text(const vocab *v, int32_t id, size_t *length) {
    *length = 0;
    if (id < 0 || (uint32_t)id >= v->size || !v->tokens[id].flags) return NULL;
    *length = v->tokens[id].length;
    return v->texts.text + v->tokens[id].at;
}

bool vocab_is(const vocab *v, int32_t id, unsigned flags) {
    return id >= 0 && (uint32_t)id < v->size && v->tokens[id].flags & flags;
}

trine_status token_list_reserve(token_list *list, size_t more) {
    if (more <= list->capacity - list->count) return TRINE_OK;
    size_t capacity = list->capacity + list->capacity / 2 + 64;
    if (capacity < list->count + more) capacity = list->count + more;
    int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
    CHECK(ids, TRINE_ENOMEM, "no memory for %zu tokens", list->count + more);
    list->ids = ids;
    list->capacity = capacity;
    return TRINE_OK;
}

trine_status token_list_add(token_list *list, const int32_t *ids, size_t count) {
    if (!count) return TRINE_OK;
    TRY(token_list_reserve(list, count));
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return TRINE_OK;
}
