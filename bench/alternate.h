/* Benchmark jobs that alternate: each is a trainer on its own ranks, stays alive, and computes only on request. So
 * two layouts can be compared step by step on a machine whose speed changes from minute to minute, and neither
 * starts more than once.
 *
 * This program listens on a socket in a directory of its own. Every rank of a job (alternate_rank.c, started by
 * tools/mpirun.sh, or alone) connects, sends its rank, and answers orders until ALTERNATE_END or until the socket
 * closes. Between orders a rank sleeps in a read, not in MPI. Invariant: a job that cannot start, or dies, is an
 * error; if this program dies, its jobs exit. Cost: one message to each rank and one back for each order, outside of
 * the measured time. */
#ifndef TRINE_BENCH_ALTERNATE_H
#define TRINE_BENCH_ALTERNATE_H

#include "bench.h"
#include "core/spec.h"
#include "passes.h"
#include "sleep_device.h"

/* Messages over the socket. */
typedef struct {
    int32_t rank, threads;
} alternate_hello;
typedef enum {
    ALTERNATE_END,
    ALTERNATE_STEPS, /* `count` steps: value[0] = their seconds, by this rank's clock; value[1] = bytes of the rank
                    that takes the most */
    ALTERNATE_UNITS, /* forward and backward pass of one micro-batch through an embedding, a block and
                    the head: value[i] = median seconds of `count` runs. One rank only */
    ALTERNATE_SAVE,  /* saves and verifies a checkpoint in ALTERNATE_FOLDER, in the socket's folder: value[0] =
                    seconds, value[1] = bytes by which this rank's resident memory grew */
    ALTERNATE_LOAD,  /* loads and verifies the newest one there: value[0] = seconds */
    ALTERNATE_PASSES, /* `count` steps: value[0] = their seconds; passes */
    ALTERNATE_SLEEP  /* one step on a sleep_device (sleep), begun by all ranks at the same time: value[0] = seconds,
                    value[1] = those of its sleeps, value[2] = bytes that the state has taken, value[3] = 1 if the
                    rank could not get real-time priority */
} alternate_kind;
#define ALTERNATE_FOLDER "checkpoint"
typedef struct {
    int32_t kind, count;
    double sleep[SLEEPS]; /* seconds of ALTERNATE_SLEEP's parts */
} alternate_order;
#define ALTERNATE_VALUES 4
typedef struct {
    double value[ALTERNATE_VALUES];
    pass_times passes;
} alternate_answer;

/* The index of a unit in the values of ALTERNATE_UNITS: 0 embedding, 1 block, 2 head. Pure. */
int alternate_role(const program_spec *spec, int unit);

typedef struct alternate_listener alternate_listener;
typedef struct alternate_job alternate_job;

/* Listens on a socket in `dir`, which is owned by the caller. Errors: TRINE_EIO, TRINE_ENOMEM. */
trine_status alternate_open(alternate_listener **t, const char *dir);
void alternate_close(alternate_listener **t);
/* From now on each job writes its first ALTERNATE_TRACED steps as a trace: `path` with the number of the job, from 1,
 * before its ending ("t-1.json"). NULL: none. `path` is kept by reference. Errors: TRINE_EINVAL if it is too long. */
#define ALTERNATE_TRACED 3
trine_status alternate_trace(alternate_listener *t, const char *path);

/* Starts the configured trainer on the ranks of its layout (a single rank without mpirun) and returns when all of
 * them are ready. Only one job may be starting at a time. Errors: TRINE_EIO if it cannot be started or exits early.
 * *j is owned by the caller. */
trine_status alternate_start(alternate_job **j, alternate_listener *t, const trine_config *config);
/* The same for options of the trainer, separated by blanks. */
trine_status alternate_start_options(alternate_job **j, alternate_listener *t, int ranks, const char *options);
/* Sends an order to all ranks; answer: for each value the largest of all ranks.
 * Errors: TRINE_EIO if a rank has died. */
trine_status alternate_give(alternate_job *j, alternate_order order, alternate_answer *answer);
/* The same; answers (ranks): each rank's. */
trine_status alternate_give_all(alternate_job *j, alternate_order order, alternate_answer *answers);
/* The sum of the ranks' threads. */
int alternate_threads(const alternate_job *j);
/* Stops the job and waits for it. */
void alternate_end(alternate_job **j);

/* Runs `steps` steps of each of two jobs alternately, `reps` times, after one warm-up step; samples are seconds of
 * one step. */
trine_status alternate_race(alternate_job *a, alternate_job *b, int reps, int steps, bench_samples *sa,
                        bench_samples *sb);

/* alternate_race of one step between two jobs that are started for it; run_b (NULL: none): what the second does
 * beside its steps, of which a rank knows `profile`. Errors: those of alternate_start and alternate_give. */
trine_status alternate_compare(alternate_listener *t, const trine_config *a, const trine_config *b,
                               const trine_run *run_b, int reps, bench_samples *sa, bench_samples *sb);

/* For alternate_rank.c: reads or writes a complete message. Errors: TRINE_EIO. */
trine_status alternate_read(int fd, void *message, size_t bytes);
trine_status alternate_write(int fd, const void *message, size_t bytes);

#endif
