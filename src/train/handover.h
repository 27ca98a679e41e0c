/* What one instruction leaves in memory or sends, and what the next one finds there or receives: a bit that changes
 * between them is seen in any layout, without a reference, and is named with its rank. Looked at are the activations
 * and gradients that stages send each other, and a rank's own gradients between backward passes and their sum over
 * dp.
 *
 * A wrong product is not seen here: what is left is what is found. For that a run is compared with another one
 * (train/verify.h); where both have the same layout, what each rank adds to the gradients of a unit is an item of its
 * own (handover_shares), so that the rank is named, too.
 *
 *     TRY(handover_create(&h, trainer));
 *     TRY(trine_trainer_step(trainer, &metrics));
 *     TRY(handover_collect(h, text, &rank));
 *
 * Cost: two passes over the gradients of a unit for each backward pass, on the host. */
#ifndef TRINE_TRAIN_HANDOVER_H
#define TRINE_TRAIN_HANDOVER_H

#include "train/trainer.h"

#define HANDOVER_TEXT (TRINE_LAYER_NAME + 160)

typedef struct handover handover;

/* Looks at the steps of the trainer from now on. Destroy before the trainer. Errors: TRINE_ENOMEM. Not collective. */
trine_status handover_create(handover **out, trine_trainer *trainer);
void handover_destroy(handover **h);

/* After a step: what has changed on its way, with its ranks; "" if nothing has. The same on every rank. Errors: those
 * of what was looked at; TRINE_EINVAL if a change that handover_change has asked for could not be made. Collective
 * over: world. */
trine_status handover_collect(handover *h, char text[HANDOVER_TEXT]);

/* What a rank has added to the sums over dp of a unit's gradients in the last step: a hash, and the sum of the
 * squares. 0 for units of other stages. Not collective. */
void handover_share(const handover *h, int unit, uint64_t *hash, double *squares);

/* For tests: in the next step this rank changes bit `bit` of the first element
 *     GRADIENT    of its gradient of `unit`, in memory, after a backward pass;
 *     ARITHMETIC  of the same, as if the backward pass had computed it;
 *     MESSAGE     of the first activation that it sends to another stage.
 * Not collective. */
typedef enum { HANDOVER_GRADIENT, HANDOVER_ARITHMETIC, HANDOVER_MESSAGE, HANDOVER_NOTHING } handover_what;
void handover_change(handover *h, handover_what what, int unit, int bit);

#endif
