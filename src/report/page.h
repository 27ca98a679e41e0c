/* One HTML file of runs, a trace and texts, without references to anything outside: the data as JSON in a script
 * element, and the script that draws them (tools/report/page.js; its first lines have the shape of the data). */
#ifndef TRINE_REPORT_PAGE_H
#define TRINE_REPORT_PAGE_H

#include "report/delays.h"
#include "report/run_log.h"
#include "report/page_sample.h"

typedef struct {
    const char *text;
    size_t bytes;
} page_file;

/* What the program was built with. curves: dygraphs, which draws curves; 0 bytes: it was built without. */
typedef struct {
    page_file script, style, curves, curves_style, curves_licence;
} page_files;

typedef struct {
    run_logs logs;         /* not owned */
    const timeline *trace; /* NULL: none */
    const delays *delays;
    const page_sample *samples; /* [sample_count], not owned */
    size_t sample_count;
    const char *hardware;  /* NULL: none */
    int watch;             /* seconds after which the page loads itself again; 0: never */
} page_subject;

/* Every page has it among its first 1,000 bytes. */
#define PAGE_TITLE "<title>Trine: report</title>"

/* Points of a log that are in the page: of more steps, each bucket of neighbours has those with the least and the
 * most of every number, besides its first and those that were skipped. */
#define PAGE_BUCKETS 700
#define PAGE_STEPS   4000

/* Spans of a trace that are in the page; of more, short neighbours of a kind become one. */
#define PAGE_SPANS 150000

/* Errors: those of planned_print, TRINE_ENOMEM. Those of writing are left to the stream. Not collective. */
trine_status page_print(const page_subject *p, const page_files *files, FILE *out);

/* "trace": {...} of the data: its ranks, spans, messages, delays. */
trine_status page_trace(const timeline *t, const delays *d, FILE *out);

#endif
