#include "tokenizer/word_table.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/status.h"

#define FIRST ((size_t)1024) /* rows */

uint32_t word_table_tag(const char *text, size_t bytes) {
    uint64_t hash = XXH3_64bits(text, bytes);
    return (uint32_t)(hash ^ hash >> 32);
}

/* The index has 2 to 4 places a row. Beyond 2^32 of them tags repeat, and look-ups become slower. */
static trine_status reserve(word_table *t) {
    if (t->count < t->capacity) return TRINE_OK;
    size_t capacity = t->capacity ? 2 * t->capacity : FIRST, size = 2 * capacity;
    CHECK(capacity <= UINT32_MAX, TRINE_ENOMEM, "more than %zu different words", t->capacity);
    word_row *rows = realloc(t->rows, capacity * sizeof *rows);
    if (rows) t->rows = rows;
    uint64_t *index = calloc(size, sizeof *index);
    if (!rows || !index) free(index);
    CHECK(rows && index, TRINE_ENOMEM, "no memory for %zu different words", capacity);
    for (size_t i = 0; i < t->count; i++) {
        size_t at = t->rows[i].tag & (size - 1);
        while (index[at]) at = (at + 1) & (size - 1);
        index[at] = (uint64_t)t->rows[i].tag << 32 | (i + 1);
    }
    free(t->index);
    t->index = index;
    t->size = size;
    t->capacity = capacity;
    return TRINE_OK;
}

static trine_status append(word_table *t, size_t at, word_row row) {
    char *text = bump_take(&t->texts, row.bytes, 1);
    CHECK(text, TRINE_ENOMEM, "no memory for %zu different words", t->count);
    memcpy(text, row.text, row.bytes);
    row.text = text;
    t->rows[t->count++] = row;
    t->index[at] = (uint64_t)row.tag << 32 | t->count;
    return TRINE_OK;
}

trine_status word_table_add(word_table *t, const char *text, uint32_t bytes, uint32_t tag,
                            uint64_t times) {
    TRY(reserve(t));
    size_t at = tag & (t->size - 1);
    for (; t->index[at]; at = (at + 1) & (t->size - 1)) {
        if (t->index[at] >> 32 != tag) continue;
        word_row *row = &t->rows[(uint32_t)t->index[at] - 1];
        if (row->bytes != bytes || memcmp(row->text, text, bytes) != 0) continue;
        row->count += times;
        return TRINE_OK;
    }
    return append(t, at, (word_row){text, times, bytes, tag});
}

void word_table_clear(word_table *t) {
    bump_free(&t->texts);
    if (t->size) memset(t->index, 0, t->size * sizeof *t->index);
    t->count = 0;
}

void word_table_free(word_table *t) {
    bump_free(&t->texts);
    free(t->rows);
    free(t->index);
    *t = (word_table){0};
}
