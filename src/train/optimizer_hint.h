/* What options of the optimizer explain of a run that differs from a file's after gradients that agree, and what a
 * scale of all gradients does: that is no fault of a single tensor's code (docs/oracle.md). */
#ifndef TRINE_TRAIN_OPTIMIZER_HINT_H
#define TRINE_TRAIN_OPTIMIZER_HINT_H

#include <stdbool.h>
#include <stdio.h>

#include "train/fingerprint.h"

/* The update of a step, in which gradients agree. */
typedef struct {
    const print_item *here, *there; /* [count], of that step: of this run, and of a file, which may lack items */
    const double *allowed;          /* [count]: what rounding explains of fingerprint_distance */
    size_t count;
    int step; /* from 0 on */
    const trine_config *config; /* of this run */
} hint_update;

/* Prints which options to compare. After the first step, whose moments are of its gradient alone, also the values
 * that explain all that the file has, where there are such: beta1, beta2, the bound of the norm; the learning rate,
 * weight decay. Prints nothing if the file has no gradients, or if the moments of some tensors differ and those of
 * most do not, which no option does. Not collective. */
void optimizer_hint(const hint_update *u, FILE *out);

/* Of a step whose gradients differ: the factor, if one explains those of all tensors. False: none does. Not
 * collective. */
bool hint_scale(const hint_update *u, FILE *out);

/* Of an item without a sample that differs: both norms. */
void hint_norm(const print_item *x, const print_item *y, const char *file, FILE *out);

/* Beside a file: what is more often the cause of such a difference than a fault. x, y: an item of step `step` (from 0
 * on) here and in the file; far: their distance (fingerprint_distance). Prints nothing where there is none. */
void hint_cause(const print_item *x, const print_item *y, int step, double far, FILE *out);

#endif
