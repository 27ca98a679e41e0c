/* The bytes that a rank sends in one run of a program, computed without running it. --dry-run prints them; the
 * tallies of comm/ must be equal to the byte (tests/zero). Bytes are counted as in trine_tally. */
#ifndef TRINE_RUN_TRAFFIC_H
#define TRINE_RUN_TRAFFIC_H

#include "state/state.h"

typedef struct {
    uint64_t bytes[INSTR_KINDS];
} traffic;

/* `h` needs no memory (state_create is enough). Pure. */
traffic traffic_of(const rank_state *h, const program *p);

#endif
