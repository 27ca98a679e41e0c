/* The trainer's options: one table (rows.h) of names, members of the structs of include/trine.h, ranges, defaults,
 * roles and help. The command line (train/cli.c), the settings of checkpoints (ckpt/settings.c), what ranks compare
 * (train/ranks.c) and the check of a configuration (plan/check_config.c) walk over it.
 *
 * A new option is a member in include/trine.h and a row. */
#ifndef TRINE_CONFIG_CONFIG_H
#define TRINE_CONFIG_CONFIG_H

#include "base/options.h"

/* A wider model is a typing mistake, as is a micro-batch of more samples. */
#define CONFIG_MOST_WIDTH   (1 << 26)
#define CONFIG_MOST_SAMPLES (1 << 20)

#define CONFIG_MOST_ROWS 160

#define CONFIG_NO_FILE "none" /* --val-data-path none: no validation, where there would be one by default */

/* The structs of the rows. */
enum { CONFIG_CONFIG, CONFIG_RUN, CONFIG_CHECKPOINT };

/* The table, with the values of these structs; NULL: the rows of a struct have none. The structs are written only by
 * options_defaults and options_parse. Pure. */
options config_options(const trine_config *config, const trine_run *run, const trine_checkpoint *checkpoint);

/* The row that is saved in checkpoints after `row`, by number; NULL: the first one, or none. Pure. */
const option *config_saved_after(const option *row);

#endif
