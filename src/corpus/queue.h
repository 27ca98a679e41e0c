/* The jobs between a reader, encoders and a writer, in order. Any thread may call any function.
 *
 * Invariant: jobs leave in the order in which they came. The bytes that are held stay below the budget, unless the
 * queue is empty: a job that is larger than the budget is alone in it, and a writer that waits for one more job gets
 * it. */
#ifndef TRINE_CORPUS_QUEUE_H
#define TRINE_CORPUS_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "corpus/job.h"

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done, room;
    job *head, *tail; /* oldest and newest */
    job *untaken;     /* the oldest that no encoder has taken */
    size_t held, budget;
    bool ended;
    atomic_bool stop;
} queue;

void queue_init(queue *q, size_t budget);
/* Destroys the jobs, too. No thread uses the queue any more. */
void queue_free(queue *q);

/* The reader is about to hold `bytes` more: waits until there is room. False: told to stop. */
bool queue_hold(queue *q, size_t bytes);
/* Appends a job, which the queue owns; its charge was held before. */
void queue_push(queue *q, job *j);
/* The next job for an encoder; NULL: there will be none. */
job *queue_take(queue *q);
/* An encoder's job is done. */
void queue_done(queue *q, job *j);
/* The oldest job, if it is done within a tenth of a second; owned by the caller. NULL: not yet. */
job *queue_next(queue *q);
/* Bytes are not held any longer. */
void queue_release(queue *q, size_t bytes);
/* All threads end soon. */
void queue_stop(queue *q);

#endif
