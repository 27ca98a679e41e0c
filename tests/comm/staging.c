/* TEST np=1,2,4,8 */
/* What stands before the groups when buffers lie in a device's memory: which bytes it copies, that
 * it can be put there and taken away, and that audit, clock and groups of one work as ever. That
 * results are right, collectives.c and message.c ask. */
#include "split_device.h"
#include "harness.h"

#include <string.h>

#include "comm/api/comm.h"

enum { COUNT = 840, ELEMENT = 4, WHOLE = COUNT * ELEMENT, PIECE = 1 << 16, REST = 4096 };

static trine_mesh *mesh;
static trine_comm *comm; /* dp: everybody */
static int size, rank;
static size_t part; /* bytes that a rank has of the whole */
static split_device far;

/* Sizes of 1, 2, 4 and 8 divide COUNT. */
static int setup(void **state) {
    (void)state;
    trine_layout l = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    split_device_create(&far, mesh, PIECE, PIECE, REST);
    comm = trine_mesh_group(mesh, TRINE_DP);
    size = trine_comm_size(comm);
    rank = trine_comm_rank(comm);
    part = (size_t)WHOLE / (size_t)size;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    split_device_destroy(&far);
    trine_mesh_destroy(&mesh);
    return 0;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* What the device has been asked for since the last call, in a group of several. */
static void check_bytes(const char *what, size_t read, size_t written, size_t copied) {
    if (size > 1 && (far.read != read || far.written != written || far.copied != copied))
        fail_msg("%s: rank %d read %d, wrote %d, copied %d bytes instead of %d, %d, %d", what, rank,
                 (int)far.read, (int)far.written, (int)far.copied, (int)read, (int)written,
                 (int)copied);
    far.read = far.written = far.copied = 0;
}

/* Two far buffers, and the own part of the second. */
static char *one(void) {
    return far.base;
}
static char *two(void) {
    return far.base + PIECE;
}
static char *own_of(char *whole) {
    return whole + (size_t)rank * part;
}

static void reductions_copy_what_counts(void **state) {
    (void)state;
    char *a = one(), *b = two();
    bool root = rank == size - 1;
    OK(trine_all_reduce(comm, a, b, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("all-reduce", WHOLE, WHOLE, 0);
    OK(trine_all_reduce(comm, a, a, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("all-reduce in place", WHOLE, WHOLE, 0);
    OK(trine_reduce(comm, a, b, COUNT, TRINE_F32, TRINE_SUM, size - 1));
    check_bytes("reduce", WHOLE, root ? WHOLE : 0, 0);
    OK(trine_reduce_scatter(comm, a, b, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("reduce-scatter", WHOLE, part, 0);
    OK(trine_reduce_scatter(comm, own_of(a), a, COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("reduce-scatter in place", WHOLE, part, 0);
}

static void movement_copies_what_counts(void **state) {
    (void)state;
    char *a = one(), *b = two();
    bool root = rank == 0;
    OK(trine_broadcast(comm, a, COUNT, TRINE_F32, 0));
    check_bytes("broadcast", root ? WHOLE : 0, root ? 0 : WHOLE, 0);
    OK(trine_scatter(comm, a, b, COUNT, TRINE_F32, 0));
    check_bytes("scatter", root ? WHOLE : 0, part, 0);
    OK(trine_scatter(comm, root ? own_of(b) : a, b, COUNT, TRINE_F32, 0));
    check_bytes("scatter in place", root ? WHOLE : 0, root ? 0 : part, 0);
    OK(trine_gather(comm, a, b, COUNT, TRINE_F32, 0));
    check_bytes("gather", part, root ? WHOLE : 0, 0);
    OK(trine_gather(comm, a, own_of(a), COUNT, TRINE_F32, 0));
    check_bytes("gather in place", part, root ? WHOLE - part : 0, 0);
    OK(trine_all_to_all(comm, a, b, COUNT, TRINE_F32));
    check_bytes("all-to-all", WHOLE, WHOLE, 0);
    OK(trine_all_gather(comm, a, b, COUNT, TRINE_F32));
    check_bytes("all-gather", part, WHOLE - part, part);
    OK(trine_all_gather(comm, a, own_of(a), COUNT, TRINE_F32));
    check_bytes("all-gather in place", part, WHOLE - part, 0);
    OK(trine_barrier(comm));
    OK(trine_all_reduce(comm, a, b, 0, TRINE_F32, TRINE_SUM));
    check_bytes("a barrier and a call on nothing", 0, 0, 0);
}

/* One side is the host's: only the other is copied. */
static void host_buffers_pass(void **state) {
    (void)state;
    float host[2][COUNT] = {{0}};
    OK(trine_all_reduce(comm, host[0], host[1], COUNT, TRINE_F32, TRINE_SUM));
    OK(trine_all_gather(comm, host[0], host[1], COUNT, TRINE_F32));
    OK(trine_broadcast(comm, host[0], COUNT, TRINE_F32, 0));
    check_bytes("host memory", 0, 0, 0);
    OK(trine_all_reduce(comm, host[0], one(), COUNT, TRINE_F32, TRINE_SUM));
    check_bytes("from the device to the host", WHOLE, 0, 0);
    OK(trine_all_gather(comm, one(), host[1], COUNT, TRINE_F32));
    check_bytes("from the host to the device", 0, WHOLE, 0);
}

/* What goes out leaves with the start, what comes is there after the wait, and not before. */
static void started_calls_copy_at_their_ends(void **state) {
    (void)state;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    comm_request sent = {0}, received = {0}, gathered = {0};
    if (size == 1) return;
    OK(comm_recv_start(comm, one(), COUNT, TRINE_F32, last, &received));
    check_bytes("a receive's start", 0, 0, 0);
    OK(comm_send_start(comm, two(), COUNT, TRINE_F32, next, &sent));
    check_bytes("a send's start", WHOLE, 0, 0);
    OK(comm_wait(&received));
    check_bytes("a receive's wait", 0, WHOLE, 0);
    OK(comm_wait(&sent));
    check_bytes("a send's wait", 0, 0, 0);
    OK(comm_all_gather_start(comm, one(), own_of(one()), COUNT, TRINE_F32, &gathered));
    check_bytes("a gather's start", part, 0, 0);
    OK(comm_wait(&gathered));
    OK(comm_wait(&gathered)); /* idle */
    check_bytes("a gather's wait", 0, WHOLE - part, 0);
}

/* ---- Groups of one --------------------------------------------------------------------------- */

/* They copy on the device, between any two places of it, and wait for nothing. */
static void alone_stays_on_the_device(void **state) {
    (void)state;
    trine_comm *tp = trine_mesh_group(mesh, TRINE_TP);
    char *rest = far.base + 2 * PIECE, word[8] = "trine", back[8] = "";
    comm_request idle = {0};
    assert_string_equal(trine_comm_transport(tp), "self");
    OK(device_write(&far.device, rest, word, sizeof word));
    far.read = far.written = far.copied = 0;
    OK(trine_all_reduce(tp, one(), rest, 2, TRINE_F32, TRINE_SUM));
    OK(trine_all_gather(tp, two(), one(), 2, TRINE_F32));
    OK(trine_reduce_scatter(tp, two(), two(), 2, TRINE_F32, TRINE_SUM));
    OK(trine_broadcast(tp, two(), 2, TRINE_F32, 0));
    OK(comm_send_start(tp, two(), 2, TRINE_F32, 0, &idle));
    OK(trine_barrier(tp));
    assert_true(far.read == 0 && far.written == 0 && far.copied == 16);
    assert_int_equal(far.late_count, 2);
    OK(trine_gather(tp, back, two(), 8, TRINE_U8, 0));
    assert_string_equal(back, word);
    OK(trine_scatter(tp, one(), "again!!", 8, TRINE_U8, 0));
    OK(trine_all_to_all(tp, back, one(), 8, TRINE_U8));
    assert_string_equal(back, "again!!");
    OK(trine_reduce(tp, back, word, 2, TRINE_I32, TRINE_MAX, 0));
    assert_string_equal(back, word);
}

/* ---- What stands around it ------------------------------------------------------------------- */

static void set_all(float x) {
    for (int i = 0; i < COUNT; i++) ((float *)(void *)far.seen)[i] = x;
}

static void expect_all(float x) {
    for (int i = 0; i < COUNT; i++) assert_true(((float *)(void *)far.seen)[i] == x);
}

/* The audit's own exchanges and hashes are of host memory, and pass. */
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

/* Without it the groups are what they were, and it can come again. */
static void comes_and_goes(void **state) {
    (void)state;
    char name[32];
    float x = 1;
    device_region memory = far.memory;
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
