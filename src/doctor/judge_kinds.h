/* The parts of judge(), one file each: differences, processors and rates, memory and links. */
#ifndef TRINE_DOCTOR_JUDGE_KINDS_H
#define TRINE_DOCTOR_JUDGE_KINDS_H

#include "doctor/judge.h"

/* Adds a finding without texts; NULL when there are FINDINGS_OF_KIND of its kind and none has less weight. */
finding *judge_add(findings *found, finding_severity severity, double weight, const char *kind,
                   int rank);
/* Print the texts of a finding (f may be NULL). */
void judge_text(finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void judge_advice(finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* *list (owned by the caller) = the ranks, ascending, for which `is` holds, of one node or (node < 0) of
 * all; returns their number, 0 if out of memory. */
typedef bool (*judge_test)(const doctor_rank *r, double limit);
int judge_choose(int **list, const doctor_job *job, int node, judge_test is, double limit);

/* Versions and machines that differ between ranks. */
void judge_alike(findings *found, const doctor_job *job);
/* Shared cores; rates. */
void judge_cores(findings *found, const doctor_job *job);
void judge_rates(findings *found, const doctor_job *job);
/* Memory, /dev/shm, names, GPUs; pairs and clocks. */
void judge_nodes(findings *found, const doctor_job *job);
void judge_pairs(findings *found, const doctor_job *job);

#endif
