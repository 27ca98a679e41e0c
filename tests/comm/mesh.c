/* TEST np=1,2,4,8 */
/* The mesh: coordinates and groups of all ranks, and that every group carries messages
 * between exactly its members. The members are computed here by search over all ranks. The lanes of
 * pipelines of 2 to 8 stages, with and without a ring and edges back, over every transport of the host. */
#include "harness.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "comm/api/axes.h"
#include "comm/group/group.h"

static trine_world *part; /* of harness_world; NULL: all of it */

static trine_world *world(void) {
    return part ? part : harness_world;
}

static int world_size(void) {
    return trine_world_size(world());
}

static int world_rank(void) {
    return trine_world_rank(world());
}

/* Of the mesh that is checked. */
static mesh_needs needs;
static int per_node; /* 0: all ranks on one node */

/* MPI's splits so far (the profiling interface, MPI 3.1 chapter 14). */
static int splits;

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *made) {
    splits++;
    return PMPI_Comm_split(comm, color, key, made);
}

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

static bool is_tied(trine_coord a) {
    return needs.tie[0] != needs.tie[1] && (a.pp == needs.tie[0] || a.pp == needs.tie[1]);
}

/* Whether an edge from one stage to the next, or one back, leads from a to b. */
static bool leads(trine_layout l, trine_coord a, trine_coord b, bool back) {
    if (!same_but_pp(a, b)) return false;
    if (back) return needs.back && a.pp == b.pp + 1;
    return b.pp == a.pp + 1 || (needs.ring && a.pp == l.pp - 1 && b.pp == 0);
}

/* Whether b is in a's group. */
static bool together(trine_group group, trine_layout l, trine_coord a, trine_coord b) {
    bool self = a.dp == b.dp && a.tp == b.tp && a.pp == b.pp;
    switch (group) {
    case TRINE_WORLD: return true;
    case TRINE_DP: return same_but_dp(a, b);
    case TRINE_TP: return same_but_tp(a, b);
    case TRINE_PP: return same_but_pp(a, b);
    case TRINE_TP_PART:
        return self || (same_but_tp(a, b) && a.tp / needs.tp_part == b.tp / needs.tp_part);
    case TRINE_TIE: return self || (same_but_pp(a, b) && is_tied(a) && is_tied(b));
    case TRINE_ACT_IN:
    case TRINE_GRAD_OUT: return self || leads(l, b, a, false);
    case TRINE_ACT_OUT:
    case TRINE_GRAD_IN: return self || leads(l, a, b, false);
    case TRINE_BACK_ACT_IN:
    case TRINE_BACK_GRAD_OUT: return self || leads(l, b, a, true);
    case TRINE_BACK_ACT_OUT:
    case TRINE_BACK_GRAD_IN: return self || leads(l, a, b, true);
    case TRINE_NODE:
        return !per_node ||
               trine_layout_rank(l, a) / per_node == trine_layout_rank(l, b) / per_node;
    case TRINE_GROUPS: break;
    }
    return false;
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
    assert_int_equal(comm->group, group);
    assert_ptr_equal(comm_world(comm), world());
}

/* Each member contributes its world rank; all members must receive all of them, in order. */
static void check_gather(const trine_mesh *mesh, trine_group group) {
    trine_comm *comm = trine_mesh_group(mesh, group);
    int32_t own = world_rank(), all[8];
    OK(trine_all_gather(comm, all, &own, (size_t)trine_comm_size(comm), TRINE_I32));
    for (int i = 0; i < trine_comm_size(comm); i++)
        assert_int_equal(all[i], comm_world_rank(comm, i));
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

enum { LANES = 4, TURNS = 3, LONG = 3000 }; /* ints: more than a message that shm copies */

/* Where a stage sends, and what its peer calls the same lane. */
static const struct {
    trine_group out, in;
} lanes[LANES] = {
    {TRINE_ACT_OUT, TRINE_ACT_IN},
    {TRINE_GRAD_OUT, TRINE_GRAD_IN},
    {TRINE_BACK_ACT_OUT, TRINE_BACK_ACT_IN},
    {TRINE_BACK_GRAD_OUT, TRINE_BACK_GRAD_IN},
};

static int32_t word(int sender, int lane, int turn, int at) {
    return ((sender * LANES + lane) * TURNS + turn) * LONG + at;
}

/* The world rank of the other member; -1: there is none. */
static int other_of(const trine_comm *comm) {
    if (trine_comm_size(comm) == 1) return -1;
    return comm_world_rank(comm, 1 - trine_comm_rank(comm));
}

/* A message in each of these: one short, one long, one long in a window. */
typedef struct {
    int32_t *data[TURNS];
    comm_request request[TURNS];
} end_of_lane;

static const int counts[TURNS] = {1, LONG, LONG};

static void place_ends(end_of_lane *ends, int n, int32_t *plain, int32_t *window) {
    for (int e = 0; e < n; e++)
        for (int t = 0; t < TURNS; t++)
            ends[e].data[t] = (t < 2 ? plain + t * LONG : window) + e * 2 * LONG;
}

/* Messages in both directions of all lanes at once, as of a stage that starts its receives early. */
static void check_lanes(trine_mesh *mesh) {
    static int32_t plain[2 * LANES * 2 * LONG];
    end_of_lane out[LANES], in[LANES];
    void *window;
    memset(plain, 0xff, sizeof plain);
    memset(out, 0, sizeof out);
    memset(in, 0, sizeof in);
    OK(trine_mesh_alloc(mesh, &window, sizeof plain));
    place_ends(out, LANES, plain, window);
    place_ends(in, LANES, plain + LANES * 2 * LONG, (int32_t *)window + LANES * 2 * LONG);
    for (int n = 0; n < LANES; n++)
        for (int t = 0; t < TURNS; t++) {
            trine_comm *from = trine_mesh_group(mesh, lanes[n].in);
            OK(comm_recv_start(from, in[n].data[t], (size_t)counts[t], TRINE_I32,
                               1 - trine_comm_rank(from), &in[n].request[t]));
        }
    for (int n = 0; n < LANES; n++)
        for (int t = 0; t < TURNS; t++) {
            trine_comm *to = trine_mesh_group(mesh, lanes[n].out);
            for (int i = 0; i < counts[t]; i++) out[n].data[t][i] = word(world_rank(), n, t, i);
            OK(comm_send_start(to, out[n].data[t], (size_t)counts[t], TRINE_I32,
                               1 - trine_comm_rank(to), &out[n].request[t]));
        }
    for (int n = 0; n < LANES; n++)
        for (int t = 0; t < TURNS; t++) {
            int from = other_of(trine_mesh_group(mesh, lanes[n].in));
            OK(comm_wait(&in[n].request[t]));
            for (int i = 0; from >= 0 && i < counts[t]; i++)
                assert_int_equal(in[n].data[t][i], word(from, n, t, i));
        }
    for (int n = 0; n < LANES; n++)
        for (int t = 0; t < TURNS; t++) OK(comm_wait(&out[n].request[t]));
    trine_mesh_free(mesh, &window);
}

/* ---- Meshes ---------------------------------------------------------------------------------- */

/* What the plan says of a rank's memory, wherever the ranks lie. */
static void check_memory(const trine_mesh *mesh, trine_layout l, trine_transport transport) {
    int node_of[8];
    size_t control = 0, page = 4096;
    size_t bytes =
        comm_scratch_bytes(world_size()) + comm_arrival_bytes(world_size(), axes_largest_group(l));
    for (int r = 0; r < world_size(); r++) node_of[r] = per_node ? r / per_node : 0;
    if (comm_may_share(transport))
        OK(comm_control_bytes(&control, l, world_rank(), needs, node_of));
    assert_int_equal(mesh_shares(mesh), control > 0);
    assert_int_equal(mesh_transport_bytes(mesh), bytes + (control ? control - page : 0));
    if (per_node) return;
    assert_int_equal(mesh_transport_bytes(mesh),
                     comm_transport_bytes(l, trine_mesh_coord(mesh), transport, needs));
}

static void check_mesh(trine_layout l, trine_transport transport) {
    trine_mesh *mesh;
    trine_world_transport(world(), transport);
    OK(mesh_create(&mesh, world(), l, per_node, needs));
    trine_coord c = trine_mesh_coord(mesh);
    assert_int_equal((c.pp * l.dp + c.dp) * l.tp + c.tp, world_rank());
    for (trine_group g = 0; g < TRINE_GROUPS; g++) check_group(mesh, g);
    const trine_group gathers[] = {TRINE_WORLD,   TRINE_DP,  TRINE_TP,  TRINE_PP,
                                   TRINE_TP_PART, TRINE_TIE, TRINE_NODE};
    for (size_t i = 0; i < sizeof gathers / sizeof *gathers; i++) check_gather(mesh, gathers[i]);
    check_lanes(mesh);
    assert_int_equal(mesh_node_count(mesh),
                     per_node ? (world_size() + per_node - 1) / per_node : 1);
    check_memory(mesh, l, transport);
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
                    trine_layout l = {.dp = dp, .tp = tp, .pp = pp};
                    needs = mesh_needs_default(l);
                    needs.tp_part = p;
                    check_mesh(l, TRINE_TRANSPORT_AUTO);
                    needs.ring = pp > 2;
                    needs.back = needs.ring || pp > 1;
                    if (p == 1 && pp > 1 && pp < n) check_mesh(l, TRINE_TRANSPORT_AUTO);
                    per_node = 2 + layouts % 2; /* of 8 ranks: 2 on each node, or 3, 3 and 2 */
                    check_mesh(l, TRINE_TRANSPORT_AUTO);
                    per_node = 0;
                    layouts++;
                }
    assert_true(layouts >= 1);
}

/* A pipeline over the whole world. */
static void check_pipeline(void) {
    static const struct {
        trine_transport transport;
        int per_node;
    } modes[] = {{TRINE_TRANSPORT_MPI, 0},
                 {TRINE_TRANSPORT_SHM, 0},
                 {TRINE_TRANSPORT_AUTO, 0},
                 {TRINE_TRANSPORT_AUTO, 2}};
    trine_layout l = {.dp = 1, .tp = 1, .pp = world_size()};
    for (int m = 0; m < 4; m++)
        for (int ring = 0; ring < 2; ring++)
            for (int back = 0; back < 2; back++) {
                needs = mesh_needs_default(l);
                needs.ring = ring;
                needs.back = back;
                per_node = modes[m].per_node;
                if (ring && l.pp < 3) continue;
                check_mesh(l, modes[m].transport);
            }
    needs = mesh_needs_default(l);
    needs.tie[0] = l.pp - 1;
    needs.tie[1] = l.pp / 3; /* the stages of a tie come in any order */
    check_mesh(l, TRINE_TRANSPORT_AUTO);
    needs.tie[1] = -1;
    check_mesh(l, TRINE_TRANSPORT_AUTO);
    per_node = 0;
}

/* Of 1, 2, 4, 8 stages, and in parts of the world of 3, 5 and 1. */
static void every_lane(void **state) {
    (void)state;
    int n = world_size(), first = n / 2 + 1;
    check_pipeline();
    if (n < 4) return;
    OK(comm_world_split(&part, harness_world, trine_world_rank(harness_world) >= first));
    check_pipeline();
    trine_world_destroy(&part);
}

/* Splits of MPI for a mesh, and the plan's bytes on this rank. */
static size_t cost_of(bool ring, bool back, int *made) {
    trine_mesh *mesh;
    trine_layout l = {.dp = 1, .tp = 1, .pp = world_size()};
    int before = splits;
    needs = mesh_needs_default(l);
    needs.ring = ring;
    needs.back = back;
    trine_world_transport(world(), TRINE_TRANSPORT_SHM);
    OK(mesh_create(&mesh, world(), l, 0, needs));
    *made = splits - before;
    size_t bytes = mesh_transport_bytes(mesh);
    trine_mesh_destroy(&mesh);
    return bytes;
}

/* A job of one chunk a stage: dp, tp, pp, tie, twice two for its edges, node, and the node of the windows; and
 * no control memory but that of these groups. */
static void nothing_is_made_that_no_job_needs(void **state) {
    (void)state;
    int n = world_size(), stage = world_rank(), made;
    if (n < 3) return;
    size_t plain = cost_of(false, false, &made);
    assert_int_equal(made, 10);
    size_t ring = cost_of(true, false, &made);
    assert_int_equal(made, 12);
    assert_true(stage == 0 || stage == n - 1 ? ring > plain : ring == plain);
    size_t back = cost_of(false, true, &made);
    assert_int_equal(made, 14);
    assert_true(back > plain);
    trine_mesh *mesh;
    trine_world_transport(world(), TRINE_TRANSPORT_SHM);
    OK(trine_mesh_create(&mesh, world(), (trine_layout){.dp = 1, .tp = 1, .pp = n}, 0));
    assert_int_equal(mesh_transport_bytes(mesh), plain);
    needs = (mesh_needs){.tp_part = 1, .tie = {0, n - 1}};
    for (trine_group g = 0; g < TRINE_GROUPS; g++) check_group(mesh, g);
    trine_mesh_destroy(&mesh);
    trine_world_transport(world(), TRINE_TRANSPORT_AUTO);
}

/* The addends of blocking calls: a chunk for each rank of the job. Those of started reductions: for each
 * rank of the largest group, and at least the element that a group of the whole job needs. */
static void scratch_of_large_jobs(void **state) {
    (void)state;
    const size_t chunk = 64 << 10;
    trine_layout l = {.dp = 288, .tp = 6, .pp = 8};
    trine_coord c = {.at = {0}};
    size_t bytes = comm_transport_bytes(l, c, TRINE_TRANSPORT_MPI, mesh_needs_default(l));
    assert_int_equal(bytes, (13824 + 288) * chunk);
    l = (trine_layout){.dp = 1, .tp = 1, .pp = 1};
    assert_int_equal(comm_transport_bytes(l, c, TRINE_TRANSPORT_MPI, mesh_needs_default(l)), 0);
    for (int ranks = 2; ranks < 1 << 28; ranks *= 2)
        assert_true(comm_arrival_bytes(ranks, 1) >= (size_t)ranks * sizeof(int64_t));
}

/* Several, of which some ranks have completed and some have not begun: the addends are right, though the new
 * mesh replaces the memory where they arrive, and a wait that comes afterwards is none. */
static void check_during_reductions(trine_transport transport) {
    enum { COUNT = 40000, REDUCTIONS = 5 };
    static float own[COUNT], sums[REDUCTIONS][COUNT];
    trine_mesh *mesh, *second;
    comm_request requests[REDUCTIONS] = {0};
    int n = world_size();
    trine_world_transport(harness_world, transport);
    OK(trine_mesh_create(&mesh, harness_world, (trine_layout){.dp = n, .tp = 1, .pp = 1}, 0));
    for (int i = 0; i < COUNT; i++) own[i] = (float)(i % 97 + world_rank());
    for (int r = 0; r < REDUCTIONS; r++)
        OK(comm_all_reduce_start(trine_mesh_group(mesh, TRINE_DP), sums[r], own, COUNT, TRINE_F32,
                                 TRINE_SUM, &requests[r]));
    OK(trine_mesh_create(&second, harness_world, (trine_layout){.dp = 1, .tp = 1, .pp = n}, 0));
    for (int r = 0; r < REDUCTIONS; r++) OK(comm_wait(&requests[r]));
    for (int r = 0; r < REDUCTIONS; r++)
        for (int i = 0; i < COUNT; i++)
            assert_true(sums[r][i] == (float)(n * (i % 97) + n * (n - 1) / 2));
    trine_mesh_destroy(&second);
    trine_mesh_destroy(&mesh);
    trine_world_transport(harness_world, TRINE_TRANSPORT_AUTO);
}

static void a_mesh_during_reductions(void **state) {
    (void)state;
    check_during_reductions(TRINE_TRANSPORT_MPI);
    check_during_reductions(TRINE_TRANSPORT_AUTO);
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
    trine_layout all_tp = {.dp = 1, .tp = n, .pp = 1}, pair = {.dp = n / 2, .tp = 1, .pp = 2};
    REFUSED(mesh_create(&mesh, harness_world, all_tp, 0,
                        (mesh_needs){.tp_part = n + 1, .tie = {-1, -1}}),
            TRINE_EINVAL, "is not divisible into parts of");
    REFUSED(mesh_create(&mesh, harness_world, all_tp, 0, (mesh_needs){.tp_part = 1, .tie = {0, 1}}),
            TRINE_EINVAL, "stages 0 and 1 cannot share a matrix: the mesh has 1");
    if (n > 1)
        REFUSED(
            mesh_create(&mesh, harness_world, pair, 0, (mesh_needs){.tp_part = 1, .ring = true}),
            TRINE_EINVAL, "pp 2: a ring has at least 3 stages");
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
        cmocka_unit_test(every_layout),
        cmocka_unit_test(every_lane),
        cmocka_unit_test(nothing_is_made_that_no_job_needs),
        cmocka_unit_test(scratch_of_large_jobs),
        cmocka_unit_test(a_mesh_during_reductions),
        cmocka_unit_test(coordinates),
        cmocka_unit_test(refused_layouts),
        cmocka_unit_test(nodes_by_override),
        cmocka_unit_test(host_names),
    };
    return HARNESS_RUN(argc, argv, tests);
}
