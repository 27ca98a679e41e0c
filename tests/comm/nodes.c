/* TEST np=2,3,4,6,8 apart */
/* Groups over several nodes: which groups these are, and how many bytes are sent between the nodes.
 * The nodes are the ranks of one machine divided by ranks_per_node. This file defines the MPI
 * functions that send and counts the bytes for ranks of other nodes (the profiling interface, MPI
 * 3.1 chapter 14). */
#include "harness.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport/nodes/nodes.h"

static int per_node;
static uint64_t crossed;

static int node_of(int world_rank) {
    return world_rank / per_node;
}

/* The rank in MPI_COMM_WORLD of a rank of comm. */
static int translate(MPI_Comm comm, int rank) {
    MPI_Group part, everyone;
    int world_rank = -1;
    PMPI_Comm_group(comm, &part);
    PMPI_Comm_group(MPI_COMM_WORLD, &everyone);
    PMPI_Group_translate_ranks(part, 1, &rank, everyone, &world_rank);
    PMPI_Group_free(&part);
    PMPI_Group_free(&everyone);
    return world_rank;
}

static int own_rank(void) {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static uint64_t bytes_of(int count, MPI_Datatype type) {
    MPI_Count size = 0;
    PMPI_Type_size_x(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    const int calls =
        3; /* what a rank shows others of its calls when it has waited: watch/match.c */
    if (per_node && tag != calls && node_of(translate(comm, peer)) != node_of(own_rank()))
        crossed += bytes_of(count, type);
    return PMPI_Isend(buf, count, type, peer, tag, comm, request);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

static int world_size(void) {
    return trine_world_size(harness_world);
}

/* Bytes that all ranks together have sent to other nodes since the last call. */
static uint64_t crossed_by_all(void) {
    uint64_t sum = crossed;
    PMPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    crossed = 0;
    return sum;
}

typedef struct {
    uint64_t all_reduce, reduce_scatter, all_gather, tree, onto;
} traffic;

/* A full vector of `part` elements a rank over the world's ranks, in windows or not. */
static traffic measure(trine_transport transport, size_t part, trine_dtype type, bool windows) {
    trine_mesh *mesh;
    size_t count = part * (size_t)world_size(), element = trine_dtype_bytes(type);
    char *a, *b;
    traffic t;
    trine_world_transport(harness_world, transport);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = world_size(), .tp = 1, .pp = 1},
                         per_node));
    OK(trine_mesh_alloc(mesh, (void **)&a, count * element));
    OK(trine_mesh_alloc(mesh, (void **)&b, count * element));
    char *src = windows ? a : calloc(count, element), *dst = windows ? b : src;
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    size_t own = (size_t)trine_comm_rank(comm) * part * element;
    (void)crossed_by_all();
    OK(trine_all_reduce(comm, dst, src, count, type, TRINE_SUM));
    t.all_reduce = crossed_by_all();
    OK(trine_reduce_scatter(comm, dst + own, src, count, type, TRINE_SUM));
    t.reduce_scatter = crossed_by_all();
    OK(trine_reduce_scatter(comm, dst + own, src, count, type, TRINE_SUM_TREE));
    t.tree = crossed_by_all();
    comm_request request = {0};
    char *onto = windows ? dst : calloc(part, element);
    OK(comm_reduce_scatter_onto_start(comm, onto, src, count, type, &request));
    OK(comm_wait(&request));
    t.onto = crossed_by_all();
    OK(trine_all_gather(comm, dst, src + own, count, type));
    t.all_gather = crossed_by_all();
    static const uint64_t calls[TRINE_TALLY_KINDS] = {[TRINE_TALLY_ALL_REDUCE] = 1,
                                                      [TRINE_TALLY_REDUCE_SCATTER] = 3,
                                                      [TRINE_TALLY_ALL_GATHER] = 1};
    for (trine_tally_kind k = 0; k < TRINE_TALLY_KINDS; k++)
        assert_int_equal(
            trine_comm_tally(comm, k).bytes,
            calls[k] ? calls[k] * comm_bytes(k, count, type, world_size(), own_rank(), -1) : 0);
    if (!windows) free(src);
    if (!windows) free(onto);
    trine_mesh_destroy(&mesh);
    return t;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Bytes for a vector of V: the partial sums cross K-1 times, and the results as often in an
 * all-reduce; in a reduce-scatter the results that are not the last node's own cross once, unless
 * the plain exchange is cheaper than that. Partial sums of 16-bit numbers are fp32. A sum onto dst: also the dst that
 * are not the first node's. A tree is no chain. */
static void check_traffic_of(size_t part, trine_dtype type) {
    int size = world_size(), nodes = (size + per_node - 1) / per_node;
    int last = size - (nodes - 1) * per_node;
    size_t element = trine_dtype_bytes(type), carried = element < 4 ? 4 : element;
    uint64_t p = part * element, v = p * (uint64_t)size, links = (uint64_t)nodes - 1;
    uint64_t there = links * v / element * carried;
    traffic plain = measure(TRINE_TRANSPORT_MPI, part, type, false);
    for (int windows = 0; windows < 2; windows++) {
        traffic t = measure(TRINE_TRANSPORT_AUTO, part, type, windows);
        uint64_t chain = there + (uint64_t)(size - last) * p;
        assert_int_equal(t.all_reduce, less(there + links * v, plain.all_reduce));
        assert_int_equal(t.all_gather, links * v);
        assert_int_equal(t.reduce_scatter, less(chain, plain.reduce_scatter));
        uint64_t onto = carried > element ? plain.onto : chain + (uint64_t)(size - per_node) * p;
        assert_int_equal(t.onto, less(onto, plain.onto));
        assert_int_equal(t.tree, plain.reduce_scatter);
        assert_true(t.all_reduce < plain.all_reduce || (carried > element && last == 1));
        assert_true(t.all_gather < plain.all_gather);
        assert_true(t.reduce_scatter < plain.reduce_scatter || last == 1 || carried > element);
        print_message("# %d ranks, %d a node, %s, vectors: all-reduce %.2f (mpi %.2f), "
                      "reduce-scatter %.2f (%.2f), all-gather %.2f (%.2f)\n",
                      size, per_node, type == TRINE_F32 ? "fp32" : "bf16",
                      (double)t.all_reduce / (double)v, (double)plain.all_reduce / (double)v,
                      (double)t.reduce_scatter / (double)v,
                      (double)plain.reduce_scatter / (double)v, (double)t.all_gather / (double)v,
                      (double)plain.all_gather / (double)v);
    }
}

static void check_traffic(size_t part) {
    check_traffic_of(part, TRINE_F32);
    check_traffic_of(2 * part, TRINE_BF16);
}

static void less_crosses(void **state) {
    (void)state;
    for (per_node = 2; per_node <= 4; per_node++)
        if (per_node < world_size()) check_traffic(50000);
    per_node = 0;
}

/* Parts that lanes and chunks do not divide; too short for the chain of a reduction over slices. */
static void odd_parts(void **state) {
    (void)state;
    for (per_node = 2; per_node <= 4; per_node++)
        if (per_node < world_size()) check_traffic(16384 / (size_t)world_size() + 1);
    per_node = 0;
}

/* ---- Groups over nodes ----------------------------------------------------------------------- */

/* A quick check that every rank's addend arrives, for groups that are not 0, 1, 2, ... */
static void check_sum(trine_comm *comm) {
    enum { COUNT = 20000 };
    static int32_t x[COUNT];
    int32_t sum = 0;
    for (int i = 0; i < COUNT; i++) x[i] = own_rank() + i;
    for (int r = 0; r < trine_comm_size(comm); r++) sum += comm_world_rank(comm, r);
    OK(trine_all_reduce(comm, x, x, COUNT, TRINE_I32, TRINE_SUM));
    for (int i = 0; i < COUNT; i++) assert_int_equal(x[i], sum + i * trine_comm_size(comm));
}

static void check_transport(trine_layout layout, int ranks_per_node, trine_group group,
                            const char *name) {
    trine_mesh *mesh;
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
    OK(trine_mesh_create(&mesh, harness_world, layout, ranks_per_node));
    trine_comm *comm = trine_mesh_group(mesh, group);
    assert_string_equal(trine_comm_transport(comm), name);
    /* An edge's peer has another name for it. */
    if (group != TRINE_ACT_OUT) check_sum(comm);
    trine_mesh_destroy(&mesh);
}

/* More chunks than are on their way to the first node at once, through windows and through staging memory; whole
 * numbers, because collectives.c holds shorter sums to their order. */
static void long_sums_onto_dst(void **state) {
    (void)state;
    enum { PART = 150001 };
    trine_mesh *mesh;
    const int size = world_size(), own = own_rank();
    const size_t count = (size_t)PART * (size_t)size, bytes = count * sizeof(int32_t);
    for (int windows = 0; windows < 2 && size >= 6; windows++) {
        int32_t *src = NULL, *dst = NULL;
        trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
        OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1},
                             size / 2));
        if (windows) {
            OK(trine_mesh_alloc(mesh, (void **)&src, bytes));
            OK(trine_mesh_alloc(mesh, (void **)&dst, PART * sizeof *dst));
        } else {
            src = malloc(bytes), dst = malloc(PART * sizeof *dst);
        }
        assert_true(src && dst);
        for (size_t i = 0; i < count; i++) src[i] = (int32_t)i * (own + 1);
        for (int i = 0; i < PART; i++) dst[i] = i * 3 + own;
        comm_request request = {0};
        trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
        assert_string_equal(trine_comm_transport(comm), "shm+mpi");
        OK(comm_reduce_scatter_onto_start(comm, dst, src, count, TRINE_I32, &request));
        OK(comm_wait(&request));
        for (int i = 0; i < PART; i++)
            assert_int_equal(dst[i], i * 3 + own + (own * PART + i) * (size * (size + 1) / 2));
        if (!windows) free(src);
        if (!windows) free(dst);
        trine_mesh_destroy(&mesh);
    }
}

/* For eight ranks. */
static void which_groups(void **state) {
    (void)state;
    if (world_size() != 8) return;
    int rank = trine_world_rank(harness_world);
    trine_layout dp = {.dp = 8, .tp = 1, .pp = 1}, dp_tp = {.dp = 4, .tp = 2, .pp = 1};
    trine_layout wide = {.dp = 2, .tp = 4, .pp = 1}, deep = {.dp = 1, .tp = 2, .pp = 4};
    check_transport(dp, 4, TRINE_DP, "shm+mpi");
    check_transport(dp, 3, TRINE_DP, "shm+mpi");
    check_transport(dp, 7, TRINE_DP, "shm+mpi");
    check_transport(dp, 1, TRINE_DP, "mpi");
    check_transport(dp, 8, TRINE_DP, "shm");
    /* dp: 0 2 | 4 6 and 1 3 | 5 7; with nodes of 3: 0 2 | 4 | 6 and 1 | 3 5 | 7 */
    check_transport(dp_tp, 4, TRINE_DP, "shm+mpi");
    check_transport(dp_tp, 3, TRINE_DP, "shm+mpi");
    check_transport(dp_tp, 2, TRINE_DP, "mpi");
    check_transport(dp_tp, 2, TRINE_TP, "shm");
    /* tp: 0 1 | 2 3 and 4 5 | 6 7; with nodes of 3: 0 1 2 | 3 and 4 5 | 6 7 */
    check_transport(wide, 2, TRINE_TP, "shm+mpi");
    check_transport(wide, 3, TRINE_TP, "shm+mpi");
    check_transport(wide, 4, TRINE_TP, "shm");
    check_transport(wide, 4, TRINE_DP, "mpi");
    /* pp: 0 2 | 4 6; the edge of the second and third stage: 2 | 4 */
    check_transport(deep, 4, TRINE_PP, "shm+mpi");
    check_transport(deep, 4, TRINE_TIE, rank < 2 || rank > 5 ? "mpi" : "self");
    check_transport(deep, 4, TRINE_ACT_OUT, rank / 2 == 1 ? "mpi" : rank / 2 == 3 ? "self" : "shm");
}

/* Launchers may place ranks on nodes round-robin; then no order of nodes allows a chain. */
static void dealt_by_turns(void **state) {
    (void)state;
    trine_mesh *mesh;
    int n = world_size();
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 1, .pp = 1}, 0));
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    const int turns[] = {0, 1, 0, 1, 0, 1, 0, 1}, blocks[] = {0, 0, 2, 2, 2, 5, 5, 5};
    const int back[] = {0, 0, 2, 0, 0, 0, 0, 0}, alone[] = {0, 1, 2, 3, 4, 5, 6, 7}, one[8] = {0};
    assert_false(nodes_fit(comm, turns));
    assert_true(nodes_fit(comm, blocks) == (n > 2));
    assert_true(nodes_fit(comm, back) == (n == 3));
    assert_false(nodes_fit(comm, alone));
    assert_false(nodes_fit(comm, one));
    trine_mesh_destroy(&mesh);
}

/* ---- Forced shm ------------------------------------------------------------------------------ */

static void forced(void **state) {
    (void)state;
    trine_mesh *mesh;
    int size = world_size();
    trine_world_transport(harness_world, TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, size));
    assert_string_equal(trine_comm_transport(trine_mesh_group(mesh, TRINE_DP)), "shm");
    trine_mesh_destroy(&mesh);
    /* Only the lowest rank has an error message. */
    trine_status status = trine_mesh_create(&mesh, harness_world,
                                            (trine_layout){.dp = size, .tp = 1, .pp = 1}, size - 1);
    assert_int_equal(status, TRINE_EINVAL);
    assert_null(mesh);
    if (own_rank() == 0)
        assert_non_null(strstr(status_message(), "ranks of group dp do not share memory"));
    status_clear();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(less_crosses),       cmocka_unit_test(odd_parts),
        cmocka_unit_test(which_groups),       cmocka_unit_test(dealt_by_turns),
        cmocka_unit_test(long_sums_onto_dst), cmocka_unit_test(forced),
    };
    return HARNESS_RUN(argc, argv, tests);
}
