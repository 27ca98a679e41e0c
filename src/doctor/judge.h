/* What will hurt a training, from what its ranks have measured. Pure: measurements in, findings out,
 * the worst first, so that tests feed it with whatever a cluster may do.
 *
 * Rates are judged against the median, because a step waits for its slowest rank: what counts is who
 * is slower than the others, and no table of processors gets old. Of an even number the upper of the
 * two in the middle counts, so that the slow half of a job is found, and of two ranks the slow one. */
#ifndef TRINE_DOCTOR_JUDGE_H
#define TRINE_DOCTOR_JUDGE_H

#include "doctor/doctor.h"

/* A rank below this part of the median. On quiet machines ranks measure alike within 5%; a core that
 * two processes share gives a half, one that is held at its base clock 0.6 to 0.75. */
#define JUDGE_SLOW 0.8
/* The same for a rank that shares its cores with others of the job, which is said by itself: eight ranks
 * on two cores measured from 0.6 to 2 times their median. */
#define JUDGE_SLOW_CROWDED 0.5
/* A rank whose threads had less than this part of their processors' time while they computed: on a quiet
 * machine they have 0.97 and more, beside another process half. */
#define JUDGE_SHARE 0.9
/* A pair of nodes below this part of the median bandwidth, or above so many times the median latency
 * and JUDGE_HOPS more. A link that falls back to its next speed loses half or more; switches on the
 * way differ by some microseconds. */
#define JUDGE_SLOW_PAIR 0.7
#define JUDGE_FAR       2.0
#define JUDGE_HOPS      5e-6
/* Bytes of /dev/shm for a rank: gradients in fp32 of 64 M parameters, which lie there with ZeRO-0 and 1. */
#define JUDGE_SHM ((uint64_t)256 << 20)
/* Bytes of memory for a rank: 64 M parameters with their gradients and AdamW's moments in fp32. */
#define JUDGE_MEMORY ((uint64_t)1 << 30)
/* Seconds for the address of the own host: it stands in /etc/hosts or is asked for; a name server that
 * does not answer costs five. */
#define JUDGE_RESOLVE 1.0
/* Seconds between clocks, beyond what the measurement cannot tell. Nothing in a training depends on it;
 * logs of several nodes are read side by side. */
#define JUDGE_CLOCK 1.0

typedef enum { FINDING_STOPS, FINDING_HURTS, FINDING_NOTE, FINDING_SEVERITIES } finding_severity;

typedef struct {
    finding_severity severity;
    double weight;    /* the part of the speed that it may cost, about: orders those of a severity */
    const char *kind; /* one word, for scripts: "slow-rank" */
    int rank;         /* the lowest one concerned */
    int more;         /* in the last of its kind: how many of the kind are left out */
    char text[DOCTOR_LONG + DOCTOR_TEXT], advice[DOCTOR_LONG]; /* what is wrong; what to do */
} finding;

/* Of a kind the worst are kept: a thousand nodes with one fault are one fault. */
#define FINDINGS_OF_KIND 3
#define FINDINGS         96 /* more than there can be */

typedef struct {
    finding list[FINDINGS];
    int count;
} findings;

/* Fills *found. Without memory for its own work what wants it is left out. Pure. */
void judge(findings *found, const doctor_job *job);

/* "stops", "hurts", "note". Pure. */
const char *finding_word(finding_severity severity);

/* The upper median of values[0..count-1], which are sorted in place; 0 of none. Pure. */
double judge_median(double *values, int count);

/* The same of the ranks' figure (a double) at `offset` in their structs, where it is not 0. Without memory
 * 0. Pure. */
double judge_median_of(const doctor_job *job, size_t offset);

/* "rank 3", "ranks 0-3, 6": of an ascending list. Returns text. Pure. */
char *judge_ranks(char *text, size_t size, const int *ranks, int count);

/* The lowest rank of a node; NULL if there is none. Pure. */
const doctor_rank *judge_node(const doctor_job *job, int node);

#endif
