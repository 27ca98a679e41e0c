/* What the programs that read a corpus say: the line of a terminal while they do, and lines of what was special. */
#ifndef TRINE_CORPUS_CORPUS_REPORT_H
#define TRINE_CORPUS_CORPUS_REPORT_H

#include "corpus/corpus.h"

typedef struct {
    const inputs *in; /* not owned */
    const char *unit; /* of corpus_counts.tokens: "tokens" */
    uint64_t began;   /* clock_ns */
} report_watch;

report_watch report_begin(const inputs *in, const char *unit);
/* Since it began; greater than 0. */
double report_seconds(const report_watch *w);

/* For corpus_watch; context: a report_watch. */
trine_status report_tick(void *context, const corpus_counts *c);

/* On standard output, if there are any: "left out: 3 empty documents"; bytes that became U+FFFD. */
void report_left_out(const char *what, uint64_t count);
void report_replaced(const corpus_counts *c);

/* On standard error: Hugging Face's tokenizers may cut these characters in another way. */
void report_newer(const newer_chars *n);

/* Processors that this process may use; at least 1. */
int report_processors(void);

#endif
