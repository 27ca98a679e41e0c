#include "tokenizer/bpe_train.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/pair_queue.h"

#define AHEAD 8 /* words that come into the cache before they are read */

/* A word: symbols[at, at + length). */
typedef struct {
    uint64_t at, count;
    uint32_t length;
} word;

/* What a symbol is beside, on one side of a pair that is being joined. */
typedef struct {
    uint64_t count;  /* how often, in all words; 0: not seen yet */
    uint32_t places; /* words, each once */
    uint32_t last;   /* the last one of them */
    uint32_t *list;  /* of the new pair; NULL: it is too rare */
} neighbor;

/* One side of a pair: the symbols that lie there, and in which words. */
typedef struct {
    neighbor *of;   /* [vocab]: by symbol; owned */
    uint32_t *seen; /* [vocab]: symbols with a count; owned */
    uint32_t seen_count;
    struct place {
        uint32_t symbol, word;
    } * places; /* owned */
    size_t place_count, place_capacity;
} side;

enum { LEFT, RIGHT };

typedef struct {
    const bpe_train_settings *s;
    bpe_trained *out;
    uint32_t *symbols; /* owned */
    word *words;       /* [word_count]; owned */
    size_t word_count;
    pair_queue queue;
    side sides[2];
    uint32_t left, right, made; /* the pair that is being joined, and its token */
} training;

/* ---- Words to symbols ---- */

void bpe_train_bytes(unsigned char bytes[BPE_TRAIN_BYTES]) {
    size_t count = 0;
    for (uint32_t c = 0; c < BYTES_END; c++) {
        int byte = bytes_byte(c);
        if (byte >= 0) bytes[count++] = (unsigned char)byte;
    }
    ASSERT(count == BPE_TRAIN_BYTES);
}

static void number_bytes(const training *t, uint32_t ids[BPE_TRAIN_BYTES]) {
    unsigned char bytes[BPE_TRAIN_BYTES];
    bpe_train_bytes(bytes);
    for (uint32_t i = 0; i < BPE_TRAIN_BYTES; i++) ids[bytes[i]] = t->s->special_count + i;
}

static bool has_pairs(const word_row *row) {
    return row->count && row->bytes > 1;
}

static void count_symbols(const word_counts *from, size_t *words, size_t *symbols) {
    *words = *symbols = 0;
    for (size_t s = 0; s < WORD_SHARDS; s++) {
        const word_table *table = &from->shards[s].table;
        for (size_t i = 0; i < table->count; i++) {
            if (!has_pairs(&table->rows[i])) continue;
            ++*words;
            *symbols += table->rows[i].bytes;
        }
    }
}

static void take_word(training *t, const word_row *row, const uint32_t ids[], uint64_t *at) {
    if (!has_pairs(row)) return;
    t->words[t->word_count++] = (word){*at, row->count, row->bytes};
    for (uint32_t i = 0; i < row->bytes; i++)
        t->symbols[(*at)++] = ids[(unsigned char)row->text[i]];
}

static trine_status take_words(training *t, const word_counts *from) {
    uint32_t ids[BPE_TRAIN_BYTES];
    uint64_t at = 0;
    size_t words, symbols;
    count_symbols(from, &words, &symbols);
    CHECK(words < UINT32_MAX, TRINE_ENOMEM, "%zu different words are more than fit", words);
    t->words = malloc((words + 1) * sizeof *t->words);
    t->symbols = malloc((symbols + 1) * sizeof *t->symbols);
    CHECK(t->words && t->symbols, TRINE_ENOMEM, "no memory for %zu different words", words);
    number_bytes(t, ids);
    for (size_t s = 0; s < WORD_SHARDS; s++)
        for (size_t i = 0; i < from->shards[s].table.count; i++)
            take_word(t, &from->shards[s].table.rows[i], ids, &at);
    return TRINE_OK;
}

/* ---- The first pairs: those of bytes ---- */

typedef struct {
    uint64_t count;
    uint32_t places, last; /* as of a neighbor; last: the word's number + 1 */
    uint32_t *list;
} byte_pair;

/* visit: of each pair of each word. */
static void each_byte_pair(const training *t, byte_pair *pairs,
                           void (*visit)(byte_pair *p, uint32_t number, uint64_t count)) {
    uint32_t first = t->s->special_count;
    for (size_t w = 0; w < t->word_count; w++) {
        const uint32_t *s = t->symbols + t->words[w].at;
        for (uint32_t i = 0; i + 1 < t->words[w].length; i++)
            visit(&pairs[(s[i] - first) * BPE_TRAIN_BYTES + s[i + 1] - first], (uint32_t)w,
                  t->words[w].count);
    }
}

static void count_pair(byte_pair *p, uint32_t number, uint64_t count) {
    p->count += count;
    if (p->last == number + 1) return;
    p->last = number + 1;
    p->places++;
}

static void list_pair(byte_pair *p, uint32_t number, uint64_t count) {
    (void)count;
    if (!p->list || p->last == number + 1) return;
    p->last = number + 1;
    p->list[p->places++] = number;
}

static trine_status queue_pairs(training *t, byte_pair *pairs) {
    uint32_t first = t->s->special_count;
    each_byte_pair(t, pairs, count_pair);
    for (uint32_t i = 0; i < BPE_TRAIN_BYTES * BPE_TRAIN_BYTES; i++) {
        byte_pair *p = &pairs[i];
        pair_key key = pair_of(first + i / BPE_TRAIN_BYTES, first + i % BPE_TRAIN_BYTES);
        if (p->count) TRY(pair_queue_add(&t->queue, key, p->count, p->places, &p->list));
        p->last = p->places = 0;
    }
    each_byte_pair(t, pairs, list_pair);
    return TRINE_OK;
}

static trine_status find_pairs(training *t) {
    byte_pair *pairs = calloc(BPE_TRAIN_BYTES * BPE_TRAIN_BYTES, sizeof *pairs);
    CHECK(pairs, TRINE_ENOMEM, "no memory for pairs of bytes");
    t->queue.least = t->s->least;
    trine_status status = queue_pairs(t, pairs);
    free(pairs);
    return status;
}

/* ---- Joining a pair ---- */

static trine_status note(side *beside, uint32_t symbol, uint32_t number, uint64_t count) {
    neighbor *n = &beside->of[symbol];
    if (!n->count) beside->seen[beside->seen_count++] = symbol;
    n->count += count;
    if (n->places && n->last == number) return TRINE_OK;
    if (beside->place_count == beside->place_capacity) {
        size_t capacity = 2 * beside->place_capacity + 1024;
        struct place *places = realloc(beside->places, capacity * sizeof *places);
        CHECK(places, TRINE_ENOMEM, "no memory for %zu places of a pair", capacity);
        beside->places = places;
        beside->place_capacity = capacity;
    }
    beside->places[beside->place_count++] = (struct place){symbol, number};
    n->last = number;
    n->places++;
    return TRINE_OK;
}

/* Joins the pair in a word from the left. What lies left of the new symbol is what has been made of it, maybe the new
 * symbol again; what lies right of it is noted there only if it does not become one. */
static trine_status join_in(training *t, uint32_t number) {
    word *w = &t->words[number];
    uint32_t *s = t->symbols + w->at, n = w->length, out = 0;
    for (uint32_t i = 0; i < n;) {
        bool joins = i + 1 < n && s[i] == t->left && s[i + 1] == t->right;
        if (joins && out) TRY(note(&t->sides[LEFT], s[out - 1], number, w->count));
        if (!joins && out && s[out - 1] == t->made)
            TRY(note(&t->sides[RIGHT], s[i], number, w->count));
        s[out++] = joins ? t->made : s[i];
        i += joins ? 2 : 1;
    }
    w->length = out;
    return TRINE_OK;
}

static trine_status join_everywhere(training *t, const pair_row *pair) {
    for (uint32_t i = 0; i < pair->places; i++) {
        if (i + 2 * AHEAD < pair->places) __builtin_prefetch(&t->words[pair->words[i + 2 * AHEAD]]);
        if (i + AHEAD < pair->places)
            __builtin_prefetch(&t->symbols[t->words[pair->words[i + AHEAD]].at]);
        TRY(join_in(t, pair->words[i]));
    }
    return TRINE_OK;
}

/* Between two new symbols, which are neighbours on the left, lay the pair's right half and its left one. */
static pair_key pair_before(const training *t, int which, uint32_t symbol) {
    if (which == RIGHT) return pair_of(t->right, symbol);
    return pair_of(symbol == t->made ? t->right : symbol, t->left);
}

static pair_key pair_behind(const training *t, int which, uint32_t symbol) {
    return which == RIGHT ? pair_of(t->made, symbol) : pair_of(symbol, t->made);
}

/* The pairs with the neighbours of one side give way to those with the new symbol. (Of a run, as aaa, the pair itself
 * is one of them; it is in the queue no more.) */
static trine_status exchange_pairs(training *t, int which) {
    side *beside = &t->sides[which];
    for (uint32_t i = 0; i < beside->seen_count; i++) {
        uint32_t symbol = beside->seen[i];
        neighbor *n = &beside->of[symbol];
        pair_queue_lower(&t->queue, pair_before(t, which, symbol), n->count);
        TRY(pair_queue_add(&t->queue, pair_behind(t, which, symbol), n->count, n->places,
                           &n->list));
        n->places = 0;
    }
    for (size_t i = 0; i < beside->place_count; i++) {
        neighbor *n = &beside->of[beside->places[i].symbol];
        if (n->list) n->list[n->places++] = beside->places[i].word;
    }
    for (uint32_t i = 0; i < beside->seen_count; i++) beside->of[beside->seen[i]] = (neighbor){0};
    beside->seen_count = 0;
    beside->place_count = 0;
    return TRINE_OK;
}

/* ---- Tokens ---- */

const char *bpe_trained_text(const bpe_trained *t, uint32_t number, size_t *bytes) {
    size_t begin = number ? t->ends[number - 1] : 0;
    *bytes = t->ends[number] - begin;
    return t->texts.text + begin;
}

static trine_status append_text(training *t, uint32_t id) {
    size_t bytes;
    const char *text = bpe_trained_text(t->out, id - t->s->special_count, &bytes);
    size_t at = (size_t)(text - t->out->texts.text);
    TRY(text_reserve(&t->out->texts, bytes));
    return text_add(&t->out->texts, t->out->texts.text + at, bytes);
}

/* Whether the bytes, as characters, are the text of a special token. */
static bool is_special(const training *t, const char *bytes, size_t count) {
    for (uint32_t i = 0; i < t->s->special_count; i++) {
        const char *text = t->s->specials[i], *end = text + strlen(text);
        size_t at = 0;
        for (; text < end && at < count; at++)
            if (text_char(text, &text) != bytes_char((unsigned char)bytes[at])) break;
        if (text == end && at == count) return true;
    }
    return false;
}

/* *made: false: its text is that of a special token. */
static trine_status make_token(training *t, bool *made) {
    text_buffer *texts = &t->out->texts;
    size_t begin = texts->count;
    uint32_t number = t->made - t->s->special_count;
    TRY(append_text(t, t->left));
    TRY(append_text(t, t->right));
    *made = !is_special(t, texts->text + begin, texts->count - begin);
    if (!*made) texts->count = begin;
    t->out->ends[number] = texts->count;
    return TRINE_OK;
}

static trine_status join(training *t, const pair_row *pair) {
    bool made = false;
    t->left = (uint32_t)(pair->pair >> 32);
    t->right = (uint32_t)pair->pair;
    t->made = t->s->special_count + BPE_TRAIN_BYTES + t->out->count;
    TRY(make_token(t, &made));
    if (!made) return TRINE_OK;
    t->out->merges[t->out->count++] = (bpe_pair){t->left, t->right};
    t->out->last = pair->count;
    TRY(join_everywhere(t, pair));
    TRY(exchange_pairs(t, LEFT));
    return exchange_pairs(t, RIGHT);
}

/* ---- All ---- */

static trine_status allocate(training *t) {
    size_t vocab = t->s->vocab, first = t->s->special_count + BPE_TRAIN_BYTES;
    unsigned char bytes[BPE_TRAIN_BYTES];
    t->out->merges = malloc((vocab - first + 1) * sizeof *t->out->merges);
    t->out->ends = malloc((vocab - t->s->special_count) * sizeof *t->out->ends);
    bool all = t->out->merges && t->out->ends;
    for (int i = 0; i < 2; i++) {
        t->sides[i].of = calloc(vocab, sizeof *t->sides[i].of);
        t->sides[i].seen = malloc(vocab * sizeof *t->sides[i].seen);
        all = all && t->sides[i].of && t->sides[i].seen;
    }
    CHECK(all, TRINE_ENOMEM, "no memory for a vocabulary of %zu tokens", vocab);
    bpe_train_bytes(bytes);
    TRY(text_add(&t->out->texts, (const char *)bytes, BPE_TRAIN_BYTES));
    for (size_t i = 0; i < BPE_TRAIN_BYTES; i++) t->out->ends[i] = i + 1;
    return TRINE_OK;
}

static trine_status run(training *t, word_counts **words) {
    uint32_t most = t->s->vocab - t->s->special_count - BPE_TRAIN_BYTES;
    pair_row pair;
    TRY(allocate(t));
    TRY(take_words(t, *words));
    word_counts_destroy(words);
    TRY(find_pairs(t));
    while (t->out->count < most && pair_queue_take(&t->queue, &pair)) {
        const bpe_train_watch *w = &t->s->watch;
        if (w->tick) TRY(w->tick(w->context, t->s->vocab - most + t->out->count));
        TRY(join(t, &pair));
    }
    return TRINE_OK;
}

trine_status bpe_train(bpe_trained *out, word_counts **words, const bpe_train_settings *s) {
    training t = {.s = s, .out = out};
    *out = (bpe_trained){0};
    ASSERT(s->vocab >= s->special_count + BPE_TRAIN_BYTES && s->least >= 1);
    trine_status status = run(&t, words);
    word_counts_destroy(words);
    free(t.symbols);
    free(t.words);
    pair_queue_free(&t.queue);
    for (int i = 0; i < 2; i++) {
        free(t.sides[i].of);
        free(t.sides[i].seen);
        free(t.sides[i].places);
    }
    if (status != TRINE_OK) bpe_trained_free(out);
    return status;
}

void bpe_trained_free(bpe_trained *t) {
    free(t->merges);
    free(t->texts.text);
    free(t->ends);
    *t = (bpe_trained){0};
}
