/* A report: a file of a few lines, which are complete whenever they are there (base/whole_file.h): after each line
 * the file is replaced by one that has it, too. Into a pipe or a device a line is written like that of a log
 * (base/output.h). Opening it shows that the file can be written, and leaves an earlier one as it is; without a line
 * nothing changes. Not collective. */
#ifndef TRINE_BASE_REPORT_FILE_H
#define TRINE_BASE_REPORT_FILE_H

#include "base/output.h"

typedef struct report_file report_file;

/* *r is owned by the caller, NULL after an error; `option` ("--json") is for messages, and kept by reference. A
 * pipe must have a reader. Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status report_file_open(report_file **r, const char *option, const char *path);
/* *r may be NULL. */
void report_file_close(report_file **r);

/* Whether `log` (may be NULL) is the same regular file now, by any name; `r` may be NULL. */
bool report_file_is(const report_file *r, const output *log);

/* Appends a line, given without its newline. Errors: TRINE_EIO: the file is as it was before; TRINE_ENOMEM. */
trine_status report_file_line(report_file *r, const char *line);

#endif
