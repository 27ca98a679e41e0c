/* The mesh: the coordinate of each rank, and the groups along the axes, made in one fixed order on
 * every rank: dp, tp, pp, tie, the lanes of edges (activations, then gradients; then those of BACK_
 * edges), node. */
#include "comm/api/axes.h"
#include "comm/api/device_memory.h"
#include "comm/api/one_thread.h"
#include "comm/group/lane.h"
#include "comm/mesh/make.h"
#include "comm/mesh/members.h"
#include "comm/mesh/window.h"
#include "comm/transport/mpi/started.h"
#include "comm/transport/nodes/nodes.h"
#include "comm/transport/stack.h"
#include "comm/watch/match.h"
#include "comm/watch/watchdog.h"
#include "base/live.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Memory of trine_mesh_alloc: in a window, or this rank's own. */
typedef struct {
    void *base; /* NULL: free */
    size_t bytes;
    shm_window *window;
} allocation;

struct trine_mesh {
    trine_world *world; /* not owned */
    trine_layout layout;
    trine_coord coord;
    mesh_needs needs;
    trine_comm *groups[TRINE_GROUPS]; /* TRINE_WORLD is the world's own */
    int *node_of;                     /* (world size) */
    int *members;                     /* (world size) scratch while groups are made */
    int nodes;
    int *shares;    /* (world size) the lowest rank that shares memory with each */
    shm_node *node; /* NULL: this rank shares memory with no other */
    bool shared;    /* some ranks of the mesh share memory */
    allocation allocations[SHM_WINDOWS]; /* of trine_mesh_alloc */
};

/* ---- Axes ------------------------------------------------------------------------------------ */

/* Collective over: world. Every rank takes part in the split; ranks outside of the group get a
 * group of one. */
static trine_status add_group(trine_mesh *mesh, trine_group group, int n) {
    void *state = NULL;
    TRY(mpi_split(mesh->world, n > 1 ? mesh->members[0] : -1, mesh->world->rank, &state));
    return group_create(&mesh->groups[group], mesh->world, group, mesh->members, n, state);
}

/* The rank with index n among those that differ from this one along `axes` only. */
static int rank_along(const trine_mesh *mesh, axis_set axes, int n) {
    return trine_layout_rank(mesh->layout, axes_coord(mesh->layout, axes, mesh->coord, n));
}

static int rank_at_stage(const trine_mesh *mesh, int stage) {
    return rank_along(mesh, AXIS(TRINE_AXIS_PP), stage);
}

static trine_status add_axes(trine_mesh *mesh) {
    for (int g = TRINE_WORLD + 1; g < TRINE_GROUPS; g++) {
        axis_set axes = axes_of((trine_group)g);
        int size = axes_size(mesh->layout, axes);
        if (!axes) continue;
        for (int n = 0; n < size; n++) mesh->members[n] = rank_along(mesh, axes, n);
        TRY(add_group(mesh, (trine_group)g, size));
    }
    return TRINE_OK;
}

/* Without parts, no MPI communicator is made. */
static trine_status add_part(trine_mesh *mesh) {
    int part = mesh->needs.tp_part, first = mesh->coord.tp / part * part;
    for (int n = 0; n < part; n++)
        mesh->members[n] = rank_along(mesh, AXIS(TRINE_AXIS_TP), first + n);
    if (part > 1) return add_group(mesh, TRINE_TP_PART, part);
    return group_create(&mesh->groups[TRINE_TP_PART], mesh->world, TRINE_TP_PART, mesh->members, 1,
                        NULL);
}

/* ---- Groups of two stages -------------------------------------------------------------------- */

/* Collective over: world, as add_group. `other` -1: this rank only takes part in the split. */
static trine_status add_pair(trine_mesh *mesh, trine_group group, int other) {
    int own = mesh->coord.pp;
    void *none;
    if (other < 0) return mpi_split(mesh->world, -1, 0, &none);
    mesh->members[0] = rank_at_stage(mesh, own < other ? own : other);
    mesh->members[1] = rank_at_stage(mesh, own < other ? other : own);
    return add_group(mesh, group, 2);
}

/* A group of this rank alone, without MPI's help, if it is in no pair. */
static trine_status add_single(trine_mesh *mesh, trine_group group) {
    if (mesh->groups[group]) return TRINE_OK;
    return group_create(&mesh->groups[group], mesh->world, group, &mesh->world->rank, 1, NULL);
}

static trine_status add_tie(trine_mesh *mesh) {
    TRY(add_pair(mesh, TRINE_TIE, members_tied(&mesh->needs, mesh->coord.pp)));
    return add_single(mesh, TRINE_TIE);
}

/* The round in which the lanes between two stages are made. */
static int round_of(int stage, int other) {
    int low = stage < other ? stage : other;
    return stage - other == 1 || other - stage == 1 ? low % 2 : 2;
}

/* The lanes of one cargo: `before` joins the previous stage, `after` the next. A rank has two of them
 * but can take part in one split at a time, so the edges between an even stage and its next one are
 * made first, then those of odd stages, then the edge that closes a ring. */
static trine_status add_lanes(trine_mesh *mesh, trine_group before, trine_group after) {
    const trine_group lanes[] = {before, after};
    int stage = mesh->coord.pp;
    bool closes = mesh->needs.ring && !lane_of(before).back;
    bool made = mesh->needs.back || !lane_of(before).back;
    for (int round = 0; made && round < (closes ? 3 : 2); round++) {
        trine_group group = before;
        int other = -1;
        for (int i = 0; i < 2; i++) {
            int met = members_lane(mesh->layout, &mesh->needs, stage, lanes[i]);
            if (met >= 0 && round_of(stage, met) == round) group = lanes[i], other = met;
        }
        TRY(add_pair(mesh, group, other));
    }
    for (int i = 0; i < 2; i++) TRY(add_single(mesh, lanes[i]));
    return TRINE_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* leaders (world size): the lowest rank of each rank's node, according to MPI. */
static trine_status find_leaders(trine_mesh *mesh, int *leaders) {
    trine_comm *comm = mesh->world->comm;
    int own = mesh->world->rank;
    comm_request request = {0};
    TRY(mpi_node_leader(mesh->world, &own));
    const comm_call call = {.kind = TRINE_TALLY_ALL_GATHER, .peer = NO_PEER};
    watchdog_note(comm, &call);
    TRY(match_enter(comm, &call));
    TRY(comm->transport->all_gather_start(comm, leaders, &own, sizeof own, &request));
    return comm->transport->wait(comm, &request);
}

/* Ranks share memory if both MPI and the caller place them on one node. */
static void find_shares(trine_mesh *mesh, const int *leaders, int ranks_per_node) {
    int *shares = mesh->shares, per_node = ranks_per_node > 0 ? ranks_per_node : mesh->world->size;
    for (int r = 0; r < mesh->world->size; r++) {
        shares[r] = r;
        for (int q = r - r % per_node; q < r; q++)
            if (leaders[q] == leaders[r]) {
                shares[r] = shares[q];
                break;
            }
        if (shares[r] != r) mesh->shared = comm_may_share(mesh->world->choice);
    }
}

static trine_status add_nodes(trine_mesh *mesh, int ranks_per_node) {
    int *node_of = mesh->node_of, n = 0, rank = mesh->world->rank;
    TRY(find_leaders(mesh, node_of));
    find_shares(mesh, node_of, ranks_per_node);
    for (int r = 0; ranks_per_node > 0 && r < mesh->world->size; r++)
        node_of[r] = r - r % ranks_per_node;
    for (int r = 0; r < mesh->world->size; r++)
        if (node_of[r] == node_of[rank]) mesh->members[n++] = r;
    /* A leader is the lowest rank of its node, so its own entry is already an index when it is
     * read. */
    for (int r = 0; r < mesh->world->size; r++)
        node_of[r] = node_of[r] == r ? mesh->nodes++ : node_of[node_of[r]];
    return add_group(mesh, TRINE_NODE, n);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

/* Number of the group's ranks that share memory with this one. */
static int ranks_sharing(const trine_mesh *mesh, const trine_comm *comm) {
    int n = 0;
    for (int i = 0; i < comm->size; i++)
        n += mesh->shares[comm->members[i]] == mesh->shares[mesh->world->rank];
    return n;
}

/* Whether the group exchanges through shared memory, at least in part. The world does not:
 * trine_world_agree and similar calls use messages. */
static bool uses_shared_memory(const trine_mesh *mesh, int g) {
    const trine_comm *comm = mesh->groups[g];
    if (g == TRINE_WORLD || comm->size == 1) return false;
    return ranks_sharing(mesh, comm) == comm->size || nodes_fit(comm, mesh->shares);
}

/* --transport shm has no fallback. */
static trine_status check_shm_choice(const trine_mesh *mesh) {
    if (mesh->world->choice != TRINE_TRANSPORT_SHM) return TRINE_OK;
    for (int g = TRINE_WORLD + 1; g < TRINE_GROUPS; g++) {
        const trine_comm *comm = mesh->groups[g];
        int n = ranks_sharing(mesh, comm);
        CHECK(
            n == comm->size, TRINE_EINVAL,
            "--transport shm: %d of the %d ranks of group %s do not share memory with rank %d; use "
            "--transport auto, which sends messages between nodes",
            comm->size - n, comm->size, comm_group_name(comm->group), mesh->world->rank);
    }
    return TRINE_OK;
}

static trine_status make_control(trine_mesh *mesh, int sizes[TRINE_GROUPS]) {
    size_t bytes = 0;
    for (int g = 0; mesh->node && g < TRINE_GROUPS; g++)
        sizes[g] = uses_shared_memory(mesh, g) ? ranks_sharing(mesh, mesh->groups[g]) : 0;
    if (mesh->node) bytes = shm_control_bytes(sizes);
    shm_window *window;
    TRY(shm_window_create(mesh->node, mesh->world, bytes, &window));
    if (!mesh->node) return TRINE_OK;
    mesh->node->control = window;
    shm_layout(mesh->node, sizes);
    TRY_MPI_BLOCKING(MPI_Barrier(mesh->node->comm));
    return TRINE_OK;
}

static trine_status attach(trine_mesh *mesh, int g) {
    trine_comm *comm = mesh->groups[g];
    if (!uses_shared_memory(mesh, g)) return TRINE_OK;
    bool all_share = ranks_sharing(mesh, comm) == comm->size;
    trine_status status =
        all_share ? shm_attach(comm, mesh->node) : nodes_attach(comm, mesh->node, mesh->shares);
    stack_build(comm);
    return status;
}

/* Groups with ranks that share memory switch from messages to shared memory. */
static trine_status share_memory(trine_mesh *mesh) {
    int n = 0, sizes[TRINE_GROUPS] = {0}, rank = mesh->world->rank;
    for (int r = 0; r < mesh->world->size; r++)
        if (mesh->shares[r] == mesh->shares[rank]) mesh->members[n++] = r;
    TRY(trine_world_agree(mesh->world, check_shm_choice(mesh)));
    if (!mesh->shared) return TRINE_OK;
    TRY(shm_node_create(&mesh->node, mesh->world, mesh->members, n));
    TRY(make_control(mesh, sizes));
    trine_status status = TRINE_OK;
    for (int g = 0; status == TRINE_OK && g < TRINE_GROUPS; g++) status = attach(mesh, g);
    return trine_world_agree(mesh->world, status);
}

static trine_status map_own(allocation *p) {
    void *base = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED, TRINE_ENOMEM, "no memory for %zu bytes", p->bytes);
    (void)madvise(base, p->bytes, MADV_HUGEPAGE); /* a hint */
    p->base = base;
    return TRINE_OK;
}

static void unmap_own(allocation *p) {
    if (p->base && !p->window) munmap(p->base, p->bytes);
    *p = (allocation){0};
}

static trine_status make_own(trine_mesh *mesh, size_t bytes, allocation **p) {
    *p = NULL;
    for (int i = 0; i < SHM_WINDOWS && !*p; i++)
        if (!mesh->allocations[i].base) *p = &mesh->allocations[i];
    CHECK(*p, TRINE_ENOMEM, "more than %d allocations by trine_mesh_alloc", SHM_WINDOWS);
    **p = (allocation){.bytes = bytes ? bytes : 1};
    return mesh->node ? TRINE_OK : map_own(*p);
}

trine_status trine_mesh_alloc(trine_mesh *mesh, void **p, size_t bytes) {
    CHECK_GIVEN(p, "p");
    CHECK_LIVE(mesh, "mesh", LIVE_MESH);
    ONE_THREAD(mesh->world, __func__);
    allocation *own;
    *p = NULL;
    trine_status status = trine_world_agree(mesh->world, make_own(mesh, bytes, &own));
    if (status == TRINE_OK && mesh->shared)
        status = shm_window_create(mesh->node, mesh->world, bytes, &own->window);
    if (status != TRINE_OK) {
        if (own) unmap_own(own);
        return status;
    }
    if (own->window) own->base = own->window->own;
    *p = own->base;
    return TRINE_OK;
}

/* Freeing a window blocks inside MPI, where the watchdog cannot see the wait; therefore the ranks
 * meet first. */
static void barrier_before_free(const trine_mesh *mesh) {
    trine_comm *comm = mesh->world->comm;
    if (!mesh->shared) return;
    const comm_call call = {.kind = TRINE_TALLY_BARRIER, .peer = NO_PEER};
    watchdog_note(comm, &call);
    if (match_enter(comm, &call) != TRINE_OK) return;
    (void)comm->transport->barrier(comm);
}

static allocation *find_own(trine_mesh *mesh, const void *base) {
    for (int i = 0; i < SHM_WINDOWS; i++)
        if (mesh->allocations[i].base == base) return &mesh->allocations[i];
    return NULL;
}

void trine_mesh_free(trine_mesh *mesh, void **p) {
    if (!IS_LIVE(mesh, "mesh", LIVE_MESH) || !p || !*p) return;
    allocation *own = find_own(mesh, *p);
    if (!own) {
        REPORT("%s: p points to %p, which is not memory from trine_mesh_alloc of this mesh; "
               "nothing is freed",
               __func__, *p);
        return;
    }
    barrier_before_free(mesh);
    if (own->window) shm_window_destroy(mesh->node, own->window);
    unmap_own(own);
    *p = NULL;
}

void *mesh_peer_memory(const trine_mesh *mesh, const void *p, int rank) {
    const trine_comm *node = mesh->groups[TRINE_NODE];
    if (rank == node->rank) return (void *)(uintptr_t)p;
    if (!node->shm) return NULL;
    shm_place place = shm_find(mesh->node, p, 1);
    ASSERT(place.window != SHM_NOWHERE);
    return shm_at(mesh->node, node->shm->index[rank], place);
}

bool mesh_shares(const trine_mesh *mesh) {
    return mesh->node != NULL;
}

size_t mesh_transport_bytes(const trine_mesh *mesh) {
    int ranks = mesh->world->size;
    size_t bytes =
        comm_scratch_bytes(ranks) + comm_arrival_bytes(ranks, axes_largest_group(mesh->layout));
    return mesh->node ? bytes + mesh->node->control->bytes : bytes;
}

/* ---- The mesh -------------------------------------------------------------------------------- */

static trine_status check_layout(const trine_world *world, trine_layout l, int ranks_per_node) {
    char text[AXES_TEXT];
    double ranks = axes_product(l);
    axes_text(l, ALL_AXES, text, sizeof text);
    CHECK(axes_positive(l), TRINE_EINVAL, "layout %s: every dimension must be at least 1", text);
    CHECK(ranks == world->size, TRINE_EINVAL, "layout %s needs %.0f ranks, the job has %d", text,
          ranks, world->size);
    CHECK(ranks_per_node >= 0, TRINE_EINVAL, "ranks per node %d: must not be negative",
          ranks_per_node);
    return TRINE_OK;
}

static void set_error_prefix(trine_world *world, trine_coord c) {
    char prefix[256], where[AXES_TEXT];
    snprintf(prefix, sizeof prefix, "%s [%s]: ", world->names[world->rank],
             axes_coord_text(c, where, sizeof where));
    if (world->size > 1) status_prefix(prefix);
}

/* Reductions in progress keep the memory where their addends arrive: they are completed before. */
static trine_status size_arrivals(trine_mesh *mesh) {
    comm_request *oldest;
    while ((oldest = started_first(mesh->world))) TRY(comm_wait(oldest));
    return started_size(mesh->world, axes_largest_group(mesh->layout));
}

static trine_status build(trine_mesh *mesh, int ranks_per_node) {
    size_t size = (size_t)mesh->world->size;
    mesh->node_of = calloc(size, sizeof *mesh->node_of);
    mesh->members = calloc(size, sizeof *mesh->members);
    mesh->shares = calloc(size, sizeof *mesh->shares);
    CHECK(mesh->node_of && mesh->members && mesh->shares, TRINE_ENOMEM,
          "no memory for a mesh of %zu ranks", size);
    mesh->groups[TRINE_WORLD] = mesh->world->comm;
    TRY(size_arrivals(mesh));
    TRY(add_axes(mesh));
    TRY(add_part(mesh));
    TRY(add_tie(mesh));
    TRY(add_lanes(mesh, TRINE_ACT_IN, TRINE_ACT_OUT));
    TRY(add_lanes(mesh, TRINE_GRAD_OUT, TRINE_GRAD_IN));
    TRY(add_lanes(mesh, TRINE_BACK_ACT_OUT, TRINE_BACK_ACT_IN));
    TRY(add_lanes(mesh, TRINE_BACK_GRAD_IN, TRINE_BACK_GRAD_OUT));
    TRY(add_nodes(mesh, ranks_per_node));
    return share_memory(mesh);
}

static trine_status check_needs(trine_layout l, const mesh_needs *needs) {
    CHECK(needs->tp_part > 0 && l.tp % needs->tp_part == 0, TRINE_EINVAL,
          "tp %d is not divisible into parts of %d ranks", l.tp, needs->tp_part);
    CHECK(!needs->ring || l.pp > 2, TRINE_EINVAL,
          "pp %d: a ring has at least 3 stages; the edge from stage 1 to stage 0 of two is a back "
          "edge",
          l.pp);
    CHECK(needs->tie[0] < l.pp && needs->tie[1] < l.pp, TRINE_EINVAL,
          "stages %d and %d cannot share a matrix: the mesh has %d", needs->tie[0], needs->tie[1],
          l.pp);
    return TRINE_OK;
}

mesh_needs mesh_needs_default(trine_layout layout) {
    return (mesh_needs){.tp_part = 1, .tie = {0, layout.pp - 1}};
}

trine_status mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                         int ranks_per_node, mesh_needs needs) {
    *mesh = NULL;
    TRY(check_layout(world, layout, ranks_per_node));
    TRY(check_needs(layout, &needs));
    trine_mesh *m = calloc(1, sizeof *m);
    CHECK(m, TRINE_ENOMEM, "no memory for the mesh");
    trine_status known = live_add(m, LIVE_MESH, world);
    if (known != TRINE_OK) free(m);
    TRY(known);
    m->world = world;
    world->meshes++;
    m->layout = layout;
    m->coord = trine_layout_coord(layout, world->rank);
    m->needs = needs;
    world->layout = layout;
    set_error_prefix(world, m->coord);
    watchdog_note_mesh(world);
    trine_status status = build(m, ranks_per_node);
    *mesh = m;
    if (status != TRINE_OK) trine_mesh_destroy(mesh);
    TRY(status);
    return TRINE_OK;
}

trine_status trine_mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                               int ranks_per_node) {
    CHECK_GIVEN(mesh, "mesh");
    CHECK_LIVE(world, "world", LIVE_WORLD);
    ONE_THREAD(world, __func__);
    return mesh_create(mesh, world, layout, ranks_per_node, mesh_needs_default(layout));
}

void trine_mesh_destroy(trine_mesh **mesh) {
    trine_mesh *m = mesh ? *mesh : NULL;
    if (!IS_LIVE(m, "mesh", LIVE_MESH)) return;
    barrier_before_free(m);
    (void)comm_device_memory(m, NULL);
    for (int g = 0; g < TRINE_GROUPS; g++)
        if (g != TRINE_WORLD) group_destroy(&m->groups[g]);
    for (int i = 0; i < SHM_WINDOWS; i++)
        if (!m->allocations[i].window) unmap_own(&m->allocations[i]);
    shm_node_destroy(&m->node);
    free(m->node_of);
    free(m->members);
    free(m->shares);
    live_remove(m);
    free(m);
    *mesh = NULL;
}

trine_layout trine_mesh_layout(const trine_mesh *mesh) {
    return IS_LIVE(mesh, "mesh", LIVE_MESH) ? mesh->layout : (trine_layout){0};
}

trine_coord trine_mesh_coord(const trine_mesh *mesh) {
    return IS_LIVE(mesh, "mesh", LIVE_MESH) ? mesh->coord : (trine_coord){0};
}

trine_comm *trine_mesh_group(const trine_mesh *mesh, trine_group group) {
    bool known = (unsigned)group < TRINE_GROUPS;
    if (!known)
        REPORT("%s: group is %d; it must be from 0 to %d", __func__, (int)group,
               (int)TRINE_GROUPS - 1);
    bool live = IS_LIVE(mesh, "mesh", LIVE_MESH);
    return known && live ? mesh->groups[group] : NULL;
}

int mesh_node_count(const trine_mesh *mesh) {
    return mesh->nodes;
}

int mesh_node_index(const trine_mesh *mesh, int rank) {
    ASSERT(rank >= 0 && rank < mesh->world->size);
    return mesh->node_of[rank];
}
