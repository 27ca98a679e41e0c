/* TEST np=1,2,3 */
/* The level of a job is the highest that all of its ranks have, and of one rank the highest is known. */
#include "comm/api/agree_level.h"

#include "base/levels.h"
#include "base/status.h"
#include "harness.h"

/* A rank with the levels from `low` to `high`. */
static trine_status agree(trine_cpu_level low, trine_cpu_level high, comm_level *out) {
    bool has[TRINE_CPU_LEVELS] = {false};
    for (trine_cpu_level level = low; level <= high; level++) has[level] = true;
    return comm_common_level(harness_world, TRINE_CPU_AUTO, has, out);
}

/* The last rank is on an older processor. */
static void the_highest_that_all_have(void **state) {
    (void)state;
    comm_level out;
    const int rank = trine_world_rank(harness_world), size = trine_world_size(harness_world);
    const bool old = rank == size - 1;
    OK(agree(TRINE_CPU_V2, old ? TRINE_CPU_V3 : TRINE_CPU_V4_AMX, &out));
    assert_int_equal(out.level, TRINE_CPU_V3);
    assert_int_equal(out.highest, size == 1 ? TRINE_CPU_V3 : TRINE_CPU_V4_AMX);
    OK(agree(TRINE_CPU_V2, TRINE_CPU_V4, &out));
    assert_int_equal(out.level, TRINE_CPU_V4);
    assert_int_equal(out.highest, TRINE_CPU_V4);
}

/* Builds for one processor each. */
static void no_level_in_common(void **state) {
    (void)state;
    comm_level out;
    const int rank = trine_world_rank(harness_world), size = trine_world_size(harness_world);
    const trine_cpu_level own = rank ? TRINE_CPU_V4_BF16 : TRINE_CPU_V3;
    if (size == 1)
        OK(agree(own, own, &out));
    else if (rank == 0)
        REFUSED(agree(own, own, &out), TRINE_EUNSUPPORTED,
                "this one for v3, with no level in common; use one build on all ranks, made with "
                "make MARCH=any");
    else
        assert_int_equal(agree(own, TRINE_CPU_V4_AMX, &out), TRINE_EUNSUPPORTED);
    status_clear();
}

static void this_job_has_one(void **state) {
    (void)state;
    comm_level out, named;
    OK(comm_agree_level(harness_world, TRINE_CPU_AUTO, &out));
    assert_true(levels_here(out.level));
    OK(comm_agree_level(harness_world, out.level, &named));
    assert_int_equal(named.level, out.level);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_that_all_have),
        cmocka_unit_test(no_level_in_common),
        cmocka_unit_test(this_job_has_one),
    };
    return HARNESS_RUN(argc, argv, tests);
}
