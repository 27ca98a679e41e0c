/* Decoders: tokens to text. A kind is a row of the table in decoders.c:
 *
 *   ByteLevel      GPT-2's characters back to bytes
 *   ByteFallback   <0x00> to <0xFF> back to bytes
 *   Replace        a text by a text, in every token
 *   Fuse           all tokens become one text
 *   Strip          characters at the start of a token, or behind Fuse of the text
 *   Metaspace      a character back to " ", at the start of the text to nothing
 *   Sequence       several of these
 */
#ifndef TRINE_TOKENIZER_DECODERS_H
#define TRINE_TOKENIZER_DECODERS_H

#include "base/json.h"
#include "tokenizer/text.h"

typedef enum { DECODE_REPLACE, DECODE_STRIP, DECODE_METASPACE } decode_kind;

typedef struct {
    decode_kind kind;
    char *what, *content; /* owned: Replace and Metaspace; Strip: what is one character */
    uint64_t start, stop; /* Strip: at most so many */
    bool prefixed;        /* Metaspace: the first token begins with it */
} decode_step;

typedef struct {
    decode_step *steps; /* owned: of each token, in order */
    size_t count;
    bool byte_level, byte_fallback; /* the last of the steps */
    bool spaced;                    /* no decoder: tokens are joined by spaces */
    bool fused;                     /* the tokens are one text: nothing but `strip` may follow */
    char strip[8];                  /* a character removed at the start of the text, at most strip_most times */
    uint64_t strip_most;
} decode_list;

/* Reads tokenizer.json's "decoder", which may be null. Errors: TRINE_EUNSUPPORTED names what is not there;
 * TRINE_EDATA; TRINE_ENOMEM. */
trine_status decode_read(decode_list *list, const cJSON *entry, const char *path);
void decode_list_free(decode_list *list);

#endif
