/* Times of one primitive at one size, as Trine does it and as the MPI library does it, in turn: a busy
 * machine then slows both.
 *
 * A batch is a barrier, k calls and a barrier; its time is the slowest rank's, divided by k. (Back to back, the
 * root of a broadcast may be some calls ahead of who receives; `apart` puts a barrier between the
 * calls.) k is found for each side, so that a batch takes about its share of the time that a row may
 * take. Reported are median, least and largest of the batches. Before anything is timed each side makes one call into a spoilt
 * destination, and its result is checked.
 * Invariant: all ranks make the same calls in the same order: what k depends on is agreed first.
 * Collective over: the world, all of it. */
#ifndef TRINE_BENCH_COMM_MEASURE_H
#define TRINE_BENCH_COMM_MEASURE_H

#include "comm_ops.h"

typedef enum {
    SIDE_TRINE, /* on memory of the mesh */
    SIDE_MPI,   /* on memory of malloc */
    SIDE_PLAIN, /* Trine on memory of malloc */
    SIDE_COPY,  /* memcpy: every rank the whole, for itself */
    SIDE_TRIAD, /* dst = src + 3 third: the same */
    SIDES
} side;

typedef struct {
    double median, min, max; /* seconds of one call */
} timing;

/* Memory of one rank, each (capacity) elements. */
typedef struct {
    float *window_src, *window_dst; /* of the mesh */
    float *plain_src, *plain_dst;   /* of malloc */
} buffers;

typedef struct {
    trine_comm *comm;
    int rank, ranks;
    const buffers *memory;
    int batches;
    double seconds; /* for one side of one row, about */
    bool apart;     /* a barrier before every call, outside its time */
} measurement;

/* times (SIDES): of the sides that are set in `sides` (bit 1 << side); the others are left alone. `o`
 * is NULL when no side needs it. Errors: TRINE_EDATA for a wrong result; what the calls raise. */
trine_status measure(const measurement *m, const op *o, size_t count, unsigned sides, timing *times);

#endif
