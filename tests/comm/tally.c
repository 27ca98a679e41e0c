/* TEST np=1,2,3,4,8 apart */
/* The tally against the bytes that MPI is given. This file defines the MPI functions that Trine
 * moves data with, counts what they are passed, and calls MPI's own (the profiling interface, MPI
 * 3.1 chapter 14). A missing function shows as a difference. */
#include "harness.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include "comm/api/comm.h"
#include "comm/group/world.h"

static struct { uint64_t sent, received, messages; } counted;

static uint64_t bytes_of(int count, MPI_Datatype type) {
    MPI_Count size = 0;
    PMPI_Type_size_x(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

/* Of the watchdog's communicator: what a rank shows others of its calls when it has waited. */
#define TAG_CALLS 3

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (tag != TAG_CALLS) counted.sent += bytes_of(count, type);
    if (tag != TAG_CALLS) counted.messages++;
    return PMPI_Isend(buf, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    counted.received += bytes_of(count, type);
    return PMPI_Irecv(buf, count, type, peer, tag, comm, request);
}

/* ---- One call of each kind ------------------------------------------------------------------- */

typedef struct {
    trine_comm *comm;
    size_t count;
    trine_dtype type;
    int root;
    char *dst, *src;
} job;

static trine_status run_kind(trine_tally_kind kind, const job *j) {
    int size = trine_comm_size(j->comm), rank = trine_comm_rank(j->comm);
    switch (kind) {
    case TRINE_TALLY_ALL_REDUCE:
        return trine_all_reduce(j->comm, j->dst, j->src, j->count, j->type, TRINE_SUM);
    case TRINE_TALLY_REDUCE:
        return trine_reduce(j->comm, j->dst, j->src, j->count, j->type, TRINE_MAX, j->root);
    case TRINE_TALLY_BROADCAST: return trine_broadcast(j->comm, j->dst, j->count, j->type, j->root);
    case TRINE_TALLY_ALL_GATHER:
        return trine_all_gather(j->comm, j->dst, j->src, j->count, j->type);
    case TRINE_TALLY_SCATTER:
        return trine_scatter(j->comm, j->dst, j->src, j->count, j->type, j->root);
    case TRINE_TALLY_GATHER:
        return trine_gather(j->comm, j->dst, j->src, j->count, j->type, j->root);
    case TRINE_TALLY_REDUCE_SCATTER:
        return trine_reduce_scatter(j->comm, j->dst, j->src, j->count, j->type, TRINE_SUM);
    case TRINE_TALLY_ALL_TO_ALL:
        return trine_all_to_all(j->comm, j->dst, j->src, j->count, j->type);
    case TRINE_TALLY_SEND:
    case TRINE_TALLY_RECV: /* even ranks send to the next one */
        if (rank % 2 == 0 && rank + 1 < size)
            return trine_send(j->comm, j->src, j->count, j->type, rank + 1);
        return rank % 2 ? trine_recv(j->comm, j->dst, j->count, j->type, rank - 1) : TRINE_OK;
    case TRINE_TALLY_BARRIER: return trine_barrier(j->comm);
    case TRINE_TALLY_KINDS: break;
    }
    return TRINE_OK;
}

/* Every byte that one rank sends is received by another. */
static void check_conserved(void) {
    uint64_t sums[2] = {counted.sent, counted.received};
    PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    assert_int_equal(sums[0], sums[1]);
}

static void check_sum(uint64_t bytes) {
    uint64_t sums[2] = {bytes, counted.sent};
    PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    assert_int_equal(sums[0], sums[1]);
}

static void check_kind(trine_tally_kind kind, const job *j) {
    uint64_t bytes = 0, calls = 0;
    bool paired = kind == TRINE_TALLY_SEND || kind == TRINE_TALLY_RECV;
    comm_tally_reset(j->comm);
    counted.sent = counted.received = counted.messages = 0;
    OK(run_kind(kind, j));
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++) {
        bytes += trine_comm_tally(j->comm, k).bytes;
        calls += trine_comm_tally(j->comm, k).calls;
    }
    int size = trine_comm_size(j->comm), rank = trine_comm_rank(j->comm);
    if (kind == TRINE_TALLY_BROADCAST)
        check_sum(bytes); /* larger groups pass it on */
    else
        assert_int_equal(bytes, counted.sent);
    if (!paired) {
        trine_tally tally = trine_comm_tally(j->comm, kind);
        assert_int_equal(calls, 1);
        assert_int_equal(tally.calls, 1);
        assert_int_equal(tally.bytes, comm_bytes(kind, j->count, j->type, size, rank, j->root));
    }
    if (kind == TRINE_TALLY_BARRIER) assert_true(size == 1 || counted.messages > 0);
    if (size == 1) assert_int_equal(counted.messages, 0);
    check_conserved();
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void check_kinds(size_t message_limit) {
    trine_mesh *mesh;
    int size = trine_world_size(harness_world);
    trine_world_transport(harness_world, TRINE_TRANSPORT_MPI);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    const size_t counts[] = {0, 1, 63, 1000, 30001, 30001, 30001, 30001}, most = 30001 + 8;
    const trine_dtype types[] = {TRINE_F32, TRINE_I64, TRINE_BF16, TRINE_F16};
    job j = {.comm = trine_mesh_group(mesh, TRINE_DP), .type = TRINE_F32, .root = size - 1};
    j.dst = calloc(most, 8);
    j.src = calloc(most, 8);
    assert_true(j.dst && j.src);
    harness_world->message_limit = message_limit;
    for (trine_tally_kind kind = 0; kind < TRINE_TALLY_KINDS; kind++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            bool full = kind == TRINE_TALLY_ALL_REDUCE || kind == TRINE_TALLY_REDUCE ||
                        kind == TRINE_TALLY_BROADCAST;
            j.count = full ? counts[c] : counts[c] - counts[c] % (size_t)size;
            j.type = types[c % 4];
            check_kind(kind, &j);
        }
    harness_world->message_limit = INT_MAX;
    free(j.dst);
    free(j.src);
    trine_mesh_destroy(&mesh);
}

static void kinds(void **state) {
    (void)state;
    check_kinds(INT_MAX);
}

static void kinds_in_pieces(void **state) {
    (void)state;
    check_kinds(1000);
}

/* Shared memory: the bytes that the plain transport would send are counted, and none of them is
 * passed to MPI. */
static void shared_memory_counts_the_same(void **state) {
    (void)state;
    trine_mesh *mesh;
    int size = trine_world_size(harness_world), rank = trine_world_rank(harness_world);
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    const size_t counts[] = {1, 1000, 30001};
    job j = {.comm = trine_mesh_group(mesh, TRINE_DP), .type = TRINE_F32, .root = size - 1};
    OK(trine_mesh_alloc(mesh, (void **)&j.dst, 30001 * 8));
    OK(trine_mesh_alloc(mesh, (void **)&j.src, 30001 * 8));
    for (trine_tally_kind kind = 0; kind < TRINE_TALLY_KINDS; kind++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            j.count = counts[c] - counts[c] % (size_t)size;
            counted.messages = 0;
            comm_tally_reset(j.comm);
            OK(run_kind(kind, &j));
            assert_int_equal(counted.messages, 0);
            if (kind == TRINE_TALLY_SEND || kind == TRINE_TALLY_RECV) continue;
            assert_int_equal(trine_comm_tally(j.comm, kind).bytes,
                             comm_bytes(kind, j.count, j.type, size, rank, j.root));
        }
    trine_mesh_destroy(&mesh);
}

/* The documented ratios, for numbers that divide evenly: (P-1)/P of n, and twice that. */
static void formulas(void **state) {
    (void)state;
    const uint64_t n = 1 << 20, bytes = n * 4;
    for (int p = 1; p <= 64; p *= 2) {
        uint64_t most = bytes / (uint64_t)p * ((uint64_t)p - 1);
        assert_int_equal(comm_bytes(TRINE_TALLY_ALL_GATHER, n, TRINE_F32, p, 0, -1), most);
        assert_int_equal(comm_bytes(TRINE_TALLY_REDUCE_SCATTER, n, TRINE_F32, p, p - 1, -1), most);
        assert_int_equal(comm_bytes(TRINE_TALLY_ALL_REDUCE, n, TRINE_F32, p, 0, -1), 2 * most);
        assert_int_equal(comm_bytes(TRINE_TALLY_ALL_REDUCE, n, TRINE_BF16, p, 0, -1), most);
        assert_int_equal(comm_bytes(TRINE_TALLY_REDUCE_SCATTER, n, TRINE_F16, p, 0, -1), most / 2);
        assert_int_equal(comm_bytes(TRINE_TALLY_BROADCAST, n, TRINE_F32, p, 0, 0),
                         bytes * ((uint64_t)p - 1));
        assert_int_equal(comm_bytes(TRINE_TALLY_BROADCAST, n, TRINE_F32, p, 0, p), 0);
    }
}

/* Audit mode's own messages pass through MPI but are not tallied. */
static void audit_is_not_tallied(void **state) {
    (void)state;
    trine_mesh *mesh;
    int size = trine_world_size(harness_world);
    trine_world_transport(harness_world, TRINE_TRANSPORT_MPI);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    float x = 1;
    uint64_t before = counted.messages;
    comm_audit(harness_world, true);
    OK(trine_all_reduce(comm, &x, &x, 1, TRINE_F32, TRINE_SUM));
    comm_audit(harness_world, false);
    assert_int_equal(counted.messages - before, 2 * (size - 1)); /* of two gathers */
    assert_int_equal(trine_comm_tally(comm, TRINE_TALLY_ALL_GATHER).calls, 0);
    assert_int_equal(trine_comm_tally(comm, TRINE_TALLY_ALL_REDUCE).bytes, 4 * (size - 1));
    trine_mesh_destroy(&mesh);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(kinds_in_pieces),
        cmocka_unit_test(shared_memory_counts_the_same),
        cmocka_unit_test(formulas),
        cmocka_unit_test(audit_is_not_tallied),
    };
    return HARNESS_RUN(argc, argv, tests);
}
