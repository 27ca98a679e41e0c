/* TEST np=1,2,3,4 */
/* Both reductions of a range over a dp group of all ranks, in place and not, on integers, whose sums are exact. */
#include "harness.h"

#include "core/flat.h"

#define COUNT 960 /* divisible by 1 to 6 */

static trine_mesh *mesh;
static trine_comm *dp;
static size_t rank, size, slice;

static int start(void **state) {
    (void)state;
    int ranks = trine_world_size(harness_world);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = ranks, .tp = 1, .pp = 1}, 0));
    dp = trine_mesh_group(mesh, TRINE_DP);
    rank = (size_t)trine_comm_rank(dp);
    size = (size_t)ranks;
    slice = COUNT / size;
    return 0;
}

static int stop(void **state) {
    (void)state;
    trine_mesh_destroy(&mesh);
    return 0;
}

/* Rank r's partial of element i, and the sum over the ranks. */
static float addend(size_t r, size_t i) {
    return (float)(i * (r + 1));
}

static float sum_of(size_t i) {
    return (float)(i * size * (size + 1) / 2);
}

static void fill(float *x) {
    for (size_t i = 0; i < COUNT; i++) x[i] = addend(rank, i);
}

static void reduce(placement to, float *dst, const float *src) {
    comm_request request = {0};
    OK(flat_reduce_start(dp, to, dst, src, COUNT, TRINE_F32, &request));
    OK(comm_wait(&request));
}

static void test_partial_to_replicate(void **state) {
    (void)state;
    float all[COUNT];
    fill(all);
    reduce(REPLICATE, all, all);
    for (size_t i = 0; i < COUNT; i++) assert_true(all[i] == sum_of(i));
}

static void test_partial_to_shard(void **state) {
    (void)state;
    float all[COUNT], own[COUNT] = {0};
    fill(all);
    reduce(SHARD, own, all);
    for (size_t i = 0; i < slice; i++) assert_true(own[i] == sum_of(rank * slice + i));
    fill(all);
    reduce(SHARD, all + rank * slice, all);
    for (size_t i = 0; i < slice; i++)
        assert_true(all[rank * slice + i] == sum_of(rank * slice + i));
}

/* An all-reduce gives the bits of a reduce-scatter: ZeRO-0 against ZeRO-1. */
static void test_same_bits_either_way(void **state) {
    (void)state;
    float all[COUNT], scattered[COUNT], own[COUNT];
    for (size_t i = 0; i < COUNT; i++) all[i] = scattered[i] = 1.0f / (float)(3 * i + 7 * rank + 1);
    reduce(REPLICATE, all, all);
    reduce(SHARD, own, scattered);
    assert_memory_equal(own, all + rank * slice, slice * sizeof *own);
}

int main(int argc, char **argv) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(test_partial_to_replicate),
        CASE(test_partial_to_shard),
        CASE(test_same_bits_either_way),
    };
    return HARNESS_RUN(argc, argv, tests);
}
