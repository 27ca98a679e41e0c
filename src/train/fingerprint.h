/* Fingerprints of a trainer's step: of every gradient, parameter and moment, and of the outputs of units and their
 * gradients, sample by sample. A fingerprint has a hash of all elements, their norm and some of them. It does not
 * depend on the layout: each element counts once, on the first rank that has it, by its place in the unsharded
 * tensor, and hashes and squares are sums, which the ranks add. So nothing is gathered, and two runs are compared by
 * what they write (train/verify.h), on machines that never meet.
 *
 *     fingerprint *f;
 *     TRY(fingerprint_create(&f, trainer));
 *     TRY(trine_trainer_step(trainer, &metrics));
 *     TRY(fingerprint_collect(f, &metrics));
 *
 * The hash of an element is a function of its bits and its place, and the sum of them modulo 2^64: it is the same in
 * any order, and an exchange of two elements changes it. Cost: one pass over what is looked at, on the host, of each
 * instruction that computes and of the state at the end of a step; a kilobyte for each item on each rank. */
#ifndef TRINE_TRAIN_FINGERPRINT_H
#define TRINE_TRAIN_FINGERPRINT_H

#include "train/handover.h"

#define FINGERPRINT_SAMPLES 64
#define FINGERPRINT_NAME    (TRINE_LAYER_NAME + 64)

/* In the order in which a step makes them. */
typedef enum {
    PRINT_START,     /* a parameter before the step, in the compute type */
    PRINT_OUTPUT,    /* of a unit, for a sample */
    PRINT_BACKWARD,  /* the gradient of that */
    PRINT_NUMBER,    /* the loss, the gradient norm: a double, of which samples[0] is the rounding */
    PRINT_SHARE,     /* what a rank adds to the gradients of a unit: a double, as above */
    PRINT_GRADIENT,  /* of a tensor, summed over everything */
    PRINT_PARAMETER, /* of a tensor after the update: its fp32 master */
    PRINT_MOMENT1,
    PRINT_MOMENT2,
    PRINT_KINDS
} print_kind;

typedef struct {
    print_kind kind;
    int unit, sample; /* sample: of the step; -1: it is a tensor's */
    char name[FINGERPRINT_NAME]; /* "the gradient of h.0.ln_1.weight", "the output of layer 3, sample 5" */
    uint64_t count; /* elements of the unsharded tensor */
    uint64_t hash;
    bool no_hash; /* of a file without them: norm and samples are compared */
    int lines[2]; /* of a file: two lines of this item that have other values, copies that differ; 0: none */
    double squares;
    float samples[FINGERPRINT_SAMPLES]; /* elements k fingerprint_stride; fewer if count is less */
} print_item;

/* From a sampled element to the next: the largest odd number that SAMPLES times fit in count, or 1. Odd, so that the
 * samples of a matrix are not of one column. */
static inline uint64_t fingerprint_stride(uint64_t count) {
    const uint64_t most = count / FINGERPRINT_SAMPLES;
    return most > 1 ? (most - 1) | 1 : 1;
}

typedef struct fingerprint fingerprint;

/* Looks at the steps of the trainer from now on. `shares`: with an item for what each rank adds to the gradients of
 * each unit, by which two runs of one layout are compared; it must outlive the fingerprint. NULL: without, and then
 * items do not depend on the layout. Destroy before the trainer. Errors: TRINE_ENOMEM. Not collective. */
trine_status fingerprint_create(fingerprint **out, trine_trainer *trainer, const handover *shares);
void fingerprint_destroy(fingerprint **f);

/* After a step: the items of it, the same on every rank. A step without a supervised token has parameters and moments
 * alone; the other items are zero, as the gradients and moments of frozen tensors always are. Valid until the next
 * step. Errors: those of what was looked at. Collective over: world. */
trine_status fingerprint_collect(fingerprint *f, const trine_metrics *metrics);
const print_item *fingerprint_items(const fingerprint *f, size_t *count);

/* The largest difference of two items' sampled elements and of their norms, relative to the root of the mean square
 * and to the larger norm; infinite where one is not finite. Pure. */
double fingerprint_distance(const print_item *a, const print_item *b);

/* Before a step: whether the ranks that hold copies of a parameter have the same bits. *name: the first tensor that
 * differs, "" if none does; ranks[0] has other bits than ranks[1], a copy of it, and than most copies if there are
 * three or more. The same on every rank. Collective over: world. */
trine_status fingerprint_replicas(fingerprint *f, char name[FINGERPRINT_NAME], int ranks[2]);

/* The elements of an item, for a second run of the same step: `wanted` is its index, -1 for none. After
 * fingerprint_collect *values has item.count floats, and *ranks the world rank that has each; both are f's. Errors:
 * TRINE_ENOMEM. */
trine_status fingerprint_want(fingerprint *f, int wanted);
void fingerprint_values(const fingerprint *f, const float **values, const int64_t **ranks);

/* Moves each parameter of a trainer of one rank, also a frozen one, by about one unit in the last place of its type,
 * up or down by a hash of its place: what rounding can make of a run. Errors: TRINE_ENOMEM, TRINE_EINVAL. Not
 * collective. */
trine_status fingerprint_nudge(trine_trainer *trainer, uint64_t seed);

/* Changes bit `bit` (less than the bits of the compute type) in this rank's memory, for tests: of the first of the
 * parameters of unit `unit` that are its own and no padding. Errors: TRINE_EINVAL if it has none. Not collective. */
trine_status fingerprint_flip(trine_trainer *trainer, int unit, int bit);

#endif
