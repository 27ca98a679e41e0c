/* The primitives that bench/comm.c measures: each as Trine does it, as the MPI library does it, and
 * what its result must be.
 *
 * Every rank has a source, filled with pattern_of_rank once and never written, and a destination;
 * both hold the whole, and a primitive uses the part of them that is its business. Out of place, fp32,
 * sums, root 0. Sizes and rates are those of nccl-tests (its PERFORMANCE.md): S is the whole, algbw =
 * S / time, and busbw = algbw * bus, where bus is chosen so that busbw is what a link would carry,
 * whatever the number of ranks.
 * Invariant: both sides of a row do the same on buffers of the same size.
 * Cost: the calls themselves. MPI's own errors end the job (its default handler). */
#ifndef TRINE_BENCH_COMM_OPS_H
#define TRINE_BENCH_COMM_OPS_H

#include "trine.h"

typedef struct {
    trine_comm *comm; /* over all ranks of MPI_COMM_WORLD, in their order */
    int rank, ranks;
    size_t count; /* elements of the whole */
    const float *src;
    float *dst;
} op_call;

typedef struct {
    const char *name;
    bool split;   /* the number of ranks divides the count */
    bool empty;   /* moves no data: one row without a size */
    double share; /* of a call's time that is reported: a ping-pong is two messages */
    const char *bus_text;
    double (*bus)(int ranks);
    /* Bytes that cores must read and write, of all ranks together, in units of S. */
    double (*touched)(int ranks);
    trine_status (*trine)(const op_call *c);
    void (*mpi)(const op_call *c);
    /* Which part of whose pattern the destination is; see op_check. */
    struct op_result (*result)(const op_call *c);
} op;

/* `pieces` pieces of `piece` elements: piece j is elements [first, first + piece) of the pattern of
 * rank from + j, or of the sum. */
typedef struct op_result {
    size_t pieces, piece, first;
    int from;
    bool sum;
} op_result;

extern const op ops[];
extern const int op_count;

/* Makes the destination such that nothing in it is right. Not collective. */
void op_spoil(const op_call *c);
/* Whether the destination holds the result, to the bit. Errors: TRINE_EDATA, naming the first element
 * that is wrong; `who` ("Trine", "MPI") stands in the message. Not collective. */
trine_status op_check(const op *o, const op_call *c, const char *who);

#endif
