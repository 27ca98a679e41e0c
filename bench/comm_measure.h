/* Times of one primitive at one size, by Trine and by the MPI library alternately, so that a busy machine slows
 * both.
 *
 * A batch is a barrier, k calls and a barrier; its time is the slowest rank's, divided by k. (Back to back, the
 * root of a broadcast may be some calls ahead of the receivers; `apart` puts a barrier between the calls.) k is
 * chosen for each side, so that a batch takes about its share of the target time of a row. Median, minimum and
 * maximum of the batches are reported. Before timing, each side makes one call into an overwritten destination, and
 * its result is checked.
 * Invariant: all ranks make the same calls in the same order: they agree on k first.
 * Collective over: the world. */
#ifndef TRINE_BENCH_COMM_MEASURE_H
#define TRINE_BENCH_COMM_MEASURE_H

#include "comm_ops.h"

typedef enum {
    SIDE_TRINE, /* on memory of the mesh */
    SIDE_MPI,   /* on memory from malloc */
    SIDE_PLAIN, /* Trine on memory from malloc */
    SIDE_COPY,  /* memcpy: every rank copies the full buffer */
    SIDE_TRIAD, /* dst = src + 3 third, likewise */
    SIDES
} side;

typedef struct {
    double median, min, max; /* seconds of one call */
} timing;

/* Memory of one rank, each (capacity) elements. */
typedef struct {
    float *window_src, *window_dst; /* from the mesh */
    float *plain_src, *plain_dst;   /* from malloc */
} buffers;

typedef struct {
    trine_comm *comm;
    int rank, ranks;
    const buffers *memory;
    int batches;
    double seconds; /* target time of one side of one row */
    bool apart;     /* a barrier before every call, outside of its time */
} measurement;

/* times (SIDES): set for the sides in `sides` (bit 1 << side), unchanged for others. `o` may be NULL if no side needs
 * it. Errors: TRINE_EDATA for a wrong result; those of the calls. */
trine_status measure(const measurement *m, const op *o, size_t count, unsigned sides, timing *times);

#endif
