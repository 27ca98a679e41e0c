/* Findings from the ranks' measurements. Pure: measurements in, findings out, the worst first, so that
 * tests can feed it any cluster.
 *
 * Rates are compared with the median, because a step waits for its slowest rank: what matters is which
 * ranks are slower than the others, and no table of processors becomes outdated. Of an even number the
 * upper of the two middle values counts, so that the slow half of a job is found, and of two ranks the slow
 * one. */
#ifndef TRINE_DOCTOR_JUDGE_H
#define TRINE_DOCTOR_JUDGE_H

#include "doctor/doctor.h"

/* A rank is slow below this part of the median. On quiet machines ranks are within 5%; two processes that
 * share a core get half each, a core held at its base clock gives 0.6 to 0.75. */
#define JUDGE_SLOW 0.8
/* The same for a rank that shares its cores with other ranks, which is a finding of its own: eight ranks on
 * two cores measured from 0.6 to 2 times their median. */
#define JUDGE_SLOW_CROWDED 0.5
/* A rank's processors are busy if its threads had less than this part of their time while computing: on a
 * quiet machine threads have 0.97 and more, beside another process half. */
#define JUDGE_SHARE 0.9
/* A pair of nodes is slow below this part of the median bandwidth, or above so many times the median
 * latency plus JUDGE_HOPS. A link that falls back to its next speed loses half or more; additional switches
 * cost some microseconds. */
#define JUDGE_SLOW_PAIR 0.7
#define JUDGE_FAR       2.0
#define JUDGE_HOPS      5e-6
/* Bytes of /dev/shm per rank: fp32 gradients of 64 M parameters, which are there with ZeRO-0 and 1. */
#define JUDGE_SHM ((uint64_t)256 << 20)
/* Bytes of memory per rank: 64 M parameters with gradients and AdamW's moments in fp32. */
#define JUDGE_MEMORY ((uint64_t)1 << 30)
/* Seconds for resolving the own host name, from /etc/hosts or a name server; one that does not answer costs
 * five. */
#define JUDGE_RESOLVE 1.0
/* Seconds between clocks, beyond the error of the measurement. Training does not depend on it; it matters
 * for reading the logs of several nodes side by side. */
#define JUDGE_CLOCK 1.0

typedef enum { FINDING_STOPS, FINDING_HURTS, FINDING_NOTE, FINDING_SEVERITIES } finding_severity;

typedef struct {
    finding_severity severity;
    double weight;    /* estimated part of the speed that it costs: orders findings of a severity */
    const char *kind; /* for scripts: "slow-rank" */
    int rank;         /* the lowest rank concerned */
    int more;         /* in the last finding of a kind: how many of the kind were left out */
    char text[DOCTOR_LONG + DOCTOR_TEXT], advice[DOCTOR_LONG]; /* the fault; the advice */
} finding;

/* Findings kept of a kind, the worst: a thousand nodes with the same fault are one fault. */
#define FINDINGS_OF_KIND 3
#define FINDINGS         96 /* an upper limit */

typedef struct {
    finding list[FINDINGS];
    int count;
} findings;

/* Fills *found. If memory for a check cannot be allocated, the check is left out. Pure. */
void judge(findings *found, const doctor_job *job);

/* "stops", "hurts", "note". Pure. */
const char *finding_word(finding_severity severity);

/* The upper median of values[0..count-1], which it sorts in place; 0 if count is 0. Pure. */
double judge_median(double *values, int count);

/* The same of the doubles at `offset` in the ranks' structs that are not 0. Returns 0 if out of memory.
 * Pure. */
double judge_median_of(const doctor_job *job, size_t offset);

/* Prints an ascending list: "rank 3", "ranks 0-3, 6". Returns text. Pure. */
char *judge_ranks(char *text, size_t size, const int *ranks, int count);

/* The rank whose threads had the least of their cores' time, if that is below JUDGE_SHARE and no ranks of the
 * job share its cores: something else runs there. NULL: none. Pure. */
const doctor_rank *judge_busiest(const doctor_job *job);

/* The lowest rank of a node, or NULL. Pure. */
const doctor_rank *judge_node(const doctor_job *job, int node);

#endif
