/* Shared by the benchmark programs: a clock, samples with their median, and a report: tables on the terminal and the
 * same numbers as JSON.
 *
 *     bench_report *r;
 *     TRY(bench_report_open(&r, "matmul", json, threads));
 *     static const bench_column columns[] = {{"shape", "shape", 20, BENCH_TEXT},
 *                                            {"ms", "ms", 9, 2}};
 *     bench_table(r, "products", "Products of a block", columns, 2);
 *     bench_row(r, (bench_cell[]){{.text = "2048 x 768"}, {.number = 1e3 * seconds}});
 *     bench_figure(r, "gflops", gflops);
 *     TRY(bench_report_close(&r));
 *
 * The file is {"bench", "trine", "machine": {...}, "tables": {key: [row, ...]}, "figures": {...},
 * "skipped": [...]}; a row is an object with the columns' keys. Numbers have 17 digits there; values that
 * are not finite are "-" in the table and null in the file. A quiet report prints and writes nothing,
 * so that all ranks of a job can make the same calls.
 * Invariant: every number in a table is in the file; no time makes a program fail. */
#ifndef TRINE_BENCH_BENCH_H
#define TRINE_BENCH_BENCH_H

#include "trine.h"

/* ---- Time ---- */

/* Seconds of a monotonic clock. */
double bench_now(void);

/* ---- Samples ---- */

#define BENCH_SAMPLES 1024

typedef struct {
    int count;
    double value[BENCH_SAMPLES];
} bench_samples;

/* Adds a sample; after BENCH_SAMPLES the oldest are overwritten. */
void bench_add(bench_samples *s, double value);
/* The median (of an even number, the mean of the middle two); NAN without samples. */
double bench_median(const bench_samples *s);
/* The value that `share` of the samples, in [0, 1], do not exceed; interpolated. NAN without samples. */
double bench_quantile(const bench_samples *s, double share);
/* NAN without samples. */
double bench_min(const bench_samples *s);
double bench_max(const bench_samples *s);

/* ---- The report ---- */

typedef struct bench_report bench_report;

#define BENCH_TEXT (-1)

typedef struct {
    const char *key, *title; /* in the file, and on the terminal; NULL title: in the file only */
    int width;               /* on the terminal; a longer title widens it */
    int decimals;            /* of a number, or BENCH_TEXT */
} bench_column;

/* The column decides which of the two is used. */
typedef struct {
    const char *text;
    double number;
} bench_cell;

typedef enum { BENCH_LOUD, BENCH_QUIET } bench_voice; /* one rank of a job is loud */

/* Starts a report and prints the machine and `threads` (the sum over all ranks).
 * json: the file, written when the report is closed; NULL: none. *r is owned by the caller.
 * Errors: TRINE_ENOMEM; TRINE_EIO if the file cannot be written. */
trine_status bench_report_open(bench_report **r, const char *name, const char *json, int threads,
                               bench_voice voice);
/* Starts a table: rows belong to it until the next one starts. columns is borrowed. title NULL: prints no
 * heading and no column titles. */
void bench_table(bench_report *r, const char *key, const char *title, const bench_column *columns,
                 int count);
/* One cell for each column. */
void bench_row(bench_report *r, const bench_cell *cells);
/* Adds a number under "figures". Prints nothing; use bench_note for that. */
void bench_figure(bench_report *r, const char *key, double value);
/* Adds a short text under "machine". Prints nothing. */
void bench_fact(bench_report *r, const char *key, const char *text);
/* Prints a line. */
void bench_note(bench_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports what is not measured, and why: printed, and under "skipped" in the file. */
void bench_skip(bench_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the file and frees the report; *r becomes NULL. Errors: TRINE_ENOMEM, TRINE_EIO. */
trine_status bench_report_close(bench_report **r);
/* Frees without writing. */
void bench_report_drop(bench_report **r);

/* ---- The end of main ---- */

/* The program's exit status; prints the error trail if there is one. 2: the device is not available. */
int bench_exit(trine_status status);

#endif
