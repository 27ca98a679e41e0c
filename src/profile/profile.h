/* Profile of where a step's time goes. While a step is measured the interpreter uses a timing device and
 * the mesh's groups are timed (profile/timed_device.h, comm_clock of comm/api/comm.h), and the interpreter
 * reports the end of each of its waits and of each instruction; between measured steps, and without a
 * profile, there is no overhead.
 *
 * Two views of the same time, each of which sums to the step, in integer nanoseconds:
 *   by instruction  waiting for operands (messages, gathers and reductions in progress), and the instruction
 *                   itself: computing (operators), communicating (its own collectives), other
 *   by operator     each operator, each message or collective over each group, and the rest
 *
 * Invariant: a step's results are bitwise equal with and without it. Cost: about six clock reads per
 * instruction and two per operator; under 0.1% of a step of useful size. */
#ifndef TRINE_PROFILE_PROFILE_H
#define TRINE_PROFILE_PROFILE_H

#include "base/report_file.h"
#include "comm/api/comm.h"
#include "core/program.h"
#include "profile/limits.h"
#include "profile/timed_device.h"

typedef enum {
    PROFILE_WAITING,
    PROFILE_COMPUTING,
    PROFILE_COMMUNICATING,
    PROFILE_OTHER,
    PROFILE_PARTS
} profile_part;

typedef struct {
    uint64_t calls, ns[PROFILE_PARTS];
} profile_kind;

/* In addition to the instructions: the wait for this rank's own sends at the end of a step. */
#define PROFILE_FINISH INSTR_KINDS
#define PROFILE_KINDS  (INSTR_KINDS + 1)

/* The limits of this rank's share of the machine while all ranks use theirs. */
typedef struct {
    double matmul; /* flops per second: the fastest product of the largest shapes */
    double triad;  /* bytes per second */
    limit_matmul block, head; /* a transformer block's widest linear; the head, or the measured part of it */
    size_t rows, block_out, block_in, head_out;
} profile_limits;

typedef struct profile {
    int skip;            /* steps still to skip */
    int64_t first, last; /* the steps that were measured; first 0: none yet */
    uint64_t steps, ns;  /* measured, and their time */
    profile_kind kinds[PROFILE_KINDS];
    device_profile ops;
    comm_clock *comm;
    bool measuring;
    uint64_t began, at, computed, communicated; /* the clocks at the last event */
    profile_limits limits;                      /* matmul 0: not measured yet */
    report_file *json;                          /* NULL: none; only on world rank 0 */
} profile;

/* Creates a profile that skips the first `skip` steps. Errors: TRINE_ENOMEM. *p is owned by the
 * caller; `inner` and `mesh` must outlive it. Not collective. */
trine_status profile_create(profile **p, device *inner, const trine_mesh *mesh, int skip);
void profile_destroy(profile **p);

/* Around a step; false: this step is skipped. Between the two calls operators must be called with
 * &p->ops.device. */
bool profile_begin(profile *p);
void profile_end(profile *p, int64_t step);

/* Records what ended since the previous event (or the begin): a wait for the operands of instruction `at` of a
 * program, or the instruction itself; at its end, of the communication there. *p is a profile. */
void profile_waited(void *p, const program *code, int at);
void profile_executed(void *p, const program *code, int at);
/* Or the progress of reductions, which counts as REDUCE. */
void profile_progressed(void *p, const program *code, int at);

/* Measures the limits for the shapes of *l, on all ranks at once. Errors: TRINE_ENOMEM, TRINE_EMATH, on all
 * alike. Collective over: world. */
trine_status profile_measure(profile_limits *l, device *dev, trine_world *world,
                             const trine_mesh *mesh);

/* ---- Summary: means per measured step ---- */

#define PROFILE_ROWS (DEVICE_TIMED + TRINE_GROUPS * TRINE_TALLY_KINDS)

typedef struct {
    const char *kind; /* "FORWARD" */
    double calls, seconds, part[PROFILE_PARTS];
} profile_instr_row;

typedef struct {
    const char *group, *name; /* group "" for an operator */
    const char *unit;         /* of work: "flops" or "bytes" */
    double calls, seconds, work;
    double limit; /* work per second; 0: none */
} profile_row;

/* A rank's summary, sent to rank 0 as an array of doubles. */
typedef struct {
    double seconds, part[PROFILE_PARTS]; /* of a step */
    double matmul, triad;                /* limits */
} profile_rank;

/* One rank's tables, the largest rows first. `rest` is the time outside all rows: the interpreter itself
 * for instructions, everything that is not an operator or message for operators. */
typedef struct {
    int64_t first, last;
    double seconds;
    profile_instr_row instrs[PROFILE_KINDS];
    int instr_count;
    double instr_rest;
    profile_row rows[PROFILE_ROWS];
    int row_count;
    double row_rest;
    double bound; /* seconds of the operators' work at the limits */
    double hidden, waited; /* seconds of started reductions (comm_overlap); both 0: none on a host transport */
    profile_rank own;
} profile_summary;

/* Steps must have been measured. Pure. */
void profile_summarise(const profile *p, profile_summary *s);

/* Input of a report: rank 0's tables and all ranks' sums. */
typedef struct {
    const trine_config *config;
    const profile_limits *limits; /* rank 0's */
    const profile_summary *summary;
    const profile_rank *ranks; /* (world size) */
    int rank_count;
    double step_seconds, tokens, flops; /* of the slowest rank; per step over all ranks */
} profile_report;

/* Of the sum of the ranks' matmul limits. */
double profile_utilisation(const profile_report *r);

/* table.c: as text. profile_json.c: one line of JSON. Errors: TRINE_ENOMEM; TRINE_EIO. */
void profile_print_table(const profile_report *r, FILE *out);
trine_status profile_print_json(const profile_report *r, report_file *out);

#endif
