/* What a rank measures, with the library's own operators and messages: they are what training uses.
 *
 * All ranks measure at once, as they compute at once in a step: memory is then shared as it will be,
 * and a processor that two ranks share shows. Pairs of nodes take turns like teams: in each round every
 * node is in one pair, so that all links are busy at a time, and n nodes need n - 1 rounds. */
#ifndef TRINE_DOCTOR_PROBE_H
#define TRINE_DOCTOR_PROBE_H

#include "doctor/doctor.h"

/* Rounds of pairs, at most: more nodes are measured in as many rounds, evenly chosen of theirs. */
#define PROBE_ROUNDS 127

/* Fills in matmul, share and triad: each is the best of LIMIT_RUNS runs (profile/limits.h) which take
 * `seconds` together. `d` is this rank's device; NULL: it has none, and measures nothing.
 * Errors: TRINE_ENOMEM, TRINE_EMATH, on every rank alike. Collective over: the mesh's world. */
trine_status measure_rates(doctor_rank *own, trine_world *world, const trine_mesh *mesh, device *d,
                           double seconds);

/* Fills in shm_latency, on the first two ranks of a node. Errors: TRINE_ENOMEM, TRINE_EMPI. Collective
 * over: world. */
trine_status measure_inside(doctor_rank *own, const trine_mesh *mesh, double seconds);

/* *pairs (owned by the caller, *count of them, on world rank 0; NULL elsewhere) = the pairs of nodes. A
 * round takes about seconds / 12, or more where there are few. Errors: TRINE_ENOMEM, TRINE_EMPI.
 * Collective over: world. */
trine_status measure_pairs(doctor_pair **pairs, int *count, trine_world *world,
                           const trine_mesh *mesh, double seconds);

/* Fills in clock_offset and clock_error of the lowest rank of each node: rank 0 is asked for the time of
 * day a few times, and the answer that came back first counts, with half its way as the error. Errors:
 * TRINE_EMPI. Collective over: world. */
trine_status measure_clocks(doctor_rank *own, const trine_mesh *mesh);

/* Who is node `node`'s partner in `round` (0 to nodes - 1, or nodes - 2 if nodes is even), -1: nobody. In
 * all rounds together every node meets every other once. Pure. */
int measure_partner(int nodes, int round, int node);

#endif
