/* The primitives that bench/comm.c measures: each by Trine and by the MPI library, and the expected result.
 *
 * Every rank has a source, filled with pattern_of_rank once and never written, and a destination, both of the full
 * size; a primitive may use only a part of them. Out of place, fp32, sums, root 0. Sizes and rates are those of
 * nccl-tests (its PERFORMANCE.md): S is the full size, algbw = S / time, and busbw = algbw * bus, where bus is chosen
 * so that busbw is what a link would carry, whatever the number of ranks.
 * Invariant: both sides of a row do the same on buffers of the same size.
 * Cost: the calls themselves. Errors of MPI abort the job (its default handler). */
#ifndef TRINE_BENCH_COMM_OPS_H
#define TRINE_BENCH_COMM_OPS_H

#include "trine.h"

typedef struct {
    trine_comm *comm; /* over all ranks of MPI_COMM_WORLD, in their order */
    int rank, ranks;
    size_t count; /* elements of the full buffer */
    const float *src;
    float *dst;
} op_call;

typedef struct {
    const char *name;
    bool split;   /* the count must be divisible by the number of ranks */
    bool empty;   /* moves no data: one row without a size */
    double share; /* fraction of a call's time that is reported: a ping-pong is two messages */
    const char *bus_text;
    double (*bus)(int ranks);
    /* Bytes that the cores of all ranks must read and write, in units of S. */
    double (*touched)(int ranks);
    trine_status (*trine)(const op_call *c);
    void (*mpi)(const op_call *c);
    /* The expected destination; see op_check. */
    struct op_result (*result)(const op_call *c);
} op;

/* `parts` parts of `part` elements: part j is elements [first, first + part) of the pattern of
 * rank from + j, or of the sum. */
typedef struct op_result {
    size_t parts, part, first;
    int from;
    bool sum;
} op_result;

extern const op ops[];
extern const int op_count;

/* Fills the destination with NaN. Not collective. */
void op_spoil(const op_call *c);
/* Checks that the destination equals the result to the bit. Errors: TRINE_EDATA, naming the first wrong element;
 * `who` ("Trine", "MPI") is part of the message. Not collective. */
trine_status op_check(const op *o, const op_call *c, const char *who);

#endif
