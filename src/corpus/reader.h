/* The thread that reads the inputs of a corpus and makes jobs of them. */
#ifndef TRINE_CORPUS_READER_H
#define TRINE_CORPUS_READER_H

#include "corpus/queue.h"

typedef struct {
    queue *q;
    const inputs *in;
    const corpus_settings *s;
    encoder *e;              /* to try cuts; NULL: bytes are tokens */
    _Atomic uint64_t *taken; /* as in corpus_counts */
    job *end;                /* the job that ends the queue; has the reader's error, if any */
    job *batch;              /* whole texts that are not in the queue yet */
} reader;

/* Reads everything, unless the queue is stopped; pushes `end` last. */
void reader_run(reader *r);

#endif
