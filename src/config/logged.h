/* The options of a run, from the line of its log that says how it was started (docs/formats.md, "run"):
 * train/log_run.h writes it, the calibration and the report read it. */
#ifndef TRINE_CONFIG_LOGGED_H
#define TRINE_CONFIG_LOGGED_H

#include "base/json.h"
#include "config/config.h"
#include "trine.h"

/* Must not be moved while it is used: what it is made of lies in it, and in the line. */
typedef struct {
    trine_config config;
    trine_run run; /* room for patterns of names */
} logged_options;

/* The defaults, and on top of them the options of `run`, the member of the line, which is kept as long as *l is used.
 * Files of data, tokenizer, traces and libraries are left out: no step depends on them. A family is its name alone
 * or, as version 0.2.0 wrote it, with the hash of its layers, which must be that of ours. place: where the line is,
 * for messages. Errors: TRINE_EDATA with place, option and, where that is another, the version that wrote it.
 * Pure. */
trine_status logged_read(logged_options *l, const cJSON *run, const char *place);

/* Says on standard error what of `run` is not known here: that a newer version has written it, or a member that no
 * version up to this one writes. Not collective. */
void logged_say_unknown(const cJSON *run, const char *place);

#endif
