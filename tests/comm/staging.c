/* TEST np=1,2,4,8 */
/* The staging tables of groups whose buffers are in device memory: which bytes they copy, that
 * they can be set and removed, and that audit, clock and groups of one rank still work. collectives.c
 * and message.c test the results. */
#include "split_device.h"
#include "harness.h"

#include <string.h>

#include "comm/api/comm.h"

enum { COUNT = 840, ELEMENT = 4, FULL = COUNT * ELEMENT, REGION = 1 << 16, REST = 4096 };

static trine_mesh *mesh;
static trine_comm *comm; /* dp: all ranks */
static int size, rank;
static size_t part; /* bytes of one rank of the full buffer */
static split_device split_dev;

/* Sizes of 1, 2, 4 and 8 divide COUNT. */
static int setup(void **state) {
    (void)state;
    trine_layout l = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    split_device_create(&split_dev, mesh, REGION, REGION, REST);
    comm = trine_mesh_group(mesh, TRINE_DP);
    size = trine_comm_size(comm);
    rank = trine_comm_rank(comm);
    part = (size_t)FULL / (size_t)size;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    split_device_destroy(&split_dev);
    trine_mesh_destroy(&mesh);
    return 0;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* The device operations since the last check, in a group of several ranks. */
static void check_bytes(const char *what, size_t read, size_t written, size_t copied) {
    if (size > 1 &&
        (split_dev.read != read || split_dev.written != written || split_dev.copied != copied))
        fail_msg("%s: rank %d read %d, wrote %d, copied %d bytes instead of %d, %d, %d", what, rank,
                 (int)split_dev.read, (int)split_dev.written, (int)split_dev.copied, (int)read,
                 (int)written, (int)copied);
    split_dev.read = split_dev.written = split_dev.copied = 0;
}

/* Two device buffers, and the own part of the second. */
static char *one(void) {
    return split_dev.base;
}
static char *two(void) {
    return split_dev.base + REGION;
}
static char *own_of(char *full) {
    return full + (size_t)rank * part;
}

static void reductions_copy_what_counts(void **state) {
    (void)state;
    char *a = one(), *b = two();
    bool root = rank == size - 1;
    OK(trine_all_reduce(comm, a, b, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("all-reduce", FULL, FULL, 0);
    OK(trine_all_reduce(comm, a, a, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("all-reduce in place", FULL, FULL, 0);
    OK(trine_reduce(comm, a, b, COUNT, TRINE_F32, TRINE_SUM, size - 1));
    check_bytes("reduce", FULL, root ? FULL : 0, 0);
    OK(trine_reduce_scatter(comm, a, b, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("reduce-scatter", FULL, part, 0);
    OK(trine_reduce_scatter(comm, own_of(a), a, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("reduce-scatter in place", FULL, part, 0);
    comm_request request = {0};
    OK(comm_reduce_scatter_onto_start(comm, a, b, COUNT, TRINE_F32, &request));
    check_bytes("the start of a sum onto dst", FULL + part, 0, 0);
    OK(comm_wait(&request));
    check_bytes("its wait", 0, part, 0);
}

static void movement_copies_what_counts(void **state) {
    (void)state;
    char *a = one(), *b = two();
    bool root = rank == 0;
    OK(trine_broadcast(comm, a, COUNT, TRINE_F32, 0));
    check_bytes("broadcast", root ? FULL : 0, root ? 0 : FULL, 0);
    OK(trine_scatter(comm, a, b, COUNT, TRINE_F32, 0));
    check_bytes("scatter", root ? FULL : 0, part, 0);
    OK(trine_scatter(comm, root ? own_of(b) : a, b, COUNT, TRINE_F32, 0));
    check_bytes("scatter in place", root ? FULL : 0, root ? 0 : part, 0);
    OK(trine_gather(comm, a, b, COUNT, TRINE_F32, 0));
    check_bytes("gather", part, root ? FULL : 0, 0);
    OK(trine_gather(comm, a, own_of(a), COUNT, TRINE_F32, 0));
    check_bytes("gather in place", part, root ? FULL - part : 0, 0);
    OK(trine_all_to_all(comm, a, b, COUNT, TRINE_F32));
    check_bytes("all-to-all", FULL, FULL, 0);
    OK(trine_all_gather(comm, a, b, COUNT, TRINE_F32));
    check_bytes("all-gather", part, FULL - part, part);
    OK(trine_all_gather(comm, a, own_of(a), COUNT, TRINE_F32));
    check_bytes("all-gather in place", part, FULL - part, 0);
    OK(trine_barrier(comm));
    OK(trine_all_reduce(comm, a, b, 0, TRINE_F32, TRINE_SUM));
    check_bytes("a barrier and a call on no elements", 0, 0, 0);
}

/* One side is in host memory: only the other is copied. */
static void host_buffers_pass(void **state) {
    (void)state;
    float host[2][COUNT] = {{0}};
    OK(trine_all_reduce(comm, host[0], host[1], COUNT, TRINE_F32, TRINE_SUM));
    OK(trine_all_gather(comm, host[0], host[1], COUNT, TRINE_F32));
    OK(trine_broadcast(comm, host[0], COUNT, TRINE_F32, 0));
    check_bytes("host memory", 0, 0, 0);
    OK(trine_all_reduce(comm, host[0], one(), COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("from the device to the host", FULL, 0, 0);
    OK(trine_all_gather(comm, one(), host[1], COUNT, TRINE_F32));
    check_bytes("from the host to the device", 0, FULL, 0);
}

/* Outgoing data are copied at the start, incoming data at the wait. */
static void started_calls_copy_at_their_ends(void **state) {
    (void)state;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    comm_request sent = {0}, received = {0}, gathered = {0};
    if (size == 1) return;
    OK(comm_recv_start(comm, one(), COUNT, TRINE_F32, last, &received));
    check_bytes("a receive's start", 0, 0, 0);
    OK(comm_send_start(comm, two(), COUNT, TRINE_F32, next, &sent));
    check_bytes("a send's start", FULL, 0, 0);
    OK(comm_wait(&received));
    check_bytes("a receive's wait", 0, FULL, 0);
    OK(comm_wait(&sent));
    check_bytes("a send's wait", 0, 0, 0);
    OK(comm_all_gather_start(comm, one(), own_of(one()), COUNT, TRINE_F32, &gathered));
    check_bytes("a gather's start", part, 0, 0);
    OK(comm_wait(&gathered));
    OK(comm_wait(&gathered)); /* idle */
    check_bytes("a gather's wait", 0, FULL - part, 0);
}

/* ---- Groups of one --------------------------------------------------------------------------- */

/* They copy within device memory, anywhere in it, and do not wait; they add there, too. */
static void alone_stays_on_the_device(void **state) {
    (void)state;
    trine_comm *tp = trine_mesh_group(mesh, TRINE_TP);
    char *rest = split_dev.base + 2 * REGION, word[8] = "trine", back[8] = "";
    comm_request idle = {0};
    assert_string_equal(trine_comm_transport(tp), "self");
    OK(device_write(&split_dev.device, rest, word, sizeof word));
    split_dev.read = split_dev.written = split_dev.copied = 0;
    OK(trine_all_reduce(tp, one(), rest, 2, TRINE_F32, TRINE_SUM));
    OK(trine_all_gather(tp, two(), one(), 2, TRINE_F32));
    OK(trine_reduce_scatter(tp, two(), two(), 2, TRINE_F32, TRINE_SUM));
    OK(trine_broadcast(tp, two(), 2, TRINE_F32, 0));
    OK(comm_send_start(tp, two(), 2, TRINE_F32, 0, &idle));
    OK(trine_barrier(tp));
    assert_true(split_dev.read == 0 && split_dev.written == 0 && split_dev.copied == 16);
    assert_int_equal(split_dev.late_count, 2);
    OK(trine_gather(tp, back, two(), 8, TRINE_U8, 0));
    assert_string_equal(back, word);
    float *sums = (float *)(void *)split_dev.seen, host[2] = {1, 3};
    sums[0] = 5, sums[1] = 7;
    OK(device_write(&split_dev.device, rest, host, sizeof host));
    split_dev.read = split_dev.written = 0;
    OK(comm_reduce_scatter_onto_start(tp, one(), rest, 2, TRINE_F32, &idle));
    OK(comm_wait(&idle));
    assert_true(sums[0] == 6 && sums[1] == 10 && split_dev.read == 0 && split_dev.written == 0);
    OK(comm_reduce_scatter_onto_start(tp, host, sums, 2, TRINE_F32, &idle));
    OK(comm_wait(&idle));
    assert_true(host[0] == 7 && host[1] == 13);
    OK(trine_scatter(tp, one(), "again!!", 8, TRINE_U8, 0));
    OK(trine_all_to_all(tp, back, one(), 8, TRINE_U8));
    assert_string_equal(back, "again!!");
    OK(trine_reduce(tp, back, word, 2, TRINE_I32, TRINE_MAX, 0));
    assert_string_equal(back, word);
}

/* ---- Audit, clock and removal ---------------------------------------------------------------- */

static void set_all(float x) {
    for (int i = 0; i < COUNT; i++) ((float *)(void *)split_dev.seen)[i] = x;
}

static void expect_all(float x) {
    for (int i = 0; i < COUNT; i++) assert_true(((float *)(void *)split_dev.seen)[i] == x);
}

/* The audit's own exchanges and hashes use host memory, and pass. */
static void audit_sees_the_callers_call(void **state) {
    (void)state;
    int64_t same = 7, other = rank;
    comm_audit(harness_world, true);
    set_all(2);
    OK(trine_all_reduce(comm, one(), one(), COUNT, TRINE_F32, TRINE_SUM));
    expect_all(2 * (float)size);
    OK(comm_hash_agree(comm, &same, sizeof same, "a number"));
    if (size > 1)
        REFUSED(comm_hash_agree(comm, &other, sizeof other, "a rank"), TRINE_EAUDIT, "a rank");
    size_t count = rank == size - 1 ? COUNT / 2 : COUNT;
    if (size > 1)
        REFUSED(trine_all_reduce(comm, one(), one(), count, TRINE_F32, TRINE_SUM), TRINE_EAUDIT,
                "all-reduce of 420 f32");
    comm_audit(harness_world, false);
}

/* A call is tallied and timed once, copies included. */
static void clock_counts_once(void **state) {
    (void)state;
    comm_clock *clock;
    comm_tally_reset(comm);
    OK(comm_clock_create(&clock, mesh));
    comm_clock_start(clock);
    set_all(1);
    OK(trine_all_reduce(comm, one(), one(), COUNT, TRINE_F32, TRINE_SUM));
    comm_clock_stop(clock);
    comm_time t = comm_clock_time(clock, TRINE_DP, TRINE_TALLY_ALL_REDUCE);
    assert_int_equal(t.calls, size > 1);
    assert_int_equal(trine_comm_tally(comm, TRINE_TALLY_ALL_REDUCE).calls, 1);
    assert_true(comm_clock_ns(clock) == t.ns);
    expect_all((float)size);
    comm_clock_destroy(&clock);
}

/* Without staging the groups are as before, and it can be set again. */
static void comes_and_goes(void **state) {
    (void)state;
    char name[32];
    float x = 1;
    device_region memory = split_dev.memory;
    snprintf(name, sizeof name, "%s", trine_comm_transport(comm));
    OK(comm_device_memory(mesh, NULL));
    assert_string_equal(trine_comm_transport(comm), size > 1 ? "shm" : "self");
    OK(trine_all_reduce(comm, &x, &x, 1, TRINE_F32, TRINE_SUM));
    assert_true(x == (float)size);
    OK(comm_device_memory(mesh, NULL));
    for (int i = 0; i < 2; i++) OK(comm_device_memory(mesh, &memory));
    assert_string_equal(trine_comm_transport(comm), name);
    set_all(1);
    OK(trine_all_reduce(comm, one(), one(), COUNT, TRINE_F32, TRINE_SUM));
    expect_all((float)size);
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(reductions_copy_what_counts), CASE(movement_copies_what_counts),
        CASE(host_buffers_pass),           CASE(started_calls_copy_at_their_ends),
        CASE(alone_stays_on_the_device),   CASE(audit_sees_the_callers_call),
        CASE(clock_counts_once),           CASE(comes_and_goes),
    };
    return HARNESS_RUN(argc, argv, tests);
}
