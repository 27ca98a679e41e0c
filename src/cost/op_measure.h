/* Measures operators as training calls them: the lists of a small model run forward and backward in memory of their
 * own, then the optimizer, on a clock_device. So an operator's operands lie where they lie in training: those of the
 * operator before are in a cache, and those of a block are not, since the model has as many blocks as the caches have
 * no room for. A point is the median of all calls of an operator with the same sizes. */
#ifndef TRINE_COST_OP_MEASURE_H
#define TRINE_COST_OP_MEASURE_H

#include "cost/measured.h"
#include "model/gpt.h"

/* All calls that were made so far; {0}: none. */
typedef struct {
    struct measure_calls *at; /* of each operator and sizes; owned */
    int count, room;
} measure;

/* Runs a micro-batch of a model of these shapes (its L is chosen here) `runs` times, after one that does not count,
 * with values that are small numbers. Before each run all ranks of `node` meet; where dev is NULL this rank does
 * only that. Errors: those of the device; TRINE_ENOMEM. After an error the ranks no longer meet: the caller ends
 * the job. Collective over: node. */
trine_status measure_model(measure *m, device *dev, const gpt_shape *s, int runs, trine_comm *node);

/* Appends the medians as points of `ranks` at once. Errors: TRINE_EUNSUPPORTED: there is no room. Not collective. */
trine_status measure_add(const measure *m, int ranks, measured_points *points);
void measure_destroy(measure *m);

#endif
