/* What is evaluated: texts, questions with endings, or pairs of sentences, as token ids. World rank 0 reads files and
 * encodes; the others are told the ids.
 *
 * Memory: the ids on every rank, 4 bytes each; on rank 0 also one file's text at a time, and 8 bytes a token of
 * texts. */
#ifndef TRINE_GENERATE_EVAL_INPUTS_H
#define TRINE_GENERATE_EVAL_INPUTS_H

#include "generate/choices.h"
#include "generate/codec.h"
#include "generate/generator.h"
#include "generate/pairs.h"

/* A range of tokens: a text; or a question's context with an ending, of which tokens from `first` on are scored. */
typedef struct {
    uint64_t begin, count, first;
    uint64_t group; /* the question, or the pair */
} eval_part;

/* {0} before; freed by eval_inputs_free. The ids are those of all parts, one after the other. */
typedef struct {
    codec codec; /* on rank 0 */
    token_list ids;
    eval_part *parts; /* [part_count] */
    size_t part_count, part_room;
    uint64_t *bytes; /* (ids.count + 1) of the texts before each token; rank 0 only; NULL: not known */
    choice_question *questions; /* [question_count]; rank 0 only */
    size_t question_count;
    pairs_list pairs; /* rank 0 only */
} eval_inputs;

void eval_inputs_free(eval_inputs *m);

/* Appends a part. Errors: TRINE_ENOMEM. Not collective. */
trine_status eval_inputs_add(eval_inputs *m, eval_part p);

/* The next ones for rank 0; eval_inputs_open first. Opens the codec, which must not be CODEC_IDS: TRINE_EDATA. Not
 * collective. */
trine_status eval_inputs_open(eval_inputs *m, const codec_place *from);
/* Texts of files, each with the tokenizer's template, and their bytes; of all together the first `most` tokens (0:
 * all).
 * Errors: TRINE_EIO, TRINE_EDATA name the file; TRINE_ENOMEM. Not collective. */
trine_status eval_inputs_texts(eval_inputs *m, const char *const *paths, size_t count, uint64_t most);
/* The first `limit` questions (0: all) of a file of choices.h, a part for each ending, for sequences of at most
 * seq_length + 1 tokens: of longer ones the end. Errors: as above, naming the line. Not collective. */
trine_status eval_inputs_questions(eval_inputs *m, const char *path, size_t limit, uint64_t seq_length);

/* The first `limit` pairs (0: all) of a file of pairs.h, two parts each, the good sentence's first. Errors: as above,
 * also for a sentence of more than seq_length + 1 tokens. Not collective. */
trine_status eval_inputs_pairs(eval_inputs *m, const char *path, size_t limit, uint64_t seq_length);

/* Ids and parts of rank 0 on all ranks. Collective over: world. */
trine_status eval_inputs_share(trine_generator *g, eval_inputs *m);

#endif
