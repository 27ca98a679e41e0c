/* The tokenizer's hash: XXH3 over what decides ids, in a form of its own, so that two files that say the same are equal. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "tokenizer/tokenizer_parts.h"

static void put32(text_buffer *out, uint32_t x) {
    for (int i = 0; i < 4; i++) out->text[out->count++] = (char)(x >> 8 * i);
}

static trine_status add_numbers(text_buffer *out, const uint32_t *x, size_t count) {
    TRY(text_reserve(out, 4 * count));
    for (size_t i = 0; i < count; i++) put32(out, x[i]);
    return TRINE_OK;
}

static trine_status add_tokens(const tokenizer *t, text_buffer *out) {
    for (uint32_t id = 0; id < t->words.size; id++) {
        size_t length;
        const char *text = vocab_text(&t->words, (int32_t)id, &length);
        if (!text) continue;
        TRY(add_numbers(
            out, (uint32_t[]){id, (uint32_t)length, t->words.tokens[id].flags & VOCAB_MODEL}, 3));
        TRY(text_add(out, text, length));
    }
    return TRINE_OK;
}

static int by_rank(const void *a, const void *b) {
    const bpe_merge *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static trine_status add_merges(const tokenizer *t, text_buffer *out) {
    const bpe *m = &t->model;
    bpe_merge *sorted = malloc((m->merge_count + 1u) * sizeof *sorted);
    size_t count = 0;
    CHECK(sorted, TRINE_ENOMEM, "no memory for %u merges", (unsigned)m->merge_count);
    for (uint32_t i = 0; i < m->merge_size; i++)
        if (m->merges[i].left != UINT32_MAX) sorted[count++] = m->merges[i];
    qsort(sorted, count, sizeof *sorted, by_rank);
    trine_status status = text_reserve(out, 8 * count);
    for (size_t i = 0; i < count && status == TRINE_OK; i++)
        put32(out, sorted[i].left), put32(out, sorted[i].right);
    free(sorted);
    return status;
}

static trine_status add_added(const added_list *list, bool normalized, text_buffer *out) {
    for (size_t i = 0; i < list->count; i++) {
        const added_token *a = &list->rows[i];
        uint32_t flags =
            (uint32_t)(normalized | a->single_word << 1 | a->lstrip << 2 | a->rstrip << 3);
        TRY(add_numbers(out, (uint32_t[]){(uint32_t)a->id, flags}, 2));
    }
    return TRINE_OK;
}

static trine_status describe(const tokenizer *t, text_buffer *out) {
    const bpe *m = &t->model;
    uint32_t flags = (uint32_t)(m->byte_fallback | m->fuse_unknown << 1 | m->ignore_merges << 2);
    TRY(add_numbers(out, (uint32_t[]){1, flags, (uint32_t)m->unknown},
                    3)); /* 1: the version of this form */
    TRY(add_tokens(t, out));
    TRY(add_merges(t, out));
    TRY(normalizer_describe(&t->normalizers, out));
    TRY(split_describe(&t->splits, out));
    /* Without normalizers both lists find the same. */
    TRY(add_added(&t->raw, false, out));
    TRY(add_added(&t->normalized, t->normalizers.count, out));
    TRY(add_numbers(out, (const uint32_t *)t->before.ids, t->before.count));
    TRY(text_add(out, "text", 4));
    return add_numbers(out, (const uint32_t *)t->after.ids, t->after.count);
}

trine_status tokenizer_make_hash(tokenizer *t) {
    text_buffer form = {0};
    trine_status status = describe(t, &form);
    if (status == TRINE_OK) {
        t->hash = XXH3_64bits(form.text, form.count);
        if (!t->hash) t->hash = 1; /* 0 means unknown */
    }
    free(form.text);
    return status;
}
