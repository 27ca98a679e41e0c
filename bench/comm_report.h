/* What bench/comm.c prints and writes: the job, the copy limit, a table for each primitive, and at the
 * end a summary against what is asked of the collectives.
 *
 * Tables and their keys in the file: "job", "copy", one named as each primitive, "summary". Rates are
 * in 1e9 bytes a second, times on the terminal in microseconds, in the file in seconds too.
 * Invariant: the summary is a statement: whatever it says, the program succeeds.
 * Cost: none worth a word. Rows are kept for the summary. */
#ifndef TRINE_BENCH_COMM_REPORT_H
#define TRINE_BENCH_COMM_REPORT_H

#include "bench.h"
#include "comm_measure.h"

typedef struct {
    const op *op;
    size_t bytes; /* S; 0 for what moves no data */
    size_t count;
    timing times[SIDES]; /* trine, mpi, and plain when that is measured */
    double bound;        /* seconds that the cores need for what they must read and write */
} comm_row;

typedef struct {
    bench_report *report;
    int ranks;
    bool plain;
    comm_row *rows; /* (capacity), owned by the caller */
    int count, capacity;
} comm_report;

/* How the job was run, in words. */
typedef struct {
    const char *transport, *asked; /* the group's own word, and the option's */
    const char *calls;             /* "together", or "apart" when a barrier stands between them */
    const char *heap;              /* "default", or "kept" when freed memory stays with the process */
} comm_job;

/* What the numbers mean, how the job was run, and what the MPI library was told. */
void comm_report_job(comm_report *r, const comm_job *job);
void comm_report_copy_table(comm_report *r);
void comm_report_copy(comm_report *r, size_t bytes, const timing *times);
void comm_report_table(comm_report *r, const op *o);
void comm_report_row(comm_report *r, const comm_row *row);
void comm_report_summary(comm_report *r);

#endif
