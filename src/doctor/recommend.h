/* How many ranks and threads a node should have for training, and the line that starts them. Pure: a node's cores in,
 * a recommendation out, so that tests can feed it any node.
 *
 * A rank's threads wait for each other after each operator and read the same weights, so they should share a cache
 * and a memory; each further rank costs memory and takes part in every sum. Hence a rank for each last-level cache,
 * or for neighbouring ones of a NUMA domain until they have RECOMMEND_CORES cores; else for each NUMA domain; else
 * one rank. */
#ifndef TRINE_DOCTOR_RECOMMEND_H
#define TRINE_DOCTOR_RECOMMEND_H

#include "doctor/doctor.h"

/* Cores of a rank, at least, where a NUMA domain is divided. */
#define RECOMMEND_CORES 8

/* Where a physical core lies: numbers that are equal for cores of one NUMA domain, or of one last-level cache. */
typedef struct {
    int numa, cache;
} core_place;

/* The part of a node that a job may use. */
typedef struct {
    const core_place *cores; /* (count), in any order */
    int count;
    double quota;             /* processors that the control group allows at a time; 0: all */
    uint64_t memory, wanted;  /* bytes that are free, and that a rank needs; wanted 0: unknown */
} node_cores;

/* Fills *best for a node of at least one core. Pure. */
void recommend(recommendation *best, const node_cores *node);

/* Why: "a rank for each of 16 last-level caches". Returns text. Pure. */
const char *recommend_reason(char *text, size_t size, const recommendation *r);

/* The arguments that start it on `nodes` nodes, in front of the program, by the launcher of the MPI whose own text
 * about itself is `mpi`; "" for an MPI that is not known here. Returns text. Pure. */
const char *recommend_launch(char *text, size_t size, const recommendation *r, const char *mpi, int nodes);
/* The same by srun: Open MPI's ranks find each other by PMIx, for which it has to be asked. */
const char *recommend_srun(char *text, size_t size, const recommendation *r, const char *mpi, int nodes);

#endif
