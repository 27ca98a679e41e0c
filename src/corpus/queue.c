#include "corpus/queue.h"

#include "base/clock.h"

void queue_init(queue *q, size_t budget) {
    *q = (queue){.budget = budget};
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    clock_cond_init(&q->done);
    pthread_cond_init(&q->room, NULL);
}

void queue_free(queue *q) {
    for (job *j = q->head, *next; j; j = next) {
        next = j->next;
        job_destroy(j);
    }
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->done);
    pthread_cond_destroy(&q->room);
}

bool queue_hold(queue *q, size_t bytes) {
    pthread_mutex_lock(&q->lock);
    while (!atomic_load(&q->stop) && q->head && q->held + bytes > q->budget)
        pthread_cond_wait(&q->room, &q->lock);
    q->held += bytes;
    pthread_mutex_unlock(&q->lock);
    return !atomic_load(&q->stop);
}

void queue_push(queue *q, job *j) {
    pthread_mutex_lock(&q->lock);
    j->next = NULL;
    *(q->head ? &q->tail->next : &q->head) = j;
    q->tail = j;
    if (!q->untaken) q->untaken = j;
    q->ended = j->kind == JOB_END;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->lock);
}

job *queue_take(queue *q) {
    pthread_mutex_lock(&q->lock);
    while (!q->untaken && !q->ended && !atomic_load(&q->stop))
        pthread_cond_wait(&q->work, &q->lock);
    job *j = atomic_load(&q->stop) ? NULL : q->untaken;
    if (j) q->untaken = j->next;
    if (!q->untaken && q->ended) pthread_cond_broadcast(&q->work);
    pthread_mutex_unlock(&q->lock);
    return j;
}

void queue_done(queue *q, job *j) {
    pthread_mutex_lock(&q->lock);
    j->done = true;
    pthread_cond_signal(&q->done);
    pthread_mutex_unlock(&q->lock);
}

job *queue_next(queue *q) {
    struct timespec until = clock_ahead(CLOCK_MONOTONIC, 0.1);
    pthread_mutex_lock(&q->lock);
    int waited = 0;
    while (!waited && !(q->head && q->head->done))
        waited = pthread_cond_timedwait(&q->done, &q->lock, &until);
    job *j = q->head && q->head->done ? q->head : NULL;
    if (j) q->head = j->next;
    if (!q->head) pthread_cond_signal(&q->room);
    pthread_mutex_unlock(&q->lock);
    return j;
}

void queue_release(queue *q, size_t bytes) {
    pthread_mutex_lock(&q->lock);
    q->held -= bytes;
    pthread_cond_signal(&q->room);
    pthread_mutex_unlock(&q->lock);
}

void queue_stop(queue *q) {
    atomic_store(&q->stop, true);
    pthread_mutex_lock(&q->lock);
    pthread_cond_broadcast(&q->work);
    pthread_cond_broadcast(&q->room);
    pthread_mutex_unlock(&q->lock);
}
