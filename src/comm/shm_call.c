/* How a call goes: all announce it in the group's ring, wait for each other's announcements, do their
 * part, and go on when nobody needs what lies with them any more. */
#include "comm/shm.h"

#include <string.h>

/* ---- Arrivals and phases --------------------------------------------------------------------- */

shm_counter *shm_arrivals(const shm_state *s, uint64_t call) {
    return &s->block[0]->arrived[call % SHM_RING];
}

uint64_t shm_all_arrived(const shm_state *s, uint64_t call) {
    return (uint64_t)s->comm->size * (call / SHM_RING + 1);
}

shm_counter *shm_passes(const shm_state *s, uint64_t phase) {
    return &s->block[0]->passed[phase % SHM_PHASES];
}

uint64_t shm_all_passed(const shm_state *s, uint64_t phase) {
    return (uint64_t)s->comm->size * (phase / SHM_PHASES + 1);
}

/* Counts this rank; the last one wakes who waits. */
static void tick(const shm_state *s, shm_counter *counter, uint64_t all) {
    if (atomic_fetch_add_explicit(counter, 1, memory_order_acq_rel) + 1 == all) shm_ring_all(s);
}

/* Returns the phase that this rank has reached, for those who wait for it. */
uint64_t shm_pass(shm_state *s) {
    uint64_t phase = s->phase++;
    tick(s, shm_passes(s, phase), shm_all_passed(s, phase));
    return phase;
}

static trine_status await_phase(shm_state *s, uint64_t phase) {
    return shm_await(s, shm_passes(s, phase), shm_all_passed(s, phase));
}

trine_status shm_meet(shm_state *s) {
    return await_phase(s, shm_pass(s));
}

static trine_status await_arrivals(shm_state *s, uint64_t call) {
    return shm_await(s, shm_arrivals(s, call), shm_all_arrived(s, call));
}

const shm_desc *shm_desc_of(const shm_state *s, int member, uint64_t call) {
    return &s->block[member]->ring[call % SHM_RING];
}

void *shm_peer_at(const shm_state *s, int member, shm_place place) {
    return shm_at(s->node, s->index[member], place);
}

/* ---- Announcing ------------------------------------------------------------------------------ */

/* Whether a call travels in the ring is known from its size, before anybody has announced it. */
static bool is_short(const shm_state *s, size_t bytes) {
    return bytes <= shm_payload_bytes(s->comm->size);
}

/* Announces the next call. A short src travels along. The ring's entry has to be free: all must
 * have finished the call that had it before. Returns the call's number. */
trine_status shm_announce(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                          size_t dst_bytes, bool waits, uint64_t *number) {
    uint64_t call = *number = s->calls++;
    shm_desc *d = &s->block[s->comm->rank]->ring[call % SHM_RING];
    if (call >= SHM_RING) TRY(shm_finish_gathers(s, call - SHM_RING + 1));
    uint64_t freed = s->free_at[call % SHM_RING];
    if (freed) TRY(await_phase(s, freed - 1));
    d->dst = shm_find(s->node, dst, dst_bytes);
    d->bytes = src_bytes;
    d->waits = waits;
    if (is_short(s, src_bytes)) {
        if (src_bytes) memcpy(shm_payload(s, s->comm->rank, call), src, src_bytes);
        d->src = (shm_place){SHM_PAYLOAD, 0};
    } else {
        d->src = shm_find(s->node, src, src_bytes);
    }
    atomic_store_explicit(&d->announced, call + 1, memory_order_release);
    tick(s, shm_arrivals(s, call), shm_all_arrived(s, call));
    return TRINE_OK;
}

/* This rank has finished a call: when all are in the last phase its place in the ring is free. */
void shm_finished(shm_state *s, uint64_t call) {
    s->free_at[call % SHM_RING] = s->phase;
}

/* Where `member`'s src lies for this rank. */
const char *shm_src_of(const shm_state *s, int member, uint64_t call) {
    shm_place place = shm_desc_of(s, member, call)->src;
    if (place.window == SHM_PAYLOAD) return shm_payload(s, member, call);
    return shm_peer_at(s, member, place);
}

/* What everybody sees alike once all have arrived. */
shm_form shm_form_of(const shm_state *s, uint64_t call, bool dst_too) {
    bool direct = true, waits = true;
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = shm_desc_of(s, i, call);
        if (d->src.window == SHM_PAYLOAD) return SHM_FORM_PAYLOAD;
        if (d->src.window == SHM_NOWHERE) direct = false;
        if (dst_too && d->dst.window == SHM_NOWHERE) direct = false;
        if (!d->waits) waits = false;
    }
    return direct ? SHM_FORM_DIRECT : waits ? SHM_FORM_STAGED : SHM_FORM_MPI;
}

char *shm_dst_of(const shm_state *s, int member, uint64_t call) {
    return shm_peer_at(s, member, shm_desc_of(s, member, call)->dst);
}

bool shm_reachable(const shm_state *s, uint64_t call) {
    for (int i = 0; i < s->comm->size; i++) {
        const shm_desc *d = shm_desc_of(s, i, call);
        if (d->src.window == SHM_NOWHERE || d->dst.window == SHM_NOWHERE) return false;
    }
    return true;
}

char *shm_stage(const shm_state *s, int member, uint64_t piece) {
    shm_head *h = (shm_head *)s->node->control->base[s->index[member]];
    return h->stage[piece % 2];
}

/* ---- Calls that block ------------------------------------------------------------------------ */

/* Announces a call that blocks, and waits for all to arrive. */
trine_status shm_open_call(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                           size_t dst_bytes, uint64_t *call) {
    TRY(shm_finish_gathers(s, s->calls));
    TRY(shm_announce(s, src, src_bytes, dst, dst_bytes, true, call));
    return await_arrivals(s, *call);
}

static shm_form form_of_root(const shm_state *s, uint64_t call, int root) {
    bool nowhere = shm_desc_of(s, root, call)->src.window == SHM_NOWHERE;
    return nowhere ? SHM_FORM_STAGED : SHM_FORM_DIRECT;
}

trine_status shm_open_from(shm_state *s, const void *src, size_t src_bytes, int root,
                           uint64_t *call, shm_form *form) {
    bool is_root = s->comm->rank == root, brief = is_short(s, src_bytes);
    TRY(shm_finish_gathers(s, s->calls));
    TRY(shm_announce(s, is_root ? src : NULL, is_root ? src_bytes : 0, NULL, 0, true, call));
    if (!brief) TRY(await_arrivals(s, *call));
    *form = brief ? SHM_FORM_PAYLOAD : form_of_root(s, *call, root);
    if (!brief) return TRINE_OK;
    if (!is_root) return shm_await(s, &shm_desc_of(s, root, *call)->announced, *call + 1);
    shm_ring_all(s); /* who sleeps may wait for this rank alone */
    return TRINE_OK;
}

trine_status shm_open_to(shm_state *s, const void *src, size_t src_bytes, int root, uint64_t *call,
                         shm_form *form) {
    bool brief = is_short(s, src_bytes);
    TRY(shm_finish_gathers(s, s->calls));
    TRY(shm_announce(s, src, src_bytes, NULL, 0, true, call));
    if (!brief || s->comm->rank == root) TRY(await_arrivals(s, *call));
    *form = brief ? SHM_FORM_PAYLOAD : shm_form_of(s, *call, false);
    return TRINE_OK;
}

/* Ends it; when others may still read what lies with the caller, after they have. */
trine_status shm_close_call(shm_state *s, uint64_t call, shm_form f) {
    uint64_t phase = shm_pass(s);
    shm_finished(s, call);
    return f == SHM_FORM_PAYLOAD ? TRINE_OK : await_phase(s, phase);
}
