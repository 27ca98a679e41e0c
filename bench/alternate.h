/* Jobs that are measured in turns: each is a trainer on its ranks, alive all the time, and computes
 * only when it is told to. So two layouts can be compared step by step on a machine whose speed
 * changes from minute to minute, and none of them pays for starting twice.
 *
 * This program listens on a socket in a directory of its own; every rank of a job (alternate_rank.c,
 * started through tools/mpirun.sh, or alone) connects, says who it is, and then answers orders
 * until it is told to end or its end of the socket closes. Between orders a rank sleeps in a read,
 * not in MPI. Invariant: when a job cannot start, or dies, that is seen and is an error; when this
 * program dies, its jobs end. Cost: a message to each rank and back an order, outside the measured
 * time. */
#ifndef TRINE_BENCH_ALTERNATE_H
#define TRINE_BENCH_ALTERNATE_H

#include "bench.h"
#include "core/spec.h"

/* What goes over the socket. */
typedef struct {
    int32_t rank, threads;
} alternate_hello;
typedef enum {
    ALTERNATE_END,
    ALTERNATE_STEPS, /* `count` steps: value[0] = their seconds, by this rank's clock */
    ALTERNATE_UNITS, /* forward and backward pass of one micro-batch through an embedding, a block and
                    the head: value[i] = median seconds of `count` runs. One rank only */
    ALTERNATE_SAVE,  /* a checkpoint in folder ALTERNATE_FOLDER beside the socket, verified: value[0] = its
                    seconds, value[1] = bytes by which this rank's resident memory grew for it */
    ALTERNATE_LOAD   /* the newest one from there, verified: value[0] = its seconds */
} alternate_kind;
#define ALTERNATE_FOLDER "checkpoint"
typedef struct {
    int32_t kind, count;
} alternate_order;
#define ALTERNATE_VALUES 3
typedef struct {
    double value[ALTERNATE_VALUES];
} alternate_answer;

/* Which of the values is about a unit, where the values are the seconds of units: 0 reads tokens, 2 makes the
 * loss, 1 is between. Pure. */
int alternate_role(const program_spec *spec, int unit);

typedef struct turns turns;
typedef struct alternate_job alternate_job;

/* Listens in `dir`, which is owned by the caller. Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status alternate_open(turns **t, const char *dir);
void alternate_close(turns **t);

/* Starts the configured trainer on as many ranks as its layout has (one: without mpirun) and
 * returns when all of them are ready. One job is started at a time. Errors: TRINE_EIO when it
 * cannot be started, or ends before. *j is owned by the caller. */
trine_status alternate_start(alternate_job **j, turns *t, const trine_config *config);
/* Gives an order to all ranks; answer: the largest value of any rank, one by one.
 * Errors: TRINE_EIO when a rank has died. */
trine_status alternate_give(alternate_job *j, alternate_order order, alternate_answer *answer);
/* Threads of all ranks together. */
int alternate_threads(const alternate_job *j);
/* Ends the job and waits for it. */
void alternate_end(alternate_job **j);

/* One after the other, `reps` times `steps` steps of each of two jobs, after one warm turn; seconds
 * of one step. */
trine_status alternate_race(alternate_job *a, alternate_job *b, int reps, int steps, bench_samples *sa,
                        bench_samples *sb);

/* alternate_race of one step between two jobs that are started for it. Errors: those of alternate_start and
 * alternate_give. */
trine_status alternate_compare(turns *t, const trine_config *a, const trine_config *b, int reps,
                           bench_samples *sa, bench_samples *sb);

/* For alternate_rank.c: the whole of a message, or TRINE_EIO. */
trine_status alternate_read(int fd, void *message, size_t bytes);
trine_status alternate_write(int fd, const void *message, size_t bytes);

#endif
