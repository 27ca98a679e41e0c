#include "generate/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/inside.h"
#include "base/json.h"
#include "base/status.h"

enum { CONFIG_MOST = 1 << 20 };

/* ---- Ends ---- */

void codec_add_end(codec *c, int32_t id) {
    if (id >= 0 && !codec_ends_at(c, id) && c->end_count < CODEC_ENDS) c->ends[c->end_count++] = id;
}

bool codec_ends_at(const codec *c, int32_t id) {
    for (int i = 0; i < c->end_count; i++)
        if (c->ends[i] == id) return true;
    return false;
}

static trine_status add_number(codec *c, const cJSON *item, const char *path) {
    uint64_t id;
    CHECK(json_integer(item, &id) && id <= INT32_MAX, TRINE_EDATA,
          "%s: eos_token_id must be a token id, or a list of them", path);
    codec_add_end(c, (int32_t)id);
    return TRINE_OK;
}

static trine_status add_ends(codec *c, const cJSON *config, const char *path) {
    const cJSON *item = json_member(config, "eos_token_id"), *one;
    if (!item || cJSON_IsNull(item)) return TRINE_OK;
    if (!cJSON_IsArray(item)) return add_number(c, item, path);
    cJSON_ArrayForEach(one, item) TRY(add_number(c, one, path));
    return TRINE_OK;
}

static trine_status read_generation_config(codec *c, const char *path) {
    char *text;
    size_t bytes;
    cJSON *root;
    TRY(inside_text(&text, &bytes, NULL, CONFIG_MOST, path));
    trine_status status = json_read(&root, text, bytes, path);
    free(text);
    TRY(status);
    status = add_ends(c, root, path);
    cJSON_Delete(root);
    return status;
}

static trine_status find_ends(codec *c, const codec_place *from) {
    const char *const folders[] = {from->loaded, from->asked};
    codec_add_end(c, tokenizer_end(c->tok));
    for (int i = 0; i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/generation_config.json", folders[i]);
        if (inside_has(folders[i], "generation_config.json"))
            return read_generation_config(c, path);
    }
    return TRINE_OK;
}

/* ---- Opening ---- */

static const char *find(const codec_place *from) {
    if (from->path) return from->path;
    if (tokenizer_exists(from->loaded)) return from->loaded;
    return tokenizer_exists(from->asked) ? from->asked : NULL;
}

static trine_status open_tokenizer(codec *c, const codec_place *from, const char *path) {
    c->kind = CODEC_TOKENIZER;
    TRY(tokenizer_open(&c->tok, path));
    uint32_t vocab = tokenizer_vocab(c->tok);
    CHECK(vocab <= (uint32_t)from->vocab, TRINE_EDATA,
          "%s has %u tokens, but the model's vocabulary has %d; it is another model's tokenizer",
          tokenizer_path(c->tok), vocab, from->vocab);
    TRY(encoder_create(&c->encoder, c->tok));
    TRY(decoder_create(&c->decoder, c->tok, true));
    return find_ends(c, from);
}

trine_status codec_open(codec *c, const codec_place *from) {
    const char *path = find(from);
    *c = (codec){.kind = from->vocab == CODEC_BYTES_VOCAB ? CODEC_BYTES : CODEC_IDS};
    if (!path) return TRINE_OK;
    trine_status status = open_tokenizer(c, from, path);
    if (status != TRINE_OK) codec_close(c);
    return status;
}

void codec_close(codec *c) {
    decoder_destroy(&c->decoder);
    encoder_destroy(&c->encoder);
    tokenizer_close(&c->tok);
}

uint64_t codec_hash(const codec *c) {
    return c->tok ? tokenizer_hash(c->tok) : 0;
}

/* ---- Text and ids ---- */

trine_status codec_encode(codec *c, const char *text, size_t bytes, unsigned flags,
                          token_list *out) {
    ASSERT(c->kind != CODEC_IDS);
    if (c->kind == CODEC_TOKENIZER) return encoder_text(c->encoder, text, bytes, flags, out);
    TRY(token_list_reserve(out, bytes));
    for (size_t i = 0; i < bytes; i++) out->ids[out->count++] = (unsigned char)text[i];
    return TRINE_OK;
}

trine_status codec_next(codec *c, int32_t id, const char **text, size_t *bytes) {
    if (c->kind == CODEC_TOKENIZER) return decoder_next(c->decoder, id, text, bytes);
    c->byte = (char)id;
    *text = &c->byte;
    *bytes = c->kind == CODEC_BYTES;
    return TRINE_OK;
}

trine_status codec_finish(codec *c, const char **text, size_t *bytes) {
    if (c->kind == CODEC_TOKENIZER) return decoder_end(c->decoder, text, bytes);
    *text = &c->byte;
    *bytes = 0;
    return TRINE_OK;
}
