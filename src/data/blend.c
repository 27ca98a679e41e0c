#include "data/blend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/rng.h"
#include "base/status.h"

/* ---- Text ---- */

static const char blanks[] = " \t\n";

/* Copies the next word to `word` (room for the text) without its escapes; false: there is none. */
static bool next_word(const char **text, char *word) {
    const char *c = *text + strspn(*text, blanks);
    bool found = *c;
    while (*c && !strchr(blanks, *c)) {
        bool escapes = *c == '\\' && c[1] && (c[1] == '\\' || strchr(blanks, c[1]));
        c += escapes;
        *word++ = *c++;
    }
    *word = '\0';
    *text = c;
    return found;
}

static int count_words(const char *text, char *word) {
    int count = 0;
    while (next_word(&text, word)) count++;
    return count;
}

/* Whether the text is weights and paths; `word` has room for it. */
static bool is_blend(const char *text, char *word) {
    int count = count_words(text, word);
    return count > 1 && next_word(&text, word) && shares_is_weight(word);
}

static trine_status open_source(blend *b, const char *weight, char *const *paths, size_t count) {
    CHECK(b->count < SHARES_MAX, TRINE_EINVAL, "a blend has at most %d sources", SHARES_MAX);
    blend_source *s = &b->sources[b->count++];
    s->weight = strdup(weight);
    CHECK(s->weight, TRINE_ENOMEM, "no memory for a weight");
    return tokens_open_all(&s->tokens, paths, count);
}

/* Splits the text into words, which lie one after the other in `room`; returns their number. */
static size_t take_words(const char *text, char *room, char **words) {
    size_t count = 0;
    for (; next_word(&text, room); room += strlen(room) + 1) words[count++] = room;
    return count;
}

static bool is_number(const char *word) {
    return strpbrk(word, "0123456789") && word[strspn(word, "0123456789.+-eE")] == '\0';
}

/* Weights, each with the paths behind it. */
static trine_status open_pairs(blend *b, char **words, size_t count) {
    for (size_t i = 0, end; i < count; i = end) {
        CHECK(shares_is_weight(words[i]), TRINE_EINVAL,
              "\"%s\" is not a weight; a blend has weights, each followed by its paths, as in 0.7 "
              "'a_*.bin' 0.3 b.bin",
              words[i]);
        for (end = i + 1; end < count && !is_number(words[end]);) end++;
        CHECK(end > i + 1, TRINE_EINVAL, "no path follows the weight %s", words[i]);
        TRY(open_source(b, words[i], words + i + 1, end - i - 1));
    }
    return TRINE_OK;
}

static trine_status open_words(blend *b, const char *text, char *room) {
    size_t count = (size_t)count_words(text, room);
    char **words = malloc((count + 1) * sizeof *words);
    b->sources = calloc(count / 2 + 1, sizeof *b->sources);
    trine_status status = TRINE_OK;
    if (!words || !b->sources)
        status = RAISE(TRINE_ENOMEM, "no memory for a blend");
    else if (is_blend(text, room))
        status = open_pairs(b, words, take_words(text, room, words));
    else
        status = open_source(b, "1", (char *const[]){(char *)(uintptr_t)text}, 1);
    free(words);
    return status;
}

static trine_status open_text(blend *b, const char *text, char *room) {
    const char *weights[SHARES_MAX];
    TRY(open_words(b, text, room));
    for (int i = 0; i < b->count; i++) weights[i] = b->sources[i].weight;
    return shares_create(&b->shares, b->count, weights);
}

/* ---- One tokenizer ---- */

static trine_status check_hashes(const blend *b) {
    uint64_t first = 0, own;
    const tokens *source = NULL;
    for (int i = 0; i < b->count; i++) {
        const tokens *t = b->sources[i].tokens;
        TRY(tokens_tokenizer(t, &own));
        if (!own) continue;
        if (!source) source = t, first = own;
        CHECK(own == first, TRINE_EDATA,
              "%s and %s were made by different tokenizers (%016" PRIx64 ", %016" PRIx64 ")",
              tokens_path(source), tokens_path(t), first, own);
    }
    return TRINE_OK;
}

static trine_status check_vocabularies(const blend *b) {
    const tokens *source = NULL;
    for (int i = 0; i < b->count; i++) {
        const tokens *t = b->sources[i].tokens;
        uint32_t own = tokens_stated_vocab(t);
        if (!own) continue;
        if (!source) source = t;
        CHECK(own == tokens_stated_vocab(source), TRINE_EDATA,
              "%s and %s have different vocabularies: %" PRIu32 " and %" PRIu32,
              tokens_path(source), tokens_path(t), tokens_stated_vocab(source), own);
    }
    return TRINE_OK;
}

/* Masks and boundaries are either in all files or in none. */
static trine_status check_windows(const blend *b) {
    const tokens *first = b->sources->tokens;
    for (int i = 1; i < b->count; i++) {
        const tokens *t = b->sources[i].tokens;
        bool has = tokens_window(t) != 0;
        CHECK(has == (tokens_window(first) != 0), TRINE_EDATA,
              "%s has windows, with masks and documents, but %s has tokens only; a blend needs "
              "files of one kind",
              tokens_path(has ? t : first), tokens_path(has ? first : t));
    }
    return TRINE_OK;
}

uint64_t blend_tokenizer(const blend *b) {
    uint64_t own, found = 0;
    for (int i = 0; i < b->count && !found; i++)
        if (tokens_tokenizer(b->sources[i].tokens, &own) == TRINE_OK) found = own;
    return found;
}

trine_status blend_vocab(const blend *b, int *vocab) {
    int own;
    *vocab = 0;
    for (int i = 0; i < b->count; i++) {
        TRY(tokens_vocab(b->sources[i].tokens, &own));
        if (own > *vocab) *vocab = own;
    }
    return TRINE_OK;
}

/* ---- Opening ---- */

static trine_status open_all(blend *b, const char *text) {
    b->text = strdup(text);
    char *word = malloc(strlen(text) + 2); /* the words with their ends, and an empty one */
    CHECK(b->text && word, TRINE_ENOMEM, "no memory for a path");
    trine_status status = open_text(b, text, word);
    free(word);
    TRY(status);
    TRY(check_windows(b));
    TRY(check_hashes(b));
    return check_vocabularies(b);
}

trine_status blend_open(blend **out, const char *text) {
    blend *b = *out = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for a blend");
    trine_status status = open_all(b, text);
    if (status != TRINE_OK) blend_close(out);
    return status;
}

static trine_status open_program(blend *b, const trine_source *from) {
    b->text = strdup(BLEND_PROGRAM);
    b->sources = calloc(1, sizeof *b->sources);
    CHECK(b->text && b->sources, TRINE_ENOMEM, "no memory for the program's samples");
    b->count = 1;
    b->sources->weight = strdup("1");
    CHECK(b->sources->weight, TRINE_ENOMEM, "no memory for a weight");
    TRY(tokens_open_none(&b->sources->tokens, BLEND_PROGRAM));
    TRY(program_source_open(&b->sources->program, from));
    return shares_create(&b->shares, 1, (const char *const[]){b->sources->weight});
}

trine_status blend_open_program(blend **out, const trine_source *from) {
    blend *b = *out = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for a blend");
    trine_status status = open_program(b, from);
    if (status != TRINE_OK) blend_close(out);
    return status;
}

const program_source *blend_program(const blend *b) {
    return b->sources->program;
}

void blend_close(blend **b) {
    if (!*b) return;
    for (int i = 0; i < (*b)->count; i++) {
        tokens_close(&(*b)->sources[i].tokens);
        program_source_close(&(*b)->sources[i].program);
        free((*b)->sources[i].weight);
    }
    free((*b)->sources);
    free((*b)->text);
    free(*b);
    *b = NULL;
}

/* ---- Files ---- */

bool blend_has_file(const blend *b, const char *path) {
    for (int i = 0; i < b->count; i++)
        if (tokens_has_file(b->sources[i].tokens, path)) return true;
    return false;
}

size_t blend_files(const blend *b) {
    size_t files = 0;
    for (int i = 0; i < b->count; i++) files += tokens_files(b->sources[i].tokens);
    return files;
}

const char *blend_file(const blend *b, size_t i) {
    const blend_source *s = b->sources;
    for (; i >= tokens_files(s->tokens); s++) i -= tokens_files(s->tokens);
    return tokens_file(s->tokens, i);
}

static tokens_print program_print(const blend *b) {
    const sampler *s = &b->sources->sampler;
    uint64_t targets;
    if (__builtin_mul_overflow(s->windows, s->T, &targets)) targets = UINT64_MAX;
    return (tokens_print){
        .files = 1, .tokens = targets, .hash = program_source_fingerprint(blend_program(b))};
}

/* Of one source it is that of tokens_fingerprint, so that checkpoints without blends compare as before. */
trine_status blend_fingerprint(const blend *b, tokens_print *all, tokens_print *each) {
    if (blend_program(b)) return *all = program_print(b), TRINE_OK;
    if (b->count == 1) return tokens_fingerprint(b->sources->tokens, all, each);
    *all = (tokens_print){0};
    for (int i = 0; i < b->count; i++) {
        struct {
            tokens_print print;
            uint64_t weight;
        } one = {.weight = b->shares.weight[i]};
        TRY(tokens_fingerprint(b->sources[i].tokens, &one.print, each));
        if (each) each += one.print.files;
        all->files += one.print.files;
        all->tokens += one.print.tokens;
        all->bytes += one.print.bytes;
        all->hash = XXH3_64bits_withSeed(&one, sizeof one, all->hash);
    }
    return TRINE_OK;
}

/* ---- Samples ---- */

/* Sources of equal size must not be visited in the same order. */
static uint64_t seed_of(uint64_t seed, int source) {
    char name[40];
    if (!source) return seed;
    snprintf(name, sizeof name, "data.source.%d", source);
    return rng_key(seed, name);
}

trine_status blend_order(blend *b, size_t T, uint32_t vocab, uint64_t seed, sampler_order order) {
    if (blend_program(b))
        return sampler_create_program(&b->sources->sampler, b->sources->program, T, vocab, seed,
                                      order);
    for (int i = 0; i < b->count; i++)
        TRY(sampler_create(&b->sources[i].sampler, b->sources[i].tokens, T, vocab, seed_of(seed, i),
                           order));
    return TRINE_OK;
}

bool blend_has_documents(const blend *b) {
    return tokens_window(b->sources->tokens) != 0;
}

trine_status blend_documents(blend *b, int32_t end) {
    uint32_t vocab = b->sources->sampler.vocab;
    CHECK(!blend_has_documents(b), TRINE_EINVAL,
          "%s: its documents are in the file; no end token is needed",
          tokens_path(b->sources->tokens));
    CHECK(end >= 0 && (uint32_t)end < vocab, TRINE_EINVAL,
          "the end token %" PRId32 " is outside the vocabulary of %" PRIu32, end, vocab);
    for (int i = 0; i < b->count; i++) b->sources[i].sampler.end = end;
    return TRINE_OK;
}

trine_status blend_load(blend *b, uint64_t g, int32_t *inputs, int32_t *targets, int32_t *starts) {
    uint64_t own;
    int i = shares_source(&b->shares, g, &own);
    return sampler_load(&b->sources[i].sampler, own, inputs, targets, starts);
}

trine_status blend_supervised(blend *b, uint64_t g, uint32_t *count) {
    uint64_t own;
    int i = shares_source(&b->shares, g, &own);
    return sampler_supervised(&b->sources[i].sampler, own, count);
}

double blend_epochs(const blend *b, int i, uint64_t n) {
    return shares_part(&b->shares, i) * (double)n / (double)b->sources[i].sampler.windows;
}

double blend_samples(const blend *b, int i, double epochs) {
    return epochs * (double)b->sources[i].sampler.windows / shares_part(&b->shares, i);
}

const char *blend_name(const blend *b, int i, char *text, size_t size) {
    bool alone = b->count == 1;
    snprintf(text, size, "%s%s%s", alone ? "" : b->sources[i].weight, alone ? "" : " ",
             tokens_path(b->sources[i].tokens));
    return text;
}
