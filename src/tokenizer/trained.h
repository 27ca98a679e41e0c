/* The files of a tokenizer that was trained here, as Hugging Face's: tokenizer.json and tokenizer_config.json. */
#ifndef TRINE_TOKENIZER_TRAINED_H
#define TRINE_TOKENIZER_TRAINED_H

#include "tokenizer/bpe_train.h"

/* Who cuts a text into words: the expression of GPT-2 (Radford et al. 2019), or of Llama 3, which takes at most three
 * digits to a word, ignores the case of 's and its like, and lets marks of all kinds begin a word. */
typedef enum { TRAINED_GPT2, TRAINED_LLAMA3 } trained_split;
#define TRAINED_SPLITS {"gpt2", "llama3"}

typedef struct {
    trained_split split;
    const char *const *specials; /* [special_count]: as of bpe_train; the first one ends a document. Not owned */
    uint32_t special_count;      /* at least 1 */
} trained_form;

/* Checks special tokens: UTF-8, none of them twice, none that is how a byte is written. Errors: TRINE_EINVAL starts
 * with `option`. Pure. */
trine_status trained_check(const trained_form *f, const char *option);

/* A tokenizer without merges, for encoder_words. Owned by the caller; NULL after an error. Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status trained_splitter(tokenizer **t, const trained_form *f);

/* The texts of both files, equal for equal arguments on all machines. Owned by the caller (cJSON_free); NULL after an
 * error. Errors: TRINE_ENOMEM. Pure. */
trine_status trained_json(char **text, const trained_form *f, const bpe_trained *trained);
trine_status trained_config(char **text, const trained_form *f);

#endif
