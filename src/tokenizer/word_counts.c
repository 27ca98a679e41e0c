#include "tokenizer/word_counts.h"

#include <stdlib.h>

#include "base/status.h"

#define FULL  ((size_t)1 << 16) /* rows of a counter's table */
#define BATCH ((size_t)32)      /* words that are looked up beside each other */

struct word_counter {
    word_counts *into;
    word_table table;
    word_list part; /* the words of the part that is being counted */
};

trine_status word_counts_create(word_counts **c) {
    *c = calloc(1, sizeof **c);
    CHECK(*c, TRINE_ENOMEM, "no memory to count words");
    for (size_t i = 0; i < WORD_SHARDS; i++) pthread_mutex_init(&(*c)->shards[i].lock, NULL);
    return TRINE_OK;
}

void word_counts_destroy(word_counts **c) {
    if (!*c) return;
    for (size_t i = 0; i < WORD_SHARDS; i++) {
        pthread_mutex_destroy(&(*c)->shards[i].lock);
        word_table_free(&(*c)->shards[i].table);
    }
    free(*c);
    *c = NULL;
}

size_t word_counts_different(const word_counts *c) {
    size_t sum = 0;
    for (size_t s = 0; s < WORD_SHARDS; s++)
        for (size_t i = 0; i < c->shards[s].table.count; i++)
            sum += c->shards[s].table.rows[i].count != 0;
    return sum;
}

trine_status word_counter_create(word_counter **c, word_counts *into) {
    *c = calloc(1, sizeof **c);
    CHECK(*c, TRINE_ENOMEM, "no memory to count words");
    (*c)->into = into;
    return TRINE_OK;
}

void word_counter_destroy(word_counter **c) {
    if (!*c) return;
    word_table_free(&(*c)->table);
    free((*c)->part.words);
    free(*c);
    *c = NULL;
}

/* The lowest bits are the place in the table. */
static size_t shard_of(const word_row *row) {
    return row->tag / (UINT32_MAX / WORD_SHARDS + 1);
}

static trine_status flush_shard(const word_table *from, size_t shard, word_table *to) {
    for (size_t i = 0; i < from->count; i++) {
        const word_row *row = &from->rows[i];
        if (shard_of(row) == shard)
            TRY(word_table_add(to, row->text, row->bytes, row->tag, row->count));
    }
    return TRINE_OK;
}

trine_status word_counter_flush(word_counter *c) {
    for (size_t i = 0; i < WORD_SHARDS; i++) {
        struct word_shard *to = &c->into->shards[i];
        pthread_mutex_lock(&to->lock);
        trine_status status = flush_shard(&c->table, i, &to->table);
        pthread_mutex_unlock(&to->lock);
        TRY(status);
    }
    word_table_clear(&c->table);
    return TRINE_OK;
}

static trine_status add_batch(word_counter *c, const word_span *words, size_t count,
                              uint64_t times) {
    uint32_t tags[BATCH];
    for (size_t i = 0; i < count; i++) {
        tags[i] = word_table_tag(words[i].text, words[i].bytes);
        word_table_prefetch(&c->table, tags[i]);
    }
    for (size_t i = 0; i < count; i++)
        TRY(word_table_add(&c->table, words[i].text, (uint32_t)words[i].bytes, tags[i], times));
    return c->table.count > FULL - BATCH ? word_counter_flush(c) : TRINE_OK;
}

static trine_status add_part(word_counter *c, encoder *e, const encode_part *part, uint64_t times,
                             bool *holds) {
    TRY(encoder_words(e, part, &c->part, holds));
    size_t count = c->part.count;
    for (size_t at = 0; at < count; at += BATCH)
        TRY(add_batch(c, c->part.words + at, count - at < BATCH ? count - at : BATCH, times));
    return TRINE_OK;
}

trine_status word_counter_part(word_counter *c, encoder *e, const encode_part *part, bool *holds,
                               uint64_t *words) {
    TRY(add_part(c, e, part, 1, holds));
    *words += c->part.count;
    return TRINE_OK;
}

/* Counts are modulo 2^64: a table may have one below 0, and the sum of all is right. */
trine_status word_counter_take_back(word_counter *c, encoder *e, const encode_part *part) {
    bool holds;
    return add_part(c, e, part, UINT64_MAX, &holds);
}
