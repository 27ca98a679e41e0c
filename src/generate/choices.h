/* Questions with several endings, of which one is right, as HellaSwag has them (Zellers et al., "HellaSwag: can a
 * machine really finish your sentence?", ACL 2019): the model chooses the ending that it finds the most likely after
 * the context. A file has one JSON object a line:
 *
 *     {"activity_label": "Roof shingle removal", "ctx_a": "A man is sitting on a roof.", "ctx_b": "he",
 *      "endings": ["is using wrap to wrap a pair of skis.", ...], "label": 3}
 *
 * or with "ctx" instead of "ctx_a" and "ctx_b", and without "activity_label". Text and measures are those of the task
 * hellaswag of EleutherAI's lm-evaluation-harness (lm_eval/tasks/hellaswag/utils.py, and ConfigurableTask in
 * lm_eval/api/task.py):
 *
 *   context   "LABEL: CTX_A Ctx_b", with the first letter of ctx_b in capitals and its others in small letters
 *   text      blanks at both ends go; " [title]" becomes ". "; what stands in [ ] goes; two blanks become one
 *   ending    a blank, and the text of the ending
 *   acc       the share of questions of which the right ending has the largest log-likelihood
 *   acc_norm  the same with the log-likelihood divided by the number of characters of the ending's text
 *   error     of the mean: sqrt(p (1 - p) / (n - 1))
 *
 * Small and capital letters are those of ASCII only. */
#ifndef TRINE_GENERATE_CHOICES_H
#define TRINE_GENERATE_CHOICES_H

#include "trine_types.h"

#define CHOICES_MOST 16

typedef struct {
    char *context;                   /* owned */
    char *endings[CHOICES_MOST];     /* owned; without the blank before them */
    size_t characters[CHOICES_MOST]; /* of the endings */
    int count, label;
} choice_question;

/* Reads a line. `where`, "FILE:LINE", begins messages. Owned by the caller, all zero after an error. Errors:
 * TRINE_EDATA names what is wrong; TRINE_ENOMEM. Pure. */
trine_status choices_parse(choice_question *q, const char *line, size_t bytes, const char *where);
void choices_free(choice_question *q);

/* The text of a context or an ending, in place. Pure. */
void choices_clean(char *text);

/* The context and an ending as one text, owned by the caller; the first *context_bytes are the context's tokens:
 * blanks at its end belong to the ending. Errors: TRINE_ENOMEM. Pure. */
trine_status choices_join(const choice_question *q, int ending, char **text, size_t *context_bytes);

typedef struct {
    uint64_t questions, right, right_normed;
} choices_score;

/* Adds a question, from the negative log-likelihoods (count) of its endings; the first of equals is chosen. Pure. */
void choices_add(choices_score *score, const choice_question *q, const double *nats);

/* The standard error of a share `right` of `questions`; 0 for fewer than 2. Pure. */
double choices_error(uint64_t right, uint64_t questions);

#endif
