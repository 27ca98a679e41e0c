/* The model's tensors as a program reads and writes them (trine_loop.h). */
#ifndef TRINE_TRAIN_TENSORS_H
#define TRINE_TRAIN_TENSORS_H

#include "train/trainer.h"

/* Makes t->tensors. Errors: TRINE_ENOMEM. Not collective. */
trine_status tensors_list(trine_trainer *t);

#endif
