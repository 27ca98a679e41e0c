/* Evaluation: the log-likelihood of given tokens, for perplexities and for the choice among answers.
 *
 * The negative log-likelihood of a token, in nats, is the difference of the log of the sum of all exponentials and
 * its logit, in fp64 from the fp32 logits; a sequence's is the sum over its scored tokens, in their order. Replicas
 * (dp) take different groups of sequences, and the caller adds what it adds in the order of sequences.
 * Invariant: the results do not depend on dp, and on tp only through the rounding of logits. Cost: a forward pass
 * over each sequence, of GENERATE_ROWS rows at a time, and on the ranks of the last stage an exponential for each
 * logit of a scored row; nothing is communicated but one sum at the end. Stages work on different sequences at the
 * same time.
 */
#ifndef TRINE_GENERATE_EVALUATE_H
#define TRINE_GENERATE_EVALUATE_H

#include "generate/generator.h"

/* -ln softmax(logits (V))[target]. NaN if a logit is NaN or the largest is not finite. Pure. */
double evaluate_token(const float *logits, size_t V, int32_t target);

/* Tokens of which those from `first` on are scored, each by what comes before it; 1 <= first. With first >= count
 * nothing is scored. */
typedef struct {
    const int32_t *tokens;
    int count, first;
    const int32_t *targets; /* (count - 1): what is scored after each token, negative: nothing. NULL: the next one */
} evaluate_sequence;

/* *nats = the sum over the scored tokens, on the rank with its replica's output (generate_has_output); 0 on others.
 * Tokens with which the generator's sequence begins, too, are not evaluated again. Errors: TRINE_EINVAL, on every
 * rank of the replica, for an id outside of the vocabulary or more than seq_length + 1 tokens; TRINE_EMATH on one
 * rank, if the logits are not finite; TRINE_ENOMEM and what trine_generator_logits has, local. Collective over: tp,
 * pp. */
trine_status evaluate_score(trine_generator *g, const evaluate_sequence *s, double *nats);

/* Sequences to evaluate. */
typedef struct {
    size_t count;
    const size_t *group; /* (count), ascending: one replica evaluates a group, and each begins with an empty sequence;
                            NULL: each sequence is a group */
    /* Sets *s, which is used until the next call. Called on every rank of the replica that evaluates i. */
    trine_status (*get)(void *from, size_t i, evaluate_sequence *s);
    /* Called after sequence i of this rank's replica; may be NULL. */
    void (*done)(void *from, size_t i);
    void *from;
} evaluate_job;

/* nats (count), on every rank. An error is local to the rank: trine_abort aborts the job. Collective over: world. */
trine_status evaluate_run(trine_generator *g, const evaluate_job *job, double *nats);

/* ---- Windows over a long text ---- */

/* Windows of `length` tokens; each begins `stride` tokens after the one before it, 1 <= stride <= length. A window
 * scores its tokens that no earlier window has, except its own first one. With stride = length windows do not
 * overlap, and tokens 2 to `length` of each are scored; with a smaller one all but the text's first token are, once
 * each, after at least length - stride others. This is the sliding window of Hugging Face's guide to the perplexity
 * of models of fixed length. */
typedef struct {
    int length, stride;
} evaluate_cut;

typedef struct {
    uint64_t begin;   /* in the text */
    int count, first; /* as in evaluate_sequence */
} evaluate_window;

/* Number of windows over `tokens` tokens: up to the first one that reaches the end. Pure. */
uint64_t evaluate_windows(evaluate_cut cut, uint64_t tokens);
evaluate_window evaluate_window_at(evaluate_cut cut, uint64_t tokens, uint64_t i);

#endif
