/* Where the time of traced steps went, and who waited for whom.
 *
 * A call of a group begins when its last rank comes: until then the others wait for that rank. A receive waits for
 * its sender until that begins to send. Everything else is the rank's own: instructions, transfers, the time
 * between. Only complete training steps count; where there is none (a run that hung), all there is. */
#ifndef TRINE_REPORT_DELAYS_H
#define TRINE_REPORT_DELAYS_H

#include "report/timeline.h"

/* The parts of a rank's time; they add up to the steps. */
#define DELAY_LIST(X)                                                                                              \
    X(DELAY_FORWARD, "forward")                                                                                    \
    X(DELAY_BACKWARD, "backward")                                                                                  \
    X(DELAY_UPDATE, "update, norm") /* and other instructions */                                                    \
    X(DELAY_CALLS, "communication") /* collectives and messages in progress */                                     \
    X(DELAY_LATE, "waiting for a late rank")                                                                       \
    X(DELAY_WAITS, "other waits")                                                                                  \
    X(DELAY_REST, "between instructions")

typedef enum {
#define DELAY_ENUM(name, text) name,
    DELAY_LIST(DELAY_ENUM)
#undef DELAY_ENUM
        DELAY_PARTS
} delay_part;

typedef struct {
    double part[DELAY_PARTS]; /* microseconds */
    double steps;             /* their sum */
    double caused;            /* others waited for this rank */
    int waiters;              /* so many of them */
    double own;               /* its instructions without the calls in them */
} delay_rank;

typedef struct {
    delay_rank *ranks; /* (timeline.rank_count) */
    double *pairs;     /* (rank_count, rank_count): who waited, for whom */
    int steps;         /* complete ones of the first rank that has any; 0: there is none */
    double bubble;     /* the share of the time in which no pass of the model ran, between the first and the last pass
                          of a step, over all ranks; NaN: no passes */
} delays;

/* Also sets the spans' `late`. Destroy *d with delays_destroy. Errors: TRINE_ENOMEM. Not collective. */
trine_status delays_of(timeline *t, delays *d);
void delays_destroy(delays *d);

/* "forward". Pure. */
const char *delay_text(delay_part part);

#endif
