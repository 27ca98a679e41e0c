/* What a GPU's libraries take of its memory when they are first used, before the plan takes its own.
 *
 * CUDA loads a kernel when it is first launched, and a library's with it (CUDA C++ Programming Guide,
 * "Lazy Loading", the default from 12.2 on); a kernel that keeps registers in local memory makes the
 * driver take room for all threads that the GPU can run. A plan that left nothing for that would end
 * the job in its first step. So each operator is run once, as the first step will run it: the same
 * shapes, on memory that is given back.
 *
 * Invariant: a step of this configuration, or an evaluation, launches nothing that was not launched
 * here (tests/train/first_use.c). Cost: one micro-batch of one block and the head, and as much memory
 * as its largest operator, which the plan has room for. */
#ifndef TRINE_TRAIN_WARM_UP_H
#define TRINE_TRAIN_WARM_UP_H

#include "model/gpt.h"

/* On a GPU; on processors nothing happens. Errors: TRINE_ENOMEM, when there is no room for an
 * operator or for what is loaded with it; the operators' own. Not collective. */
trine_status warm_up(device *d, const gpt_shape *s);

#endif
