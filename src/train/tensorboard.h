/* A run's numbers for TensorBoard, as event files (base/event_file.h): those of the steps in a folder, those of the
 * validations in its folder "validation", under the same names, so that TensorBoard draws both over each other.
 *
 * Each start of a run has files of its own, whose names sort behind those that are there. They begin with the step
 * from which the run goes on: TensorBoard drops what earlier files have from this step on, which is what an earlier
 * run wrote after the checkpoint; a run from step 0 replaces all. Then the configuration, as text.
 *
 * An event that cannot be written leaves a gap, as a line of the log does (train/log_file.h). Only world rank 0 has
 * such files. Not collective. */
#ifndef TRINE_TRAIN_TENSORBOARD_H
#define TRINE_TRAIN_TENSORBOARD_H

#include <cjson/cJSON.h>

#include "train/trainer.h"

/* Creates the folders and files, and takes the folder's lock. *b is owned by the caller, NULL after an error; the
 * trainer must outlive it. Errors: TRINE_EIO, TRINE_ENOMEM; TRINE_EBUSY names who writes events there. */
trine_status tensorboard_open(tensorboard **b, const trine_trainer *t, const char *folder);
/* Removes files without an event. *b may be NULL. */
void tensorboard_close(tensorboard **b);

/* Adds all numbers of a line of the log, but "step"; a null is written as a NaN. A line with "val_loss" is a
 * validation's. Errors: TRINE_ENOMEM. */
trine_status tensorboard_add(tensorboard *b, int64_t step, const cJSON *line);

/* Checks that every event of this run was written; b may be NULL. Errors: TRINE_EIO with the number of lost ones. */
trine_status tensorboard_check(const tensorboard *b);

#endif
