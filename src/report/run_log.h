/* Files of --log, read: of each run in them steps, validations, and what each process that wrote it says of itself
 * (docs/formats.md). Members that are not known are ignored, those that are missing are NaN: logs of other versions
 * are read, too; what of a process is not known is said on standard error (config/logged.h). */
#ifndef TRINE_REPORT_RUN_LOG_H
#define TRINE_REPORT_RUN_LOG_H

#include "base/json.h"

/* Numbers of a step, as the log names them. */
#define LOG_LIST(X)                                                                                                \
    X(LOG_LOSS, "loss")                                                                                            \
    X(LOG_GRAD_NORM, "grad_norm")                                                                                  \
    X(LOG_LR, "lr")                                                                                                \
    X(LOG_TOKENS, "tokens")                                                                                        \
    X(LOG_SECONDS, "seconds")                                                                                      \
    X(LOG_TOKENS_PER_SECOND, "tokens_per_second")                                                                  \
    X(LOG_PEAK_BYTES, "peak_bytes")                                                                                \
    X(LOG_RESIDENT_BYTES, "resident_bytes")                                                                        \
    X(LOG_LOSS_SCALE, "loss_scale")                                                                                \
    X(LOG_SKIPS, "skips")

typedef enum {
#define LOG_ENUM(name, text) name,
    LOG_LIST(LOG_ENUM)
#undef LOG_ENUM
        LOG_NUMBERS
} log_number;

typedef struct {
    int64_t step;
    double hours; /* of all steps so far; their seconds where they are known */
    double of[LOG_NUMBERS];
} log_step;

/* After `step` steps: a validation, or the start of a process. */
typedef struct {
    int64_t step;
    double loss;
} log_val;

typedef struct {
    int64_t after;
    cJSON *run; /* owned */
} log_start;

typedef struct {
    char *name; /* owned: the path and, where its file has several runs, "(run 2)" */
    log_step *steps;
    log_val *vals;
    log_start *starts;
    int64_t *checkpoints; /* steps */
    int64_t step_count, val_count, start_count, checkpoint_count;
    bool torn; /* the last line has no end: it is being written, or its writer was killed */
} run_log;

typedef struct {
    run_log *at; /* owned */
    int64_t count;
} run_logs;

/* Appends the runs of a file. One begins where a process says that it starts behind fewer steps than there are: the
 * trainer cuts such lines off, so the file is several joined. Destroy *all with run_logs_destroy, on failure as well.
 * Errors: TRINE_EDATA begins with the path and the line: no JSON, no line of a log, steps that do not increase,
 * nothing at all; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status run_logs_read(run_logs *all, const char *path);
void run_logs_destroy(run_logs *all);

/* "loss". Pure. */
const char *log_number_text(log_number n);

/* The newest process that says something of itself; NULL: none does. Pure. */
const log_start *run_log_start(const run_log *l);

/* Prints the lines of logs as one table: run, step, hours, val_loss and the numbers; a validation has a row of its
 * own where its step has none. Numbers have all their digits. */
void run_log_csv(const run_logs *logs, FILE *out);

#endif
