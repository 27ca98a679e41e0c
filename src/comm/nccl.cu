/* Groups of ranks with a GPU each, over NCCL; a part of libtrine_cuda.so. nccl.h says how. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl_group.h"

/* Looks at the device between two at the communicators' errors. */
#define CHECK_EVERY 16

static_assert(NCCL_ID == NCCL_UNIQUE_ID_BYTES, "an id is a ncclUniqueId");

/* ---- Errors and waiting ------------------------------------------------------------------------ */

static void abort_all(nccl_rank *r) {
    r->failed = true;
    for (; r->open > 0; r->open--) (void)ncclGroupEnd();
    for (nccl_group *g = r->first; g; g = g->next) {
        if (g->comm) (void)ncclCommAbort(g->comm);
        g->comm = NULL;
    }
}

static trine_status fail(nccl_group *g, ncclResult_t result, const char *call) {
    char detail[512];
    const char *last = ncclGetLastError(g->comm);
    snprintf(detail, sizeof detail, "%s", last ? last : "");
    abort_all(g->r);
    return RAISE(TRINE_ENCCL, "group %s of %d, rank %d of it, on GPU %s: %.*s: %s%s%s", g->name,
                 g->size, g->rank, g->r->gpu, (int)strcspn(call, "("), call,
                 ncclGetErrorString(result), *detail ? ": " : "", detail);
}

trine_status nccl_settle(nccl_group *g, ncclResult_t result, const char *call) {
    double since = 0;
    while (result == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(g->comm, &result);
        if (asked != ncclSuccess) result = asked;
        if (result == ncclInProgress) g->r->waits(g->r->context, &since);
    }
    return result == ncclSuccess ? TRINE_OK : fail(g, result, call);
}

trine_status nccl_noted(nccl_group *g, ncclResult_t result, const char *call) {
    return result == ncclSuccess || result == ncclInProgress ? TRINE_OK : fail(g, result, call);
}

static trine_status check_errors(nccl_rank *r) {
    for (nccl_group *g = r->first; g; g = g->next) {
        if (!g->comm) continue;
        ncclResult_t state = ncclSuccess, asked = ncclCommGetAsyncError(g->comm, &state);
        if (asked != ncclSuccess) state = asked;
        TRY(nccl_noted(g, state, "asynchronously"));
    }
    return TRINE_OK;
}

static trine_status await_stream(nccl_rank *r, cudaStream_t stream) {
    double since = 0;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    for (unsigned polls = 1;; polls++) {
        cudaError_t e = cudaStreamQuery(stream);
        if (e == cudaSuccess) return TRINE_OK;
        if (e != cudaErrorNotReady) {
            abort_all(r);
            return RAISE(TRINE_EMATH, "GPU %s: %s", r->gpu, cudaGetErrorString(e));
        }
        (void)cudaGetLastError(); /* "not ready" is remembered like an error */
        if (polls % CHECK_EVERY == 0) TRY(check_errors(r));
        r->waits(r->context, &since);
    }
}

static trine_status rank_await(nccl_rank *r) {
    return await_stream(r, cuda_of(r->dev)->compute);
}

/* ---- The two streams --------------------------------------------------------------------------- */

trine_status nccl_before(nccl_group *g) {
    nccl_rank *r = g->r;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    TRY_CUDA(cudaEventRecord(r->ready, cuda_of(r->dev)->compute));
    TRY_CUDA(cudaStreamWaitEvent(g->stream, r->ready, 0));
    return TRINE_OK;
}

trine_status nccl_after(nccl_group *g) {
    TRY_CUDA(cudaEventRecord(g->r->done, g->stream));
    TRY_CUDA(cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, g->r->done, 0));
    return TRINE_OK;
}

/* ---- Tickets ----------------------------------------------------------------------------------- */

static nccl_ticket *ticket_at(const nccl_group *g, uint64_t number) {
    return &g->tickets[number % g->slots];
}

/* Twice as many slots. GPipe starts two messages an edge for each micro-batch before it finishes one. */
static trine_status grow(nccl_group *g) {
    uint64_t slots = g->slots ? 2 * g->slots : 16;
    nccl_ticket *more = (nccl_ticket *)calloc(slots, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory for %llu calls under way in group %s",
          (unsigned long long)slots, g->name);
    for (uint64_t t = g->finished + 1; t <= g->finished + g->slots; t++)
        more[t % slots] = *ticket_at(g, t);
    free(g->tickets);
    g->tickets = more;
    g->slots = slots;
    return TRINE_OK;
}

static trine_status record_tickets(nccl_group *g) {
    for (; g->recorded < g->started; g->recorded++) {
        nccl_ticket *t = ticket_at(g, g->recorded + 1);
        if (!t->event) TRY_CUDA(cudaEventCreateWithFlags(&t->event, cudaEventDisableTiming));
        TRY_CUDA(cudaEventRecord(t->event, g->stream));
    }
    return TRINE_OK;
}

trine_status nccl_give_ticket(nccl_group *g, uint64_t *ticket) {
    if (g->started - g->finished == g->slots) TRY(grow(g));
    *ticket = ++g->started;
    ticket_at(g, *ticket)->finished = false;
    return g->r->fusing ? TRINE_OK : record_tickets(g);
}

static trine_status group_finish(nccl_group *g, uint64_t ticket) {
    ASSERT(ticket > g->finished && ticket <= g->recorded && !ticket_at(g, ticket)->finished);
    TRY_CUDA(cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, ticket_at(g, ticket)->event, 0));
    ticket_at(g, ticket)->finished = true;
    while (g->finished < g->recorded && ticket_at(g, g->finished + 1)->finished) g->finished++;
    return TRINE_OK;
}

/* ---- Messages ---------------------------------------------------------------------------------- */

/* Alone, or one of those that travel together. */
static trine_status message(nccl_group *g, ncclResult_t result, const char *call,
                            uint64_t *ticket) {
    if (g->r->fusing) {
        g->fused = true;
        TRY(nccl_noted(g, result, call));
    } else {
        TRY(nccl_settle(g, result, call));
    }
    return nccl_give_ticket(g, ticket);
}

static trine_status group_send(nccl_group *g, const void *buf, size_t bytes, int peer,
                               uint64_t *ticket) {
    TRY(nccl_before(g));
    return message(g, ncclSend(buf, bytes, ncclUint8, peer, g->comm, g->stream), "ncclSend",
                   ticket);
}

static trine_status group_recv(nccl_group *g, void *buf, size_t bytes, int peer, uint64_t *ticket) {
    TRY(nccl_before(g));
    return message(g, ncclRecv(buf, bytes, ncclUint8, peer, g->comm, g->stream), "ncclRecv",
                   ticket);
}

static trine_status rank_begin(nccl_rank *r) {
    ASSERT(!r->fusing && r->first);
    TRY_NOTED(r->first, ncclGroupStart());
    r->open++;
    r->fusing = true;
    return TRINE_OK;
}

static trine_status rank_end(nccl_rank *r) {
    ASSERT(r->fusing);
    r->fusing = false;
    r->open--;
    ncclResult_t result = ncclGroupEnd();
    if (result != ncclInProgress) TRY(nccl_noted(r->first, result, "ncclGroupEnd"));
    for (nccl_group *g = r->first; g; g = g->next) {
        if (!g->fused) continue;
        g->fused = false;
        TRY(nccl_settle(g, result, "ncclGroupEnd"));
        TRY(record_tickets(g));
    }
    return TRINE_OK;
}

/* ---- Making and ending ------------------------------------------------------------------------- */

static trine_status make_events(nccl_rank *r) {
    TRY_CUDA(cudaEventCreateWithFlags(&r->ready, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming));
    return TRINE_OK;
}

static trine_status rank_open(nccl_rank **out, const nccl_setting *setting) {
    nccl_rank *r = *out = (nccl_rank *)calloc(1, sizeof *r);
    CHECK(r, TRINE_ENOMEM, "no memory for NCCL's groups");
    r->dev = setting->dev;
    r->ordered = setting->ordered;
    r->waits = setting->waits;
    r->context = setting->context;
    snprintf(r->gpu, sizeof r->gpu, "%s", setting->gpu);
    return make_events(r);
}

/* The peers come, too; who does not is the watchdog's. */
static void finalize(nccl_group *g) {
    if (!g->comm || g->r->failed) return;
    if (await_stream(g->r, g->stream) != TRINE_OK) return;
    if (nccl_settle(g, ncclCommFinalize(g->comm), "ncclCommFinalize") != TRINE_OK) return;
    (void)ncclCommDestroy(g->comm);
    g->comm = NULL;
}

static void free_group(nccl_group *g) {
    for (uint64_t i = 0; i < g->slots; i++)
        if (g->tickets[i].event) (void)cudaEventDestroy(g->tickets[i].event);
    free(g->tickets);
    if (g->scratch) (void)cudaFree(g->scratch);
    if (g->stream) (void)cudaStreamDestroy(g->stream);
    free(g);
}

static void rank_close(nccl_rank **out) {
    nccl_rank *r = *out;
    if (!r) return;
    for (nccl_group *g = r->first; g; g = g->next) finalize(g);
    for (nccl_group *g = r->first, *next; g; g = next) {
        next = g->next;
        free_group(g);
    }
    if (r->ready) (void)cudaEventDestroy(r->ready);
    if (r->done) (void)cudaEventDestroy(r->done);
    free(r);
    *out = NULL;
}

static trine_status rank_make_id(nccl_rank *r, char id[NCCL_ID]) {
    ncclUniqueId made;
    ncclResult_t result = ncclGetUniqueId(&made);
    CHECK(result == ncclSuccess, TRINE_ENCCL, "GPU %s: ncclGetUniqueId: %s", r->gpu,
          ncclGetErrorString(result));
    memcpy(id, &made, NCCL_ID);
    return TRINE_OK;
}

/* The caller knows what would make room. */
static trine_status take_scratch(nccl_group *g) {
    cudaError_t e = cudaMalloc((void **)&g->scratch, NCCL_SCRATCH);
    if (e != cudaSuccess) (void)cudaGetLastError(); /* it has been heard */
    CHECK(e != cudaErrorMemoryAllocation, TRINE_ENOMEM,
          "no memory for the %zu bytes in which group %s of %d adds, on GPU %s", NCCL_SCRATCH,
          g->name, g->size, g->r->gpu);
    CHECK(e == cudaSuccess, TRINE_EMATH, "GPU %s: %s", g->r->gpu, cudaGetErrorString(e));
    return TRINE_OK;
}

/* The highest priority: what peers wait for comes before what only this rank waits for. */
static trine_status take_from_device(nccl_group *g, bool adds) {
    int least, greatest;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY_CUDA(cudaStreamCreateWithPriority(&g->stream, cudaStreamNonBlocking, greatest));
    g->chunk = NCCL_SCRATCH / (size_t)g->size / 256 * 256;
    return adds ? take_scratch(g) : TRINE_OK;
}

static void append(nccl_rank *r, nccl_group *g) {
    if (r->last)
        r->last->next = g;
    else
        r->first = g;
    r->last = g;
}

static trine_status rank_join(nccl_rank *r, nccl_group **out, const char id[NCCL_ID],
                              const nccl_place *place) {
    ncclUniqueId name;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: its communicators were aborted", r->gpu);
    nccl_group *g = *out = (nccl_group *)calloc(1, sizeof *g);
    CHECK(g, TRINE_ENOMEM, "no memory for group %s", place->name);
    g->r = r;
    g->size = place->size;
    g->rank = place->rank;
    snprintf(g->name, sizeof g->name, "%s", place->name);
    append(r, g);
    TRY(take_from_device(g, place->adds));
    memcpy(&name, id, NCCL_ID);
    config.blocking = 0;
    TRY_NCCL(g, ncclCommInitRankConfig(&g->comm, g->size, name, g->rank, &config));
    return TRINE_OK;
}

/* ---- The table --------------------------------------------------------------------------------- */

static const comm_nccl table = {
    NCCL_ABI,        rank_open,       rank_close,
    abort_all,       rank_make_id,    rank_join,
    nccl_all_reduce, nccl_reduce,     nccl_reduce_scatter,
    nccl_broadcast,  nccl_scatter,    nccl_gather,
    nccl_all_to_all, nccl_all_gather, group_send,
    group_recv,      group_finish,    rank_begin,
    rank_end,        rank_await,      check_errors,
};

const void *cuda_nccl_table(void) {
    return &table;
}

int cuda_nccl_version(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}
