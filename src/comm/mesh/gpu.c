/* Selects the groups that use NCCL, makes their communicators, and watches the device's waits. See
 * gpu.h. */
#include "comm/api/axes.h"
#include "comm/api/gpu.h"
#include "comm/transport/nccl/nccl.h"
#include "comm/group/lane.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/watch/watch.h"
#include "comm/watch/watchdog.h"
#include "base/environment.h"
#include "base/status.h"
#include "device/cuda_open.h"

#include <stdlib.h>
#include <string.h>

#define GPU_NAME 128

struct comm_gpus {
    device_memory
        memory; /* the device's, with watched waits; first member, so that the device's pointer leads here */
    const device_memory *inner;
    device *dev;
    const comm_nccl *nccl;
    nccl_rank *rank;
    trine_world *world;
    unsigned polls; /* of all waits */
    unsigned vain;  /* of this one, since it first looked at the watchdog */
    bool looking;   /* in a wait for NCCL, which does its own checks */
};

/* ---- Waiting --------------------------------------------------------------------------------- */

static void waits(void *context, double *waited) {
    struct comm_gpus *g = context;
    g->vain = *waited > 0 ? g->vain + 1 : 0;
    world_give_way(g->world, g->vain);
    g->looking = true;
    watchdog_polled(g->world, ++g->polls, waited);
    g->looking = false;
}

/* Called while this rank waits in another transport. No caller could return the error, so it aborts
 * the job. */
static void look(void *context) {
    struct comm_gpus *g = context;
    if (!g->looking && g->nccl->check(g->rank) != TRINE_OK) trine_abort(g->world);
}

static const struct comm_gpus *watched(const device *d) {
    return (const struct comm_gpus *)(const void *)d->memory;
}

static trine_status watched_read(device *d, void *host, const void *src, size_t bytes) {
    const struct comm_gpus *g = watched(d);
    TRY(g->nccl->await(g->rank));
    return g->inner->read(d, host, src, bytes);
}

static trine_status watched_write(device *d, void *dst, const void *host, size_t bytes) {
    const struct comm_gpus *g = watched(d);
    TRY(g->nccl->await(g->rank));
    return g->inner->write(d, dst, host, bytes);
}

static trine_status watched_read_rows(device *d, void *host, const void *src, size_t stride,
                                      size_t bytes, size_t rows) {
    const struct comm_gpus *g = watched(d);
    TRY(g->nccl->await(g->rank));
    return g->inner->read_rows(d, host, src, stride, bytes, rows);
}

static trine_status watched_wait(device *d) {
    const struct comm_gpus *g = watched(d);
    TRY(g->nccl->await(g->rank));
    return g->inner->wait(d);
}

/* ---- Selecting groups ------------------------------------------------------------------------ */

/* The groups with device memory, in the order in which their communicators are made. The edges that
 * leave even stages come first, then those that leave odd stages, then the one that closes a ring: a
 * rank can make one at a time, and this way no rank waits for a neighbour that waits for another. All
 * lanes of two neighbouring stages share a communicator, because NCCL moves messages concurrently,
 * without one blocking the other, only within one (core/check.h, programs for one queue). Between two
 * ranks it matches messages of one direction in the order in which they are passed to it, so these
 * ranks must start messages of different lanes in the same order. */
typedef struct {
    trine_group groups[TRINE_GROUPS];
    int count;
} order;

static order making_order(const trine_mesh *mesh) {
    int stage = trine_mesh_coord(mesh).pp, last = trine_mesh_layout(mesh).pp - 1;
    bool even = stage % 2 == 0 && stage < last; /* what leaves the last stage closes a ring */
    order o = {.count = 0};
    for (int g = 0; g < TRINE_GROUPS; g++)
        if (axes_add((trine_group)g)) o.groups[o.count++] = (trine_group)g;
    o.groups[o.count++] = TRINE_TIE;
    o.groups[o.count++] = even ? TRINE_ACT_OUT : TRINE_ACT_IN;
    o.groups[o.count++] = even ? TRINE_ACT_IN : TRINE_ACT_OUT;
    return o;
}

/* The lanes to a neighbour use the communicator of the activations that go there or come from there: the same ranks in
 * the same order. Lanes of size 1 have no other rank to share with. */
static void share_edges(trine_mesh *mesh) {
    for (int g = 0; g < TRINE_GROUPS; g++) {
        trine_comm *to = trine_mesh_group(mesh, (trine_group)g);
        if (!lane_is((trine_group)g) || to->size == 1) continue;
        bool next = lane_of((trine_group)g).step > 0;
        const trine_comm *from = trine_mesh_group(mesh, next ? TRINE_ACT_OUT : TRINE_ACT_IN);
        to->nccl = from->nccl;
        to->nccl_group = from->nccl_group;
    }
}

/* names (world size, GPU_NAME): "host gpu" of every rank. */
static bool have_own_gpus(const trine_comm *comm, const char *names) {
    for (int i = 0; i < comm->size; i++)
        for (int j = 0; j < i; j++) {
            const char *a = names + (size_t)comm->members[i] * GPU_NAME;
            const char *b = names + (size_t)comm->members[j] * GPU_NAME;
            if (strcmp(a, b) == 0) return false;
        }
    return true;
}

/* *names (world size, GPU_NAME) is freed by the caller. */
static trine_status gather_names(const trine_mesh *mesh, const char *own, char **names) {
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    size_t size = (size_t)world->size;
    char name[GPU_NAME] = "";
    snprintf(name, sizeof name, "%s %s", world->world->names[world->rank], own);
    *names = calloc(size, GPU_NAME);
    trine_status status =
        *names ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for the names of the GPUs");
    TRY(trine_world_agree(world->world, status));
    return trine_all_gather(world, *names, name, size * GPU_NAME, TRINE_U8);
}

/* The same on every rank of the group. */
static bool wants_nccl(const trine_comm *comm, const char *names) {
    trine_transport choice = comm->world->choice;
    if (comm->size == 1) return false;
    return choice == TRINE_TRANSPORT_NCCL ||
           (choice == TRINE_TRANSPORT_AUTO && have_own_gpus(comm, names));
}

/* ---- Making communicators -------------------------------------------------------------------- */

/* If no id could be made it is zero: the other ranks then fail as well instead of waiting. */
static trine_status share_id(struct comm_gpus *g, trine_comm *comm, char id[NCCL_ID]) {
    static const char none[NCCL_ID];
    trine_status made = TRINE_OK;
    memset(id, 0, NCCL_ID);
    if (comm->rank == 0) made = g->nccl->make_id(g->rank, id);
    TRY(trine_broadcast(comm, id, NCCL_ID, TRINE_U8, 0));
    TRY(made);
    CHECK(memcmp(id, none, NCCL_ID) != 0, TRINE_ENCCL,
          "group %s of %d: rank %d failed to create an NCCL id", comm_group_name(comm->group),
          comm->size, comm->members[0]);
    return TRINE_OK;
}

/* Of a group that makes no call: the smallest. */
static size_t largest_of(const comm_gpu *gpu, trine_group group) {
    if (!gpu->largest) return 0;
    return gpu->largest[group] ? gpu->largest[group] : 1;
}

static trine_status prepare(struct comm_gpus *g, trine_comm *comm, const comm_gpu *gpu) {
    const nccl_place place = {.name = comm_group_name(comm->group),
                              .size = comm->size,
                              .rank = comm->rank,
                              .adds = axes_add(comm->group),
                              .largest = largest_of(gpu, comm->group),
                              .ctas = lane_is(comm->group) ? gpu->lane_ctas : 0};
    TRY(g->nccl->prepare(g->rank, &comm->nccl_group, &place));
    comm->nccl = g->nccl;
    return TRINE_OK;
}

static trine_status join(struct comm_gpus *g, trine_comm *comm) {
    char id[NCCL_ID];
    TRY(share_id(g, comm, id));
    watchdog_note(comm, &(comm_call){.kind = TRINE_TALLY_BARRIER, .peer = NO_PEER});
    TRY(g->nccl->join(comm->nccl_group, id));
    return TRINE_OK;
}

static trine_status join_all(struct comm_gpus *g, trine_mesh *mesh) {
    order o = making_order(mesh);
    for (int i = 0; i < o.count; i++) {
        trine_comm *comm = trine_mesh_group(mesh, o.groups[i]);
        if (comm->nccl) TRY(join(g, comm));
    }
    share_edges(mesh);
    return TRINE_OK;
}

static bool any_wants(const trine_mesh *mesh, const char *names) {
    order o = making_order(mesh);
    for (int i = 0; i < o.count; i++)
        if (wants_nccl(trine_mesh_group(mesh, o.groups[i]), names)) return true;
    return false;
}

static trine_status open_rank(struct comm_gpus *g, const comm_gpu *gpu) {
    const nccl_setting setting = {.dev = gpu->dev,
                                  .gpu = gpu->name,
                                  .ordered = gpu->ordered,
                                  .chained = !comm_nccl_in_order(comm_nccl_version(gpu->dev)),
                                  .waits = waits,
                                  .context = g,
                                  .enter = watch_enter,
                                  .leave = watch_leave};
    TRY(g->nccl->open(&g->rank, &setting));
    g->inner = g->dev->memory;
    g->memory = *g->inner;
    g->memory.read = watched_read;
    g->memory.read_rows = watched_read_rows;
    g->memory.write = watched_write;
    g->memory.wait = watched_wait;
    g->dev->memory = &g->memory;
    g->world->look = look;
    g->world->look_context = g;
    return TRINE_OK;
}

/* The local part. *out stays NULL if no group needs NCCL. */
static trine_status open_groups(struct comm_gpus **out, trine_mesh *mesh, const comm_gpu *gpu,
                                const char *names) {
    order o = making_order(mesh);
    if (!any_wants(mesh, names)) return TRINE_OK;
    struct comm_gpus *g = *out = calloc(1, sizeof *g);
    CHECK(g, TRINE_ENOMEM, "no memory for the NCCL groups");
    g->nccl = gpu->nccl;
    g->world = trine_mesh_group(mesh, TRINE_WORLD)->world;
    g->dev = gpu->dev;
    TRY(open_rank(g, gpu));
    for (int i = 0; i < o.count; i++) {
        trine_comm *comm = trine_mesh_group(mesh, o.groups[i]);
        if (wants_nccl(comm, names)) TRY(prepare(g, comm, gpu));
    }
    return TRINE_OK;
}

/* ---- Availability of NCCL -------------------------------------------------------------------- */

/* NULL: NCCL is available in this process. */
static const char *why_no_nccl(const comm_nccl *nccl) {
    if (!nccl) return "libtrine_cuda.so was built without nccl.h";
    if (nccl->abi != NCCL_ABI) return "libtrine_cuda.so was built from a different source tree";
    return nccl->find(environment_value("NCCL_HOME"));
}

/* The lowest rank that needs NCCL and has none tells all ranks the reason; then no group uses
 * it. */
static trine_status agree_on_nccl(const trine_mesh *mesh, const comm_gpu *gpu, const char *names) {
    trine_comm *world = trine_mesh_group(mesh, TRINE_WORLD);
    const char *lack = any_wants(mesh, names) ? why_no_nccl(gpu->nccl) : NULL;
    char *text = world->world->no_nccl;
    int32_t lacking = lack ? world->size - world->rank : 0;
    TRY(trine_all_reduce(world, &lacking, &lacking, 1, TRINE_I32, TRINE_MAX));
    memset(text, 0, NO_NCCL);
    if (!lacking) return TRINE_OK;
    if (lack) snprintf(text, NO_NCCL, "%s: %s", world->world->names[world->rank], lack);
    return trine_broadcast(world, text, NO_NCCL, TRINE_U8, world->size - lacking);
}

const char *comm_gpu_no_nccl(const trine_mesh *mesh) {
    const char *text = trine_mesh_group(mesh, TRINE_WORLD)->world->no_nccl;
    return *text ? text : NULL;
}

int comm_nccl_version(const device *d) {
    const comm_nccl *nccl = cuda_nccl(d);
    cuda_gpu gpu;
    bool found = !why_no_nccl(nccl) && cuda_describe(d, &gpu) == TRINE_OK;
    return found ? gpu.info.nccl : 0;
}

/* From 2.26 on NCCL can start the kernels of all communicators of a device in the host's order. */
bool comm_nccl_in_order(int version) {
    const char *set = environment_value("NCCL_LAUNCH_ORDER_IMPLICIT");
    return version >= 22600 && set && strcmp(set, "1") == 0;
}

static trine_status check_nccl_optional(const trine_world *world) {
    CHECK(world->choice != TRINE_TRANSPORT_NCCL, TRINE_EUNSUPPORTED,
          "--transport nccl: NCCL is not available on %s; use --transport auto to run without it",
          world->no_nccl);
    return TRINE_OK;
}

static trine_status create(trine_mesh *mesh, const comm_gpu *gpu, const char *names) {
    struct comm_gpus **g = &trine_mesh_group(mesh, TRINE_DP)->gpus;
    trine_world *world = trine_mesh_group(mesh, TRINE_WORLD)->world;
    ASSERT(!*g);
    TRY(agree_on_nccl(mesh, gpu, names));
    if (*world->no_nccl) return trine_world_agree(world, check_nccl_optional(world));
    TRY(trine_world_agree(world, open_groups(g, mesh, gpu, names)));
    return trine_world_agree(world, *g ? join_all(*g, mesh) : TRINE_OK);
}

/* Not collective: some ranks may have failed earlier. */
static void abort_create(trine_mesh *mesh) {
    struct comm_gpus *g = trine_mesh_group(mesh, TRINE_DP)->gpus;
    if (g && g->rank) g->nccl->abort(g->rank);
    comm_gpu_destroy(mesh);
}

trine_status comm_gpu_create(trine_mesh *mesh, const comm_gpu *gpu) {
    char *names;
    trine_status status = gather_names(mesh, gpu->name, &names);
    if (status == TRINE_OK) status = create(mesh, gpu, names);
    free(names);
    if (status != TRINE_OK) abort_create(mesh);
    TRY(status);
    return TRINE_OK;
}

void comm_gpu_destroy(trine_mesh *mesh) {
    trine_comm *dp = trine_mesh_group(mesh, TRINE_DP);
    struct comm_gpus *g = dp ? dp->gpus : NULL;
    if (!g) return;
    for (int i = 0; i < TRINE_GROUPS; i++) {
        trine_comm *comm = trine_mesh_group(mesh, (trine_group)i);
        comm->nccl = NULL;
        comm->nccl_group = NULL;
    }
    if (g->rank && g->nccl->close(&g->rank) != TRINE_OK) trine_abort(g->world);
    if (g->inner) g->dev->memory = g->inner;
    g->world->look = NULL;
    free(g);
    dp->gpus = NULL;
}

size_t comm_gpu_scratch(trine_layout layout) {
    return (size_t)axes_adding(layout) * NCCL_SCRATCH;
}

trine_status comm_mpi_reaches(trine_world *world, bool *all) {
    int32_t lacks = !mpi_reaches_gpus();
    TRY(trine_all_reduce(world->comm, &lacks, &lacks, 1, TRINE_I32, TRINE_MAX));
    *all = !lacks;
    return TRINE_OK;
}

bool comm_gpu_stages(const trine_mesh *mesh) {
    order o = making_order(mesh);
    for (int i = 0; i < o.count; i++) {
        const trine_comm *comm = trine_mesh_group(mesh, o.groups[i]);
        if (comm->size > 1 && !comm->nccl) return true;
    }
    return false;
}

/* ---- Fused messages -------------------------------------------------------------------------- */

trine_status comm_group_begin(const trine_mesh *mesh) {
    const struct comm_gpus *g = trine_mesh_group(mesh, TRINE_DP)->gpus;
    return g ? g->nccl->begin(g->rank) : TRINE_OK;
}

trine_status comm_group_end(const trine_mesh *mesh) {
    const struct comm_gpus *g = trine_mesh_group(mesh, TRINE_DP)->gpus;
    return g ? g->nccl->end(g->rank) : TRINE_OK;
}
