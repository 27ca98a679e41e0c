/* options.txt of a checkpoint: the options of its run as an @FILE (base/options_file.h), made from the structs of
 * trine.h, so that a program without a command line has one, too. It has what was asked for: what a 0 leaves open is
 * open there. */
#ifndef TRINE_TRAIN_OPTIONS_TEXT_H
#define TRINE_TRAIN_OPTIONS_TEXT_H

#include "train/trainer.h"

/* Keeps the options of `run` that are neither the configuration's nor the checkpoints'. Errors: TRINE_ENOMEM. Not
 * collective. */
trine_status options_text_run(trine_trainer *t, const trine_run *run);

/* *text is owned by the caller (free). Errors: TRINE_ENOMEM. Not collective. */
trine_status options_text_make(const trine_trainer *t, const trine_checkpoint *c, char **text);

#endif
