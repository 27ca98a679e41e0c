/* Makes a GPU's libraries allocate the memory of their first use before the plan is allocated.
 *
 * CUDA loads a kernel, and its library, at the first launch (CUDA C++ Programming Guide, "Lazy
 * Loading", the default from 12.2 on); a kernel that keeps registers in local memory makes the driver
 * allocate for all threads that the GPU can run. If the plan left no memory for that, the job would
 * abort in its first step. So each operator runs once as in the first step: with the same shapes, on
 * memory that is freed afterwards.
 *
 * Invariant: a step or evaluation of this configuration launches nothing that was not launched here
 * (tests/train/first_use.c). Cost: one micro-batch of one transformer block and the head, and the memory
 * of its largest operator, which fits into the plan's memory. */
#ifndef TRINE_TRAIN_WARM_UP_H
#define TRINE_TRAIN_WARM_UP_H

#include "model/gpt.h"

/* Without a GPU: does nothing, but that a device with exact_threads refuses a product that it cannot multiply.
 * Errors: TRINE_ENOMEM if there is no memory for an operator or for what is loaded with it; the operators' own; those
 * of device_prepare_linear. Not collective. */
trine_status warm_up(device *d, const gpt_shape *s);

#endif
