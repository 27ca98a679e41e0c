/* TEST np=none */
/* The protocols of shared memory with ranks as threads of one process, under ThreadSanitizer (docs/memory-order.md).
 * The Makefile compiles this file, src/comm/transport/shm and src/comm/reduce with it. A release or an acquire that is
 * missing is a data race between two ranks: the sanitizer sees it on a processor whose own order would hide it.
 * Each case uses one protocol, and lets data flow in one direction where the protocol does, so that no other order
 * between two ranks hides what is missing. Every rank overwrites what it has passed as soon as a call returns.
 * Usage: shm_order_driver CASE ROUNDS; the sanitizer's report and status 66, or 1 if a number is wrong. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/group/group.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"

enum {
    RANKS = 4,
    FEW = 12,       /* elements of a payload, a short call or a message in the outbox */
    MANY = 8192,    /* of what is read in place: a multiple of RANKS, more than a payload */
    STAGED = 36000, /* of more than one segment of staging memory */
    GOING = 5,      /* messages in progress: more than an outbox has */
};

/* A rank: what trine_mesh_create makes of a process. */
typedef struct {
    trine_world world;
    trine_comm comm;
    shm_node node;
    int members[RANKS];
    char *base[2][RANKS]; /* of the control window, and of a window of data */
    float *in, *out;      /* (MANY) in the window */
    float *plain[2];      /* (STAGED) in no window */
    int rounds;
} rank;

static rank ranks[RANKS];

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) == TRINE_OK) break;                                                             \
        trine_error_print();                                                                       \
        exit(1);                                                                                   \
    } while (0)

/* What a wait shows to other processes: there are none. */
trine_status match_wait(trine_comm *comm, double waited) {
    (void)comm, (void)waited;
    return TRINE_OK;
}

void watchdog_check(trine_world *world, double *waited) {
    (void)world, (void)waited;
}

void watchdog_polled(trine_world *world, unsigned polls, double *waited) {
    (void)world, (void)polls, (void)waited;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Adds a call to the group's chain, as api/calls.c does. */
static trine_comm *call(rank *r, trine_tally_kind kind, size_t count) {
    OK(match_enter(&r->comm, &(comm_call){.kind = kind, .count = count, .type = TRINE_F32}));
    return &r->comm;
}

static float value(int from, int round, size_t i) {
    return (float)(from + 1) * (float)(round % 50 + 1) + (float)(i % 7);
}

static void fill(const rank *r, int round, float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = value(r->comm.rank, round, i);
}

static void expect(float got, float want, const char *what) {
    if (got == want) return;
    fprintf(stderr, "%s: %g instead of %g\n", what, (double)got, (double)want);
    exit(1);
}

static void expect_all(const float *x, int from, int round, size_t first, size_t n,
                       const char *what) {
    for (size_t i = 0; i < n; i++) expect(x[i], value(from, round, first + i), what);
}

static void expect_sum(const float *x, int round, size_t first, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int p = 0; p < RANKS; p++) sum += value(p, round, first + i);
        expect(x[i], sum, what);
    }
}

/* All-reduce, reduce-scatter, all-to-all and gather of n elements. */
static void calls_of_all(rank *r, int k, float *in, float *out, size_t n) {
    size_t part = n / RANKS, own = (size_t)r->comm.rank * part;
    fill(r, k, in, n);
    OK(shm_all_reduce(call(r, TRINE_TALLY_ALL_REDUCE, n), out, in, n, TRINE_F32, TRINE_SUM));
    expect_sum(out, k, 0, n, "all-reduce");
    fill(r, k + 1, in, n);
    OK(shm_reduce_scatter(call(r, TRINE_TALLY_REDUCE_SCATTER, n), out, in, n, TRINE_F32,
                          TRINE_SUM));
    expect_sum(out, k + 1, own, part, "reduce-scatter");
    fill(r, k + 2, in, n);
    OK(shm_all_to_all(call(r, TRINE_TALLY_ALL_TO_ALL, n), out, in, part * sizeof(float)));
    for (int p = 0; p < RANKS; p++)
        expect_all(out + (size_t)p * part, p, k + 2, own, part, "all-to-all");
    fill(r, k + 3, in, part);
    OK(shm_gather(call(r, TRINE_TALLY_GATHER, n), out, in, part * sizeof(float), k % RANKS));
    for (int p = 0; r->comm.rank == k % RANKS && p < RANKS; p++)
        expect_all(out + (size_t)p * part, p, k + 3, 0, part, "gather");
    if (r->comm.rank == k % RANKS) fill(r, k + 4, in, n);
    OK(shm_broadcast(call(r, TRINE_TALLY_BROADCAST, n), in, n * sizeof(float), k % RANKS));
    expect_all(in, k % RANKS, k + 4, 0, n, "broadcast");
}

/* An arrival's counter; entries of the ring that are used again. */
static void payload(rank *r, int k) {
    size_t n = MANY / 4; /* with parts that are no short calls */
    calls_of_all(r, k, r->plain[0], r->plain[1], n);
    OK(shm_barrier(call(r, TRINE_TALLY_BARRIER, 0)));
}

/* Arrivals and phases. */
static void direct(rank *r, int k) {
    calls_of_all(r, k, r->in, r->out, MANY);
}

/* Phases between segments. */
static void staged(rank *r, int k) {
    if (k % 8) return;
    calls_of_all(r, k, r->plain[0], r->plain[1], STAGED);
}

/* Posts of one rank that all read; halves that all have finished. */
static void from_one(rank *r, int k) {
    float x[FEW];
    if (r->comm.rank == 1) fill(r, k, x, FEW);
    OK(shm_broadcast(call(r, TRINE_TALLY_BROADCAST, FEW), x, sizeof x, 1));
    expect_all(x, 1, k, 0, FEW, "short broadcast");
}

/* Posts of all ranks that one reads. */
static void to_one(rank *r, int k) {
    float x[FEW], all[RANKS * FEW];
    fill(r, k, x, FEW);
    OK(shm_gather(call(r, TRINE_TALLY_GATHER, RANKS * FEW), all, x, sizeof x, 2));
    for (int p = 0; r->comm.rank == 2 && p < RANKS; p++)
        expect_all(all + p * FEW, p, k, 0, FEW, "short gather");
}

static comm_request started_call(rank *r, trine_tally_kind kind, size_t count) {
    return (comm_request){
        .comm = call(r, kind, count), .kind = kind, .type = TRINE_F32, .count = count};
}

/* Calls that are started: their arrivals are looked at, not waited for. */
static void started(rank *r, int k) {
    enum { PART = MANY / RANKS };
    trine_comm *comm = &r->comm;
    size_t own = (size_t)comm->rank * PART;
    float *few = r->plain[0], *sum = r->plain[1];
    fill(r, k, r->in, PART);
    fill(r, k + 1, few, FEW);
    comm_request a = started_call(r, TRINE_TALLY_ALL_GATHER, MANY);
    OK(shm_all_gather_start(comm, r->out, r->in, PART * sizeof(float), &a));
    comm_request b = started_call(r, TRINE_TALLY_ALL_REDUCE, FEW);
    OK(shm_all_reduce_start(comm, sum, few, FEW, TRINE_F32, TRINE_SUM, &b));
    OK(shm_wait(comm, &b));
    expect_sum(sum, k + 1, 0, FEW, "started all-reduce");
    OK(shm_wait(comm, &a));
    for (int p = 0; p < RANKS; p++)
        expect_all(r->out + (size_t)p * PART, p, k, 0, PART, "started all-gather");
    fill(r, k + 2, r->in, MANY);
    comm_request c = started_call(r, TRINE_TALLY_REDUCE_SCATTER, MANY);
    OK(shm_reduce_scatter_start(comm, r->out, r->in, MANY, TRINE_F32, TRINE_SUM, &c));
    OK(shm_wait(comm, &c));
    expect_sum(r->out, k + 2, own, PART, "started reduce-scatter");
}

/* Messages from even ranks to odd ones, all the way: GOING at once, of n elements. */
static void one_way(rank *r, int k, float *x, size_t n) {
    comm_request going[GOING];
    trine_comm *comm = &r->comm;
    bool sends = comm->rank % 2 == 0;
    for (int m = 0; m < GOING; m++) {
        float *at = x + (size_t)m * n;
        going[m] = (comm_request){.comm = comm, .type = TRINE_F32, .count = n};
        if (sends) fill(r, k + m, at, n);
        if (sends)
            OK(shm_send_start(comm, at, n * sizeof(float), comm->rank + 1, &going[m]));
        else
            OK(shm_recv_start(comm, at, n * sizeof(float), comm->rank - 1, &going[m]));
    }
    for (int m = 0; m < GOING; m++) {
        OK(shm_wait(comm, &going[m]));
        if (!sends) expect_all(x + (size_t)m * n, comm->rank - 1, k + m, 0, n, "message");
    }
}

/* What was posted, and places of the outbox that are used again. */
static void short_messages(rank *r, int k) {
    one_way(r, k, r->plain[0], FEW);
}

/* A buffer that is used again when its message was taken. */
static void long_messages(rank *r, int k) {
    one_way(r, k, r->in, MANY / GOING);
}

static const struct {
    const char *name;
    void (*run)(rank *r, int round);
} cases[] = {
    {"payload", payload},
    {"direct", direct},
    {"staged", staged},
    {"from-one", from_one},
    {"to-one", to_one},
    {"started", started},
    {"short-messages", short_messages},
    {"long-messages", long_messages},
};

/* ---- Ranks ----------------------------------------------------------------------------------- */

static void *memory(size_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p) exit(1);
    return memset(p, 0, bytes);
}

static void window(shm_node *n, int w, char **base, size_t bytes) {
    n->windows[w] = (shm_window){.own = base[n->rank], .bytes = bytes, .base = base};
    memset(&n->windows[w].win, 1, sizeof n->windows[w].win); /* any but MPI_WIN_NULL */
}

/* One group of all ranks. */
static void make(rank *r, int number, char *control[RANKS], char *data[RANKS]) {
    int sizes[TRINE_GROUPS] = {[TRINE_DP] = RANKS};
    for (int p = 0; p < RANKS; p++) {
        r->members[p] = p;
        r->base[0][p] = control[p];
        r->base[1][p] = data[p];
    }
    r->world = (trine_world){.rank = number, .size = RANKS, .crowded = true};
    r->world.addends = calloc(RANKS + 1, sizeof *r->world.addends);
    OK(started_create(&r->world));
    r->node = (shm_node){.world = &r->world,
                         .comm = MPI_COMM_NULL,
                         .rank = number,
                         .size = RANKS,
                         .members = r->members,
                         .cache = (size_t)1 << 30};
    window(&r->node, 0, r->base[0], shm_control_bytes(sizes));
    window(&r->node, 1, r->base[1], 2 * MANY * sizeof(float));
    r->node.control = &r->node.windows[0];
    shm_layout(&r->node, sizes);
    r->in = (float *)(void *)data[number];
    r->out = r->in + MANY;
    for (int i = 0; i < 2; i++) r->plain[i] = memory(STAGED * sizeof(float));
    r->comm = (trine_comm){.world = &r->world,
                           .group = TRINE_DP,
                           .rank = number,
                           .size = RANKS,
                           .members = r->members};
    match_begin(&r->comm);
}

static void make_ranks(int rounds) {
    static char *control[RANKS], *data[RANKS];
    int sizes[TRINE_GROUPS] = {[TRINE_DP] = RANKS};
    for (int p = 0; p < RANKS; p++) {
        control[p] = memory(shm_control_bytes(sizes));
        data[p] = memory(2 * MANY * sizeof(float));
    }
    for (int p = 0; p < RANKS; p++) make(&ranks[p], p, control, data);
    for (int p = 0; p < RANKS; p++) {
        OK(shm_attach(&ranks[p].comm, &ranks[p].node));
        ranks[p].rounds = rounds;
    }
}

static size_t chosen;

static void *run(void *own) {
    rank *r = own;
    for (int k = 0; k < r->rounds; k++) cases[chosen].run(r, k);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[RANKS];
    const size_t count = sizeof cases / sizeof *cases;
    while (argc == 3 && chosen < count && strcmp(argv[1], cases[chosen].name) != 0) chosen++;
    if (argc != 3 || chosen == count) {
        fprintf(stderr, "usage: %s CASE ROUNDS; cases:", *argv);
        for (size_t i = 0; i < count; i++) fprintf(stderr, " %s", cases[i].name);
        fputc('\n', stderr);
        return 1;
    }
    make_ranks(atoi(argv[2]));
    for (int p = 0; p < RANKS; p++)
        if (pthread_create(&threads[p], NULL, run, &ranks[p]) != 0) return 1;
    for (int p = 0; p < RANKS; p++) pthread_join(threads[p], NULL);
    return 0;
}
