/* Where a step's time goes. While a step is measured the interpreter's device and the mesh's groups
 * are timing ones (profile/timed_device.h, comm_clock of comm/api/comm.h), and the interpreter tells after
 * each of its waits and each instruction what has just ended; between measured steps, and without a
 * profile, everything is as if this file did not exist.
 *
 * Two views of the same time, each of which sums to the step, in whole nanoseconds:
 *   by instruction  waiting for operands (messages and gathers under way), and the instruction
 *                   itself: computing (operators), communicating (its own collectives), other
 *   by operator     each operator, each message or collective over each group, and the rest
 *
 * Invariant: the numbers that a step computes are the same bits with and without it. Cost: some six
 * looks at the clock an instruction and two an operator; under 0.1% of a step of useful size. */
#ifndef TRINE_PROFILE_PROFILE_H
#define TRINE_PROFILE_PROFILE_H

#include "base/output.h"
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

/* Beside the instructions: the wait for this rank's own sends at the end of a step. */
#define PROFILE_FINISH INSTR_KINDS
#define PROFILE_KINDS  (INSTR_KINDS + 1)

/* What this rank's share of the machine gives while all ranks take theirs. */
typedef struct {
    double matmul; /* flops a second: the fastest product of the largest shapes */
    double triad;  /* bytes a second */
    limit_matmul block, head; /* a block's widest linear; the head, or as much of it as is tried */
    size_t rows, block_out, block_in, head_out;
} profile_limits;

typedef struct profile {
    int skip;            /* steps still to be left out */
    int64_t first, last; /* the steps that were measured; first 0: none yet */
    uint64_t steps, ns;  /* measured, and their time */
    profile_kind kinds[PROFILE_KINDS];
    device_profile ops;
    comm_clock *comm;
    bool measuring;
    uint64_t began, at, computed, communicated; /* the clocks at the last event */
    profile_limits limits;                      /* matmul 0: not measured yet */
    output *json;                               /* NULL: none; else world rank 0's */
} profile;

/* A profile that leaves out the first `skip` steps. Errors: TRINE_ENOMEM. *p is owned by the
 * caller; `inner` and `mesh` must outlive it. Not collective. */
trine_status profile_create(profile **p, device *inner, const trine_mesh *mesh, int skip);
void profile_destroy(profile **p);

/* Around a step; false: this one is left out. Between the two the operators must be called with
 * &p->ops.device. */
bool profile_begin(profile *p);
void profile_end(profile *p, int64_t step);

/* What has ended since the event before (or the begin): a wait for the operands of an instruction
 * of this kind, or the instruction itself. */
void profile_waited(profile *p, int kind);
void profile_executed(profile *p, int kind);

/* Measures what the shapes of *l ask for, on all ranks at once. Errors: TRINE_ENOMEM, TRINE_EMATH, on all
 * alike. Collective over: world. */
trine_status profile_measure(profile_limits *l, device *dev, trine_world *world,
                             const trine_mesh *mesh);

/* ---- What is shown: means of a measured step ---- */

#define PROFILE_ROWS (DEVICE_TIMED + TRINE_GROUPS * TRINE_TALLY_KINDS)

typedef struct {
    const char *kind; /* "FORWARD" */
    double calls, seconds, part[PROFILE_PARTS];
} profile_instr_row;

typedef struct {
    const char *group, *name; /* group "" for an operator */
    const char *unit;         /* of work: "flops" or "bytes" */
    double calls, seconds, work;
    double limit; /* work a second; 0: none to compare with */
} profile_row;

/* A rank's own: sent to rank 0 as it is, an array of doubles. */
typedef struct {
    double seconds, part[PROFILE_PARTS]; /* of a step */
    double matmul, triad;                /* limits */
} profile_rank;

/* One rank's tables, the largest rows first. `rest` is what is in no row: of the instructions the
 * interpreter itself, of the operators everything that is none. */
typedef struct {
    int64_t first, last;
    double seconds;
    profile_instr_row instrs[PROFILE_KINDS];
    int instr_count;
    double instr_rest;
    profile_row rows[PROFILE_ROWS];
    int row_count;
    double row_rest;
    double bound; /* seconds that the operators' work takes at the limits */
    profile_rank own;
} profile_summary;

/* Steps must have been measured. Pure. */
void profile_summarise(const profile *p, profile_summary *s);

/* Everything that a report needs: rank 0's tables and all ranks' sums. */
typedef struct {
    const trine_config *config;
    const profile_limits *limits; /* rank 0's */
    const profile_summary *summary;
    const profile_rank *ranks; /* (world size) */
    int rank_count;
    double step_seconds, tokens, flops; /* of the slowest rank; of a step over all ranks */
} profile_report;

/* Of the sum of the ranks' matmul limits. */
double profile_utilisation(const profile_report *r);

/* table.c: for people. json.c: one line. Errors: TRINE_ENOMEM; TRINE_EIO. */
void profile_print_table(const profile_report *r, FILE *out);
trine_status profile_print_json(const profile_report *r, output *out);

#endif
