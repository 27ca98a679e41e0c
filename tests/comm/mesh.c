/* TEST np=1,2,4,8 */
/* The mesh: coordinates and groups of all ranks, and that every group carries messages
 * between exactly its members. The members are computed here by search over all ranks. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "comm/api/comm.h"

static int world_size(void) {
    return trine_world_size(harness_world);
}

static int world_rank(void) {
    return trine_world_rank(harness_world);
}

/* The number of neighbours in a tp group that form a part. */
static int part = 1;

/* ---- Expected groups ------------------------------------------------------------------------- */

static bool same_but_dp(trine_coord a, trine_coord b) {
    return a.tp == b.tp && a.pp == b.pp;
}

static bool same_but_tp(trine_coord a, trine_coord b) {
    return a.dp == b.dp && a.pp == b.pp;
}

static bool same_but_pp(trine_coord a, trine_coord b) {
    return a.dp == b.dp && a.tp == b.tp;
}

static bool is_end(trine_layout l, trine_coord a) {
    return a.pp == 0 || a.pp == l.pp - 1;
}

/* Whether b is in a's group. */
static bool together(trine_group group, trine_layout l, trine_coord a, trine_coord b) {
    bool self = a.dp == b.dp && a.tp == b.tp && a.pp == b.pp;
    switch (group) {
    case TRINE_WORLD: return true;
    case TRINE_DP: return same_but_dp(a, b);
    case TRINE_TP: return same_but_tp(a, b);
    case TRINE_PP: return same_but_pp(a, b);
    case TRINE_TP_PART: return self || (same_but_tp(a, b) && a.tp / part == b.tp / part);
    case TRINE_TIE: return self || (same_but_pp(a, b) && is_end(l, a) && is_end(l, b));
    case TRINE_ACT_IN:
    case TRINE_GRAD_OUT: return self || (same_but_pp(a, b) && b.pp == a.pp - 1);
    case TRINE_ACT_OUT:
    case TRINE_GRAD_IN: return self || (same_but_pp(a, b) && b.pp == a.pp + 1);
    case TRINE_NODE:
    case TRINE_GROUPS: break;
    }
    return true; /* the tests run on one node */
}

static void check_group(const trine_mesh *mesh, trine_group group) {
    trine_layout l = trine_mesh_layout(mesh);
    trine_comm *comm = trine_mesh_group(mesh, group);
    int n = 0;
    for (int r = 0; r < world_size(); r++) {
        if (!together(group, l, trine_mesh_coord(mesh), trine_layout_coord(l, r))) continue;
        assert_true(n < trine_comm_size(comm));
        assert_int_equal(comm_world_rank(comm, n), r);
        if (r == world_rank()) assert_int_equal(trine_comm_rank(comm), n);
        n++;
    }
    assert_int_equal(n, trine_comm_size(comm));
    assert_int_equal(comm_group(comm), group);
    assert_ptr_equal(comm_world(comm), harness_world);
}

/* Each member contributes its world rank; all members must receive all of them, in order. */
static void check_gather(const trine_mesh *mesh, trine_group group) {
    trine_comm *comm = trine_mesh_group(mesh, group);
    int32_t own = world_rank(), all[8];
    OK(trine_all_gather(comm, all, &own, (size_t)trine_comm_size(comm), TRINE_I32));
    for (int i = 0; i < trine_comm_size(comm); i++)
        assert_int_equal(all[i], comm_world_rank(comm, i));
}

/* Both directions at once along the whole pipeline, as a stage that starts its receives early. */
static void check_edges(const trine_mesh *mesh) {
    trine_coord c = trine_mesh_coord(mesh);
    trine_layout l = trine_mesh_layout(mesh);
    int32_t own = world_rank(), act = -1, grad = -1;
    comm_request requests[4];
    memset(requests, 0, sizeof requests);
    OK(comm_recv_start(trine_mesh_group(mesh, TRINE_ACT_IN), &act, 1, TRINE_I32, 0, &requests[0]));
    OK(comm_recv_start(trine_mesh_group(mesh, TRINE_GRAD_IN), &grad, 1, TRINE_I32, 1,
                       &requests[1]));
    OK(comm_send_start(trine_mesh_group(mesh, TRINE_ACT_OUT), &own, 1, TRINE_I32, 1, &requests[2]));
    OK(comm_send_start(trine_mesh_group(mesh, TRINE_GRAD_OUT), &own, 1, TRINE_I32, 0,
                       &requests[3]));
    for (int i = 0; i < 4; i++) OK(comm_wait(&requests[i]));
    int before = trine_layout_rank(l, (trine_coord){.dp = c.dp, .tp = c.tp, .pp = c.pp - 1});
    int after = trine_layout_rank(l, (trine_coord){.dp = c.dp, .tp = c.tp, .pp = c.pp + 1});
    assert_int_equal(act, c.pp > 0 ? before : -1);
    assert_int_equal(grad, c.pp < l.pp - 1 ? after : -1);
}

static void check_mesh(trine_layout l, int tp_part) {
    trine_mesh *mesh;
    part = tp_part;
    OK(mesh_create(&mesh, harness_world, l, 0, part));
    trine_coord c = trine_mesh_coord(mesh);
    assert_int_equal((c.pp * l.dp + c.dp) * l.tp + c.tp, world_rank());
    for (trine_group g = 0; g < TRINE_GROUPS; g++) check_group(mesh, g);
    const trine_group gathers[] = {TRINE_WORLD,   TRINE_DP,  TRINE_TP,  TRINE_PP,
                                   TRINE_TP_PART, TRINE_TIE, TRINE_NODE};
    for (size_t i = 0; i < sizeof gathers / sizeof *gathers; i++) check_gather(mesh, gathers[i]);
    check_edges(mesh);
    assert_int_equal(mesh_node_count(mesh), 1);
    trine_mesh_destroy(&mesh);
    assert_null(mesh);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void every_layout(void **state) {
    (void)state;
    int layouts = 0, n = world_size();
    for (int dp = 1; dp <= n; dp++)
        for (int tp = 1; tp <= n; tp++)
            for (int pp = 1; pp <= n; pp++)
                for (int p = 1; dp * tp * pp == n && p <= tp; p++) {
                    if (tp % p) continue;
                    check_mesh((trine_layout){.dp = dp, .tp = tp, .pp = pp}, p);
                    layouts++;
                }
    assert_true(layouts >= 1);
}

static void coordinates(void **state) {
    (void)state;
    trine_layout l = {.dp = 3, .tp = 4, .pp = 5};
    trine_coord c = trine_layout_coord(l, 33);
    assert_int_equal(c.tp, 1);
    assert_int_equal(c.dp, 2);
    assert_int_equal(c.pp, 2);
    for (int r = 0; r < 60; r++)
        assert_int_equal(trine_layout_rank(l, trine_layout_coord(l, r)), r);
}

static void refused_layouts(void **state) {
    (void)state;
    trine_mesh *mesh;
    char text[96];
    int n = world_size();
    snprintf(text, sizeof text, "layout dp %d x tp 3 x pp 1 needs %d ranks, the job has %d", n,
             3 * n, n);
    if (n >= 3)
        REFUSED(
            trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 3, .pp = 1}, 0),
            TRINE_EINVAL, text);
    REFUSED(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 0, .pp = 1}, 0),
            TRINE_EINVAL, "at least 1");
    /* A product that overflows must not happen to be right. */
    trine_layout huge = {.dp = 1 << 30, .tp = 1 << 30, .pp = 1 << 30};
    REFUSED(trine_mesh_create(&mesh, harness_world, huge, 0), TRINE_EINVAL, "the job has");
    REFUSED(mesh_create(&mesh, harness_world, (trine_layout){.dp = 1, .tp = n, .pp = 1}, 0, n + 1),
            TRINE_EINVAL, "is not divisible into parts of");
    REFUSED(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 1, .pp = 1}, -1),
            TRINE_EINVAL, "ranks per node");
    assert_null(mesh);
}

/* Nodes of 3 ranks: 8 ranks are nodes of 3, 3 and 2. */
static void nodes_by_override(void **state) {
    (void)state;
    trine_mesh *mesh;
    int n = world_size(), first = world_rank() / 3 * 3;
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 1, .pp = 1}, 3));
    trine_comm *node = trine_mesh_group(mesh, TRINE_NODE);
    assert_int_equal(trine_comm_size(node), n - first < 3 ? n - first : 3);
    assert_int_equal(comm_world_rank(node, 0), first);
    check_gather(mesh, TRINE_NODE);
    assert_int_equal(mesh_node_count(mesh), (n + 2) / 3);
    for (int r = 0; r < n; r++) assert_int_equal(mesh_node_index(mesh, r), r / 3);
    trine_mesh_destroy(&mesh);
}

static void host_names(void **state) {
    (void)state;
    const char *const *names = comm_host_names(harness_world);
    for (int r = 0; r < world_size(); r++) {
        assert_true(strlen(names[r]) > 0);
        assert_string_equal(names[r], names[0]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),    cmocka_unit_test(coordinates),
        cmocka_unit_test(refused_layouts), cmocka_unit_test(nodes_by_override),
        cmocka_unit_test(host_names),
    };
    return HARNESS_RUN(argc, argv, tests);
}
