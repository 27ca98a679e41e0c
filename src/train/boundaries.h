/* Documents in the samples of a training: whether attention and positions begin anew in each, and where the documents
 * of token files end that do not say it. */
#ifndef TRINE_TRAIN_BOUNDARIES_H
#define TRINE_TRAIN_BOUNDARIES_H

#include "train/trainer.h"

/* Completes the resets of the configuration by the open token files. Errors: TRINE_EINVAL for an end token where all
 * files say where documents begin. Not collective. */
trine_status boundaries_resolve(trine_trainer *t);

/* Tells all ranks the end token of rank 0's tokenizer, where one is needed and the configuration has none, and the
 * files that it ends their documents. Called again when another tokenizer is known. Errors: TRINE_EINVAL, on every
 * rank, for an id outside of the vocabulary; the collective's own. Collective over: world. */
trine_status boundaries_end(trine_trainer *t);

/* A line for the banner; nothing where no document matters. */
void boundaries_print(const trine_trainer *t, FILE *out);

#endif
