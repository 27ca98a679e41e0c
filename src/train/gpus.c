#include "train/gpus.h"

#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "comm/api/comm.h"
#include "comm/api/gpu.h"
#include "plan/oom.h"
#include "train/warm_up.h"

#define MIB (1024.0 * 1024.0)
#define GIB (1024.0 * MIB)

void gpus_introduce(const trine_trainer *t, const device_config *config) {
    trine_coord c = trine_mesh_coord(t->mesh);
    int rank = trine_world_rank(t->world);
    char text[400], own[112] = "", where[AXES_TEXT];
    cuda_gpu gpu;
    if (config->kind != DEVICE_CUDA) return;
    if (t->dev && cuda_describe(t->dev, &gpu) == TRINE_OK)
        snprintf(own, sizeof own, " GPU %d (%s)", gpu.ordinal, gpu.info.model);
    snprintf(text, sizeof text, "%s rank %d [%s]%s: ", comm_host_names(t->world)[rank], rank,
             axes_coord_text(c, where, sizeof where), own);
    status_prefix(text);
}

/* The largest call of each group in a step. An evaluation makes none that is larger. */
static trine_status find_largest(const trine_trainer *t, size_t largest[TRINE_GROUPS]) {
    trine_coord at = trine_mesh_coord(t->mesh);
    gpt_shape shape = resolve_shape(&t->config, t->dev, at.tp);
    state_config of = resolve_state(&t->config, t->stages, &shape, t->dev, at);
    rank_state h;
    TRY(state_create(&h, &of));
    traffic_largest(&h, &t->stages[at.pp], largest);
    state_destroy(&h);
    return TRINE_OK;
}

/* Chooses the groups that use NCCL, and creates them. */
static trine_status make_groups(trine_trainer *t) {
    cuda_gpu gpu;
    size_t largest[TRINE_GROUPS];
    TRY(trine_world_agree(t->world, cuda_describe(t->dev, &gpu)));
    TRY(trine_world_agree(t->world, find_largest(t, largest)));
    comm_gpu own = {.dev = t->dev,
                    .nccl = cuda_nccl(t->dev),
                    .name = gpu.info.bus,
                    .ordered = resolve_ordered(&t->config),
                    .largest = largest,
                    .lane_ctas = t->config.parallel.nccl_lane_ctas};
    TRY(comm_gpu_create(t->mesh, &own));
    return TRINE_OK;
}

/* Called after load_libraries, when NCCL and other libraries have their memory on all ranks. */
static trine_status gather(trine_trainer *t) {
    size_t ranks = (size_t)trine_world_size(t->world);
    cuda_gpu own;
    memset(&own, 0, sizeof own);
    trine_status status = cuda_describe(t->dev, &own);
    own.info.in_order = comm_nccl_in_order(own.info.nccl);
    t->gpus = calloc(ranks, sizeof *t->gpus);
    if (status == TRINE_OK && !t->gpus)
        status = RAISE(TRINE_ENOMEM, "no memory for %zu GPUs", ranks);
    TRY(trine_world_agree(t->world, status));
    return trine_all_gather(trine_mesh_group(t->mesh, TRINE_WORLD), t->gpus, &own,
                            ranks * sizeof own, TRINE_U8);
}

/* Raises the out-of-memory error before the plan exists; `more` bytes would be taken before it. Called
 * only on the rank that reports it. */
static trine_status out_of_memory(const trine_trainer *t, size_t more, const char *beside) {
    cuda_gpu own;
    arena plan;
    TRY(cuda_describe(t->dev, &own));
    TRY(resolve_plan(&t->config, t->stages, t->dev, trine_mesh_coord(t->mesh), &plan));
    size_t left = own.info.free_bytes;
    oom_question q = {.config = &t->config,
                      .dev = t->dev,
                      .plan = &plan,
                      .free_bytes = left > more ? left - more : 0,
                      .bytes = own.info.bytes,
                      .sharers = 1,
                      .beside = beside};
    return oom_refuse(&q);
}

static trine_status out_of_memory_for_groups(const trine_trainer *t) {
    size_t groups = comm_gpu_scratch(t->config.parallel.layout);
    return out_of_memory(t, groups, " in addition to NCCL's groups");
}

/* Libraries allocate first, on all ranks of a GPU, so that the remaining memory is for the plans. */
static trine_status load_libraries(trine_trainer *t) {
    gpt_shape shape = resolve_shape(&t->config, t->dev, trine_mesh_coord(t->mesh).tp);
    trine_status status = trine_world_agree(t->world, warm_up(t->dev, &shape));
    if (status == TRINE_ENOMEM && *status_message())
        return out_of_memory(t, 0, " in addition to kernels and libraries");
    return status;
}

trine_status gpus_join(trine_trainer *t) {
    if (t->dev->kind != DEVICE_CUDA) return TRINE_OK;
    cuda_gpu before, after;
    TRY(trine_world_agree(t->world, cuda_describe(t->dev, &before)));
    trine_status status = make_groups(t);
    if (status == TRINE_ENOMEM && *status_message()) return out_of_memory_for_groups(t);
    TRY(status);
    TRY(cuda_describe(t->dev, &after));
    if (before.info.free_bytes > after.info.free_bytes)
        t->nccl_bytes = before.info.free_bytes - after.info.free_bytes;
    TRY(load_libraries(t));
    TRY(comm_mpi_reaches(t->world, &t->mpi_reaches));
    if (t->config.parallel.stage_messages) t->mpi_reaches = false;
    return gather(t);
}

/* ---- The banner ---- */

/* Whether two GPUs are of the same model and memory, with the same versions. */
static bool same_kind(const cuda_info *a, const cuda_info *b) {
    return strcmp(a->model, b->model) == 0 && a->bytes == b->bytes && a->driver == b->driver &&
           a->runtime == b->runtime && a->cublas == b->cublas && a->nccl == b->nccl &&
           a->in_order == b->in_order;
}

static bool same_gpu(const trine_trainer *t, int a, int b) {
    const char *const *hosts = comm_host_names(t->world);
    return strcmp(hosts[a], hosts[b]) == 0 && strcmp(t->gpus[a].info.bus, t->gpus[b].info.bus) == 0;
}

int gpus_sharers(const trine_trainer *t) {
    int own = trine_world_rank(t->world), n = 0;
    for (int r = 0; r < trine_world_size(t->world); r++) n += same_gpu(t, r, own);
    return n;
}

/* Whether no earlier rank has the same kind. */
static bool first_of_kind(const trine_trainer *t, int rank) {
    for (int r = 0; r < rank; r++)
        if (same_kind(&t->gpus[r].info, &t->gpus[rank].info)) return false;
    return true;
}

static bool first_of_gpu(const trine_trainer *t, int rank) {
    for (int r = 0; r < rank; r++)
        if (same_gpu(t, r, rank)) return false;
    return true;
}

/* Prints "ranks 0-3, 6", those with the same kind as `like`. */
static void print_ranks(const trine_trainer *t, int like, FILE *out) {
    int size = trine_world_size(t->world), shown = 0;
    const cuda_info *kind = &t->gpus[like].info;
    if (size == 1) return;
    fputs("; ranks", out);
    for (int r = 0, end; r < size; r = end) {
        for (end = r + 1; end < size && same_kind(&t->gpus[end].info, kind);) end++;
        if (!same_kind(&t->gpus[r].info, kind)) continue;
        fprintf(out, "%s %d", shown++ ? "," : "", r);
        if (end - 1 > r) fprintf(out, "-%d", end - 1);
    }
}

/* 22703 is 2.27.3; 0: not present. */
static void print_version(const char *name, int v, FILE *out) {
    if (v) fprintf(out, ", %s %d.%d.%d", name, v / 10000, v / 100 % 100, v % 100);
}

static void print_kind(const trine_trainer *t, int rank, FILE *out) {
    const cuda_info *i = &t->gpus[rank].info;
    c_fprintf(out,
              "gpu      %s, %.1f GiB (%.1f free after contexts and libraries), sm_%d; driver "
              "supports CUDA %d.%d, CUDA %d.%d",
              i->model, (double)i->bytes / GIB, (double)i->free_bytes / GIB, i->sm,
              i->driver / 1000, i->driver % 1000 / 10, i->runtime / 1000, i->runtime % 1000 / 10);
    print_version("cuBLAS", i->cublas, out);
    print_version("NCCL", i->nccl, out);
    if (i->nccl) fputs(i->in_order ? " (launches in order)" : " (launches chained)", out);
    print_ranks(t, rank, out);
    fputc('\n', out);
}

/* Memory of this rank's GPU that is already in use; what is not accounted for belongs to contexts and
 * code of the ranks that share it, and to other processes. */
static void print_taken(const trine_trainer *t, FILE *out) {
    const cuda_info *i = &t->gpus[trine_world_rank(t->world)].info;
    uint64_t own = i->own_bytes * (uint64_t)gpus_sharers(t), taken = i->bytes - i->free_bytes;
    uint64_t known = own + t->nccl_bytes, others = taken > known ? taken - known : 0;
    c_fprintf(out,
              "         used on rank 0's GPU before the plan: %.1f MiB by workspaces, %.1f by "
              "NCCL, %.1f by contexts and other processes\n",
              (double)own / MIB, (double)t->nccl_bytes / MIB, (double)others / MIB);
}

static void print_sharing(const trine_trainer *t, FILE *out) {
    int size = trine_world_size(t->world), gpus = 0;
    for (int r = 0; r < size; r++) gpus += first_of_gpu(t, r);
    if (gpus < size)
        fprintf(out, "         fewer GPUs than ranks: %d ranks share %d GPU%s\n", size, gpus,
                gpus == 1 ? "" : "s");
}

/* tp groups are consecutive ranks with two collectives per half block, where a slow link costs most. */
static void warn_tp(const trine_trainer *t, FILE *out) {
    int size = trine_world_size(t->world), tp = t->config.parallel.layout.tp, crossing = 0;
    for (int first = 0; first < size; first += tp)
        for (int r = first + 1; r < first + tp; r++)
            if (mesh_node_index(t->mesh, r) != mesh_node_index(t->mesh, first)) {
                crossing++;
                break;
            }
    if (crossing)
        fprintf(out,
                "         warning: %d of %d tp groups span nodes; use a --tp that divides the "
                "ranks per node\n",
                crossing, size / tp);
}

/* CUDA Runtime API, "API synchronization behavior": a copy from pageable memory is staged, and one to
 * it returns when it is done. */
static void warn_pageable(const trine_trainer *t, FILE *out) {
    const trainer_pageable *p = &t->pageable;
    if (!p->ranks) return;
    c_fprintf(out,
              "         warning: on %lld of %d ranks up to %.1f MiB of host memory could not be "
              "pinned,\n         first on rank %lld: %s;\n         the driver stages copies of it, "
              "which is slower and blocks the host\n",
              (long long)p->ranks, trine_world_size(t->world), (double)p->most / MIB,
              (long long)p->first, p->why);
}

void gpus_print(const trine_trainer *t, FILE *out) {
    int kinds = 0;
    if (!t->gpus) return;
    for (int r = 0; r < trine_world_size(t->world); r++) {
        if (!first_of_kind(t, r)) continue;
        print_kind(t, r, out);
        kinds++;
    }
    if (comm_gpu_no_nccl(t->mesh))
        fprintf(out, "         no NCCL on %s\n", comm_gpu_no_nccl(t->mesh));
    print_taken(t, out);
    print_sharing(t, out);
    if (kinds > 1)
        fputs("         warning: GPU models, memory or versions differ between ranks; the slowest "
              "rank determines the speed\n",
              out);
    warn_tp(t, out);
    warn_pageable(t, out);
}

/* ---- Links ---- */

/* In order of decreasing speed. */
typedef enum { LINK_NONE, LINK_NVLINK, LINK_PCIE, LINK_UNSEEN, LINK_HOST, LINK_NETWORK } link_kind;

static link_kind link_to(const trine_trainer *t, int rank) {
    int own = trine_world_rank(t->world);
    const char *const *hosts = comm_host_names(t->world);
    if (strcmp(hosts[own], hosts[rank]) != 0) return LINK_NETWORK;
    switch (cuda_link_with(t->dev, t->gpus[rank].info.bus)) {
    case CUDA_LINK_SAME: return LINK_NONE;
    case CUDA_LINK_NVLINK: return LINK_NVLINK;
    case CUDA_LINK_PCIE: return LINK_PCIE;
    case CUDA_LINK_HOST: return LINK_HOST;
    case CUDA_LINK_UNKNOWN: break;
    }
    return LINK_UNSEEN;
}

/* Staged groups always use host memory. */
static link_kind slowest_link(const trine_trainer *t, const trine_comm *comm) {
    bool staged = strncmp(trine_comm_transport(comm), "staged", strlen("staged")) == 0;
    link_kind slowest = staged ? LINK_HOST : LINK_NONE;
    for (int i = 0; i < trine_comm_size(comm); i++) {
        int rank = comm_world_rank(comm, i);
        link_kind link = rank == trine_world_rank(t->world) ? LINK_NONE : link_to(t, rank);
        if (link > slowest) slowest = link;
    }
    return slowest;
}

void gpus_print_links(const trine_trainer *t, FILE *out) {
    static const char *const words[] = {"the same GPU", "NVLink",      "PCIe",
                                        "not visible",  "host memory", "network"};
    const char *before = "links    ";
    if (!t->gpus) return;
    for (int g = TRINE_WORLD + 1; g < TRINE_NODE; g++) {
        const trine_comm *comm = trine_mesh_group(t->mesh, (trine_group)g);
        if (g == TRINE_PP || trine_comm_size(comm) == 1)
            continue; /* the edges of pp have their own groups */
        fprintf(out, "%s%s %s", before, comm_group_name((trine_group)g),
                words[slowest_link(t, comm)]);
        before = ", ";
    }
    if (*before == ',') fputc('\n', out);
}
