#include "comm_measure.h"
#include "base/status.h"
#include "bench.h"

#include <mpi.h>
#include <string.h>

#define MOST_CALLS (1 << 22)

typedef struct {
    const measurement *m;
    const op *op;
    side side;
    op_call call;
} task;

static const char *const names[SIDES] = {"Trine", "MPI", "Trine on plain memory", "memcpy",
                                         "triad"};

/* ---- One call -------------------------------------------------------------------------------- */

/* Not inlined: the compiler must not see that the result is not read. */
static __attribute__((noinline)) void copy(const op_call *c) {
    memcpy(c->dst, c->src, c->count * sizeof *c->dst);
    __asm__ volatile("" ::"r"(c->dst) : "memory");
}

static __attribute__((noinline)) void triad(const op_call *c, const float *third) {
    float *restrict dst = c->dst;
    const float *restrict src = c->src;
    for (size_t i = 0; i < c->count; i++) dst[i] = src[i] + 3 * third[i];
    __asm__ volatile("" ::"r"(dst) : "memory");
}

static trine_status call_once(const task *t) {
    switch (t->side) {
    case SIDE_TRINE:
    case SIDE_PLAIN: return t->op->trine(&t->call);
    case SIDE_MPI: t->op->mpi(&t->call); break;
    case SIDE_COPY: copy(&t->call); break;
    case SIDE_TRIAD: triad(&t->call, t->m->memory->window_src); break;
    case SIDES: break;
    }
    return TRINE_OK;
}

/* Both return this rank's seconds of all calls. The final barrier is a small part of a batch; it includes the
 * slowest rank, also where ranks share a core. */
static trine_status calls_together(const task *t, int calls, double *seconds) {
    double start = bench_now();
    for (int i = 0; i < calls; i++) TRY(call_once(t));
    MPI_Barrier(MPI_COMM_WORLD);
    *seconds = bench_now() - start;
    return TRINE_OK;
}

static trine_status calls_apart(const task *t, int calls, double *seconds) {
    *seconds = 0;
    for (int i = 0; i < calls; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = bench_now();
        TRY(call_once(t));
        *seconds += bench_now() - start;
    }
    return TRINE_OK;
}

/* Seconds of all `calls` on the slowest rank, and of the batch with all its barriers. */
static trine_status batch(const task *t, int calls, double *seconds, double *wall) {
    double own[2] = {0}, slowest[2];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = bench_now();
    TRY((t->m->apart ? calls_apart : calls_together)(t, calls, &own[0]));
    own[1] = bench_now() - start;
    MPI_Allreduce(own, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *seconds = slowest[0];
    *wall = slowest[1];
    return TRINE_OK;
}

/* ---- A row ----------------------------------------------------------------------------------- */

static task task_of(const measurement *m, const op *o, size_t count, side s) {
    bool window = s == SIDE_TRINE;
    const buffers *b = m->memory;
    return (task){.m = m,
                  .op = o,
                  .side = s,
                  .call = {.comm = m->comm,
                           .rank = m->rank,
                           .ranks = m->ranks,
                           .count = count,
                           .src = window ? b->window_src : b->plain_src,
                           .dst = window ? b->window_dst : b->plain_dst}};
}

/* Barriers, because a rank must not overwrite its window while a neighbour still writes to it. */
static trine_status check(const task *t) {
    if (!t->op) return call_once(t);
    op_spoil(&t->call);
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(call_once(t));
    TRY(op_check(t->op, &t->call, names[t->side]));
    MPI_Barrier(MPI_COMM_WORLD);
    return TRINE_OK;
}

/* The faster one of two batches: an interrupted batch must not count as a slow call. */
static trine_status quick_batch(const task *t, int calls, double *wall) {
    double seconds, first;
    TRY(batch(t, calls, &seconds, &first));
    *wall = first;
    if (first <= t->m->seconds / t->m->batches / 4) return TRINE_OK;
    TRY(batch(t, calls, &seconds, wall));
    if (*wall > first) *wall = first;
    return TRINE_OK;
}

/* Finds how many calls take about the target time of a batch. */
static trine_status calibrate(const task *t, int *calls) {
    double wanted = t->m->seconds / t->m->batches, wall = 0;
    for (*calls = 1; *calls < MOST_CALLS; *calls *= 2) {
        TRY(quick_batch(t, *calls, &wall));
        if (wall > wanted / 4) break;
    }
    double fitting = *calls * wanted / wall;
    *calls = fitting < 1 ? 1 : fitting > MOST_CALLS ? MOST_CALLS : (int)fitting;
    return TRINE_OK;
}

/* One call first, because the other side has used the caches; not for a batch of one long call. */
static trine_status sample(const task *t, int calls, bench_samples *samples) {
    double seconds = 0, wall;
    if (calls > 1) TRY(call_once(t));
    TRY(batch(t, calls, &seconds, &wall));
    bench_add(samples, seconds / calls * (t->op ? t->op->share : 1));
    return TRINE_OK;
}

trine_status measure(const measurement *m, const op *o, size_t count, unsigned sides,
                     timing *times) {
    bench_samples samples[SIDES] = {0};
    task tasks[SIDES];
    int calls[SIDES], n = 0;
    for (int s = 0; s < SIDES; s++)
        if (sides & 1u << s) tasks[n++] = task_of(m, o, count, (side)s);
    for (int i = 0; i < n; i++) TRY(check(&tasks[i]));
    for (int i = 0; i < n; i++) TRY(calibrate(&tasks[i], &calls[i]));
    for (int k = 0; k < m->batches; k++)
        for (int i = 0; i < n; i++) TRY(sample(&tasks[i], calls[i], &samples[i]));
    for (int i = 0; i < n; i++)
        times[tasks[i].side] =
            (timing){bench_median(&samples[i]), bench_min(&samples[i]), bench_max(&samples[i])};
    return TRINE_OK;
}
