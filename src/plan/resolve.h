/* From a checked configuration to what the rooms need: the spec of the programs, the shapes of the
 * model, the memory plan of any rank. The trainer, --dry-run and --explain all start here:
 *
 *   trine_config --config.c, checked--> resolve_spec  --compose.c--> programs of all stages, proved
 *                                       resolve_shape --state.c----> what one rank holds (an arena)
 *                                                   --exec.c-----> a step: program x state
 *
 * Invariant: nothing here depends on the rank that asks, so that every rank, and a process without
 * mpirun, makes the same of the same configuration. Cost: that of the programs. */
#ifndef TRINE_PLAN_RESOLVE_H
#define TRINE_PLAN_RESOLVE_H

#include "model/gpt.h"
#include "pp/pp.h"
#include "run/compose.h"
#include "state/state.h"

/* Sets the vocabulary to the token file's, and checks the configuration again: it could not say
 * before whether the model's size is one. Errors: those of tokens_open, tokens_vocab and
 * trine_config_check. */
trine_status resolve_vocabulary(trine_config *config, int ranks);

/* The spec of the training program. `config` has passed trine_config_check and has its vocabulary.
 * Errors: TRINE_EINVAL, TRINE_ENOMEM. */
trine_status resolve_spec(const trine_config *config, program_spec *spec);

/* The device that the configuration asks for: its kind and types. A sizes device needs no more.
 * Errors: TRINE_EINVAL. Pure. */
trine_status resolve_device(const trine_config *config, device_config *out);

/* The model as tp rank `tp_rank` sees it. */
gpt_shape resolve_shape(const trine_config *config, const device *dev, int tp_rank);

/* The learning rate of update 1, 2, ... (Megatron-LM, OptimizerParamScheduler): linear warm-up, then
 * decay to min_lr at lr_decay_iters, then min_lr. A skipped step is no update: the next one has its
 * rate. */
double resolve_learning_rate(const trine_optimizer *o, int64_t step);

/* What the state of the rank at `coord` is made from; `stages` are all programs, and everything
 * is borrowed. Pure. */
state_config resolve_state(const trine_config *config, const program *stages, const gpt_shape *shape,
                         const device *dev, trine_coord coord);

/* The memory plan of the rank at `coord`: bytes by kind in *a (base NULL).
 * Errors: TRINE_ENOMEM. */
trine_status resolve_plan(const trine_config *config, const program *stages, const device *dev,
                        trine_coord coord, arena *a);

#endif
