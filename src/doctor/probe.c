#include "doctor/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "profile/limits.h"
#include "doctor/judge.h"

/* Size of a matmul: some MiB, which fit a cache, so that the processor alone counts. */
#define MATMUL 512
/* Bytes of a triad's array per node, shared by its ranks: four times a large cache. */
#define TRIAD_BYTES ((size_t)128 << 20)
/* Bytes of the messages for latency and bandwidth, and the maximum number of samples. */
#define SHORT ((size_t)8)
#define LONG  ((size_t)4 << 20)
#define KEPT  4096
#define ASKED 16 /* requests for a clock */

/* ---- Rates ---- */

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The first call creates oneDNN's primitive, which must not count. */
static trine_status prepare_matmul(device *d) {
    double rate;
    return d ? limit_forward_rate_in(d, MATMUL, MATMUL, MATMUL, 1, &rate) : TRINE_OK;
}

static trine_status measure_matmul(doctor_rank *own, device *d, uint64_t run_ns) {
    if (!d) return TRINE_OK;
    double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID), passed = seconds_of(CLOCK_MONOTONIC);
    TRY(limit_forward_rate_in(d, MATMUL, MATMUL, MATMUL, run_ns, &own->matmul));
    used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    passed = seconds_of(CLOCK_MONOTONIC) - passed;
    if (d->memory->host) own->share = fmin(used / (passed * d->threads), 1);
    return TRINE_OK;
}

/* Agreements synchronize the ranks, so what comes between two of them runs on all ranks at once. */
trine_status measure_rates(doctor_rank *own, trine_world *world, const trine_mesh *mesh, device *d,
                           double seconds) {
    size_t ranks = (size_t)trine_comm_size(trine_mesh_group(mesh, TRINE_NODE));
    uint64_t run_ns = (uint64_t)(1e9 * seconds / LIMIT_RUNS);
    TRY(trine_world_agree(world, prepare_matmul(d)));
    TRY(trine_world_agree(world, measure_matmul(own, d, run_ns)));
    return trine_world_agree(
        world, d ? limit_triad_rate_in(d, TRIAD_BYTES / ranks, run_ns, &own->triad) : TRINE_OK);
}

/* ---- Ping-pong ---- */

/* Two ranks exchange messages, `bytes` there and SHORT back, until the first one's time is over;
 * the first byte of its messages tells whether another one follows. */
typedef struct {
    trine_comm *comm;
    int peer;
    bool serves;           /* sends first and measures */
    unsigned char *buffer; /* (LONG) */
    double *times;         /* (KEPT) */
} ping_pong;

static trine_status ping_pong_create(ping_pong *r, trine_comm *comm) {
    *r = (ping_pong){.comm = comm};
    r->buffer = malloc(LONG);
    r->times = calloc(KEPT, sizeof *r->times);
    CHECK(r->buffer && r->times, TRINE_ENOMEM, "no memory for messages of %zu bytes", LONG);
    memset(r->buffer, 1, LONG);
    return TRINE_OK;
}

static void ping_pong_destroy(ping_pong *r) {
    free(r->buffer);
    free(r->times);
}

static trine_status send_pings(const ping_pong *r, size_t bytes, double seconds, double *median) {
    unsigned char word[SHORT];
    uint64_t since = clock_ns();
    int n = 0;
    do {
        uint64_t sent = clock_ns();
        r->buffer[0] = n + 1 < KEPT && 1e-9 * (double)(sent - since) < seconds;
        TRY(trine_send(r->comm, r->buffer, bytes, TRINE_U8, r->peer));
        TRY(trine_recv(r->comm, word, SHORT, TRINE_U8, r->peer));
        r->times[n++] = 1e-9 * (double)(clock_ns() - sent);
    } while (r->buffer[0]);
    *median = judge_median(r->times, n);
    return TRINE_OK;
}

static trine_status answer_pings(const ping_pong *r, size_t bytes) {
    const unsigned char word[SHORT] = {0};
    do {
        TRY(trine_recv(r->comm, r->buffer, bytes, TRINE_U8, r->peer));
        TRY(trine_send(r->comm, word, SHORT, TRINE_U8, r->peer));
    } while (r->buffer[0]);
    return TRINE_OK;
}

/* *median = seconds of a round trip, on the rank that serves. */
static trine_status run_ping_pong(const ping_pong *r, size_t bytes, double seconds,
                                  double *median) {
    return r->serves ? send_pings(r, bytes, seconds, median) : answer_pings(r, bytes);
}

/* ---- Inside a node ---- */

trine_status measure_inside(doctor_rank *own, const trine_mesh *mesh, double seconds) {
    trine_comm *node = trine_mesh_group(mesh, TRINE_NODE);
    int rank = trine_comm_rank(node);
    double median = 0;
    ping_pong r;
    if (trine_comm_size(node) < 2 || rank > 1) return TRINE_OK;
    trine_status status = ping_pong_create(&r, node);
    r.peer = 1 - rank;
    r.serves = rank == 0;
    if (status == TRINE_OK) status = run_ping_pong(&r, SHORT, seconds / 4, &median);
    ping_pong_destroy(&r);
    TRY(status);
    own->shm_latency = median / 2;
    return TRINE_OK;
}

/* ---- Between nodes ---- */

/* The circle method: with an odd number n of places, i is paired with round - i modulo n; a node
 * paired with itself is paired with the last node of an even number. */
int measure_partner(int nodes, int round, int node) {
    int n = nodes % 2 ? nodes : nodes - 1, partner;
    if (node == n) { /* 2 partner = round modulo n */
        for (partner = 0; 2 * partner % n != round; partner++) continue;
        return partner;
    }
    partner = (round - node + n) % n;
    if (partner == node) partner = n;
    return partner < nodes ? partner : -1;
}

/* leaders (nodes): the lowest rank of each node. */
static int *find_leaders(const trine_mesh *mesh, int ranks) {
    int nodes = mesh_node_count(mesh), *leaders = malloc((size_t)nodes * sizeof *leaders);
    for (int r = ranks - 1; leaders && r >= 0; r--) leaders[mesh_node_index(mesh, r)] = r;
    return leaders;
}

static trine_status measure_pair(ping_pong *r, doctor_pair *pair, double seconds) {
    double there = 0;
    TRY(run_ping_pong(r, SHORT, seconds / 2, &there));
    pair->latency = there / 2;
    TRY(run_ping_pong(r, LONG, seconds / 2, &there));
    pair->bandwidth = there > 0 ? (double)LONG / there : 0;
    return TRINE_OK;
}

/* A leader's rounds; stores the pairs in which it serves, as the lower node. */
static trine_status measure_rounds(ping_pong *r, const int *leaders, int nodes, int node,
                                   double seconds, doctor_pair *own, int *count) {
    int all = nodes % 2 ? nodes : nodes - 1, rounds = all < PROBE_ROUNDS ? all : PROBE_ROUNDS;
    double each = fmax(seconds / 12, seconds / rounds);
    for (int k = 0; k < rounds; k++) {
        int other = measure_partner(nodes, (int)((int64_t)k * all / rounds), node);
        if (other < 0) continue;
        doctor_pair pair = {.a = node, .b = other};
        r->peer = leaders[other];
        r->serves = node < other;
        TRY(measure_pair(r, &pair, each));
        if (r->serves) own[(*count)++] = pair;
    }
    return TRINE_OK;
}

/* Gathers the pairs on rank 0, which owns *pairs. */
static trine_status gather_pairs(trine_comm *comm, const int *leaders, int nodes, doctor_pair *own,
                                 int32_t own_count, doctor_pair **pairs, int *count) {
    size_t most = PROBE_ROUNDS * (size_t)nodes;
    if (trine_comm_rank(comm) != 0) {
        TRY(trine_send(comm, &own_count, 1, TRINE_I32, 0));
        return own_count ? trine_send(comm, own, (size_t)own_count * sizeof *own, TRINE_U8, 0)
                         : TRINE_OK;
    }
    *pairs = malloc(most * sizeof **pairs);
    CHECK(*pairs, TRINE_ENOMEM, "no memory for %zu pairs of nodes", most);
    memcpy(*pairs, own, (size_t)own_count * sizeof *own);
    *count = own_count;
    for (int node = 1; node < nodes; node++) {
        int32_t n;
        TRY(trine_recv(comm, &n, 1, TRINE_I32, leaders[node]));
        if (n)
            TRY(trine_recv(comm, *pairs + *count, (size_t)n * sizeof *own, TRINE_U8,
                           leaders[node]));
        *count += n;
    }
    return TRINE_OK;
}

static trine_status measure_as_leader(const trine_mesh *mesh, const int *leaders, double seconds,
                                      doctor_pair **pairs, int *count) {
    trine_comm *comm = trine_mesh_group(mesh, TRINE_WORLD);
    int nodes = mesh_node_count(mesh), node = mesh_node_index(mesh, trine_comm_rank(comm));
    int own_count = 0;
    ping_pong r;
    if (leaders[node] != trine_comm_rank(comm)) return TRINE_OK;
    trine_status status = ping_pong_create(&r, comm);
    doctor_pair *own = calloc(PROBE_ROUNDS, sizeof *own);
    if (status == TRINE_OK && !own) status = RAISE(TRINE_ENOMEM, "no memory for pairs of nodes");
    if (status == TRINE_OK)
        status = measure_rounds(&r, leaders, nodes, node, seconds, own, &own_count);
    if (status == TRINE_OK)
        status = gather_pairs(comm, leaders, nodes, own, own_count, pairs, count);
    ping_pong_destroy(&r);
    free(own);
    return status;
}

trine_status measure_pairs(doctor_pair **pairs, int *count, trine_world *world,
                           const trine_mesh *mesh, double seconds) {
    *pairs = NULL;
    *count = 0;
    if (mesh_node_count(mesh) < 2) return TRINE_OK;
    int *leaders = find_leaders(mesh, trine_world_size(world));
    trine_status status = leaders ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for the nodes");
    status = trine_world_agree(world, status);
    if (status == TRINE_OK) status = measure_as_leader(mesh, leaders, seconds, pairs, count);
    free(leaders);
    return status;
}

/* ---- Clocks ---- */

static trine_status answer_time(trine_comm *comm, int peer) {
    double now;
    for (int i = 0; i < ASKED; i++) {
        TRY(trine_recv(comm, &now, 1, TRINE_F64, peer));
        now = seconds_of(CLOCK_REALTIME);
        TRY(trine_send(comm, &now, 1, TRINE_F64, peer));
    }
    return TRINE_OK;
}

static trine_status ask_time(trine_comm *comm, doctor_rank *own) {
    own->clock_error = INFINITY;
    for (int i = 0; i < ASKED; i++) {
        double before = seconds_of(CLOCK_REALTIME), there = 0;
        TRY(trine_send(comm, &before, 1, TRINE_F64, 0));
        TRY(trine_recv(comm, &there, 1, TRINE_F64, 0));
        double after = seconds_of(CLOCK_REALTIME), error = (after - before) / 2;
        if (error < 0 || error >= own->clock_error) continue;
        own->clock_error = error;
        own->clock_offset = (before + after) / 2 - there;
    }
    return TRINE_OK;
}

trine_status measure_clocks(doctor_rank *own, const trine_mesh *mesh) {
    trine_comm *comm = trine_mesh_group(mesh, TRINE_WORLD);
    int rank = trine_comm_rank(comm);
    bool leads = trine_comm_rank(trine_mesh_group(mesh, TRINE_NODE)) == 0;
    if (rank && leads) return ask_time(comm, own);
    for (int r = 1, next = 1; !rank && r < trine_comm_size(comm); r++) {
        if (mesh_node_index(mesh, r) != next) continue;
        TRY(answer_time(comm, r));
        next++;
    }
    return TRINE_OK;
}
