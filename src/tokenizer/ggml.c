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
              "%s: added token %" PRId32 " has %s, which GGUF cannot say", t->path, a->id,
              a->single_word ? "single_word"
              : a->lstrip    ? "lstrip"
                             : "rstrip");
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
          "; GGUF can say one, the token that %s a text, %" PRId32,
          t->path, list->count, where, list->ids[0], *where == 'b' ? "begins" : "ends", known);
    return TRINE_OK;
}

static trine_status check_bytes(const tokenizer *t) {
    for (int byte = 0; byte < 256 && t->model.unknown >= 0; byte++)
        CHECK(
            t->model.byte_id[byte] >= 0, TRINE_EUNSUPPORTED,
            "%s: byte 0x%02X is the unknown token, which GGUF cannot say of a ByteLevel tokenizer",
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

/* ---- Both kinds ---- */

static trine_status describe_bytes(ggml_tokenizer *g) {
    const tokenizer *t = g->from;
    size_t row;
    const normalizer_list *n = &t->normalizers;
    g->model = "gpt2";
    if (n->count == 1 && !strcmp(n->rows[0].kind->name, "NFC")) g->loses = "NFC";
    CHECK(!n->count || g->loses, TRINE_EUNSUPPORTED,
          "%s: normalizer %s, which GGUF cannot say of a ByteLevel tokenizer; only NFC is left out",
          t->path, n->rows[n->count == 1 ? 0 : 1].kind->name);
    TRY(find_row(&t->splits, &row));
    CHECK(row < ROWS, TRINE_EUNSUPPORTED,
          "%s: llama.cpp has no name for its pre-tokenizers; known are those of GPT-2, Llama 3, "
          "Qwen2 and SmolLM (gpt-2, llama-bpe, qwen2, smollm)",
          t->path);
    g->pre = rows[row].pre;
    TRY(check_bytes(t));
    TRY(check_ignored(t, rows[row].ignores_merges, g->pre));
    return list_merges(g);
}

trine_status ggml_describe(ggml_tokenizer *g, const tokenizer *t) {
    *g = (ggml_tokenizer){.from = t};
    TRY(check_added(t, &t->raw));
    TRY(check_added(t, &t->normalized));
    TRY(check_end(t, &t->before, tokenizer_begin(t), "before", &g->before));
    TRY(check_end(t, &t->after, tokenizer_end(t), "after", &g->after));
    CHECK(t->splits.bytes, TRINE_EUNSUPPORTED,
          "%s: not a ByteLevel tokenizer, which is the kind that is written to GGUF", t->path);
    return describe_bytes(g);
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
    if (!vocab_is(words, id, VOCAB_ADDED)) return GGML_NORMAL;
    bool special = vocab_is(words, id, VOCAB_SPECIAL) || looks_special(*text, *length);
    return special ? GGML_CONTROL : GGML_USER_DEFINED;
}
