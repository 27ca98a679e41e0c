/* A configuration as JSON, in a checkpoint's manifest: the rows of the options (config/rows.h) that are saved print
 * it, compare two, and read the sizes of a model.
 *
 * Invariant: options that do not affect the numbers of a run, or that name this machine (paths, timeouts,
 * threads), are not in it. The layout is there for information only: with a different one a run continues with a
 * different order of additions. */
#ifndef TRINE_CKPT_SETTINGS_H
#define TRINE_CKPT_SETTINGS_H

#include "trine_types.h"

/* The configuration as a JSON object, owned by the caller (free). `config` is complete (the trainer's).
 * Errors: TRINE_ENOMEM. Pure. */
trine_status settings_print(const trine_config *config, char **json);

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

/* Checks that each tensor that `model` trains was trained in the run of the configuration, so that its optimizer was
 * saved. Errors: TRINE_EINVAL, beginning with `path`, names such a tensor and the patterns of both; TRINE_EDATA.
 * Pure. */
trine_status settings_trained_there(const char *json, const trine_model *model, const char *path);

#endif
