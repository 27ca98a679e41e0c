/* Pre-tokenizers: a text to words. Each stage cuts every piece of the stage before, and sees nothing of the other
 * pieces. A kind is a row of the table in pretokenize.c; all of them become regular expressions with a behavior:
 *
 *   Split        an expression or a text; what happens to a match: Removed, Isolated, MergedWithPrevious,
 *                MergedWithNext, Contiguous
 *   Digits       \p{N}, or runs of it
 *   ByteLevel    GPT-2's expression; it also says that the model's symbols are bytes
 *   Metaspace    " " becomes a character, which begins words
 *   Whitespace, WhitespaceSplit, Punctuation
 *   Sequence     several of these
 */
#ifndef TRINE_TOKENIZER_PRETOKENIZE_H
#define TRINE_TOKENIZER_PRETOKENIZE_H

#include "tokenizer/normalize.h"

/* The expressions of GPT-2, and of Llama 3 and later models, which differ in how many digits make a word. */
#define SPLIT_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SPLIT_LLAMA3(digits)                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_PREVIOUS, SPLIT_NEXT, SPLIT_CONTIGUOUS } split_behavior;

typedef struct {
    pattern *what; /* owned */
    split_behavior behavior;
    bool invert; /* what does not match is the match */
} split_stage;

typedef struct {
    split_stage *stages; /* owned */
    size_t count;
    normalizer_list changes; /* of the text, before it is cut */
    bool bytes;              /* the model's symbols are bytes: ByteLevel is there */
    bool cuttable;           /* no stage looks behind */
} split_list;

/* Reads tokenizer.json's "pre_tokenizer", which may be null. Errors: TRINE_EUNSUPPORTED names what is not there;
 * TRINE_EDATA; TRINE_ENOMEM. */
trine_status split_read(split_list *list, const cJSON *entry, const char *path);
void split_list_free(split_list *list);
/* GPT-2's, which has no tokenizer.json. */
trine_status split_gpt2(split_list *list, const char *path);
/* For the hash. Errors: TRINE_ENOMEM. */
trine_status split_describe(const split_list *list, text_buffer *out);

/* Is given every word, in order. */
typedef trine_status (*split_visit)(void *context, const char *begin, const char *end);

/* A text is cut at `cut` (NULL: nowhere): words before it are visited, and the word that it lies in, if no match of a
 * stage reaches across; otherwise `broken` becomes true and nothing more is visited. */
typedef struct {
    const split_list *list;
    pattern_scratch *scratch;
    split_visit visit;
    void *context;
    const char *cut;
    bool broken;
} split_job;

/* Visits the words of valid UTF-8. Errors: the pattern's, the visit's. Cost: a match for each piece of each stage. */
trine_status split_run(split_job *job, const char *begin, const char *end);

#endif
