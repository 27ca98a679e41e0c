/* The steps of a call: all ranks announce it in the group's ring, wait for each other's
 * announcements, do their part, and continue once no rank needs their buffers any more. */
#include "comm/transport/shm/shm.h"
#include "comm/watch/match.h"

#include <string.h>

/* ---- Arrivals and phases --------------------------------------------------------------------- */

shm_counter *shm_arrivals(const shm_state *s, uint64_t call) {
    return &s->area[0]->arrived[call % SHM_RING];
}

uint64_t shm_all_arrived(const shm_state *s, uint64_t call) {
    return (uint64_t)s->comm->size * (call / SHM_RING + 1);
}

shm_counter *shm_passes(const shm_state *s, uint64_t phase) {
    return &s->area[0]->passed[phase % SHM_PHASES];
}

uint64_t shm_all_passed(const shm_state *s, uint64_t phase) {
    return (uint64_t)s->comm->size * (phase / SHM_PHASES + 1);
}

/* Counts this rank; the last one wakes the ranks that wait. `one`: 1 in the low half. Nothing of the others is read
 * before a load that acquires: their additions are one release sequence. */
static void tick(const shm_state *s, shm_counter *counter, uint64_t one, uint64_t all) {
    uint64_t value = atomic_fetch_add_explicit(counter, one, memory_order_release) + one;
    if ((uint32_t)value == (uint32_t)all) shm_wake_all(s);
}

uint64_t shm_pass(shm_state *s) {
    uint64_t phase = s->phase++;
    tick(s, shm_passes(s, phase), 1, shm_all_passed(s, phase));
    return phase;
}

static trine_status await_phase(shm_state *s, uint64_t phase) {
    return shm_await(s, shm_passes(s, phase), shm_all_passed(s, phase));
}

trine_status shm_meet(shm_state *s) {
    return await_phase(s, shm_pass(s));
}

/* All have arrived, with different chains. */
static trine_status arrived_apart(const shm_state *s, uint64_t call) {
    for (int i = 1; i < s->comm->size; i++)
        TRY(match_marks(
            s->comm, (const int[]){0, i},
            (const call_mark[]){shm_desc_of(s, 0, call)->call, shm_desc_of(s, i, call)->call}));
    return match_differs(s->comm);
}

trine_status shm_have_arrived(shm_state *s, uint64_t call, bool *arrived) {
    uint64_t value = atomic_load_explicit(shm_arrivals(s, call), memory_order_acquire);
    *arrived = value == s->full[call % SHM_RING];
    if (*arrived || (uint32_t)value != (uint32_t)s->full[call % SHM_RING]) return TRINE_OK;
    return arrived_apart(s, call);
}

static trine_status await_arrivals(shm_state *s, uint64_t call) {
    bool arrived;
    TRY(shm_await(s, shm_arrivals(s, call), shm_all_arrived(s, call)));
    return shm_have_arrived(s, call, &arrived);
}

const shm_desc *shm_desc_of(const shm_state *s, int member, uint64_t call) {
    return &s->area[member]->ring[call % SHM_RING];
}

static void *peer_at(const shm_state *s, int member, shm_place place) {
    return shm_at(s->node, s->index[member], place);
}

/* ---- Announcing ------------------------------------------------------------------------------ */

/* The ring's entry must be free: all ranks must have finished the call that used it before. */
trine_status shm_announce(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                          size_t dst_bytes, bool waits, uint64_t *number) {
    uint64_t call = *number = s->calls++;
    shm_desc *d = &s->area[s->comm->rank]->ring[call % SHM_RING];
    if (call >= SHM_RING) TRY(shm_finish_started(s, call - SHM_RING + 1));
    const shm_counter *freed = s->free_at[call % SHM_RING].counter;
    if (freed) TRY(shm_await(s, freed, s->free_at[call % SHM_RING].target));
    d->dst = shm_find(s->node, dst, dst_bytes);
    d->waits = waits;
    if (shm_fits_payload(s, src_bytes)) {
        if (src) memcpy(shm_payload(s, s->comm->rank, call), src, src_bytes);
        d->src = (shm_place){SHM_PAYLOAD, 0};
    } else {
        d->src = shm_find(s->node, src, src_bytes);
    }
    d->call = s->comm->trail->last;
    uint64_t one = (s->comm->trail->chain >> 32 << 32) + 1;
    s->full[call % SHM_RING] += (uint64_t)s->comm->size * one;
    tick(s, shm_arrivals(s, call), one, shm_all_arrived(s, call));
    return TRINE_OK;
}

static void free_at(shm_state *s, uint64_t call, const shm_counter *counter, uint64_t target) {
    s->free_at[call % SHM_RING].counter = counter;
    s->free_at[call % SHM_RING].target = target;
}

void shm_finished(shm_state *s, uint64_t call) {
    uint64_t last = s->phase - 1;
    free_at(s, call, shm_passes(s, last), shm_all_passed(s, last));
}

const char *shm_src_of(const shm_state *s, int member, uint64_t call, size_t bytes) {
    if (shm_fits_payload(s, bytes)) return shm_payload(s, member, call);
    return peer_at(s, member, shm_desc_of(s, member, call)->src);
}

/* The same on all ranks once all have arrived. Whether a call is short follows from its size,
 * without a look at the other ranks' descriptors, each of which is a cache line of another
 * processor. */
shm_form shm_form_of(const shm_state *s, uint64_t call, size_t bytes, bool dst_too) {
    bool direct = true, waits = true;
    if (shm_fits_payload(s, bytes)) return SHM_FORM_PAYLOAD;
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = shm_desc_of(s, i, call);
        if (d->src.window == SHM_NOWHERE) direct = false;
        if (dst_too && d->dst.window == SHM_NOWHERE) direct = false;
        if (!d->waits) waits = false;
    }
    return direct ? SHM_FORM_DIRECT : waits ? SHM_FORM_STAGED : SHM_FORM_MPI;
}

char *shm_dst_of(const shm_state *s, int member, uint64_t call) {
    return peer_at(s, member, shm_desc_of(s, member, call)->dst);
}

bool shm_reachable(const shm_state *s, uint64_t call) {
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = shm_desc_of(s, i, call);
        if (d->src.window == SHM_NOWHERE || d->dst.window == SHM_NOWHERE) return false;
    }
    return true;
}

char *shm_stage(const shm_state *s, int member, uint64_t segment) {
    shm_head *h = (shm_head *)s->node->control->base[s->index[member]];
    return h->stage[segment % 2];
}

/* ---- Calls that block ----------------------------------------------------------------------- */

trine_status shm_open_call(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                           size_t dst_bytes, uint64_t *call) {
    TRY(shm_finish_started(s, s->calls));
    TRY(shm_announce(s, src, src_bytes, dst, dst_bytes, true, call));
    return await_arrivals(s, *call);
}

/* What is short lies in the ring: a rank that announces the next call has read it. */
trine_status shm_close_call(shm_state *s, uint64_t call, shm_form f) {
    if (f == SHM_FORM_PAYLOAD) {
        free_at(s, call, shm_arrivals(s, call + 1), shm_all_arrived(s, call + 1));
        return TRINE_OK;
    }
    uint64_t phase = shm_pass(s);
    shm_finished(s, call);
    return await_phase(s, phase);
}
