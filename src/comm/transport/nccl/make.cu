/* Makes and destroys groups over NCCL; a part of libtrine_cuda.so. See nccl.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport/nccl/group.cuh"

/* From this version on, aborts between ncclGroupStart and ncclGroupEnd run concurrently. */
#define ABORTS_TOGETHER NCCL_VERSION(2, 22, 0)

static_assert(NCCL_ID == NCCL_UNIQUE_ID_BYTES, "an id is a ncclUniqueId");

/* ---- This process ------------------------------------------------------------------------------- */

static trine_status make_events(nccl_rank *r) {
    TRY_CUDA(cudaEventCreateWithFlags(&r->ready, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&r->called, cudaEventDisableTiming));
    return TRINE_OK;
}

trine_status nccl_open(nccl_rank **out, const nccl_setting *setting) {
    nccl_rank *r = *out = (nccl_rank *)calloc(1, sizeof *r);
    CHECK(r, TRINE_ENOMEM, "no memory for the NCCL groups");
    r->dev = setting->dev;
    r->ordered = setting->ordered;
    r->chained = setting->chained;
    r->waits = setting->waits;
    r->context = setting->context;
    r->enter = setting->enter;
    r->leave = setting->leave;
    snprintf(r->gpu, sizeof r->gpu, "%s", setting->gpu);
    return make_events(r);
}

/* An abort waits for the whole device, and so for kernels of the other communicators: all must be
 * aborted before the first one waits. If NCCL cannot do that, nothing is aborted: the kernels end
 * with the process. */
void nccl_abort(nccl_rank *r) {
    bool under_way = r->failed;
    r->failed = true;
    if (under_way && cuda_nccl_version() < ABORTS_TOGETHER) return;
    r->enter("ncclCommAbort");
    for (; r->open > 0; r->open--) (void)nccl.GroupEnd();
    (void)nccl.GroupStart();
    for (nccl_group *g = r->first; g; g = g->next) {
        if (g->comm) (void)nccl.CommAbort(g->comm);
        g->comm = NULL;
    }
    (void)nccl.GroupEnd();
    r->leave();
}

/* Waits for the peers; the watchdog handles one that does not come. */
static trine_status finalize(nccl_group *g) {
    if (!g->comm) return TRINE_OK;
    TRY(nccl_await(g->r, g->stream));
    TRY_NCCL(g, CommFinalize, g->comm);
    (void)nccl.CommDestroy(g->comm);
    g->comm = NULL;
    return TRINE_OK;
}

/* A communicator that could not be finalized may still use its resources. */
static void free_group(nccl_group *g) {
    if (g->comm) return;
    for (uint64_t i = 0; i < g->slots; i++)
        if (g->tickets[i].event) (void)cudaEventDestroy(g->tickets[i].event);
    free(g->tickets);
    if (g->scratch) (void)cudaFree(g->scratch);
    if (g->stream) (void)cudaStreamDestroy(g->stream);
    free(g);
}

trine_status nccl_close(nccl_rank **out) {
    nccl_rank *r = *out;
    if (!r) return TRINE_OK;
    for (nccl_group *g = r->first; g && !r->failed; g = g->next) TRY(finalize(g));
    if (r->failed) nccl_abort(r);
    for (nccl_group *g = r->first, *next; g; g = next) {
        next = g->next;
        free_group(g);
    }
    if (r->ready) (void)cudaEventDestroy(r->ready);
    if (r->done) (void)cudaEventDestroy(r->done);
    if (r->called) (void)cudaEventDestroy(r->called);
    free(r);
    *out = NULL;
    return TRINE_OK;
}

/* ---- A group ----------------------------------------------------------------------------------- */

trine_status nccl_make_id(nccl_rank *r, char id[NCCL_ID]) {
    ncclUniqueId made;
    ncclResult_t result = nccl.GetUniqueId(&made);
    CHECK(result == ncclSuccess, TRINE_ENCCL, "GPU %s: ncclGetUniqueId: %s", r->gpu,
          nccl.GetErrorString(result));
    memcpy(id, &made, NCCL_ID);
    return TRINE_OK;
}

/* On an out-of-memory error, the caller knows what would free memory. */
trine_status nccl_take(const nccl_group *g, char **p, size_t bytes, const char *what) {
    cudaError_t e = cudaMalloc((void **)p, bytes);
    if (e != cudaSuccess) (void)cudaGetLastError(); /* clears the error */
    CHECK(e != cudaErrorMemoryAllocation, TRINE_ENOMEM,
          "no memory for the %zu-byte %s of group %s of %d on GPU %s", bytes, what, g->name,
          g->size, g->r->gpu);
    CHECK(e == cudaSuccess, TRINE_EMATH, "GPU %s: %s", g->r->gpu, cudaGetErrorString(e));
    return TRINE_OK;
}

/* Highest priority: work that peers wait for goes before work that only this rank waits for. */
static trine_status take_from_device(nccl_group *g, bool adds) {
    int least, greatest;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY_CUDA(cudaStreamCreateWithPriority(&g->stream, cudaStreamNonBlocking, greatest));
    g->chunk = NCCL_SCRATCH / (size_t)g->size / 256 * 256;
    return adds ? nccl_take(g, &g->scratch, NCCL_SCRATCH, "reduction buffer") : TRINE_OK;
}

static void append(nccl_rank *r, nccl_group *g) {
    if (r->last)
        r->last->next = g;
    else
        r->first = g;
    r->last = g;
}

trine_status nccl_prepare(nccl_rank *r, nccl_group **out, const nccl_place *place) {
    nccl_group *g = *out = (nccl_group *)calloc(1, sizeof *g);
    CHECK(g, TRINE_ENOMEM, "no memory for group %s", place->name);
    g->r = r;
    g->size = place->size;
    g->rank = place->rank;
    g->largest = place->largest;
    g->ctas = place->ctas;
    snprintf(g->name, sizeof g->name, "%s", place->name);
    append(r, g);
    return take_from_device(g, place->adds);
}

/* Blocking: NCCL starts a thread for every call on a non-blocking communicator. */
trine_status nccl_join(nccl_group *g, const char id[NCCL_ID]) {
    ncclUniqueId name;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memcpy(&name, id, NCCL_ID);
    config.blocking = 1;
    if (g->ctas) config.maxCTAs = g->ctas;
    TRY_NCCL(g, CommInitRankConfig, &g->comm, g->size, name, g->rank, &config);
    return nccl_warm_up(g);
}
