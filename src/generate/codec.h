/* Text and ids of a model: its tokenizer, or bytes for a vocabulary of 256 without one, or none, and then only ids go
 * in and out. One sequence is decoded at a time.
 *
 * Not collective: every rank opens the same files and decides alike where a text ends; codec_hash is what the ranks of
 * a job compare. */
#ifndef TRINE_GENERATE_CODEC_H
#define TRINE_GENERATE_CODEC_H

#include "tokenizer/tokenizer.h"

#define CODEC_BYTES_VOCAB 256
#define CODEC_ENDS        16

typedef enum { CODEC_IDS, CODEC_BYTES, CODEC_TOKENIZER } codec_kind;

typedef struct {
    codec_kind kind;
    tokenizer *tok; /* the next three are owned; NULL for other kinds */
    encoder *encoder;
    decoder *decoder;
    char byte;
    int32_t ends[CODEC_ENDS]; /* a text ends before one of them */
    int end_count;
} codec;

/* Where a tokenizer may be. */
typedef struct {
    const char *path;   /* given by the user; NULL: the first of the folders that has one */
    const char *loaded; /* the folder that the weights were read from */
    const char *asked;  /* the one that the user named: a folder of checkpoints; may be the same */
    int vocab;          /* the model's */
} codec_place;

/* Ends are the tokenizer's end token and eos_token_id of generation_config.json, a number or a list. {0} before, and
 * owned by the caller. Errors: those of tokenizer_open; TRINE_EDATA when the tokenizer has more ids than the model, and
 * for a broken generation_config.json. */
trine_status codec_open(codec *c, const codec_place *from);
void codec_close(codec *c);

/* Of what the codec does; 0 for bytes and ids. Pure. */
uint64_t codec_hash(const codec *c);

/* One more end; negative ids are ignored. Pure. */
void codec_add_end(codec *c, int32_t id);
bool codec_ends_at(const codec *c, int32_t id);

/* Appends the ids of a text; `flags` are those of encoder_text. Not for CODEC_IDS (ASSERT). Errors: those of
 * encoder_text. */
trine_status codec_encode(codec *c, const char *text, size_t bytes, unsigned flags,
                          token_list *out);

/* The text that the id completes; none for CODEC_IDS. Owned by the codec until its next call. Errors: TRINE_ENOMEM. */
trine_status codec_next(codec *c, int32_t id, const char **text, size_t *bytes);
/* What is incomplete at the end; the next id begins a new text. */
trine_status codec_finish(codec *c, const char **text, size_t *bytes);

#endif
