/* The JSON-lines file of a run's log, or a file of its events (train/tensorboard.h). If a line cannot be written
 * the run continues without it, and the next line tries again: the file has a gap, whose start and end are reported
 * on standard error.
 *
 * Only world rank 0 has such a file. Not collective. */
#ifndef TRINE_TRAIN_LOG_FILE_H
#define TRINE_TRAIN_LOG_FILE_H

#include "base/output.h"

typedef struct {
    output *out;  /* NULL: none */
    bool events;  /* its records are events, not lines */
    bool has_val; /* the lines kept by log_file_begin include the validation of their last step */
    int64_t lost, gap;   /* lines that this run could not write; those of them in the open gap */
    int64_t first, last; /* the gap's first and last step */
} log_file;

/* Prepares f->out, which is open, as the log of a run that has completed `steps` steps: truncated if
 * steps is 0, else cut after the last line of these steps, which removes the lines that an earlier run
 * wrote after its last checkpoint. Errors: TRINE_EIO. */
trine_status log_file_begin(log_file *f, int64_t steps);

/* Appends a line (without newline) of this step; a failure to write it is handled as described above.
 * Errors: TRINE_ENOMEM. */
trine_status log_file_add(log_file *f, int64_t step, const char *line);

/* The same of an event's bytes. *written: whether they are in the file. Errors: none. */
trine_status log_file_add_event(log_file *f, int64_t step, const char *bytes, size_t count, bool *written);

/* Checks that every line of this run was written. Errors: TRINE_EIO with the number of lost lines. */
trine_status log_file_check(const log_file *f);

#endif
