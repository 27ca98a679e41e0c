/* NORM: the global gradient norm and the loss of a step, over all axes of the mesh. */
#ifndef TRINE_NORM_GRAD_NORM_H
#define TRINE_NORM_GRAD_NORM_H

#include "device/op_args.h"
#include "state/step.h"

/* The memory of NORM in a rank's state. */
typedef struct {
    double *sums;              /* (losses + tensors of the stage), in device memory: the loss, or with parallel.exact
                                  that of each micro-batch; then sums of squares, which are scratch between NORMs */
    double *read;              /* the same, in host memory */
    int losses;
    double *squares, *scratch; /* (units), (norm_scratch); in host memory */
    int64_t *digits, *digits_read; /* (SQUARES_DIGITS) of parallel.exact, in device and in host memory; else NULL */
    double *all_losses;        /* (micro-batches of a step) of parallel.exact, in host memory; else NULL */
    double on_host[];          /* sums and read of a device that computes in host memory: these few numbers are not in
                                  the memory plan */
} norm_memory;
const norm_memory *norm_memory_of(const rank_state *h);

/* The number of tensors of a range that count in the norm on this rank and have elements in
 * [begin, begin + count); a copy does not count (tensor.copy). Pure. */
int norm_count(const flat_range *range, size_t begin, size_t count);
/* sums (norm_count, in device memory) = sums of squares of the gradients of these tensors in
 * [begin, begin + count), each in blocks of SUM_SQUARES_BLOCK; g points to the gradient of element `begin`.
 * Errors: the operator's own. Not collective. */
trine_status norm_local(device *d, const flat_range *range, size_t begin, size_t count, const void *g,
                        double *sums);
/* The sum of n such numbers, in order; sums is in host memory. Pure. */
double norm_add(const double *sums, int n);

/* This rank's results of a step: the sum of squares per unit, and its part of the loss. */
typedef struct {
    double *squares; /* (units); zero for units of other stages */
    double loss;     /* zero except on the last stage */
} norm_sums;

/* Doubles of scratch that norm_global needs. Pure. */
size_t norm_scratch(int units, trine_layout layout);

/* *squares and *loss = the global ones, bit-identical on every rank and for every pipeline depth:
 * squares are added in (unit, tp, dp) order, losses in dp order.
 * Errors: the collectives' own. Collective over: dp, tp and pp. */
trine_status norm_global(const trine_mesh *mesh, const norm_sums *own, int units, double *scratch, double *squares,
                         double *loss);

#endif
