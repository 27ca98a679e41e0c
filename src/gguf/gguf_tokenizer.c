#include "gguf/gguf_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tokenizer/chat.h"
#include "tokenizer/ggml.h"

#define KEY "tokenizer.ggml."

static void add_tokens(gguf *g, const ggml_tokenizer *t, int32_t vocab) {
    gguf_list(g, KEY "tokens", GGUF_LIST_TEXT, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) {
        const char *text;
        char unused[32];
        size_t length;
        ggml_token(t, id, &text, &length);
        if (!text) length = (size_t)snprintf(unused, sizeof unused, "[PAD%" PRId32 "]", id);
        gguf_list_text(g, text ? text : unused, length);
    }
    gguf_list(g, KEY "token_type", GGUF_LIST_I32, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) {
        const char *text;
        size_t length;
        gguf_list_i32(g, (int32_t)ggml_token(t, id, &text, &length));
    }
}

/* "left right" */
static trine_status add_merges(gguf *g, const ggml_tokenizer *t) {
    char *line = NULL;
    gguf_list(g, KEY "merges", GGUF_LIST_TEXT, t->merge_count);
    for (size_t i = 0; i < t->merge_count; i++) {
        const char *left, *right;
        size_t before, after;
        ggml_token(t, (int32_t)t->merges[i].left, &left, &before);
        ggml_token(t, (int32_t)t->merges[i].right, &right, &after);
        char *longer = realloc(line, before + after + 2);
        if (!longer) free(line);
        CHECK(longer, TRINE_ENOMEM, "no memory for a merge");
        line = longer;
        snprintf(line, before + after + 2, "%.*s %.*s", (int)before, left, (int)after, right);
        gguf_list_text(g, line, before + after + 1);
    }
    free(line);
    return TRINE_OK;
}

static void add_scores(gguf *g, const ggml_tokenizer *t, int32_t vocab) {
    int32_t known = (int32_t)tokenizer_vocab(t->from);
    gguf_list(g, KEY "scores", GGUF_LIST_F32, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) gguf_list_f32(g, id < known ? t->scores[id] : 0);
    gguf_bool(g, KEY "add_space_prefix", t->space_before);
}

/* llama.cpp takes token 11 for one that is not named. */
static trine_status add_ends(gguf *g, const ggml_tokenizer *t, hf_tokens known, const char *path) {
    int32_t begin = tokenizer_begin(t->from), end = tokenizer_end(t->from);
    if (end < 0) end = known.end;
    if (begin < 0) begin = known.begin >= 0 ? known.begin : end;
    CHECK(end >= 0, TRINE_EUNSUPPORTED,
          "%s: no token is known to end a text, and a GGUF file needs one; name it in "
          "tokenizer_config.json (eos_token)",
          path);
    gguf_u32(g, KEY "bos_token_id", (uint32_t)begin);
    gguf_u32(g, KEY "eos_token_id", (uint32_t)end);
    gguf_bool(g, KEY "add_bos_token", t->before);
    gguf_bool(g, KEY "add_eos_token", t->after);
    return TRINE_OK;
}

static trine_status add_template(gguf *g, const char *folder) {
    char *text;
    TRY(chat_read(&text, folder));
    if (text) gguf_text(g, "tokenizer.chat_template", text, strlen(text));
    free(text);
    return TRINE_OK;
}

static trine_status add_all(gguf *g, const ggml_tokenizer *t, const gguf_request *r, int32_t vocab,
                            const char *folder) {
    gguf_text(g, KEY "model", t->model, strlen(t->model));
    gguf_text(g, KEY "pre", t->pre, strlen(t->pre));
    add_tokens(g, t, vocab);
    if (t->scored)
        add_scores(g, t, vocab);
    else
        TRY(add_merges(g, t));
    TRY(add_ends(g, t, r->tokens, tokenizer_path(t->from)));
    if (t->loses)
        fprintf(r->notes, "%s: %s; llama.cpp does not do that, so some texts get other ids there\n",
                tokenizer_path(t->from), t->loses);
    return add_template(g, folder);
}

trine_status gguf_tokenizer_describe(gguf *g, const gguf_request *request, const trine_model *m,
                                     const char *folder) {
    ggml_tokenizer t;
    if (!request->tokenizer) {
        gguf_text(g, KEY "model", "none", strlen("none"));
        fprintf(request->notes,
                "%s has no tokenizer: the file has no vocabulary, and programs must give ids\n",
                folder);
        return TRINE_OK;
    }
    trine_status status = ggml_describe(&t, request->tokenizer);
    if (status == TRINE_OK) status = add_all(g, &t, request, m->vocab_size, folder);
    ggml_free(&t);
    return status;
}
