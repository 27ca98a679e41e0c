#include "comm_ops.h"
#include "base/status.h"
#include "comm_pattern.h"

#include <mpi.h>
#include <string.h>

#define ROOT 0

static size_t part_of(const op_call *c) {
    return c->count / (size_t)c->ranks;
}

/* MPI counts in int; the program's options limit sizes to that. */
static int full(const op_call *c) {
    return (int)c->count;
}

static int part(const op_call *c) {
    return (int)part_of(c);
}

/* ---- Factors --------------------------------------------------------------------------------- */

static double bus_one(int ranks) {
    (void)ranks;
    return 1;
}

static double bus_others(int ranks) {
    return (ranks - 1.0) / ranks;
}

static double bus_twice_others(int ranks) {
    return 2 * bus_others(ranks);
}

/* Every rank reads and writes the full buffer. */
static double touched_all(int ranks) {
    return 2.0 * ranks;
}

/* All sources are read, the full buffer is written once. */
static double touched_reduced(int ranks) {
    return ranks + 1.0;
}

static double touched_others(int ranks) {
    return 2.0 * (ranks - 1);
}

/* A reduce-scatter, then each part is read once and written to the other ranks. */
static double touched_two_halves(int ranks) {
    return touched_reduced(ranks) + ranks;
}

/* The full buffer is read once and written once. */
static double touched_once(int ranks) {
    (void)ranks;
    return 2;
}

/* One message of every pair. */
static double touched_pairs(int ranks) {
    return 2.0 * (ranks / 2);
}

static double touched_none(int ranks) {
    (void)ranks;
    return 0;
}

/* ---- Results --------------------------------------------------------------------------------- */

static op_result everything_summed(const op_call *c) {
    return (op_result){.parts = 1, .part = c->count, .sum = true};
}

static op_result everything_summed_on_root(const op_call *c) {
    return c->rank == ROOT ? everything_summed(c) : (op_result){0};
}

static op_result own_part_summed(const op_call *c) {
    return (op_result){
        .parts = 1, .part = part_of(c), .first = (size_t)c->rank * part_of(c), .sum = true};
}

static op_result everybodys_part(const op_call *c) {
    return (op_result){.parts = (size_t)c->ranks, .part = part_of(c)};
}

static op_result everybodys_part_on_root(const op_call *c) {
    return c->rank == ROOT ? everybodys_part(c) : (op_result){0};
}

/* The root sends its source and has no destination. */
static op_result everything_of_root(const op_call *c) {
    return c->rank == ROOT ? (op_result){0}
                           : (op_result){.parts = 1, .part = c->count, .from = ROOT};
}

static op_result own_part_of_root(const op_call *c) {
    return (op_result){
        .parts = 1, .part = part_of(c), .first = (size_t)c->rank * part_of(c), .from = ROOT};
}

static op_result own_part_of_everybody(const op_call *c) {
    return (op_result){
        .parts = (size_t)c->ranks, .part = part_of(c), .first = (size_t)c->rank * part_of(c)};
}

/* Ranks 0 and 1, 2 and 3, ...; a last rank without a partner does nothing. */
static int partner(const op_call *c) {
    int other = c->rank ^ 1;
    return other < c->ranks ? other : -1;
}

static op_result everything_of_partner(const op_call *c) {
    int other = partner(c);
    return other < 0 ? (op_result){0} : (op_result){.parts = 1, .part = c->count, .from = other};
}

static op_result nothing(const op_call *c) {
    (void)c;
    return (op_result){0};
}

void op_spoil(const op_call *c) {
    memset(c->dst, 0xff, c->count * sizeof *c->dst); /* NaN */
}

static trine_status check_part(const op *o, const op_call *c, const op_result *r, size_t j,
                               const char *who) {
    const float *x = c->dst + j * r->part;
    pattern p = r->sum ? pattern_of_sum(c->ranks) : pattern_of_rank(r->from + (int)j);
    size_t at = pattern_differs(x, r->part, r->first, p);
    CHECK(at == r->part, TRINE_EDATA,
          "%s of %zu elements by %s: element %zu of rank %d is %.9g instead of %.9g", o->name,
          c->count, who, j * r->part + at, c->rank, (double)x[at],
          (double)pattern_at(p, r->first + at));
    return TRINE_OK;
}

trine_status op_check(const op *o, const op_call *c, const char *who) {
    const op_result r = o->result(c);
    for (size_t j = 0; j < r.parts; j++) TRY(check_part(o, c, &r, j, who));
    return TRINE_OK;
}

/* ---- Trine ----------------------------------------------------------------------------------- */

static trine_status all_reduce_by_trine(const op_call *c) {
    return trine_all_reduce(c->comm, c->dst, c->src, c->count, TRINE_F32, TRINE_SUM);
}

static trine_status reduce_by_trine(const op_call *c) {
    return trine_reduce(c->comm, c->dst, c->src, c->count, TRINE_F32, TRINE_SUM, ROOT);
}

static trine_status reduce_scatter_by_trine(const op_call *c) {
    return trine_reduce_scatter(c->comm, c->dst, c->src, c->count, TRINE_F32, TRINE_SUM);
}

/* An all-reduce in two calls, as in sequence parallelism (which computes on the parts in between). */
static trine_status two_halves_by_trine(const op_call *c) {
    float *own = c->dst + (size_t)c->rank * part_of(c);
    TRY(trine_reduce_scatter(c->comm, own, c->src, c->count, TRINE_F32, TRINE_SUM));
    return trine_all_gather(c->comm, c->dst, own, c->count, TRINE_F32);
}

static trine_status all_gather_by_trine(const op_call *c) {
    return trine_all_gather(c->comm, c->dst, c->src, c->count, TRINE_F32);
}

/* The interface has one buffer for both roles; the root's is only read, so const may be dropped. */
static float *broadcast_buffer(const op_call *c) {
    return c->rank == ROOT ? (float *)c->src : c->dst;
}

static trine_status broadcast_by_trine(const op_call *c) {
    return trine_broadcast(c->comm, broadcast_buffer(c), c->count, TRINE_F32, ROOT);
}

static trine_status scatter_by_trine(const op_call *c) {
    return trine_scatter(c->comm, c->dst, c->src, c->count, TRINE_F32, ROOT);
}

static trine_status gather_by_trine(const op_call *c) {
    return trine_gather(c->comm, c->dst, c->src, c->count, TRINE_F32, ROOT);
}

static trine_status all_to_all_by_trine(const op_call *c) {
    return trine_all_to_all(c->comm, c->dst, c->src, c->count, TRINE_F32);
}

static trine_status ping_pong_by_trine(const op_call *c) {
    int other = partner(c);
    if (other < 0) return TRINE_OK;
    if (c->rank < other) TRY(trine_send(c->comm, c->src, c->count, TRINE_F32, other));
    TRY(trine_recv(c->comm, c->dst, c->count, TRINE_F32, other));
    if (c->rank > other) TRY(trine_send(c->comm, c->src, c->count, TRINE_F32, other));
    return TRINE_OK;
}

static trine_status barrier_by_trine(const op_call *c) {
    return trine_barrier(c->comm);
}

/* ---- The MPI library ------------------------------------------------------------------------- */

static void all_reduce_by_mpi(const op_call *c) {
    MPI_Allreduce(c->src, c->dst, full(c), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_by_mpi(const op_call *c) {
    MPI_Reduce(c->src, c->dst, full(c), MPI_FLOAT, MPI_SUM, ROOT, MPI_COMM_WORLD);
}

static void reduce_scatter_by_mpi(const op_call *c) {
    MPI_Reduce_scatter_block(c->src, c->dst, part(c), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void two_halves_by_mpi(const op_call *c) {
    float *own = c->dst + (size_t)c->rank * part_of(c);
    MPI_Reduce_scatter_block(c->src, own, part(c), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->dst, part(c), MPI_FLOAT, MPI_COMM_WORLD);
}

static void all_gather_by_mpi(const op_call *c) {
    MPI_Allgather(c->src, part(c), MPI_FLOAT, c->dst, part(c), MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast_by_mpi(const op_call *c) {
    MPI_Bcast(broadcast_buffer(c), full(c), MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}

static void scatter_by_mpi(const op_call *c) {
    MPI_Scatter(c->src, part(c), MPI_FLOAT, c->dst, part(c), MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}

static void gather_by_mpi(const op_call *c) {
    MPI_Gather(c->src, part(c), MPI_FLOAT, c->dst, part(c), MPI_FLOAT, ROOT, MPI_COMM_WORLD);
}

static void all_to_all_by_mpi(const op_call *c) {
    MPI_Alltoall(c->src, part(c), MPI_FLOAT, c->dst, part(c), MPI_FLOAT, MPI_COMM_WORLD);
}

static void ping_pong_by_mpi(const op_call *c) {
    int other = partner(c), n = full(c);
    if (other < 0) return;
    if (c->rank < other) MPI_Send(c->src, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    MPI_Recv(c->dst, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (c->rank > other) MPI_Send(c->src, n, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
}

static void barrier_by_mpi(const op_call *c) {
    (void)c;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Reductions first: MPI's have temporaries, whose cost depends on the heap after earlier calls. */
const op ops[] = {
    {"reduce-scatter", true, false, 1, "(n-1)/n", bus_others, touched_reduced,
     reduce_scatter_by_trine, reduce_scatter_by_mpi, own_part_summed},
    {"all-reduce", false, false, 1, "2(n-1)/n", bus_twice_others, touched_all, all_reduce_by_trine,
     all_reduce_by_mpi, everything_summed},
    {"two-halves", true, false, 1, "2(n-1)/n", bus_twice_others, touched_two_halves,
     two_halves_by_trine, two_halves_by_mpi, everything_summed},
    {"reduce", false, false, 1, "1", bus_one, touched_reduced, reduce_by_trine, reduce_by_mpi,
     everything_summed_on_root},
    {"all-gather", true, false, 1, "(n-1)/n", bus_others, touched_all, all_gather_by_trine,
     all_gather_by_mpi, everybodys_part},
    {"broadcast", false, false, 1, "1", bus_one, touched_others, broadcast_by_trine,
     broadcast_by_mpi, everything_of_root},
    {"scatter", true, false, 1, "(n-1)/n", bus_others, touched_once, scatter_by_trine,
     scatter_by_mpi, own_part_of_root},
    {"gather", true, false, 1, "(n-1)/n", bus_others, touched_once, gather_by_trine, gather_by_mpi,
     everybodys_part_on_root},
    {"all-to-all", true, false, 1, "(n-1)/n", bus_others, touched_all, all_to_all_by_trine,
     all_to_all_by_mpi, own_part_of_everybody},
    {"send-recv", false, false, 0.5, "1", bus_one, touched_pairs, ping_pong_by_trine,
     ping_pong_by_mpi, everything_of_partner},
    {"barrier", false, true, 1, "-", bus_one, touched_none, barrier_by_trine, barrier_by_mpi,
     nothing},
};

const int op_count = sizeof ops / sizeof *ops;
