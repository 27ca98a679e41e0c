/* What passes from the reader through an encoder to the writer of a corpus: some bytes, then their tokens. */
#ifndef TRINE_CORPUS_JOB_H
#define TRINE_CORPUS_JOB_H

#include "base/status.h"
#include "corpus/corpus.h"

typedef enum {
    JOB_TEXTS, /* whole documents, one after the other */
    JOB_LINES, /* whole JSON lines */
    JOB_PART,  /* a part of one document, and what follows it there */
    JOB_END    /* no bytes: the inputs end, or the reader found a fault */
} job_kind;

/* A document of JOB_TEXTS. */
typedef struct {
    const char *name;
    size_t end; /* in the job's text */
} job_text;

typedef struct job {
    job_kind kind;
    char *text; /* owned */
    size_t bytes;
    size_t charge; /* of the budget */

    job_text *texts; /* owned; JOB_TEXTS */
    size_t text_count, text_capacity;
    const char *name; /* of the input: JOB_LINES, JOB_PART */
    uint64_t line;    /* JOB_LINES: the number of the first one */
    size_t cut;       /* JOB_PART: bytes of the part; the rest is what follows */
    bool first, last; /* JOB_PART: of its document */

    token_list ids; /* owned */
    size_t *ends;   /* owned: where documents end in ids */
    size_t end_count, end_capacity;
    bool holds; /* JOB_PART: the cut does */
    corpus_counts counts;
    trine_status status;
    status_trail trail; /* if the status is an error */

    bool done;
    struct job *next;
} job;

/* NULL: no memory. */
job *job_create(job_kind kind);
void job_destroy(job *j);

/* Appends a document of JOB_TEXTS; its bytes are already in the text. Errors: TRINE_ENOMEM. */
trine_status job_add_text(job *j, const char *name, size_t bytes);

/* Keeps the calling thread's error in the job, if the status is one. */
void job_keep(job *j, trine_status status);

/* Joins a part whose cut does not hold with the part after it; `b` is destroyed, its result discarded. Errors:
 * TRINE_ENOMEM. */
trine_status job_join(job *a, job *b);

/* Encodes the job's documents; the result is in the job, as is an error. Jobs of one encoder, and of one counter, are
 * encoded by one thread. e NULL: bytes are tokens. c not NULL: the words of texts are counted, and no tokens made. */
void job_encode(job *j, encoder *e, word_counter *c, const corpus_settings *s);

/* Takes back the words of a part that has been counted, and is to be joined with the one before it: some of them are
 * others there. Errors: as word_counter_part. */
trine_status job_take_back(const job *j, encoder *e, word_counter *c);

/* Bytes of a part of at most `limit` bytes of a text that has more; at least 1. Of several places near the limit it
 * is the last at which a cut holds, as far as some bytes before it tell: where tokens reach across line breaks and
 * spaces, most cuts do not. e NULL: the limit. Cost: a part of some KiB for each try; most often there is one. */
size_t job_cut(encoder *e, const char *text, size_t bytes, size_t limit);

#endif
