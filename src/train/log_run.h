/* What the log says of a run once, in the first line that a process writes: the command, the configuration, the
 * ranks. trine-report compares runs by it and plans their steps from it. */
#ifndef TRINE_TRAIN_LOG_RUN_H
#define TRINE_TRAIN_LOG_RUN_H

#include "base/json.h"
#include "train/trainer.h"

/* Adds "options" to an object: those whose value is not the default, as words of a command line. False: no memory.
 * Pure. */
bool log_run_options(cJSON *object, const trine_config *config);

/* {"after", "version", "time", "ranks", "nodes", "hosts", "layout", "command", "options"}: docs/formats.md. Owned by
 * the caller (cJSON_Delete); NULL when out of memory. Not collective. */
cJSON *log_run_object(const trine_trainer *t, int argc, char *const argv[]);

#endif
