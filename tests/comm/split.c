/* TEST np=1,2,4,8 */
/* Parts of a world are worlds: their ranks count from 0, and they have their own meshes and
 * collectives, together with each other and with their parent world. With them: a sum in a tree has the same bits
 * however many ranks its addends are divided among. */
#include "harness.h"

#include "comm/api/comm.h"
#include "comm/group/world.h"

static int world_rank(void) {
    return trine_world_rank(harness_world);
}

static int world_size(void) {
    return trine_world_size(harness_world);
}

/* The sum over the part's ranks of their ranks in the world. */
static int64_t sum_of_ranks(trine_world *part) {
    trine_mesh *mesh;
    int64_t own = world_rank(), sum = -1;
    OK(trine_mesh_create(&mesh, part,
                         (trine_layout){.dp = trine_world_size(part), .tp = 1, .pp = 1}, 0));
    OK(trine_all_reduce(trine_mesh_group(mesh, TRINE_DP), &sum, &own, 1, TRINE_I64, TRINE_SUM));
    trine_mesh_destroy(&mesh);
    return sum;
}

static void one_rank_each(void **state) {
    (void)state;
    trine_world *self;
    OK(comm_world_split(&self, harness_world, world_rank()));
    assert_int_equal(trine_world_size(self), 1);
    assert_int_equal(trine_world_rank(self), 0);
    assert_int_equal(sum_of_ranks(self), world_rank());
    trine_world_destroy(&self);
    assert_null(self);
}

/* Parts of n consecutive ranks for every n; the remaining ranks are in no part. */
static void blocks(void **state) {
    (void)state;
    for (int n = 1; n <= world_size(); n++) {
        int block = world_rank() / n, parts = world_size() / n;
        trine_world *part;
        OK(comm_world_split(&part, harness_world, block < parts ? block : -1));
        if (block >= parts) {
            assert_null(part);
            continue;
        }
        assert_int_equal(trine_world_size(part), n);
        assert_int_equal(trine_world_rank(part), world_rank() % n);
        assert_int_equal(sum_of_ranks(part), (int64_t)block * n * n + (int64_t)n * (n - 1) / 2);
        trine_world_destroy(&part);
    }
}

/* ---- Sums in a tree over any number of ranks ------------------------------------------------- */

static float addend(int a, size_t i) {
    uint32_t h = ((uint32_t)a * 7919u + (uint32_t)i + 1u) * 2654435761u;
    return ((float)(h >> 8) / 8388608.0f - 1.0f) * (float)(1 << (h % 13));
}

/* Of addends first, first + 1, ... (n): cut at the largest power of two below n. */
static float tree_of(int first, int n, size_t i) {
    int p = 1;
    if (n == 1) return addend(first, i);
    while (2 * p < n) p *= 2;
    const float left = tree_of(first, p, i), right = tree_of(first + p, n - p, i);
    return left + right;
}

/* Each of `part`'s ranks has the sum of `each` consecutive addends. */
static void check_tree(trine_world *part, int each) {
    enum { COUNT = 840 };
    static float own[COUNT], sum[COUNT];
    trine_mesh *mesh;
    const int size = trine_world_size(part), rank = trine_world_rank(part);
    OK(trine_mesh_create(&mesh, part, (trine_layout){.dp = size, .tp = 1, .pp = 1}, 0));
    for (size_t i = 0; i < COUNT; i++) own[i] = tree_of(rank * each, each, i);
    trine_comm *comm = trine_mesh_group(mesh, TRINE_DP);
    OK(trine_all_reduce(comm, sum, own, COUNT, TRINE_F32, TRINE_SUM_TREE));
    for (size_t i = 0; i < COUNT; i++)
        if (sum[i] != tree_of(0, size * each, i))
            fail_msg("%d addends on %d ranks: element %zu", size * each, size, i);
    trine_mesh_destroy(&mesh);
}

/* So 12 addends have the same bits on 3 ranks and on 6, and 8 on 1, 2, 4 and 8. */
static void trees_on_any_number_of_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= world_size(); n++) {
        trine_world *part;
        OK(comm_world_split(&part, harness_world, world_rank() < n ? 0 : -1));
        if (!part) continue;
        for (int each = 1; each <= 8; each *= 2) check_tree(part, each);
        trine_world_destroy(&part);
    }
}

/* The world can be used while its parts exist, and after. */
static void beside_the_world(void **state) {
    (void)state;
    trine_world *part;
    int64_t all = (int64_t)world_size() * (world_size() - 1) / 2;
    OK(comm_world_split(&part, harness_world, world_rank() % 2));
    assert_int_equal(sum_of_ranks(harness_world), all);
    sum_of_ranks(part);
    trine_world_destroy(&part);
    assert_int_equal(sum_of_ranks(harness_world), all);
}

/* What the world was told holds for its parts. */
static void parts_obey_what_the_world_was_told(void **state) {
    (void)state;
    trine_world *part;
    trine_mesh *mesh;
    double before = harness_world->io_timeout, limit = harness_world->timeout;
    trine_layout l = {.dp = world_size(), .tp = 1, .pp = 1};
    trine_world_transport(harness_world, TRINE_TRANSPORT_MPI);
    trine_world_io_timeout(harness_world, before + 7);
    trine_world_timeout(harness_world, limit + 5);
    OK(trine_world_audit(harness_world, true));
    OK(comm_world_split(&part, harness_world, 0));
    assert_true(part->audit_wanted && part->io_timeout == before + 7 && part->timeout == limit + 5);
    OK(trine_mesh_create(&mesh, part, l, 0));
    assert_string_equal(trine_comm_transport(trine_mesh_group(mesh, TRINE_DP)),
                        world_size() > 1 ? "mpi" : "self");
    trine_mesh_destroy(&mesh);
    trine_world_destroy(&part);
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
    trine_world_io_timeout(harness_world, before);
    trine_world_timeout(harness_world, limit);
    OK(trine_world_audit(harness_world, false));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_each),
        cmocka_unit_test(blocks),
        cmocka_unit_test(trees_on_any_number_of_ranks),
        cmocka_unit_test(beside_the_world),
        cmocka_unit_test(parts_obey_what_the_world_was_told),
    };
    return HARNESS_RUN(argc, argv, tests);
}
