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

/* What the numbers mean, and what transport and MPI library were told. calls: "together", or "apart"
 * when a barrier stands between them. */
void comm_report_job(comm_report *r, const char *transport, const char *asked, const char *calls);
void comm_report_copy_table(comm_report *r);
void comm_report_copy(comm_report *r, size_t bytes, const timing *times);
void comm_report_table(comm_report *r, const op *o);
void comm_report_row(comm_report *r, const comm_row *row);
void comm_report_summary(comm_report *r);

#endif
