/* Short calls from one rank to all, or from all to one. They do not synchronise all ranks: a sender
 * posts in a ring of its own and continues, a receiver waits for that post alone, so several calls
 * are in progress at once. The ring has two halves; a rank that has finished the calls of one half
 * reports it once for all of them, and no rank writes to that half again before all have. */
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"

#include <string.h>

#define HALF (SHM_SHORTS / 2)

bool shm_is_short(size_t bytes) {
    return bytes <= SHM_EAGER;
}

static shm_short *place_of(const shm_state *s, int member) {
    return &s->area[member]->shorts[s->shorts % SHM_SHORTS];
}

const char *shm_short_of(const shm_state *s, int member) {
    return place_of(s, member)->data;
}

/* Returns when all ranks have finished the calls of the half's previous round. */
static trine_status await_half(shm_state *s) {
    uint64_t half = s->shorts / HALF;
    if (half < 2 || s->half_free == half) return TRINE_OK;
    uint64_t own = s->area[s->comm->rank]->half_chains[(half - 1) % SHM_HALVES];
    for (int i = 0; i < s->comm->size; i++) {
        TRY(shm_await(s, &s->area[i]->halves, half - 1));
        if (s->area[i]->half_chains[(half - 1) % SHM_HALVES] != own) return match_differs(s->comm);
    }
    s->half_free = half;
    return TRINE_OK;
}

/* Posts this rank's data in the ring. The caller wakes the others. */
static trine_status post(shm_state *s, const void *src, size_t bytes) {
    shm_short *own = place_of(s, s->comm->rank);
    TRY(await_half(s));
    own->call = s->comm->trail->last;
    memcpy(own->data, src, bytes);
    atomic_store_explicit(&own->posted, s->shorts + 1, memory_order_release);
    return TRINE_OK;
}

static trine_status await_post(shm_state *s, int member) {
    const shm_short *post = place_of(s, member);
    const call_mark *own = &s->comm->trail->last;
    TRY(shm_await(s, &post->posted, s->shorts + 1));
    if (post->call.call == own->call && post->call.before == own->before) return TRINE_OK;
    return match_marks(s->comm, (const int[]){s->comm->rank, member},
                       (const call_mark[]){*own, post->call});
}

trine_status shm_short_from(shm_state *s, const void *src, size_t bytes, int root) {
    TRY(shm_finish_started(s, s->calls));
    if (s->comm->rank != root) return await_post(s, root);
    TRY(post(s, src, bytes));
    shm_wake_all(s);
    return TRINE_OK;
}

trine_status shm_short_to(shm_state *s, const void *src, size_t bytes, int root) {
    TRY(shm_finish_started(s, s->calls));
    if (s->comm->rank != root) {
        TRY(post(s, src, bytes));
        shm_wake(s, root);
        return TRINE_OK;
    }
    for (int i = 0; i < s->comm->size; i++)
        if (i != root) TRY(await_post(s, i));
    return TRINE_OK;
}

void shm_short_end(shm_state *s) {
    shm_area *own = s->area[s->comm->rank];
    if (++s->shorts % HALF) return;
    own->half_chains[s->shorts / HALF % SHM_HALVES] = s->comm->trail->chain;
    atomic_store_explicit(&own->halves, s->shorts / HALF, memory_order_release);
    shm_wake_all(s);
}
