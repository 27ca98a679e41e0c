/* What llama.cpp needs to encode as a tokenizer does: the entries tokenizer.ggml.* of a GGUF file (llama.cpp,
 * src/llama-vocab.cpp). Its tokenizers are two, each with much that is fixed:
 *
 *   "gpt2"    ByteLevel: words cut by one of a few known rows of expressions, which have names ("llama-bpe");
 *             merges in their order
 *   "llama"   SentencePiece's: the text with spaces as U+2581 is one word; of two neighbours that make a token those
 *             with the highest score become it
 *
 * A tokenizer that neither can say is refused by what it has more. Two differences are allowed and said: llama.cpp
 * does not normalize (NFC of Qwen), so that texts that are not in this form get other ids there; and it writes a
 * space before every text of "llama", where Metaspace leaves it out before a text that begins with one. */
#ifndef TRINE_TOKENIZER_GGML_H
#define TRINE_TOKENIZER_GGML_H

#include "tokenizer/tokenizer.h"

typedef enum { GGML_NORMAL = 1, GGML_UNKNOWN, GGML_CONTROL, GGML_USER_DEFINED, GGML_UNUSED, GGML_BYTE } ggml_kind;

typedef struct {
    uint32_t left, right; /* ids */
} ggml_merge;

typedef struct {
    const tokenizer *from;
    const char *model;    /* "gpt2" or "llama" */
    const char *pre;      /* the name of the expressions; "default" of "llama" */
    bool before, after;   /* texts begin with tokenizer_begin, end with tokenizer_end */
    bool scored;          /* of "llama": tokens have scores in place of merges */
    bool space_before;    /* of "llama": a text begins with a space */
    const char *loses;    /* what llama.cpp does not do, as a sentence: "texts are normalized (NFC)"; NULL: nothing */
    ggml_merge *merges;   /* [merge_count] in their order; owned */
    size_t merge_count;
    float *scores;        /* [tokenizer_vocab]: of "llama"; owned */
} ggml_tokenizer;

/* *g is freed by ggml_free; `t` must outlive it. Errors: TRINE_EUNSUPPORTED names what llama.cpp has no word for;
 * TRINE_ENOMEM. Not collective. Cost: each token is encoded once where the order of merges has to be compared. */
trine_status ggml_describe(ggml_tokenizer *g, const tokenizer *t);
void ggml_free(ggml_tokenizer *g);

/* The text of a token, without a terminator, and of what kind it is; GGML_UNUSED: there is no token with this id, and
 * the text is NULL. Pure. */
ggml_kind ggml_token(const ggml_tokenizer *g, int32_t id, const char **text, size_t *length);

#endif
