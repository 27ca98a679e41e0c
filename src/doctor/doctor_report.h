/* The report: findings first, then tables. Equal nodes share a line. */
#ifndef TRINE_DOCTOR_DOCTOR_REPORT_H
#define TRINE_DOCTOR_DOCTOR_REPORT_H

#include "base/report_file.h"
#include "doctor/judge.h"

/* Up to so many ranks have a line each without --verbose. */
#define REPORT_RANKS 16

/* `seconds` = duration of the examination. verbose: a line for every rank. Not collective. */
void report_print(FILE *out, const doctor_job *job, const findings *found, double seconds,
                  bool verbose);

/* The same as one JSON object on a line: {"trine", "seconds", "starts", "findings": [{"severity", "kind", "rank",
 * "more", "text", "advice"}], "launch": {"ranks", "threads", "why", "mpirun", "srun"}, "ranks": [...],
 * "pairs": [{"a", "b", "latency", "bandwidth"}]}; seconds, bytes, flops and bytes per second. Replaces what `o` had.
 * Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status report_json(report_file *o, const doctor_job *job, const findings *found, double seconds);

#endif
