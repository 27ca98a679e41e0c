/* What a rank hands to its groups in one run of a program, counted from the program without running
 * it: what --dry-run prints and what the tallies of comm/ must equal to the byte (tests/zero).
 * Bytes are those of trine_tally. */
#ifndef TRINE_RUN_TRAFFIC_H
#define TRINE_RUN_TRAFFIC_H

#include "state/state.h"

typedef struct {
    uint64_t gather, reduce; /* dp: GATHER and REDUCE */
    uint64_t tp;             /* inside the layers */
    uint64_t act, grad;      /* to the next stage, to the stage before */
    uint64_t tie;
    uint64_t norm; /* dp, tp and pp together */
} traffic;

/* `h` needs no memory (state_create is enough). Pure. */
traffic traffic_of(const rank_state *h, const program *p);

#endif
