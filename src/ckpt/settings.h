/* A configuration as JSON, in a checkpoint's manifest: one table of names (those of the command
 * line) and places in trine_config, which prints it, finds what differs, and reads a model's sizes
 * back.
 *
 * A second table has what else the ranks of a job must have alike, whatever the numbers.
 *
 * Invariant: what has no influence on the numbers of a run or names this machine (paths, timeouts,
 * threads) is not in it. The layout is there for information only. */
#ifndef TRINE_CKPT_SETTINGS_H
#define TRINE_CKPT_SETTINGS_H

#include "comm/api/alike.h"

/* The configuration as a JSON object, owned by the caller (free). `config` is whole (the
 * trainer's). Errors: TRINE_ENOMEM. Pure. */
trine_status settings_print(const trine_config *config, char **json);

/* Makes `list` (ended by alike_end) of all that must be equal on every rank of a job: a rank that has
 * it otherwise would train something else, or wait for ever. Not in it: what may differ by node
 * (threads, the library for GPUs, the paths of data; whether there are any is in it) and timeouts.
 * Errors: TRINE_ENOMEM. Pure. */
trine_status settings_alike(const trine_config *config, alike_list *list);

/* Says on `out`, a line each, what differs between a checkpoint's configuration and this one;
 * nothing if nothing does. Errors: TRINE_EDATA, TRINE_ENOMEM. Pure but for `out`. */
trine_status settings_compare(const char *json, const trine_config *config, FILE *out);

/* The sizes of the model that the configuration speaks of. Errors: TRINE_EDATA names what is
 * missing or no possible size. Pure. */
trine_status settings_model(const char *json, trine_model *model);

/* *moves = whether the run had a loss scale that moves, so that the state's scaler says something.
 * Errors: TRINE_EDATA, TRINE_ENOMEM. Pure. */
trine_status settings_scale_moves(const char *json, bool *moves);

/* Whether weights of a model of sizes `saved` are weights of `model`. Errors: TRINE_EINVAL names
 * everything that differs, with both numbers, and begins with `path`. Pure. */
trine_status settings_same_model(const trine_model *saved, const trine_model *model,
                                 const char *path);

#endif
