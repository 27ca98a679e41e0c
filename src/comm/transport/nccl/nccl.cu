/* Groups of ranks with one GPU each, over NCCL; a part of libtrine_cuda.so. See nccl.h. */
#include <stdlib.h>

#include "comm/transport/nccl/group.cuh"

/* Device polls between two checks of the communicators' errors. */
#define CHECK_EVERY 16

/* ---- Errors and waiting ------------------------------------------------------------------------ */

/* Nothing is aborted here: an abort waits for the device, where a kernel may wait for ever. The
 * caller prints the error first. */
trine_status nccl_answer(nccl_group *g, ncclResult_t result, const char *call) {
    if (result == ncclSuccess) return TRINE_OK;
    const char *last = nccl.GetLastError(g->comm);
    g->r->failed = true;
    return RAISE(TRINE_ENCCL, "group %s of %d, group rank %d, GPU %s: %s: %s%s%.512s", g->name,
                 g->size, g->rank, g->r->gpu, call, nccl.GetErrorString(result),
                 last && *last ? ": " : "", last ? last : "");
}

trine_status nccl_check(nccl_rank *r) {
    for (nccl_group *g = r->first; g && !r->failed; g = g->next) {
        if (!g->comm) continue;
        ncclResult_t state = ncclSuccess, asked = nccl.CommGetAsyncError(g->comm, &state);
        if (asked != ncclSuccess) state = asked;
        TRY(nccl_answer(g, state, "asynchronous error"));
    }
    return TRINE_OK;
}

trine_status nccl_await(nccl_rank *r, cudaStream_t stream) {
    double since = 0;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: an earlier NCCL call failed", r->gpu);
    for (unsigned polls = 1;; polls++) {
        cudaError_t e = cudaStreamQuery(stream);
        if (e == cudaSuccess) return TRINE_OK;
        if (e != cudaErrorNotReady) {
            r->failed = true;
            return RAISE(TRINE_EMATH, "GPU %s: %s", r->gpu, cudaGetErrorString(e));
        }
        (void)cudaGetLastError(); /* clears "not ready", which CUDA remembers like an error */
        if (polls % CHECK_EVERY == 0) TRY(nccl_check(r));
        r->waits(r->context, &since);
    }
}

static trine_status rank_await(nccl_rank *r) {
    return nccl_await(r, cuda_of(r->dev)->compute);
}

/* ---- The chain --------------------------------------------------------------------------------- */

/* The group's stream waits for the last call of every other group. */
static trine_status wait_for_last(const nccl_group *g) {
    const nccl_rank *r = g->r;
    if (!r->chained || !r->last_called || r->last_called == g) return TRINE_OK;
    TRY_CUDA(cudaStreamWaitEvent(g->stream, r->called, 0));
    return TRINE_OK;
}

/* What is on the group's stream now is the last call. */
static trine_status is_last(nccl_group *g) {
    nccl_rank *r = g->r;
    if (!r->chained) return TRINE_OK;
    r->last_called = g;
    TRY_CUDA(cudaEventRecord(r->called, g->stream));
    return TRINE_OK;
}

/* ---- The two streams --------------------------------------------------------------------------- */

trine_status nccl_before(nccl_group *g) {
    nccl_rank *r = g->r;
    CHECK(!r->failed, TRINE_ENCCL, "GPU %s: an earlier NCCL call failed", r->gpu);
    TRY_CUDA(cudaEventRecord(r->ready, cuda_of(r->dev)->compute));
    TRY_CUDA(cudaStreamWaitEvent(g->stream, r->ready, 0));
    return wait_for_last(g);
}

trine_status nccl_after(nccl_group *g) {
    TRY(is_last(g));
    TRY_CUDA(cudaEventRecord(g->r->done, g->stream));
    TRY_CUDA(cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, g->r->done, 0));
    return TRINE_OK;
}

/* ---- Tickets ----------------------------------------------------------------------------------- */

static nccl_ticket *ticket_at(const nccl_group *g, uint64_t number) {
    return &g->tickets[number % g->slots];
}

/* Doubles the slots. GPipe starts two messages an edge for each micro-batch before it finishes
 * one. */
static trine_status grow(nccl_group *g) {
    uint64_t slots = g->slots ? 2 * g->slots : 16;
    nccl_ticket *more = (nccl_ticket *)calloc(slots, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory for %llu NCCL calls in flight in group %s",
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
    g->joins = g->r->fusing;
    if (g->joins) return TRINE_OK;
    TRY(record_tickets(g));
    return is_last(g);
}

static trine_status group_finish(nccl_group *g, uint64_t ticket) {
    ASSERT(ticket > g->finished && ticket <= g->recorded && !ticket_at(g, ticket)->finished);
    TRY_CUDA(cudaStreamWaitEvent(cuda_of(g->r->dev)->compute, ticket_at(g, ticket)->event, 0));
    ticket_at(g, ticket)->finished = true;
    while (g->finished < g->recorded && ticket_at(g, g->finished + 1)->finished) g->finished++;
    return TRINE_OK;
}

/* ---- Messages ---------------------------------------------------------------------------------- */

static trine_status group_send(nccl_group *g, const void *buf, size_t bytes, int peer,
                               uint64_t *ticket) {
    TRY(nccl_before(g));
    TRY_NCCL(g, Send, buf, bytes, ncclUint8, peer, g->comm, g->stream);
    return nccl_give_ticket(g, ticket);
}

static trine_status group_recv(nccl_group *g, void *buf, size_t bytes, int peer, uint64_t *ticket) {
    TRY(nccl_before(g));
    TRY_NCCL(g, Recv, buf, bytes, ncclUint8, peer, g->comm, g->stream);
    return nccl_give_ticket(g, ticket);
}

static trine_status rank_begin(nccl_rank *r) {
    ASSERT(!r->fusing && r->first);
    TRY_NCCL(r->first, GroupStart);
    r->open++;
    r->fusing = true;
    return TRINE_OK;
}

/* A message group is one call: it has ended when the calls of all of its groups have. */
static trine_status chain_messages(nccl_rank *r) {
    nccl_group *last = NULL;
    for (nccl_group *g = r->first; r->chained && g; g = g->next) {
        if (!g->joins) continue;
        g->joins = false;
        if (last)
            TRY_CUDA(cudaStreamWaitEvent(g->stream, ticket_at(last, last->recorded)->event, 0));
        last = g;
    }
    return last ? is_last(last) : TRINE_OK;
}

static trine_status rank_end(nccl_rank *r) {
    ASSERT(r->fusing);
    r->fusing = false;
    r->open--;
    TRY_NCCL(r->first, GroupEnd);
    for (nccl_group *g = r->first; g; g = g->next) TRY(record_tickets(g));
    return chain_messages(r);
}

/* ---- The table --------------------------------------------------------------------------------- */

static const comm_nccl table = {
    NCCL_ABI,
    nccl_find,
    nccl_open,
    nccl_close,
    nccl_abort,
    nccl_make_id,
    nccl_prepare,
    nccl_join,
    nccl_all_reduce,
    nccl_reduce,
    nccl_reduce_scatter,
    nccl_broadcast,
    nccl_scatter,
    nccl_gather,
    nccl_all_to_all,
    nccl_all_reduce_start,
    nccl_reduce_scatter_start,
    nccl_reduce_scatter_onto_start,
    nccl_all_gather,
    group_send,
    group_recv,
    group_finish,
    rank_begin,
    rank_end,
    rank_await,
    nccl_check,
};

const void *cuda_nccl_table(void) {
    return &table;
}
