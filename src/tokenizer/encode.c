/* Text to ids: the stages one after the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/newer.h"
#include "tokenizer/tokenizer_parts.h"

/* Words that are in the cache are not merged again. A slot is a cache line; a word has one slot. */
#define CACHE_SLOTS ((size_t)1 << 17)
#define CACHE_BYTES 26
#define CACHE_IDS   7

typedef struct {
    uint64_t hash;
    unsigned char length, count; /* length 0: free */
    char word[CACHE_BYTES];
    int32_t ids[CACHE_IDS];
} cache_slot;

struct encoder {
    const tokenizer *t;
    pattern_scratch *scratch;
    bpe_scratch merging;
    cache_slot *cache; /* [CACHE_SLOTS] */
    text_buffer valid, normal, changed, spare, rest;
    uint64_t replaced;
    newer_table table;
    newer_chars newer;
    /* Of the call that runs. */
    token_list *out;
    word_list *words; /* takes the words, and nothing goes to `out`; NULL: ids are asked for */
    const char *cut;  /* in the text that is being split; NULL: none */
    bool broken;      /* the cut does not hold */
    bool plain;       /* special tokens are text */
};

/* ---- Words ---- */

/* A word that is a token as a whole, where the model says that this comes before merging. */
static int32_t whole_word(const bpe *m, const char *word, size_t bytes) {
    char name[2 * 256];
    size_t length = 0;
    if (!m->ignore_merges) return -1;
    if (!m->bytes) return vocab_find_model(m->words, word, bytes);
    if (bytes > 256) return -1;
    for (size_t i = 0; i < bytes; i++)
        length += text_put(name + length, bytes_char((unsigned char)word[i]));
    return vocab_find_model(m->words, name, length);
}

static trine_status merge_cached(encoder *e, const char *word, size_t bytes);

/* The end of the piece of a word of bytes that begins at `at`: where two bytes lie side by side that do so in no token. */
static const char *piece_end(const bpe *m, const char *at, const char *end) {
    for (at++; at < end; at++)
        if (!bpe_beside(m, at[-1], *at)) break;
    return at;
}

/* Encodes an uncached word piecewise, unless a piece may be a token that merges cannot reach. Pieces are short, so that
 * merging is quick, and may be in the cache. */
static trine_status merge_new(encoder *e, const char *word, size_t bytes) {
    const bpe *m = &e->t->model;
    const char *end = word + bytes, *stop = m->bytes && m->cuttable ? piece_end(m, word, end) : end;
    if (stop == end) return bpe_word(m, &e->merging, word, bytes, e->out);
    for (const char *at = word; at < end; at = stop) {
        stop = piece_end(m, at, end);
        bool cached = !m->ignore_merges && (size_t)(stop - at) <= CACHE_BYTES;
        TRY(cached ? merge_cached(e, at, (size_t)(stop - at))
                   : bpe_word(m, &e->merging, at, (size_t)(stop - at), e->out));
    }
    return TRINE_OK;
}

static trine_status merge_cached(encoder *e, const char *word, size_t bytes) {
    uint64_t hash = XXH3_64bits(word, bytes);
    cache_slot *slot = &e->cache[hash & (CACHE_SLOTS - 1)];
    size_t first = e->out->count;
    if (slot->hash == hash && slot->length == bytes && !memcmp(slot->word, word, bytes)) {
        TRY(token_list_reserve(e->out, CACHE_IDS));
        memcpy(e->out->ids + first, slot->ids, sizeof slot->ids);
        e->out->count += slot->count;
        return TRINE_OK;
    }
    int32_t id = whole_word(&e->t->model, word, bytes);
    TRY(id >= 0 ? token_list_add(e->out, &id, 1) : merge_new(e, word, bytes));
    size_t count = e->out->count - first;
    if (count > CACHE_IDS) return TRINE_OK;
    *slot =
        (cache_slot){.hash = hash, .length = (unsigned char)bytes, .count = (unsigned char)count};
    memcpy(slot->word, word, bytes);
    for (size_t i = 0; i < count; i++) slot->ids[i] = e->out->ids[first + i];
    return TRINE_OK;
}

static trine_status merge(encoder *e, const char *word, size_t bytes) {
    if (!bytes) return TRINE_OK;
    return bytes <= CACHE_BYTES ? merge_cached(e, word, bytes) : merge_new(e, word, bytes);
}

/* Whether a word may be cut between the two symbols. Unknown symbols in a row may be one token. */
static bool apart(const bpe *m, const bpe_symbol *left, const bpe_symbol *right) {
    if (!left->count || !right->count || (left->unknown && right->unknown)) return false;
    return !bpe_neighbors(m, left->ids[left->count - 1], right->ids[0]);
}

/* Merges the pieces between symbols that lie side by side in no token. `cut` (or NULL) lies in the word, and what is
 * behind it is left out. */
static trine_status merge_pieces(encoder *e, const char *word, const char *end, const char *cut) {
    const bpe *m = &e->t->model;
    const char *piece = word, *at = word;
    bpe_symbol left = {0};
    for (const char *next; at < end; at = next) {
        bpe_symbol right = bpe_symbol_at(m, at, &next);
        bool may = at > word && apart(m, &left, &right);
        if (at == cut) {
            e->broken = !may;
            break;
        }
        if (may) {
            TRY(merge(e, piece, (size_t)(at - piece)));
            piece = at;
        }
        left = right;
    }
    return e->broken ? TRINE_OK : merge(e, piece, (size_t)(at - piece));
}

static trine_status list_word(word_list *list, const char *text, size_t bytes) {
    CHECK(bytes <= ENCODE_WORD, TRINE_EDATA, BPE_LONG_WORD, bytes, text, ENCODE_WORD);
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 1024;
        word_span *words = realloc(list->words, capacity * sizeof *words);
        CHECK(words, TRINE_ENOMEM, "no memory for a list of words");
        list->words = words;
        list->capacity = capacity;
    }
    list->words[list->count++] = (word_span){text, bytes};
    return TRINE_OK;
}

/* Without bytes as symbols and without a pre-tokenizer a word is a whole text. */
static trine_status add_word(void *context, const char *begin, const char *end) {
    encoder *e = context;
    const bpe *m = &e->t->model;
    size_t bytes = (size_t)(end - begin);
    const char *cut = e->cut && begin < e->cut && e->cut < end ? e->cut : NULL;
    if (e->words && !cut) return list_word(e->words, begin, bytes);
    if (bytes <= CACHE_BYTES && !cut) return merge_cached(e, begin, bytes);
    if (cut && (!m->cuttable || m->ignore_merges || e->words)) {
        e->broken = true;
        return TRINE_OK;
    }
    int32_t id = whole_word(m, begin, bytes);
    if (id >= 0) return token_list_add(e->out, &id, 1);
    if (!m->cuttable || m->ignore_merges || (m->bytes && !cut)) return merge_new(e, begin, bytes);
    return merge_pieces(e, begin, end, cut);
}

/* ---- Texts between added tokens ---- */

#define NO_CUT SIZE_MAX

/* A text, or what lies between two added tokens of it. */
typedef struct {
    const char *text;
    size_t bytes, cut; /* cut: strictly inside, or NO_CUT */
    text_place place;
} section;

/* Normalizes the section into *to, the two sides of a cut apart. Without normalizers it stays where it is. */
static trine_status change(encoder *e, const normalizer_list *list, text_buffer *to, section *s) {
    if (!list->count) return TRINE_OK;
    size_t left = s->cut == NO_CUT ? s->bytes : s->cut;
    if (!normalizer_parts(list, s->text, s->bytes, left)) {
        e->broken = true;
        return TRINE_OK;
    }
    TRY(normalizer_apply(list, e->scratch, s->text, left, &s->place, to, &e->spare));
    size_t cut = to->count;
    if (left < s->bytes) {
        text_place behind = {.continues = true};
        TRY(normalizer_apply(list, e->scratch, s->text + left, s->bytes - left, &behind, &e->rest,
                             &e->spare));
        TRY(text_add(to, e->rest.text, e->rest.count));
        /* A side that became empty leaves nothing to cut. */
        e->broken = cut == 0 || cut == to->count;
        s->cut = cut;
    }
    s->text = to->text;
    s->bytes = to->count;
    return TRINE_OK;
}

static trine_status split_words(encoder *e, section s) {
    TRY(change(e, &e->t->splits.changes, &e->changed, &s));
    if (e->broken) return TRINE_OK;
    e->cut = s.cut == NO_CUT ? NULL : s.text + s.cut;
    split_job job = {&e->t->splits, e->scratch, add_word, e, e->cut, false};
    TRY(split_run(&job, s.text, s.text + s.bytes));
    e->broken |= job.broken;
    return TRINE_OK;
}

typedef trine_status (*section_visit)(encoder *e, section s);

/* The section [from, to) of s. */
static trine_status visit_between(encoder *e, const section *s, size_t from, size_t to,
                                  section_visit visit) {
    bool inside = s->cut != NO_CUT && from < s->cut && s->cut < to,
         passed = s->cut != NO_CUT && s->cut <= from;
    if (from >= to || passed || e->broken) return TRINE_OK;
    text_place place = {.continues = s->place.continues && !from,
                        .head = from < s->place.head ? s->place.head - from : 0};
    return visit(e, (section){s->text + from, to - from, inside ? s->cut - from : NO_CUT, place});
}

/* A cut may lie before a token. Behind it the next part would not know that it begins a section. */
static trine_status add_token(encoder *e, const section *s, const added_token *token, size_t begin,
                              size_t end) {
    bool cut = s->cut != NO_CUT;
    if (e->broken || (cut && s->cut < begin)) return TRINE_OK;
    if (cut && (s->cut == begin ? token->single_word : s->cut <= end)) e->broken = true;
    if (e->broken || e->words || (cut && s->cut == begin)) return TRINE_OK;
    return token_list_add(e->out, &token->id, 1);
}

/* A token that must stand alone (single_word) may begin behind the cut, where the letter before it is not seen. */
static bool letter_before_cut(const added_list *list, const section *s) {
    const char *at;
    if (!list->single_word || s->cut == NO_CUT || !s->cut) return false;
    return text_word(text_char_before(s->text, s->text + s->cut, &at));
}

/* Emits the added tokens of a list, and visits what lies between them. */
static trine_status walk(encoder *e, const added_list *list, section s, section_visit visit) {
    added_walk w = {
        .list = list, .text = s.text, .bytes = s.bytes, .plain = e->plain, .cut = s.cut};
    size_t begin, end, from = 0;
    e->broken |= letter_before_cut(list, &s);
    if (e->broken) return TRINE_OK;
    for (const added_token *token; (token = added_next(&w, &begin, &end)); from = end) {
        e->broken |= w.broken;
        TRY(visit_between(e, &s, from, begin, visit));
        TRY(add_token(e, &s, token, begin, end));
        if (e->broken || (s.cut != NO_CUT && s.cut <= begin)) return TRINE_OK;
    }
    e->broken |= w.broken;
    return visit_between(e, &s, from, s.bytes, visit);
}

static trine_status walk_normalized(encoder *e, section s) {
    TRY(change(e, &e->t->normalizers, &e->normal, &s));
    return e->broken ? TRINE_OK : walk(e, &e->t->normalized, s, split_words);
}

/* ---- Whole texts and parts ---- */

/* Invalid bytes are replaced on the two sides of a cut apart; those behind it are counted with their own part. */
static trine_status make_valid(encoder *e, section *s) {
    size_t left = s->cut == NO_CUT ? s->bytes : s->cut;
    uint64_t ahead = 0;
    if (text_valid(s->text, s->bytes) == s->bytes) return TRINE_OK;
    e->valid.count = 0;
    TRY(text_add_valid(&e->valid, s->text, left, &e->replaced));
    size_t cut = e->valid.count;
    TRY(text_add_valid(&e->valid, s->text + left, s->bytes - left, &ahead));
    if (s->cut != NO_CUT) s->cut = cut;
    s->text = e->valid.text;
    s->bytes = e->valid.count;
    return TRINE_OK;
}

static trine_status encode(encoder *e, section s, unsigned flags, token_list *out) {
    e->out = out;
    e->plain = flags & ENCODE_PLAIN;
    e->broken = false;
    if (!s.bytes) return TRINE_OK;
    TRY(make_valid(e, &s));
    newer_count(&e->table, s.text, s.cut == NO_CUT ? s.bytes : s.cut, &e->newer);
    const char *second = s.text;
    if (!s.place.continues) text_char(s.text, &second);
    s.place.head = (size_t)(second - s.text);
    return walk(e, &e->t->raw, s, walk_normalized);
}

trine_status encoder_text(encoder *e, const char *text, size_t bytes, unsigned flags,
                          token_list *out) {
    if (flags & ENCODE_TEMPLATE) TRY(tokenizer_before(e->t, out));
    TRY(encode(e, (section){text, bytes, NO_CUT, {0}}, flags, out));
    return flags & ENCODE_TEMPLATE ? tokenizer_after(e->t, out) : TRINE_OK;
}

/* words: NULL: ids are asked for, in `out`. */
static trine_status encode_cut(encoder *e, const encode_part *part, token_list *out,
                               word_list *words, bool *holds) {
    uint64_t replaced = e->replaced;
    newer_chars newer = e->newer;
    bool last = part->cut == part->bytes;
    ASSERT(part->cut <= part->bytes);
    *holds = last || (part->cut && e->t->splits.cuttable &&
                      ((unsigned char)part->text[part->cut] & 0xC0) != 0x80);
    if (!*holds) return TRINE_OK;
    section s = {part->text, part->bytes, last ? NO_CUT : part->cut, {.continues = !part->first}};
    e->words = words;
    trine_status status = encode(e, s, 0, out);
    e->words = NULL;
    TRY(status);
    *holds = !e->broken;
    if (*holds) return TRINE_OK;
    e->replaced = replaced;
    e->newer = newer;
    return TRINE_OK;
}

trine_status encoder_part(encoder *e, const encode_part *part, token_list *out, bool *holds) {
    size_t before = out->count;
    TRY(encode_cut(e, part, out, NULL, holds));
    if (!*holds) out->count = before;
    return TRINE_OK;
}

trine_status encoder_words(encoder *e, const encode_part *part, word_list *out, bool *holds) {
    out->count = 0;
    TRY(encode_cut(e, part, NULL, out, holds));
    if (!*holds) out->count = 0;
    return TRINE_OK;
}

static bool white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t encode_likely_cut(const char *text, size_t limit) {
    /* The character at the cut decides, so it is before `limit`. */
    for (size_t at = limit; at-- > 1;)
        if (text[at - 1] == '\n' && !white(text[at])) return at;
    for (size_t at = limit; at-- > 2;)
        if (text[at - 1] == ' ' && !white(text[at]) && !white(text[at - 2])) return at - 1;
    return 0;
}

uint64_t encoder_replaced(const encoder *e) {
    return e->replaced;
}

void encoder_take_newer(encoder *e, newer_chars *to) {
    newer_chars_add(to, &e->newer);
    e->newer = (newer_chars){0};
}

void tokenizer_versions(char pcre2[TOKENIZER_VERSION], char unicode[TOKENIZER_VERSION]) {
    char all[PATTERN_VERSION];
    pattern_versions(all, unicode);
    all[strcspn(all, " ")] = '\0'; /* the date */
    snprintf(pcre2, TOKENIZER_VERSION, "PCRE2 %.40s", all);
}

static void fill_newer(newer_table *t) {
    char pcre2[TOKENIZER_VERSION], unicode[TOKENIZER_VERSION], *end;
    tokenizer_versions(pcre2, unicode);
    long major = strtol(unicode, &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    newer_table_fill(t, (int)(10 * major + minor));
}

trine_status encoder_create(encoder **e, const tokenizer *t) {
    *e = calloc(1, sizeof **e);
    CHECK(*e, TRINE_ENOMEM, "no memory for an encoder");
    (*e)->t = t;
    fill_newer(&(*e)->table);
    (*e)->cache = calloc(CACHE_SLOTS, sizeof *(*e)->cache);
    trine_status status = (*e)->cache ? pattern_scratch_create(&(*e)->scratch)
                                      : RAISE(TRINE_ENOMEM, "no memory for an encoder");
    if (status != TRINE_OK) encoder_destroy(e);
    return status;
}

void encoder_destroy(encoder **e) {
    if (!*e) return;
    bpe_scratch_free(&(*e)->merging);
    pattern_scratch_destroy(&(*e)->scratch);
    text_buffer *buffers[] = {&(*e)->valid, &(*e)->normal, &(*e)->changed, &(*e)->spare,
                              &(*e)->rest};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]->text);
    free((*e)->cache);
    free(*e);
    *e = NULL;
}
