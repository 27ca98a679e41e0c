#include "tokenizer/ggml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/bytes.h"
#include "tokenizer/tokenizer_parts.h"

/* ---- Words ---- */

#define STAGES 2

/* llama_vocab::impl::load and llm_tokenizer_bpe: names of expressions, which of them say that a word that is a token is
 * not merged. In the file's form, each Isolated. */
static const struct {
    const char *pre;
    bool ignores_merges;
    const char *stages[STAGES]; /* NULL: no more */
} rows[] = {
    {"gpt-2", false, {SPLIT_GPT2}},
    {"llama-bpe", true, {SPLIT_LLAMA3("\\p{N}{1,3}")}},
    {"qwen2", false, {SPLIT_LLAMA3("\\p{N}")}},
    {"smollm", false, {"\\p{N}", SPLIT_GPT2}},
};

#define ROWS (sizeof rows / sizeof *rows)

static bool same_stage(const split_stage *s, const char *expression, bool *same) {
    text_buffer text = {0};
    if (pattern_describe(s->what, &text) != TRINE_OK) return false;
    size_t length = sizeof "regex" + strlen(expression) + 1;
    *same &= s->behavior == SPLIT_ISOLATED && !s->invert && text.count == length &&
             !memcmp(text.text, "regex", sizeof "regex") &&
             !memcmp(text.text + sizeof "regex", expression, strlen(expression));
    free(text.text);
    return true;
}

/* *row = the row with these stages; ROWS: none. */
static trine_status find_row(const split_list *list, size_t *row) {
    for (*row = 0; *row < ROWS; ++*row) {
        size_t count = 0;
        bool same = !list->changes.count;
        while (count < STAGES && rows[*row].stages[count]) count++;
        same &= count == list->count;
        for (size_t i = 0; same && i < count; i++)
            CHECK(same_stage(&list->stages[i], rows[*row].stages[i], &same), TRINE_ENOMEM,
                  "no memory for an expression");
        if (same) return TRINE_OK;
    }
    return TRINE_OK;
}

/* Whether the merges make every token of the model out of its bytes; *wrong is the first that they do not. */
static trine_status merges_reach(const tokenizer *t, int32_t *wrong) {
    bpe plain = t->model;
    bpe_scratch scratch = {0};
    token_list ids = {0};
    text_buffer word = {0};
    trine_status status = TRINE_OK;
    plain.ignore_merges = false;
    *wrong = -1;
    for (uint32_t id = 0; status == TRINE_OK && *wrong < 0 && id < t->words.size; id++) {
        size_t length;
        const char *text = vocab_text(&t->words, (int32_t)id, &length);
        if (!text || !vocab_is(&t->words, (int32_t)id, VOCAB_MODEL) ||
            vocab_is(&t->words, (int32_t)id, VOCAB_ADDED))
            continue;
        status = text_reserve(&word, length);
        ptrdiff_t bytes = status == TRINE_OK ? bytes_of(word.text, text, length) : -1;
        if (bytes < 0) continue; /* no word has this text */
        ids.count = 0;
        if (status == TRINE_OK) status = bpe_word(&plain, &scratch, word.text, (size_t)bytes, &ids);
        if (ids.count != 1 || ids.ids[0] != (int32_t)id) *wrong = (int32_t)id;
    }
    free(word.text);
    free(ids.ids);
    bpe_scratch_free(&scratch);
    return status;
}

static trine_status check_ignored(const tokenizer *t, bool ignores, const char *pre) {
    int32_t wrong;
    if (t->model.ignore_merges == ignores) return TRINE_OK;
    TRY(merges_reach(t, &wrong));
    CHECK(wrong < 0, TRINE_EUNSUPPORTED,
          "%s: ignore_merges is %s, llama.cpp's \"%s\" %s a word that is a token, and the merges "
          "do not make token %" PRId32,
          t->path, ignores ? "false" : "true", pre, ignores ? "takes" : "merges", wrong);
    return TRINE_OK;
}

/* ---- What has no word ---- */

static trine_status check_added(const tokenizer *t, const added_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const added_token *a = &list->rows[i];
        CHECK(!a->single_word && !a->lstrip && !a->rstrip, TRINE_EUNSUPPORTED,
              "%s: added token %" PRId32 " has %s, which GGUF cannot express", t->path, a->id,
              a->single_word ? "single_word"
              : a->lstrip    ? "lstrip"
                             : "rstrip");
    }
    return TRINE_OK;
}

/* llama.cpp searches for tokens in the text as it is. */
static trine_status check_forms(const tokenizer *t) {
    for (size_t i = 0; i < t->normalized.count; i++) {
        const added_token *a = &t->normalized.rows[i];
        size_t length;
        const char *text = vocab_text(&t->words, a->id, &length);
        CHECK(length == a->length && !memcmp(text, a->text, length), TRINE_EUNSUPPORTED,
              "%s: added token %" PRId32
              " is searched for in its normalized form, \"%.*s\", which GGUF cannot express",
              t->path, a->id, (int)(a->length < 80 ? a->length : 80), a->text);
    }
    return TRINE_OK;
}

/* One token that is known by its name, or none. */
static trine_status check_end(const tokenizer *t, const token_list *list, int32_t known,
                              const char *where, bool *has) {
    *has = list->count > 0;
    if (!*has) return TRINE_OK;
    CHECK(list->count == 1 && list->ids[0] == known, TRINE_EUNSUPPORTED,
          "%s: the template writes %zu tokens %s a text, the first is %" PRId32
          "; GGUF can express only one, the token that %s a text, %" PRId32,
          t->path, list->count, where, list->ids[0], *where == 'b' ? "begins" : "ends", known);
    return TRINE_OK;
}

static trine_status check_bytes(const tokenizer *t) {
    for (int byte = 0; byte < 256 && t->model.unknown >= 0; byte++)
        CHECK(t->model.byte_id[byte] >= 0, TRINE_EUNSUPPORTED,
              "%s: byte 0x%02X is the unknown token, which GGUF cannot express for a ByteLevel "
              "tokenizer",
              t->path, (unsigned)byte);
    return TRINE_OK;
}

/* ---- Merges ---- */

typedef struct {
    uint32_t rank;
    ggml_merge merge;
} ranked;

static int compare_ranks(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static trine_status list_merges(ggml_tokenizer *g) {
    const bpe *b = &g->from->model;
    ranked *all = malloc((b->merge_count + 1) * sizeof *all);
    g->merges = malloc((b->merge_count + 1) * sizeof *g->merges);
    if (!all || !g->merges) {
        free(all);
        return RAISE(TRINE_ENOMEM, "%s: no memory for its merges", g->from->path);
    }
    size_t count = 0;
    for (uint32_t i = 0; i < b->merge_size; i++) {
        const bpe_merge *m = &b->merges[i];
        if (m->left != UINT32_MAX) all[count++] = (ranked){m->rank, {m->left, m->right}};
    }
    qsort(all, count, sizeof *all, compare_ranks);
    for (size_t i = 0; i < count; i++) g->merges[i] = all[i].merge;
    g->merge_count = count;
    free(all);
    return TRINE_OK;
}

/* ---- ByteLevel ---- */

static trine_status describe_bytes(ggml_tokenizer *g) {
    const tokenizer *t = g->from;
    size_t row;
    const normalizer_list *n = &t->normalizers;
    g->model = "gpt2";
    if (n->count == 1 && !strcmp(n->rows[0].kind->name, "NFC"))
        g->loses = "texts are normalized (NFC)";
    CHECK(!n->count || g->loses, TRINE_EUNSUPPORTED,
          "%s: normalizer %s, which GGUF cannot express for a ByteLevel tokenizer; only NFC is "
          "left out",
          t->path, n->rows[n->count == 1 ? 0 : 1].kind->name);
    TRY(find_row(&t->splits, &row));
    CHECK(
        row < ROWS, TRINE_EUNSUPPORTED,
        "%s: llama.cpp has no name for its pre-tokenizers; the known ones are GPT-2's, Llama 3's, "
        "Qwen2's and SmolLM's (gpt-2, llama-bpe, qwen2, smollm)",
        t->path);
    g->pre = rows[row].pre;
    TRY(check_bytes(t));
    TRY(check_ignored(t, rows[row].ignores_merges, g->pre));
    return list_merges(g);
}

/* ---- Words after U+2581 ---- */

#define SPACE "\xE2\x96\x81" /* U+2581 */
#define LOSES_SPACE                                                                                \
    "a text that begins with a space, or follows a special token, gets no space before it"

/* What becomes of spaces: rows of normalizers, or those that Metaspace adds. */
static const struct {
    const char *kinds[2];
    bool before; /* a text begins with a space more */
    const char *loses;
} space_forms[] = {
    {{"Prepend", "Replace"}, true, NULL},
    {{"Replace"}, false, NULL},
    {{"spaces", "prefix"}, true, LOSES_SPACE},
    {{"spaces", "prefix of the first"}, true, LOSES_SPACE},
    {{"spaces"}, false, NULL},
};

/* Whether the row has U+2581 as its text, and replaces a space if it replaces. */
static bool is_space(const normalizer *n, const char *kind) {
    text_buffer what = {0};
    bool space = !strcmp(n->kind->name, kind) && n->content && !strcmp(n->content, SPACE);
    if (space && n->what)
        space = pattern_describe(n->what, &what) == TRINE_OK && what.count == sizeof "text" + 2 &&
                !memcmp(what.text, "text\0 ", sizeof "text" + 1);
    free(what.text);
    return space;
}

static trine_status check_spaces(ggml_tokenizer *g) {
    const tokenizer *t = g->from;
    const normalizer_list *of = t->normalizers.count ? &t->normalizers : &t->splits.changes;
    bool whole = !t->splits.count && !(t->normalizers.count && t->splits.changes.count);
    for (size_t i = 0; whole && i < sizeof space_forms / sizeof *space_forms; i++) {
        size_t count = space_forms[i].kinds[1] ? 2 : 1;
        bool same = of->count == count;
        for (size_t k = 0; same && k < count; k++)
            same = is_space(&of->rows[k], space_forms[i].kinds[k]);
        if (!same) continue;
        g->space_before = space_forms[i].before;
        g->loses = space_forms[i].loses;
        return TRINE_OK;
    }
    return RAISE(
        TRINE_EUNSUPPORTED,
        "%s: its normalizers and pre-tokenizers are neither those of a ByteLevel tokenizer "
        "nor Llama 2's (Prepend and Replace, or Metaspace without split), which llama.cpp "
        "has",
        t->path);
}

/* llama.cpp takes bytes for a character that is no token. */
static trine_status check_fallback(const tokenizer *t) {
    bool all = t->model.byte_fallback && !t->model.ignore_merges;
    for (int byte = 0; byte < 256; byte++) all &= t->model.byte_id[byte] >= 0;
    CHECK(all, TRINE_EUNSUPPORTED,
          "%s: without byte_fallback and the tokens <0x00> to <0xFF>, or with ignore_merges, which "
          "llama.cpp's \"llama\" cannot express",
          t->path);
    return TRINE_OK;
}

/* Whether the token's text is a symbol of merging: a character, or a token; *id is -1 for a character that is none. */
static bool is_symbol(const tokenizer *t, const char *text, size_t length, int32_t *id) {
    const char *next;
    *id = vocab_find_model(&t->words, text, length);
    text_char(text, &next);
    return *id >= 0 || (size_t)(next - text) == length;
}

/* llama.cpp merges all neighbours that are a token together; here each needs its merge. */
static trine_status check_token(const tokenizer *t, int32_t id) {
    size_t length;
    const char *text = vocab_text(&t->words, id, &length);
    if (!text || !vocab_is(&t->words, id, VOCAB_MODEL) || vocab_is(&t->words, id, VOCAB_ADDED))
        return TRINE_OK;
    for (const char *at = text, *end = text + length; length;) {
        int32_t left, right;
        text_char(at, &at);
        if (at >= end) break;
        if (!is_symbol(t, text, (size_t)(at - text), &left) ||
            !is_symbol(t, at, (size_t)(end - at), &right))
            continue;
        CHECK(left >= 0 && right >= 0 && bpe_find(&t->model, (uint32_t)left, (uint32_t)right),
              TRINE_EUNSUPPORTED,
              "%s: no merge makes token %" PRId32
              " of \"%.*s\" and \"%.*s\"; llama.cpp's \"llama\" "
              "would",
              t->path, id, (int)(at - text), text, (int)(end - at), at);
    }
    return TRINE_OK;
}

/* The score of a token: the earlier its merges, the higher. All merges of a token must follow each other. */
static trine_status find_scores(ggml_tokenizer *g) {
    const tokenizer *t = g->from;
    uint32_t last = UINT32_MAX;
    float score = 0;
    g->scores = calloc(t->words.size, sizeof *g->scores);
    CHECK(g->scores, TRINE_ENOMEM, "%s: no memory for its scores", t->path);
    for (size_t i = 0; i < g->merge_count; i++) {
        uint32_t id = bpe_find(&t->model, g->merges[i].left, g->merges[i].right)->id;
        CHECK(id == last || g->scores[id] == 0, TRINE_EUNSUPPORTED,
              "%s: between two merges that make token %" PRIu32 " is one of token %" PRIu32
              ", which llama.cpp's \"llama\" cannot express: it has a score for each token",
              t->path, id, last);
        if (id != last) score -= 1;
        g->scores[id] = score;
        last = id;
    }
    return TRINE_OK;
}

static trine_status describe_spaces(ggml_tokenizer *g) {
    const tokenizer *t = g->from;
    g->model = "llama";
    g->pre = "default";
    g->scored = true;
    TRY(check_spaces(g));
    TRY(check_fallback(t));
    for (uint32_t id = 0; id < t->words.size; id++) TRY(check_token(t, (int32_t)id));
    TRY(list_merges(g));
    return find_scores(g);
}

trine_status ggml_describe(ggml_tokenizer *g, const tokenizer *t) {
    *g = (ggml_tokenizer){.from = t};
    TRY(check_added(t, &t->raw));
    TRY(check_added(t, &t->normalized));
    TRY(check_forms(t));
    TRY(check_end(t, &t->before, tokenizer_begin(t), "before", &g->before));
    TRY(check_end(t, &t->after, tokenizer_end(t), "after", &g->after));
    return t->splits.bytes ? describe_bytes(g) : describe_spaces(g);
}

void ggml_free(ggml_tokenizer *g) {
    free(g->merges);
    free(g->scores);
    *g = (ggml_tokenizer){0};
}

/* ---- Tokens ---- */

/* convert_hf_to_gguf.py, does_token_look_special: files call some special tokens ordinary. */
static bool looks_special(const char *text, size_t length) {
    return length >= 4 && text[0] == '<' && text[1] == '|' && text[length - 2] == '|' &&
           text[length - 1] == '>';
}

ggml_kind ggml_token(const ggml_tokenizer *g, int32_t id, const char **text, size_t *length) {
    const vocab *words = &g->from->words;
    *length = 0;
    *text = vocab_text(words, id, length);
    if (!*text) return GGML_UNUSED;
    if (g->scored && id == g->from->model.unknown) return GGML_UNKNOWN;
    for (int byte = 0; byte < 256 && g->scored; byte++)
        if (g->from->model.byte_id[byte] == id) return GGML_BYTE;
    if (!vocab_is(words, id, VOCAB_ADDED)) return GGML_NORMAL;
    bool special = vocab_is(words, id, VOCAB_SPECIAL) || looks_special(*text, *length);
    return special ? GGML_CONTROL : GGML_USER_DEFINED;
}
