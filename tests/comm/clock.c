/* TEST np=1,2,4 */
/* The clock over a mesh's groups: it counts the tallies' calls and bytes between start and stop only; a call
 * is timed once, however it is implemented; results do not change. */
#include "harness.h"

#include "base/clock.h"
#include "comm/api/comm.h"

enum { COUNT = 1 << 16, SMALL = 64 };

static trine_mesh *mesh;

static int make_mesh(void **state) {
    (void)state;
    trine_layout l = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    OK(trine_mesh_create(&mesh, harness_world, l, 0));
    return 0;
}

static int make_mpi_mesh(void **state) {
    trine_world_transport(harness_world, TRINE_TRANSPORT_MPI);
    int failed = make_mesh(state);
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
    return failed;
}

static int destroy_mesh(void **state) {
    (void)state;
    trine_mesh_destroy(&mesh);
    return 0;
}

/* Every kind of call once over dp; messages go around a ring. */
static void all_kinds(size_t count) {
    static float src[COUNT], dst[COUNT], expected;
    trine_comm *c = trine_mesh_group(mesh, TRINE_DP);
    int size = trine_comm_size(c), rank = trine_comm_rank(c);
    comm_request send = {0}, recv = {0};
    for (size_t i = 0; i < count; i++) src[i] = (float)(rank + 1);
    expected = (float)(size * (size + 1) / 2);
    OK(trine_all_reduce(c, dst, src, count, TRINE_F32, TRINE_SUM));
    assert_true(dst[0] == expected && dst[count - 1] == expected);
    OK(trine_reduce(c, dst, src, count, TRINE_F32, TRINE_SUM, 0));
    OK(trine_reduce_scatter(c, dst, src, count, TRINE_F32, TRINE_SUM));
    assert_true(dst[0] == expected);
    OK(trine_broadcast(c, src, count, TRINE_F32, size - 1));
    assert_true(src[count - 1] == (float)size);
    OK(trine_all_gather(c, dst, src, count, TRINE_F32));
    OK(trine_scatter(c, dst, src, count, TRINE_F32, 0));
    OK(trine_gather(c, dst, src, count, TRINE_F32, 0));
    OK(trine_all_to_all(c, dst, src, count, TRINE_F32));
    OK(comm_recv_start(c, dst, count, TRINE_F32, (rank + size - 1) % size, &recv));
    OK(comm_send_start(c, src, count, TRINE_F32, (rank + 1) % size, &send));
    OK(comm_wait(&recv));
    OK(comm_wait(&send));
    OK(trine_barrier(c));
}

static uint64_t all_ns(const comm_clock *clock) {
    uint64_t ns = 0;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++)
            ns += comm_clock_time(clock, (trine_group)g, (trine_tally_kind)k).ns;
    return ns;
}

static void check_times(const comm_clock *clock, uint64_t calls) {
    bool alone = trine_world_size(harness_world) == 1;
    for (int g = 0; g < TRINE_GROUPS; g++)
        for (int k = 0; k < TRINE_TALLY_KINDS; k++) {
            comm_time t = comm_clock_time(clock, (trine_group)g, (trine_tally_kind)k);
            uint64_t want = g == TRINE_DP && !alone ? calls : 0;
            if (t.calls != want || (t.ns > 0) != (want > 0))
                fail_msg("group %d, kind %d: %d calls instead of %d, %d ns", g, k, (int)t.calls,
                         (int)want, (int)t.ns);
        }
    assert_true(all_ns(clock) == comm_clock_ns(clock));
}

static void counts_while_it_runs(void **state) {
    (void)state;
    comm_clock *clock;
    OK(comm_clock_create(&clock, mesh));
    all_kinds(SMALL);
    check_times(clock, 0);
    comm_clock_start(clock);
    comm_clock_start(clock); /* does nothing */
    uint64_t since = clock_ns();
    all_kinds(SMALL);
    all_kinds(COUNT);
    uint64_t elapsed = clock_ns() - since;
    comm_clock_stop(clock);
    comm_clock_stop(clock);
    check_times(clock, 2);
    assert_true(comm_clock_ns(clock) <= elapsed);
    all_kinds(SMALL);
    check_times(clock, 2);
    comm_clock_start(clock); /* continues */
    all_kinds(SMALL);
    comm_clock_destroy(&clock); /* stops it first */
    assert_null(clock);
    all_kinds(SMALL);
}

static void bytes_are_the_tallies(void **state) {
    (void)state;
    comm_clock *clock;
    trine_comm *c = trine_mesh_group(mesh, TRINE_DP);
    if (trine_comm_size(c) > 1) all_kinds(SMALL); /* not counted */
    OK(comm_clock_create(&clock, mesh));
    comm_tally_reset(c);
    comm_clock_start(clock);
    all_kinds(COUNT);
    comm_clock_stop(clock);
    for (int k = 0; k < TRINE_TALLY_KINDS && trine_comm_size(c) > 1; k++) {
        comm_time t = comm_clock_time(clock, TRINE_DP, (trine_tally_kind)k);
        trine_tally tally = trine_comm_tally(c, (trine_tally_kind)k);
        assert_int_equal(t.calls, tally.calls);
        assert_int_equal(t.bytes, tally.bytes);
    }
    comm_clock_destroy(&clock);
}

/* Over mpi a small all-reduce contains an all-gather, which must not be counted as well. */
static void nothing_is_timed_twice(void **state) {
    (void)state;
    comm_clock *clock;
    float x[SMALL] = {0};
    OK(comm_clock_create(&clock, mesh));
    comm_clock_start(clock);
    uint64_t since = clock_ns();
    for (int i = 0; i < 100; i++)
        OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_DP), x, x, SMALL, TRINE_F32, TRINE_SUM));
    uint64_t elapsed = clock_ns() - since;
    comm_clock_stop(clock);
    assert_true(comm_clock_ns(clock) <= elapsed);
    comm_clock_destroy(&clock);
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_mesh, destroy_mesh)
    const struct CMUnitTest tests[] = {
        CASE(counts_while_it_runs),
        CASE(bytes_are_the_tallies),
        cmocka_unit_test_setup_teardown(nothing_is_timed_twice, make_mpi_mesh, destroy_mesh),
    };
    return HARNESS_RUN(argc, argv, tests);
}
