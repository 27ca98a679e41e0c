/* The samples of a training or a validation: from one source of tokens, or a blend of several by weight.
 *
 *   text.bin                         one source: a path, or a glob (tokens.h)
 *   0.7 a_*.bin 0.3 b_*.bin          a blend: weights, each with paths behind it, separated by blanks; a backslash
 *                                    before a blank or a backslash makes it part of a path
 *
 * A text is a blend if its first word is a positive number and a second word follows.
 *
 * Sample g is a pure function of (seed, g), the same on every layout and after every resume: shares.h says which
 * source it is from, and sampler.h, with that source's own seed and epochs, which of its windows it is. The first
 * source, and so the only one, has the seed itself.
 *
 * The samples of a blend may also be the program's (program_source.h): it then has one source, without files.
 *
 * Masks and document boundaries: files of windows (windows.h) have both; of other files every target counts, and
 * blend_documents says which token ends a document. */
#ifndef TRINE_DATA_BLEND_H
#define TRINE_DATA_BLEND_H

#include "data/sampler.h"
#include "data/shares.h"

typedef struct {
    char *weight;    /* as the user gave it; "1" for a single source */
    tokens *tokens;
    program_source *program; /* the samples are the program's; `tokens` has a name only. NULL: they are in files */
    sampler sampler; /* after blend_order */
} blend_source;

typedef struct blend {
    char *text; /* as the user gave it */
    blend_source *sources;
    int count;
    share_order shares;
} blend;

/* Opens all files. *out is owned by the caller, NULL after an error. Errors: TRINE_EINVAL for a weight without a
 * path, or a number that is none; those of tokens_open; TRINE_EDATA names two sources whose tokenizers or stated
 * vocabularies differ, or of which one has windows and the other has not. Not collective. */
trine_status blend_open(blend **out, const char *text);
/* The program's samples. Errors: those of program_source_open. Not collective. */
trine_status blend_open_program(blend **out, const trine_source *from);
/* What stands for the path of the program's samples. */
#define BLEND_PROGRAM "(the program's samples)"
void blend_close(blend **b); /* *b may be NULL */

/* The program's samples; NULL: they are in files. Pure. */
const program_source *blend_program(const blend *b);

/* *vocab = the largest of tokens_vocab. Errors: those of tokens_vocab. */
trine_status blend_vocab(const blend *b, int *vocab);

/* The tokenizer's hash; 0: no file has one. Pure. */
uint64_t blend_tokenizer(const blend *b);

/* Whether `path` is one of its files, under any name. */
bool blend_has_file(const blend *b, const char *path);

/* Files of all sources, and the i-th of them. */
size_t blend_files(const blend *b);
const char *blend_file(const blend *b, size_t i);

/* As tokens_fingerprint; each has blend_files elements. Of a blend, the weights count as well. The program's samples
 * are one file with the hash that it says, of as many tokens as their targets; of a stream, UINT64_MAX. */
trine_status blend_fingerprint(const blend *b, tokens_print *all, tokens_print *each);

/* Makes the samplers. Errors: those of sampler_create, as for windows of another T. */
trine_status blend_order(blend *b, size_t T, uint32_t vocab, uint64_t seed, sampler_order order);

/* Whether masks and document boundaries are in the files: windows. The program's samples have no boundaries. Pure. */
bool blend_has_documents(const blend *b);

/* Of files without windows: a document ends behind the token `end`, and the next token begins another. The target of
 * the end token is the first token of the next document, and counts, as in Megatron-LM without --eod-mask-loss. After
 * blend_order. Errors: TRINE_EINVAL for files of windows, and for a token outside the vocabulary. */
trine_status blend_documents(blend *b, int32_t end);

/* inputs (T), targets (T; DATA_NO_TARGET: none), starts (T, may be NULL: the position at which each token's document
 * begins) of sample g. Errors: TRINE_EDATA for an id outside the vocabulary, and for a damaged window. */
trine_status blend_load(blend *b, uint64_t g, int32_t *inputs, int32_t *targets, int32_t *starts);

/* The targets of sample g that count: T of files without windows, else one read of 8 bytes, or what the program says.
 * Errors: TRINE_EDATA for a damaged window; TRINE_EIO; those of program_source_supervised. */
trine_status blend_supervised(blend *b, uint64_t g, uint32_t *count);

/* The epochs of source i in the first n samples, off by less than one sample; 1.5: every window once, and half of
 * them again. Pure. */
double blend_epochs(const blend *b, int i, uint64_t n);

/* The inverse: the samples in which source i has so many epochs. Pure. */
double blend_samples(const blend *b, int i, double epochs);

/* "0.7 a_*.bin"; a single source is its path alone. Pure. */
const char *blend_name(const blend *b, int i, char *text, size_t size);

#endif
