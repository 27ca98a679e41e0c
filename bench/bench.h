/* What the benchmark programs share: a clock, samples with their median, and a report, which is a
 * table on the terminal and the same numbers as JSON.
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
 * "skipped": [...]}; a row is an object with the columns' keys. Numbers have 17 digits there; what
 * is not finite is "-" in the table and null in the file. A quiet report prints and writes nothing,
 * so that all ranks of a job may make the same calls.
 * Invariant: a number in the table is in the file; nothing is judged, no time fails a program. */
#ifndef TRINE_BENCH_BENCH_H
#define TRINE_BENCH_BENCH_H

#include "trine.h"

/* ---- Time ---- */

/* Seconds on a clock that never goes back. */
double bench_now(void);

/* ---- Samples ---- */

#define BENCH_SAMPLES 1024

typedef struct {
    int count;
    double value[BENCH_SAMPLES];
} bench_samples;

/* Keeps one more; further ones than BENCH_SAMPLES take the places of the first. */
void bench_add(bench_samples *s, double value);
/* The middle value (of an even number, the mean of the two); NAN without samples. */
double bench_median(const bench_samples *s);
/* NAN without samples. */
double bench_min(const bench_samples *s);
double bench_max(const bench_samples *s);

/* ---- The report ---- */

typedef struct bench_report bench_report;

#define BENCH_TEXT (-1)

typedef struct {
    const char *key, *title; /* in the file, and on the terminal; no title: in the file only */
    int width;               /* on the terminal; titles that are longer widen it */
    int decimals;            /* of a number, or BENCH_TEXT */
} bench_column;

/* What the column says is used. */
typedef struct {
    const char *text;
    double number;
} bench_cell;

typedef enum { BENCH_LOUD, BENCH_QUIET } bench_voice; /* one rank of a job is loud */

/* Starts a report and prints what it is about: the machine, and `threads` (of all ranks together).
 * json: the file, written when the report is closed; NULL: none. *r is owned by the caller.
 * Errors: TRINE_ENOMEM; TRINE_EIO when the file cannot be written. */
trine_status bench_report_open(bench_report **r, const char *name, const char *json, int threads,
                               bench_voice voice);
/* Starts a table: rows belong to it until the next one starts. columns is borrowed. title NULL: no
 * heading and no titles, the columns go on as above. */
void bench_table(bench_report *r, const char *key, const char *title, const bench_column *columns,
                 int count);
/* One cell for each column. */
void bench_row(bench_report *r, const bench_cell *cells);
/* One number under "figures". Prints nothing: say it with bench_note, in words. */
void bench_figure(bench_report *r, const char *key, double value);
/* One word or two under "machine". Prints nothing. */
void bench_fact(bench_report *r, const char *key, const char *text);
/* A line for the reader. */
void bench_note(bench_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says that something is not measured here, and why: printed, and under "skipped" in the file. */
void bench_skip(bench_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the file and frees the report; *r becomes NULL. Errors: TRINE_ENOMEM, TRINE_EIO. */
trine_status bench_report_close(bench_report **r);
/* Frees without writing. */
void bench_report_drop(bench_report **r);

/* ---- The end of main ---- */

/* The program's exit status; prints the error trail if there is one. 2: the device is not there. */
int bench_exit(trine_status status);

#endif
