/* Byte pair encoding, trained: Sennrich et al. 2016, algorithm 1, over bytes as in Radford et al. 2019, section 2.2.
 *
 * The symbols of a word are its bytes at first. Again and again the pair of neighbouring symbols that occurs most
 * often in all words becomes a token, and one symbol wherever it occurs. Among pairs that occur equally often the one
 * with the smaller left id comes first, then the smaller right id. In a run (aaa) pairs are joined from the left, and
 * overlapping ones count each. This is the order of Hugging Face's BpeTrainer (tokenizers/src/models/bpe/trainer.rs),
 * whose merges are the same ones; it follows from the words and their counts alone.
 *
 * Ids are those of BpeTrainer, too: special tokens, then the 256 bytes in the order of their characters (bytes.h),
 * then the tokens that merges make, in their order. No two tokens are the same text: what is joined inside a token
 * depends on its own bytes alone. */
#ifndef TRINE_TOKENIZER_BPE_TRAIN_H
#define TRINE_TOKENIZER_BPE_TRAIN_H

#include "tokenizer/text.h"
#include "tokenizer/word_counts.h"

#define BPE_TRAIN_BYTES 256

typedef struct {
    uint32_t left, right; /* ids */
} bpe_pair;

/* Called before each merge; an error ends the training. */
typedef struct {
    trine_status (*tick)(void *context, uint32_t tokens); /* may be NULL; tokens: that there are so far */
    void *context;
} bpe_train_watch;

typedef struct {
    const char *const *specials; /* texts of the special tokens, [special_count]; not owned */
    uint32_t special_count;
    uint32_t vocab; /* tokens with these and the bytes; at least as many as there are of both */
    uint64_t least; /* a pair that occurs less often is not joined; at least 1 */
    bpe_train_watch watch;
} bpe_train_settings;

typedef struct {
    bpe_pair *merges; /* owned (free): [count]; the n-th makes the token special_count + 256 + n */
    uint32_t count;   /* fewer than asked for, where no more pairs occur often enough */
    uint64_t last;    /* how often the last one's pair occurred; 0: there is none */
    text_buffer texts; /* owned (free): the bytes of all tokens but special ones, one after the other */
    size_t *ends;      /* owned (free): [256 + count]: where each ends there */
} bpe_trained;

/* Trains on the words, which it destroys when it has taken them over: *words becomes NULL. A pair whose token would
 * be written like a special token is not joined. Errors: TRINE_ENOMEM; those of the watch. Memory: 24 bytes and 16 a
 * symbol for each word, and the pairs that occur `least` times. Not collective. */
trine_status bpe_train(bpe_trained *t, word_counts **words, const bpe_train_settings *s);
void bpe_trained_free(bpe_trained *t);

/* The bytes in the order of their ids: those of printable characters first. Pure. */
void bpe_train_bytes(unsigned char bytes[BPE_TRAIN_BYTES]);

/* The bytes of a token that is not special, by its number from the first byte's on. */
const char *bpe_trained_text(const bpe_trained *t, uint32_t number, size_t *bytes);

#endif
