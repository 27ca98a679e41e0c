/* TEST np=none */
/* For worlds.t: cases that fail where TRINE_FAIL says so, "2 1" on rank 1 of the world of 2 ranks, and that leave a
 * process where TRINE_LEAVE is set. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int here(void **state) {
    *state = harness_world;
    return 0;
}

static int left;

static int leave(void **state) {
    (void)state;
    left++;
    return 0;
}

static void meets(void **state) {
    trine_mesh *mesh;
    int size = trine_world_size(harness_world);
    int64_t sum = 1;
    assert_ptr_equal(*state, harness_world); /* the setup had this world */
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_WORLD), &sum, &sum, 1, TRINE_I64, TRINE_SUM));
    assert_int_equal(sum, size);
    trine_mesh_destroy(&mesh);
}

static void fails(void **state) {
    const char *where = getenv("TRINE_FAIL");
    int size = 0, rank = 0;
    (void)state;
    assert_true(left > 0); /* by the teardown of the case before */
    if (getenv("TRINE_LEAVE") && fork() == 0) _exit((int)sleep(60));
    if (!where || sscanf(where, "%d %d", &size, &rank) != 2) return;
    if (trine_world_size(harness_world) == size && trine_world_rank(harness_world) == rank)
        fail_msg("as told");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(meets, here, leave),
        cmocka_unit_test(fails),
    };
    return HARNESS_RUN(argc, argv, tests);
}
