/* TEST np=2,4 */
/* Audit mode: equal calls pass; every kind of difference is reported, with both ranks and both
 * calls. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"

static trine_comm *setup_comm(trine_mesh **mesh) {
    trine_layout all_dp = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    OK(trine_mesh_create(mesh, harness_world, all_dp, 0));
    comm_audit(harness_world, true);
    return trine_mesh_group(*mesh, TRINE_DP);
}

static void end(trine_mesh **mesh) {
    comm_audit(harness_world, false);
    comm_program_end(harness_world);
    trine_mesh_destroy(mesh);
}

/* Calls from here on are those of instruction `at` of a program. */
static void run_at(int at) {
    comm_instruction(harness_world, at, 100, (const int32_t[COMM_WORDS]){0});
}

static bool is_last(void) {
    return trine_world_rank(harness_world) == trine_world_size(harness_world) - 1;
}

static void equal_calls_pass(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    int size = trine_comm_size(comm), rank = trine_comm_rank(comm);
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    run_at(17);
    OK(trine_all_reduce(comm, x, x, 8, TRINE_F32, TRINE_SUM));
    assert_true(x[0] == (float)size);
    OK(trine_broadcast(comm, x, 8, TRINE_F32, 1));
    OK(trine_barrier(comm));
    /* Messages are not collectives: the two sides make different calls. */
    if (rank == 0) OK(trine_send(comm, x, 8, TRINE_F32, 1));
    if (rank == 1) OK(trine_recv(comm, x, 8, TRINE_F32, 0));
    OK(trine_reduce(comm, x, x, 8, TRINE_F32, TRINE_SUM, 0));
    end(&mesh);
}

static void other_count(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    float x[9] = {0};
    char who[64];
    trine_status status = trine_all_reduce(comm, x, x, is_last() ? 9 : 8, TRINE_F32, TRINE_SUM);
    snprintf(who, sizeof who, "rank %d [pp0 dp%d tp0]", trine_world_size(harness_world) - 1,
             trine_world_size(harness_world) - 1);
    assert_non_null(strstr(status_message(), who));
    assert_non_null(strstr(status_message(), "rank 0 [pp0 dp0 tp0]"));
    assert_non_null(strstr(status_message(), "calls all-reduce of 8 f32"));
    REFUSED(status, TRINE_EAUDIT, "calls all-reduce of 9 f32");
    end(&mesh);
}

static void other_kind_and_type(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    double x[8] = {0};
    if (is_last()) {
        REFUSED(trine_broadcast(comm, x, 8, TRINE_F64, 0), TRINE_EAUDIT,
                "calls broadcast of 8 f64, root 0");
        REFUSED(trine_broadcast(comm, x, 8, TRINE_I64, 0), TRINE_EAUDIT,
                "calls broadcast of 8 i64");
    } else {
        REFUSED(trine_all_reduce(comm, x, x, 8, TRINE_F64, TRINE_SUM), TRINE_EAUDIT,
                "calls broadcast of 8 f64, root 0");
        REFUSED(trine_broadcast(comm, x, 8, TRINE_F64, 0), TRINE_EAUDIT,
                "calls broadcast of 8 i64");
    }
    end(&mesh);
}

static void other_root_and_reduction(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    float x[8] = {0};
    REFUSED(trine_broadcast(comm, x, 8, TRINE_F32, is_last()), TRINE_EAUDIT, "root 1");
    REFUSED(trine_all_reduce(comm, x, x, 8, TRINE_F32, is_last() ? TRINE_MAX : TRINE_SUM),
            TRINE_EAUDIT, "(max)");
    REFUSED(trine_all_reduce(comm, x, x, 8, TRINE_F32, is_last() ? TRINE_SUM_TREE : TRINE_SUM),
            TRINE_EAUDIT, "(tree)");
    end(&mesh);
}

static void other_half(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    uint16_t x[8] = {0};
    OK(trine_all_reduce(comm, x, x, 8, TRINE_BF16, TRINE_SUM));
    REFUSED(trine_all_reduce(comm, x, x, 8, is_last() ? TRINE_F16 : TRINE_BF16, TRINE_SUM),
            TRINE_EAUDIT, "calls all-reduce of 8 fp16");
    end(&mesh);
}

/* Program positions must agree inside a stage; in groups across stages the programs differ. */
static void other_position(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    run_at(is_last() ? 42 : 41);
    REFUSED(trine_barrier(comm), TRINE_EAUDIT, "at instruction 42");
    OK(trine_barrier(trine_mesh_group(mesh, TRINE_WORLD)));
    end(&mesh);
}

static void replicas(void **state) {
    (void)state;
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    char data[1000] = {0};
    OK(comm_hash_agree(comm, data, sizeof data, "parameters of block 3"));
    OK(comm_hash_agree(comm, NULL, 0, "nothing"));
    if (is_last()) data[999] = 1;
    REFUSED(comm_hash_agree(comm, data, sizeof data, "parameters of block 3"), TRINE_EAUDIT,
            "parameters of block 3 differs between rank 0 [pp0 dp0 tp0]");
    OK(comm_hash_agree(comm, data, 999, "all but the last byte"));
    REFUSED(comm_hash_agree(comm, data, is_last() ? 998 : 999, "a prefix"), TRINE_EAUDIT,
            "a prefix differs");
    end(&mesh);
}

/* The last bit of one of many 16-bit numbers differs, after a sum and a gather that made them equal. */
static void a_bit_of_a_half(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    trine_mesh *mesh;
    trine_comm *comm = setup_comm(&mesh);
    static uint16_t x[COUNT];
    size_t part = COUNT / (size_t)trine_comm_size(comm), own = part * (size_t)trine_comm_rank(comm);
    for (int i = 0; i < COUNT; i++) x[i] = (uint16_t)(0x3c00 + i % 500);
    OK(trine_reduce_scatter(comm, x + own, x, COUNT, TRINE_F16, TRINE_SUM));
    OK(trine_all_gather(comm, x, x + own, COUNT, TRINE_F16));
    OK(comm_hash_agree(comm, x, sizeof x, "parameters of block 3"));
    if (is_last()) x[COUNT - 1] ^= 1;
    REFUSED(comm_hash_agree(comm, x, sizeof x, "parameters of block 3"), TRINE_EAUDIT,
            "parameters of block 3 differs between rank 0 [pp0 dp0 tp0]");
    end(&mesh);
}

/* The public switch: for groups that exist and for later ones. A refused call leaves the group usable. */
static void for_any_program(void **state) {
    (void)state;
    trine_mesh *mesh[2];
    trine_layout all_dp = {.dp = trine_world_size(harness_world), .tp = 1, .pp = 1};
    float x[9] = {0};
    REFUSED(trine_world_audit(harness_world, is_last()), TRINE_EAUDIT, "trine_world_audit: rank");
    OK(trine_mesh_create(&mesh[0], harness_world, all_dp, 0));
    OK(trine_world_audit(harness_world, true));
    OK(trine_mesh_create(&mesh[1], harness_world, all_dp, 0));
    for (int i = 0; i < 2; i++) {
        trine_comm *comm = trine_mesh_group(mesh[i], TRINE_DP);
        REFUSED(trine_all_reduce(comm, x, x, is_last() ? 9 : 8, TRINE_F32, TRINE_SUM), TRINE_EAUDIT,
                "calls all-reduce of 9 f32");
        OK(trine_all_reduce(comm, x, x, 8, TRINE_F32, TRINE_SUM));
    }
    OK(trine_world_audit(harness_world, false));
    trine_comm *comm = trine_mesh_group(mesh[0], TRINE_DP);
    for (int i = 0; i < 2; i++)
        REFUSED(trine_all_reduce(comm, x, x, is_last() ? 9 : 8, TRINE_F32, TRINE_SUM), TRINE_EAUDIT,
                "the group cannot be used");
    OK(trine_barrier(trine_mesh_group(mesh[1], TRINE_DP)));
    for (int i = 0; i < 2; i++) trine_mesh_destroy(&mesh[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_calls_pass),    cmocka_unit_test(other_count),
        cmocka_unit_test(other_kind_and_type), cmocka_unit_test(other_root_and_reduction),
        cmocka_unit_test(other_position),      cmocka_unit_test(replicas),
        cmocka_unit_test(for_any_program),     cmocka_unit_test(other_half),
        cmocka_unit_test(a_bit_of_a_half),
    };
    return HARNESS_RUN(argc, argv, tests);
}
