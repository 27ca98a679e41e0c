/* What ranks did in some steps: files of --trace, and of the ring that a run leaves when it hangs or dies (one a
 * node), read together. JSON of the "trace event format": process pid is rank pid, named "rank 3 [pp1 dp0 tp1]"; a
 * span (ph X) is known by its category: step, instruction, wait, collective, message. An event that is none of these,
 * and a member that is not known, are ignored; one that is missing has no value (-1, NaN). */
#ifndef TRINE_REPORT_TIMELINE_H
#define TRINE_REPORT_TIMELINE_H

#include "comm/api/axes.h"
#include "core/instruction.h"

typedef enum { SPAN_STEP, SPAN_INSTRUCTION, SPAN_WAIT, SPAN_COLLECTIVE, SPAN_MESSAGE, SPAN_KINDS } span_kind;

typedef struct {
    span_kind kind;
    int rank;             /* index in timeline.ranks */
    double start, length; /* microseconds, on rank 0's clock */
    int64_t step;         /* of an evaluation: the step before it. Of a collective or message: -1 */
    int64_t number;       /* of a call of its group */
    double bytes, late;   /* late: microseconds in which this rank waited for another one to come */
    int instr;            /* instr_kind; of a wait: for which; -1: none, or an unknown one */
    int unit, micro, peer; /* peer: index in timeline.ranks */
    trine_group group;    /* TRINE_GROUPS: none */
    bool evaluates, unfinished, receives;
} timeline_span;

typedef struct {
    int number;  /* in the world */
    char *name;  /* "rank 3 [pp1 dp0 tp1]: waiting for FORWARD u2 m0 s0 (4 of 14) of step 3"; owned */
    bool placed; /* `at` is known */
    trine_coord at;
    const char *path; /* of the file that has its spans; one of those given. NULL: none has */
} timeline_rank;

/* A message: when its sender began to send, and when its receiver had it. */
typedef struct {
    int from, to; /* indices of timeline.ranks */
    double sent, received;
} timeline_message;

typedef struct {
    timeline_rank *ranks;       /* by number */
    timeline_span *spans;       /* by rank, start, and length, the longest first */
    timeline_message *messages; /* by time of sending */
    int64_t span_count, message_count;
    int rank_count;
    double clock_error; /* microseconds; NaN: unknown */
    char *why, *kind;   /* of the last file that says it; owned, NULL: none does */
    char *layout;       /* as a log's; of all files that say it; owned, NULL: none does */
} timeline;

/* Destroy *t with timeline_destroy, on failure as well; `paths` outlives it. Errors: TRINE_EDATA begins with the path
 * and names the byte, or the other file where two are not of one run: both have spans of a rank, or their layouts
 * differ; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status timeline_read(timeline *t, const char *const *paths, int count);
void timeline_destroy(timeline *t);

/* Whether a file begins as a trace does, not as a log. Not collective. */
bool timeline_is_trace(const char *path);

#endif
