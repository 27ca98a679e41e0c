/* Derives from a checked configuration what other modules need: the spec of the programs, the shapes
 * of the model, the memory plan of any rank. The trainer, --dry-run and --explain all start here:
 *
 *   trine_config --check_config.c---> resolve_spec  --compose.c--> programs of all stages, verified
 *                                       resolve_shape --state.c----> rank state (an arena)
 *                                                   --exec.c-----> a step: program x state
 *
 * Invariant: nothing here depends on the calling rank, so that every rank, and a process without
 * mpirun, derives the same from the same configuration. Cost: that of the programs. */
#ifndef TRINE_PLAN_RESOLVE_H
#define TRINE_PLAN_RESOLVE_H

#include "model/gpt.h"
#include "pp/pp.h"
#include "run/compose.h"
#include "state/state.h"

/* Sets the vocabulary size from the token file, and checks the configuration again, since the model's
 * size depends on it. Errors: those of tokens_open, tokens_vocab and
 * trine_config_check. */
trine_status resolve_vocabulary(trine_config *config, int ranks);

/* Decides whether attention and positions begin anew in each document: where that is left to the token files, if they
 * say where documents begin (`marked`). Afterwards AUTO is no. Pure. */
void resolve_resets(trine_data *d, bool marked);
/* The same for who has not opened the token files. Those that cannot be opened say nothing: a training names them.
 * Not collective. */
void resolve_resets_of_files(trine_config *config);

/* The spec of the training program. `config` has passed trine_config_check and has its vocabulary. With a schedule
 * file spec->orders is the caller's, who frees it with pp_place_end; NULL on failure and without a file.
 * Errors: TRINE_EINVAL, TRINE_ENOMEM; those of reading the file. */
trine_status resolve_spec(const trine_config *config, program_spec *spec);

/* The row of its ZeRO stage and lanes. Pure. */
const zero_row *resolve_zero(const trine_config *config);

/* The configured device: its kind, types and threads (not given: 1), which is all that a sizes device needs.
 * Errors: TRINE_EINVAL. Pure. */
trine_status resolve_device(const trine_config *config, device_config *out);

/* Whether what a library adds over ranks must be in rank order. Pure. */
bool resolve_ordered(const trine_config *config);

/* The shapes of the model on tp rank `tp_rank`. */
gpt_shape resolve_shape(const trine_config *config, const device *dev, int tp_rank);

/* The learning rate of update 1, 2, ... (Megatron-LM, OptimizerParamScheduler): linear warm-up, then
 * decay to min_lr at lr_decay_iters, which WSD begins lr_wsd_decay_iters before, then min_lr. A skipped step does not
 * count as an update: the next step has its rate. */
double resolve_learning_rate(const trine_optimizer *o, int64_t step);

/* The configuration of the state of the rank at `coord`; `stages` are all programs. Everything is
 * borrowed. Pure. */
state_config resolve_state(const trine_config *config, const program *stages, const gpt_shape *shape,
                         const device *dev, trine_coord coord);

/* What the recorder takes on a rank of this program's stage, host memory (trace/trace.h); of a step that is `periods`
 * periods longer, by the program of a step one period longer. Pure. */
size_t resolve_trace_bytes(const trine_config *config, const program *p);
size_t resolve_trace_bytes_grown(const trine_config *config, const program *p, const program *longer,
                                 int64_t periods);

/* The memory plan of the rank at `coord`: bytes by kind in *a (base NULL).
 * Errors: TRINE_ENOMEM. */
trine_status resolve_plan(const trine_config *config, const program *stages, const device *dev,
                        trine_coord coord, arena *a);

#endif
