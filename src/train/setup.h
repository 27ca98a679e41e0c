/* From a checked configuration to what the rooms need: the spec of the programs, the shapes of the
 * model, the memory plan of any rank. Pure but for what it allocates; the trainer, --dry-run and
 * --explain all start here. */
#ifndef TRINE_TRAIN_SETUP_H
#define TRINE_TRAIN_SETUP_H

#include "pp/pp.h"
#include "train/compose.h"
#include "train/holding.h"

/* Finds a device by name; false if there is none. */
bool setup_device_kind(const char *name, device_kind *kind);

/* Fills in a vocabulary left open with the token file's, and checks the configuration again, whose
 * sizes are known only now. Errors: those of tokens_open and trine_config_check. */
trine_status setup_vocabulary(trine_config *config, int ranks);

/* The spec of the training program (or of an evaluation of `micros` micro-batches). `config` has
 * passed trine_config_check and has its vocabulary. Errors: TRINE_EINVAL. */
trine_status setup_spec(const trine_config *config, program_spec *spec);

/* The model as tp rank `tp_rank` sees it. */
gpt_shape setup_shape(const trine_config *config, const device *dev, int tp_rank);

/* Forward flops a token of a block and of the head; the embedding's cost is what it moves. */
pp_cost setup_cost(const trine_model *model);

/* Flops of a training step a token: 6 per matmul weight, 6 L C T for causal attention
 * (Narayanan et al. 2021, appendix, without recomputation). */
double setup_flops_per_token(const trine_model *model);

/* The learning rate of step 1, 2, ... (Megatron-LM, OptimizerParamScheduler): linear warm-up, then
 * decay to min_lr at lr_decay_iters, then min_lr. */
double setup_learning_rate(const trine_optimizer *o, int64_t step);

/* The memory plan of the rank at `coord`: bytes by kind in *a (base NULL). `stages` are all programs.
 * Errors: TRINE_ENOMEM. */
trine_status setup_plan(const trine_config *config, const program *stages, const device *dev,
                        trine_coord coord, arena *a);

#endif
