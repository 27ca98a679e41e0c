/* TEST np=2,3,4,8 */
/* Point to point: order, overlap, and messages next to collectives on the same communicator. */
#include "harness.h"

#include <limits.h>
#include <stdlib.h>

#include "comm/comm.h"

static trine_comm *setup_comm(trine_mesh **mesh) {
    trine_layout all_pp = {1, 1, trine_world_size(harness_world)};
    OK(trine_mesh_create(mesh, harness_world, all_pp, 0));
    return trine_mesh_group(*mesh, TRINE_PP);
}

/* Messages of growing and shrinking sizes, small ones behind large ones, arrive as sent. */
static void in_order(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    static const size_t counts[] = {1, 100000, 2, 0, 50000, 3};
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    float *x = malloc(100000 * sizeof *x);
    assert_non_null(x);
    for (int m = 0; m < 6; m++) {
        if (rank > 0) {
            OK(trine_recv(comm, x, counts[m], TRINE_F32, rank - 1));
            for (size_t i = 0; i < counts[m]; i++)
                assert_true(x[i] == (float)(1000 * (rank - 1) + m));
        }
        for (size_t i = 0; i < counts[m]; i++) x[i] = (float)(1000 * rank + m);
        if (rank + 1 < size) OK(trine_send(comm, x, counts[m], TRINE_F32, rank + 1));
    }
    free(x);
    trine_mesh_destroy(&mesh);
}

/* Large messages both ways between all neighbours in a ring: blocking calls would deadlock. */
static void ring(trine_comm *comm, size_t count) {
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    int32_t *out = malloc(count * sizeof *out), *in = malloc(count * sizeof *in);
    assert_true(out && in);
    for (size_t i = 0; i < count; i++) out[i] = rank * 1000000 + (int32_t)i;
    comm_request sent = {0}, received = {0};
    OK(comm_send_start(comm, out, count, TRINE_I32, next, &sent));
    OK(comm_recv_start(comm, in, count, TRINE_I32, last, &received));
    assert_true(sent.active && received.active);
    OK(comm_wait(&sent));
    OK(comm_wait(&received));
    assert_false(sent.active || received.active);
    OK(comm_wait(&received)); /* idle: returns at once */
    for (size_t i = 0; i < count; i++) assert_int_equal(in[i], last * 1000000 + (int32_t)i);
    free(out);
    free(in);
}

static void ring_of_large_messages(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    ring(comm, 300000);
    comm_message_limit(harness_world, 1000);
    ring(comm, 30001);
    comm_message_limit(harness_world, INT_MAX);
    trine_mesh_destroy(&mesh);
}

/* A started message and a started gather stay apart from the collectives that pass them by. */
static void overlap(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    int rank = trine_comm_rank(comm), size = trine_comm_size(comm);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    size_t count = 40000;
    float *sum = malloc(count * sizeof *sum);
    int32_t own = rank, from = -1, all[8];
    comm_request gathered = {0}, sent = {0}, received = {0};
    assert_non_null(sum);
    for (size_t i = 0; i < count; i++) sum[i] = 1.0f;
    OK(comm_send_start(comm, &own, 1, TRINE_I32, next, &sent));
    OK(comm_all_gather_start(comm, all, &own, (size_t)size, TRINE_I32, &gathered));
    OK(trine_all_reduce(comm, sum, sum, count, TRINE_F32, TRINE_SUM));
    OK(comm_recv_start(comm, &from, 1, TRINE_I32, last, &received));
    OK(trine_barrier(comm));
    OK(comm_wait(&received));
    OK(comm_wait(&gathered));
    OK(comm_wait(&sent));
    assert_int_equal(from, last);
    for (int r = 0; r < size; r++) assert_int_equal(all[r], r);
    for (size_t i = 0; i < count; i++) assert_true(sum[i] == (float)size);
    free(sum);
    trine_mesh_destroy(&mesh);
}

/* A message of another length than expected is an error, not half a buffer. */
static void wrong_length(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    float x[4] = {0};
    if (trine_comm_rank(comm) == 0) OK(trine_send(comm, x, 2, TRINE_F32, 1));
    if (trine_comm_rank(comm) == 1)
        REFUSED(trine_recv(comm, x, 4, TRINE_F32, 0), TRINE_EMPI,
                "rank 0 sent 8 bytes, this rank expects 16");
    trine_mesh_destroy(&mesh);
}

/* The ends of the pipeline: no peer, nothing to do, nothing counted. */
static void ends_do_nothing(void **state) {
    (void)state;
    trine_mesh *mesh;
    (void)setup_comm(&mesh);
    bool first = trine_world_rank(harness_world) == 0;
    trine_comm *end = trine_mesh_group(mesh, first ? TRINE_ACT_IN : TRINE_TP);
    float x = 7;
    comm_request request = {0};
    assert_int_equal(trine_comm_size(end), 1);
    OK(comm_recv_start(end, &x, 1, TRINE_F32, 0, &request));
    assert_false(request.active);
    OK(comm_wait(&request));
    OK(comm_send_start(end, &x, 1, TRINE_F32, 1, &request));
    assert_true(x == 7);
    assert_int_equal(trine_comm_tally(end, TRINE_TALLY_RECV).calls, 0);
    REFUSED(trine_send(end, &x, 1, TRINE_F32, 0), TRINE_EINVAL, "this rank itself");
    trine_mesh_destroy(&mesh);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),        cmocka_unit_test(ring_of_large_messages),
        cmocka_unit_test(overlap),         cmocka_unit_test(wrong_length),
        cmocka_unit_test(ends_do_nothing),
    };
    return HARNESS_RUN(argc, argv, tests);
}
