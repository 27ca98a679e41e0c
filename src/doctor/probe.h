/* Measurements with the library's own operators and messages, which are those of training.
 *
 * All ranks measure at once, as they compute at once in a step: they share the memory bandwidth as they
 * will in training, and a processor that two ranks share shows. Pairs of nodes are scheduled in rounds,
 * each node in one pair of a round, so that all links are busy at a time; n nodes need n - 1 rounds. */
#ifndef TRINE_DOCTOR_PROBE_H
#define TRINE_DOCTOR_PROBE_H

#include "doctor/doctor.h"

/* Rounds of pairs, at most: with more nodes so many rounds are measured, evenly chosen. */
#define PROBE_ROUNDS 127

/* Fills in matmul, share and triad: each is the best of LIMIT_RUNS runs (profile/limits.h), which together
 * take `seconds`. `d` is this rank's device; NULL: none, and nothing is measured. Errors: TRINE_ENOMEM,
 * TRINE_EMATH, on every rank alike. Collective over: the mesh's world. */
trine_status measure_rates(doctor_rank *own, trine_world *world, const trine_mesh *mesh, device *d,
                           double seconds);

/* Fills in shm_latency, on the first two ranks of a node. Errors: TRINE_ENOMEM, TRINE_EMPI. Collective
 * over: world. */
trine_status measure_inside(doctor_rank *own, const trine_mesh *mesh, double seconds);

/* *pairs (owned by the caller, *count of them, on world rank 0; NULL elsewhere) = the pairs of nodes. A
 * round takes about seconds / 12, or longer with few rounds. Errors: TRINE_ENOMEM, TRINE_EMPI. Collective
 * over: world. */
trine_status measure_pairs(doctor_pair **pairs, int *count, trine_world *world,
                           const trine_mesh *mesh, double seconds);

/* Fills in clock_offset and clock_error of the lowest rank of each node: it asks rank 0 for the time of day
 * several times, and the fastest answer counts; its error is half the round trip. Errors: TRINE_EMPI.
 * Collective over: world. */
trine_status measure_clocks(doctor_rank *own, const trine_mesh *mesh);

/* The partner of node `node` in `round` (0 to nodes - 1, or nodes - 2 if nodes is even); -1: none. In all
 * rounds together every node meets every other once. Pure. */
int measure_partner(int nodes, int round, int node);

#endif
