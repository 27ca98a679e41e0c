/* TEST np=2,4 apart */
/* bench/comm's check accepts only the correct result of each primitive, by Trine and by MPI: every element is
 * checked. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm_ops.h"
#include "comm_pattern.h"

enum { COUNT = 1024 }; /* more than a period of the pattern on every rank */

static float src[COUNT], dst[COUNT];

static op_call setup(trine_mesh **mesh) {
    op_call c = {.rank = trine_world_rank(harness_world),
                 .ranks = trine_world_size(harness_world),
                 .count = COUNT,
                 .src = src,
                 .dst = dst};
    OK(trine_mesh_create(mesh, harness_world, (trine_layout){.dp = c.ranks, .tp = 1, .pp = 1}, 0));
    c.comm = trine_mesh_group(*mesh, TRINE_DP);
    pattern_fill(src, COUNT, 0, pattern_of_rank(c.rank));
    return c;
}

/* The number of elements of the result on this rank. */
static size_t elements(const op *o, const op_call *c) {
    static const char *const full[] = {"all-reduce", "two-halves", "all-gather", "all-to-all",
                                       "send-recv"};
    static const char *const part[] = {"reduce-scatter", "scatter"};
    static const char *const of_root[] = {"reduce", "gather"};
    for (size_t i = 0; i < 5; i++)
        if (!strcmp(o->name, full[i])) return COUNT;
    for (size_t i = 0; i < 2; i++)
        if (!strcmp(o->name, part[i])) return COUNT / (size_t)c->ranks;
    for (size_t i = 0; i < 2; i++)
        if (!strcmp(o->name, of_root[i])) return c->rank == 0 ? COUNT : 0;
    if (!strcmp(o->name, "broadcast")) return c->rank == 0 ? 0 : COUNT;
    assert_string_equal(o->name, "barrier");
    return 0;
}

/* Changes one element after the other by one unit in the last place. */
static void sees_each_element(const op *o, const op_call *c) {
    OK(op_check(o, c, "this test"));
    for (size_t i = 0; i < elements(o, c); i++) {
        float right = dst[i];
        dst[i] = nextafterf(right, INFINITY);
        REFUSED(op_check(o, c, "this test"), TRINE_EDATA, "by this test: element ");
        dst[i] = right;
    }
    OK(op_check(o, c, "this test"));
}

static void right_results_only(void **state) {
    (void)state;
    trine_mesh *mesh;
    const op_call c = setup(&mesh);
    assert_int_equal(op_count, 11);
    for (int i = 0; i < op_count; i++) {
        op_spoil(&c);
        if (elements(&ops[i], &c))
            REFUSED(op_check(&ops[i], &c, "nobody"), TRINE_EDATA, "element 0 of rank");
        OK(ops[i].trine(&c));
        sees_each_element(&ops[i], &c);
        OK(trine_barrier(c.comm));
        op_spoil(&c);
        ops[i].mpi(&c);
        sees_each_element(&ops[i], &c);
        OK(trine_barrier(c.comm));
    }
    trine_mesh_destroy(&mesh);
}

/* Exact in any order of additions, in the largest world that the program accepts. */
static void sums_are_exact(void **state) {
    (void)state;
    for (size_t i = 0; i < 600; i++) {
        float up = 0, down = 0;
        for (int r = 0; r < PATTERN_RANKS; r++) {
            up += pattern_at(pattern_of_rank(r), i);
            down += pattern_at(pattern_of_rank(PATTERN_RANKS - 1 - r), i);
        }
        assert_true(up == down);
        assert_true(up == pattern_at(pattern_of_sum(PATTERN_RANKS), i));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_only),
        cmocka_unit_test(sums_are_exact),
    };
    return HARNESS_RUN(argc, argv, tests);
}
