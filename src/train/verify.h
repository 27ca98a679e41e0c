/* A run beside another one: a layout beside one rank, itself with its ranks one place further, or what another
 * machine has written. Compares fingerprints (train/fingerprint.h) item by item, in the order in which a step makes
 * them, and names the first that differs: step, tensor or activation, element, both values, the ranks that have it.
 *
 * What may differ is not guessed: the prover (plan/prove_configs.h) says whether the two have the same bits. If they
 * have, every hash must be equal. If they are equal up to order, the reference runs a second time with each parameter
 * moved by one unit in the last place, and an item may be as far from the reference as rounding, planted there, has
 * brought that run (the idea is TTrace's, arXiv 2506.09280), times VERIFY_MARGIN.
 *
 * Beside that each run is held to itself: copies of parameters (fingerprint_replicas), and what is handed over
 * (train/handover.h). */
#ifndef TRINE_TRAIN_VERIFY_H
#define TRINE_TRAIN_VERIFY_H

#include <stdio.h>

#include "train/fingerprint.h"

#define VERIFY_MARGIN 32.0
/* The same in the first step with 16-bit parameters, of which a unit in the last place is more than the roundings of
 * activations: of 35 random layouts none had more than 1.5 times what it makes. */
#define VERIFY_MARGIN_HALF 8.0

#define VERIFY_FLIP_LIST(X)                                                                        \
    X(VERIFY_FLIP_WEIGHT, "weight", HANDOVER_NOTHING)                                              \
    X(VERIFY_FLIP_GRADIENT, "gradient", HANDOVER_GRADIENT)                                         \
    X(VERIFY_FLIP_ARITHMETIC, "arithmetic", HANDOVER_ARITHMETIC)                                   \
    X(VERIFY_FLIP_MESSAGE, "message", HANDOVER_MESSAGE)

typedef enum {
#define VERIFY_FLIP_ENUM(name, text, what) name,
    VERIFY_FLIP_LIST(VERIFY_FLIP_ENUM)
#undef VERIFY_FLIP_ENUM
} verify_flip;

typedef struct {
    int steps;
    const trine_config *reference; /* NULL: the same on one rank */
    bool rotate;             /* the same layout with every rank one place further, in place of one rank */
    const char *against;     /* a fingerprint file in its place; NULL: none */
    const char *load;        /* what every run starts from: a checkpoint or a Hugging Face folder; NULL: the seed */
    bool load_weights_only;  /* from its weights, at step 0 */
    const char *fingerprint; /* write what the layout has computed; NULL: no */
    /* For tests: in step `flip_step` the world rank `flip_rank` changes bit `flip_bit` of an element of unit
     * `flip_unit`: of its parameters before the step, or as handover_change does; step 0: nobody does. flip_bit -1:
     * the third bit of the mantissa, which changes a number by about an eighth. */
    verify_flip flip_what;
    int flip_step, flip_rank, flip_unit, flip_bit;
} verify_request;

typedef enum { VERIFY_EQUAL, VERIFY_ROUNDING, VERIFY_WRONG } verify_verdict;

/* Runs `config` on all ranks of the world, the reference on the first ranks, and prints on rank 0. *verdict is the
 * same on every rank. Errors: those of a trainer; TRINE_EINVAL if the two are different runs, or if the run does not
 * have what is to be changed. Collective over: world. */
trine_status verify_layout(trine_world *world, const trine_config *config, const verify_request *request,
                           verify_verdict *verdict, FILE *out);

#endif
