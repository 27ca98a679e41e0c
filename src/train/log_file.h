/* The file of a run's JSON lines. Where one cannot be written the run goes on without it, and the next
 * one tries again: what is missing between them stays missing, the file has a gap. Its begin is said
 * on standard error, and so is its end.
 *
 * World rank 0 alone has such a file. Not collective. */
#ifndef TRINE_TRAIN_LOG_FILE_H
#define TRINE_TRAIN_LOG_FILE_H

#include "base/output.h"

typedef struct {
    output *out;  /* NULL: there is none */
    bool has_val; /* what log_file_begin has left has the validation of its last step */
    int64_t lost, gap;   /* lines that this run could not write; of them in the gap that is open */
    int64_t first, last; /* the gap's first and last step */
} log_file;

/* Makes f->out, which is open, the log of a run that has done `steps` steps: begun anew where these
 * are none, else cut behind the last line of theirs, so that the lines of steps which an earlier run
 * made after its last checkpoint are gone. Errors: TRINE_EIO. */
trine_status log_file_begin(log_file *f, int64_t steps);

/* Adds a line (without its end) of this step, or does what is said above. Errors: TRINE_ENOMEM. */
trine_status log_file_add(log_file *f, int64_t step, const char *line);

/* Whether every line of this run is there. Errors: TRINE_EIO says how many are not. */
trine_status log_file_check(const log_file *f);

#endif
