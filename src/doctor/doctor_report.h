/* The doctor's report: findings first, then tables. Nodes that are alike are one line. */
#ifndef TRINE_DOCTOR_DOCTOR_REPORT_H
#define TRINE_DOCTOR_DOCTOR_REPORT_H

#include "base/output.h"
#include "doctor/judge.h"

/* Ranks that have a line each without being asked for. */
#define REPORT_RANKS 16

/* `seconds` is how long all of it took. verbose: every rank has a line. Not collective. */
void report_print(FILE *out, const doctor_job *job, const findings *found, double seconds,
                  bool verbose);

/* The same as one object of JSON, anew: {"trine", "seconds", "starts", "findings": [{"severity", "kind",
 * "rank", "more", "text", "advice"}], "ranks": [...], "pairs": [{"a", "b", "latency", "bandwidth"}]}; seconds,
 * bytes, flops and bytes a second. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status report_json(output *o, const doctor_job *job, const findings *found, double seconds);

#endif
