/* The output of bench/comm.c: the job, the copy limit, a table for each primitive, and a summary that compares with
 * the targets of the collectives.
 *
 * Keys of the tables in the file: "job", "copy", the name of each primitive, "summary". Rates are
 * in 1e9 bytes a second, times on the terminal in microseconds, in the file also in seconds.
 * Invariant: the summary does not affect the exit status.
 * Cost: negligible. Rows are kept for the summary. */
#ifndef TRINE_BENCH_COMM_REPORT_H
#define TRINE_BENCH_COMM_REPORT_H

#include "bench.h"
#include "comm_measure.h"

typedef struct {
    const op *op;
    size_t bytes; /* S; 0 if the primitive moves no data */
    size_t count;
    timing times[SIDES]; /* trine, mpi, and plain if measured */
    double bound;        /* seconds that the cores need for the bytes they must read and write */
} comm_row;

typedef struct {
    bench_report *report;
    int ranks;
    bool plain;
    comm_row *rows; /* (capacity), owned by the caller */
    int count, capacity;
} comm_report;

/* How the job was run, as texts. */
typedef struct {
    const char *transport, *asked; /* the group's transport, and the option's */
    const char *calls;             /* "together", or "apart" with a barrier between calls */
    const char *heap;              /* "default", or "kept" if freed memory stays in the process */
} comm_job;

/* Prints the units, how the job was run, and the settings of the MPI library. */
void comm_report_job(comm_report *r, const comm_job *job);
void comm_report_copy_table(comm_report *r);
void comm_report_copy(comm_report *r, size_t bytes, const timing *times);
void comm_report_table(comm_report *r, const op *o);
void comm_report_row(comm_report *r, const comm_row *row);
void comm_report_summary(comm_report *r);

#endif
