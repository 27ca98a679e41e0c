/* Minimal pairs (Warstadt et al., "BLiMP: the benchmark of linguistic minimal pairs for English", TACL 2020): two
 * sentences of which one is grammatical. The model is right if it finds that one more likely as a whole: the larger
 * sum of the log-probabilities of its tokens. Equal sums are wrong. A file has one JSON object a line, with other
 * members that are not read:
 *
 *     {"sentence_good": "Who should Derek hug after shocking Richard?",
 *      "sentence_bad": "Who should Derek hug Richard after shocking?", "UID": "adjunct_island"}
 *
 * Before a sentence stand the tokens with which the tokenizer's template begins; if there are none, the token that
 * begins a document, or else the one that ends it, so that the first token is scored, too: the context that
 * EleutherAI's lm-evaluation-harness gives an empty text. Bytes have no such token: there a sentence is scored from
 * its second byte on. The sentence is encoded as it is: no blank is put before it (the harness's task blimp puts
 * one). */
#ifndef TRINE_GENERATE_PAIRS_H
#define TRINE_GENERATE_PAIRS_H

#include "generate/codec.h"

/* The results of the pairs with one UID. */
typedef struct {
    char *name; /* owned; "" for lines without one */
    uint64_t pairs, right, ties;
} pairs_kind;

/* {0} before; freed by pairs_free. */
typedef struct {
    pairs_kind *kinds; /* [kind_count], in the order of their first lines; owned */
    int kind_count, kind_room;
    int *kind_of; /* [count] of each pair; owned */
    int count, room;
} pairs_list;

void pairs_free(pairs_list *p);

/* Reads a line, adds its pair to the list, and appends the ids of both sentences to `out`. where: "FILE:LINE", begins
 * messages. *bounds: where each of the two begins in out->ids, and where the second one ends; *first: tokens before a
 * sentence's first scored one. Errors: TRINE_EDATA names what is wrong, also a sentence without a scored token;
 * TRINE_ENOMEM. Not collective. */
trine_status pairs_read(pairs_list *p, codec *c, const char *line, size_t bytes, const char *where, token_list *out,
                        size_t bounds[3], size_t *first);

/* Counts the pairs, from the negative log-likelihoods (2 p->count) of their sentences, the good one first. */
void pairs_judge(pairs_list *p, const double *nats);

/* Of all kinds; its name is not owned. Pure. */
pairs_kind pairs_total(const pairs_list *p);

/* Prints what pairs_judge has counted: all, then a line for each UID. */
void pairs_print(const pairs_list *p, FILE *out);

/* Writes {"UID", "good", "bad"} of each pair as JSON lines, replacing the file: the sums of log-probabilities, in
 * nats. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status pairs_write(const pairs_list *p, const double *nats, const char *path);

#endif
