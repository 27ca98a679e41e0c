/* A configuration as JSON, in a checkpoint's manifest: one table of names (those of the command line) and
 * offsets in trine_config prints it, compares two, and reads the sizes of a model.
 *
 * A second table holds what else must be equal on all ranks of a job.
 *
 * Invariant: options that do not affect the numbers of a run, or that name this machine (paths, timeouts,
 * threads), are not in it. The layout is there for information only. */
#ifndef TRINE_CKPT_SETTINGS_H
#define TRINE_CKPT_SETTINGS_H

#include "comm/api/alike.h"

/* What a different value in a checkpoint means: it is of another model, which is refused; another run, which is
 * reported; or the same run with another order of additions, reported on one line. */
typedef enum { SETTING_MODEL, SETTING_NUMBERS, SETTING_LAYOUT } setting_role;

/* The option of row i of the table, and its role; NULL after the last row. Pure. */
const char *settings_row(size_t i, setting_role *role);

/* The configuration as a JSON object, owned by the caller (free). `config` is complete (the trainer's).
 * Errors: TRINE_ENOMEM. Pure. */
trine_status settings_print(const trine_config *config, char **json);

/* Makes `list` (freed by alike_end) of all options that must be equal on every rank of a job: a rank with
 * another value would train another model or deadlock. Not in it: timeouts, and what may differ by node
 * (threads, the CUDA library, data paths; whether a path is given is in it). Errors: TRINE_ENOMEM. Pure. */
trine_status settings_alike(const trine_config *config, alike_list *list);

/* Prints on `out`, one per line, the differences between a checkpoint's configuration and this one. Errors:
 * TRINE_EDATA, TRINE_ENOMEM. Pure but for `out`. */
trine_status settings_compare(const char *json, const trine_config *config, FILE *out);

/* The sizes of the model in the configuration. Errors: TRINE_EDATA names a size that is missing or invalid.
 * Pure. */
trine_status settings_model(const char *json, trine_model *model);

/* *moves = whether the run had a dynamic loss scale, so that the saved scaler state is meaningful. Errors:
 * TRINE_EDATA, TRINE_ENOMEM. Pure. */
trine_status settings_scale_moves(const char *json, bool *moves);

/* Checks that weights of a model of sizes `saved` fit `model`. With `weights_only`, a model with rotary positions may
 * have another sequence length. Errors: TRINE_EINVAL, beginning with `path`, lists every difference with both values.
 * Pure. */
trine_status settings_same_model(const trine_model *saved, const trine_model *model, bool weights_only,
                                 const char *path);

#endif
