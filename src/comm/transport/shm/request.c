/* The requests of a group that are in progress: messages, all-gathers and reductions. Every wait
 * advances all of them, so that no rank waits for a rank that waits for something else. */
#include "comm/transport/shm/shm.h"
#include "comm/reduce/stream.h"
#include "comm/transport/mpi/started.h"
#include "comm/watch/match.h"

#include <string.h>

/* ---- Requests in progress -------------------------------------------------------------------- */

void shm_copy_parts(const shm_state *s, const comm_request *r) {
    int size = s->comm->size;
    for (int k = 0; k < size; k++) {
        int i = (s->comm->rank + k) % size;
        char *to = (char *)r->dst + (size_t)i * r->bytes;
        const char *from = i == s->comm->rank ? r->src : shm_src_of(s, i, r->number, r->bytes);
        if (to != from) memcpy(to, from, r->bytes);
    }
}

/* Writes this rank's part to every dst that is reachable: the part was just made, so it lies in
 * this rank's cache, and leaves it once. */
static void give_part(const shm_state *s, const comm_request *r) {
    int size = s->comm->size;
    size_t own = (size_t)s->comm->rank * r->bytes, all = (size_t)size * r->bytes;
    const bool streamed = 2 * (size_t)size * all > s->node->cache;
    for (int k = 0; k < size; k++) {
        int i = (s->comm->rank + k) % size;
        char *to = (k == 0 ? (char *)r->dst : shm_dst_of(s, i, r->number)) + own;
        if (to == r->src) continue;
        if (streamed)
            stream_copy(to, r->src, r->bytes);
        else
            memcpy(to, r->src, r->bytes);
    }
    if (streamed) stream_fence();
}

static trine_status gather_staged(shm_state *s, const comm_request *r) {
    int size = s->comm->size;
    uint64_t segment = 0;
    for (size_t at = 0; at < r->bytes; at += SHM_STAGE, segment++) {
        size_t n = r->bytes - at < SHM_STAGE ? r->bytes - at : SHM_STAGE;
        memcpy(shm_stage(s, s->comm->rank, segment), (const char *)r->src + at, n);
        TRY(shm_meet(s));
        for (int i = 0; i < size; i++)
            memcpy((char *)r->dst + (size_t)i * r->bytes + at, shm_stage(s, i, segment), n);
    }
    return shm_meet(s);
}

static bool passed(const shm_state *s, const comm_request *r) {
    return shm_reached(shm_passes(s, r->phase), shm_all_passed(s, r->phase));
}

/* All have arrived: does this rank's part. *state is the state that follows. */
static trine_status read_parts(shm_state *s, comm_request *r, shm_form f, int *state) {
    *state = f == SHM_FORM_DIRECT ? SHM_LEFT : f == SHM_FORM_MPI ? SHM_MPI : SHM_DONE;
    if (f == SHM_FORM_STAGED) return gather_staged(s, r);
    if (f == SHM_FORM_MPI)
        return mpi_transport.all_gather_start(s->comm, r->dst, r->src, r->bytes, r);
    if (f == SHM_FORM_DIRECT && shm_reachable(s, r->number))
        give_part(s, r);
    else
        shm_copy_parts(s, r);
    return TRINE_OK;
}

/* All have arrived: the same for a reduction, none of which is staged. */
static void reduce_part(shm_state *s, comm_request *r) {
    shm_form f = shm_form_of(s, r->number, r->bytes, shm_reduces_to_all(r));
    r->state = f == SHM_FORM_DIRECT ? SHM_LEFT : f == SHM_FORM_MPI ? SHM_MPI : SHM_DONE;
    r->mover = f == SHM_FORM_MPI ? STARTED_MESSAGES : STARTED_TRANSPORT;
    if (f != SHM_FORM_MPI) shm_reduce_part(s, r, f);
    r->phase = shm_pass(s);
    shm_finished(s, r->number);
}

static trine_status move_reduction(shm_state *s, comm_request *r) {
    bool arrived = false;
    if (r->state == SHM_POSTED) TRY(shm_have_arrived(s, r->number, &arrived));
    if (arrived) reduce_part(s, r);
    if (r->state == SHM_LEFT && passed(s, r)) r->state = SHM_DONE;
    if (r->state == SHM_DONE && r->mover != STARTED_DONE) started_remove(r);
    if (r->mover == STARTED_DONE) r->state = SHM_DONE;
    return TRINE_OK;
}

/* Advances one all-gather; all those started before it have copied, or have been passed to MPI in
 * the same order on all ranks. Staged ones are left to their wait, since they need all ranks at
 * once. */
static trine_status move_gather(shm_state *s, comm_request *r, bool waits) {
    if (r->state == SHM_POSTED) {
        bool arrived;
        TRY(shm_have_arrived(s, r->number, &arrived));
        if (!arrived) return TRINE_OK;
        shm_form f = shm_form_of(s, r->number, r->bytes, false);
        if (f == SHM_FORM_STAGED && !waits) return TRINE_OK;
        int next;
        TRY(read_parts(s, r, f, &next));
        r->phase = shm_pass(s);
        shm_finished(s, r->number);
        r->state = next;
    }
    bool done = false;
    if (r->state == SHM_MPI) TRY(mpi_test(s->comm, r, &done));
    if (done) r->state = SHM_DONE;
    if (r->state == SHM_LEFT && passed(s, r)) r->state = SHM_DONE;
    return TRINE_OK;
}

static bool is_message(const comm_request *r) {
    return r->kind == TRINE_TALLY_SEND || r->kind == TRINE_TALLY_RECV;
}

static void remove_done(shm_state *s) {
    comm_request **at = &s->first;
    s->last = NULL;
    while (*at) {
        if ((*at)->state == SHM_DONE) {
            *at = (*at)->next;
        } else {
            s->last = *at;
            at = &(*at)->next;
        }
    }
}

static trine_status move_collective(shm_state *s, comm_request *r, bool waits) {
    return r->mover == STARTED_NOT ? move_gather(s, r, waits) : move_reduction(s, r);
}

/* Advances all of a group's requests; only `waiting` may do steps that need all ranks at once. */
static trine_status move_requests(shm_state *s, const comm_request *waiting) {
    bool collectives = true, done = false;
    for (comm_request *r = s->first; r; r = r->next) {
        if (is_message(r))
            TRY(shm_move_message(s->comm, r));
        else if (collectives)
            TRY(move_collective(s, r, waiting != NULL));
        if (!is_message(r) && r->state == SHM_POSTED) collectives = false;
        done = done || r->state == SHM_DONE;
    }
    if (done) remove_done(s);
    return TRINE_OK;
}

void shm_abandon(trine_comm *comm) {
    if (comm->shm) comm->shm->first = comm->shm->last = NULL;
}

/* If the group's ranks make different calls, its own waits report it, and not the waits of another. */
static trine_status advance_group(shm_state *s) {
    if (match_usable(s->comm) == TRINE_OK) {
        trine_status status = move_requests(s, NULL);
        if (status == TRINE_OK) return TRINE_OK;
        if (!s->comm->trail->found.known) return status;
    }
    status_clear();
    started_abandon(s->comm);
    shm_abandon(s->comm);
    return TRINE_OK;
}

static trine_status move_busy(trine_world *world) {
    shm_state **at = &world->shm_busy;
    while (*at) {
        shm_state *s = *at;
        TRY(advance_group(s));
        s->busy = s->first != NULL;
        if (s->busy)
            at = &s->next_busy;
        else
            *at = s->next_busy;
    }
    return TRINE_OK;
}

void shm_enlist(shm_state *s, comm_request *r) {
    r->next = NULL;
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    if (s->busy) return;
    s->busy = true;
    s->next_busy = s->comm->world->shm_busy;
    s->comm->world->shm_busy = s;
    s->comm->world->shm_move = move_busy;
}

/* The counter of the collective that must advance before any later call of the group. */
static const shm_counter *collective_counter(const shm_state *s, uint64_t *target) {
    const comm_request *r = s->first;
    while (r && (is_message(r) || r->state == SHM_DONE)) r = r->next;
    if (!r || r->state == SHM_MPI) return NULL;
    *target = r->state == SHM_LEFT ? shm_all_passed(s, r->phase) : shm_all_arrived(s, r->number);
    return r->state == SHM_LEFT ? shm_passes(s, r->phase) : shm_arrivals(s, r->number);
}

trine_status shm_wait(trine_comm *comm, comm_request *r) {
    shm_state *s = comm->shm;
    shm_patience patience = {0};
    for (;;) {
        uint64_t target = 0;
        if (r->state != SHM_DONE) TRY(move_requests(s, is_message(r) ? NULL : r));
        if (r->state == SHM_DONE) return TRINE_OK;
        const shm_counter *counter =
            is_message(r) ? shm_message_counter(comm, r, &target) : collective_counter(s, &target);
        TRY(shm_pause(s, counter, target, &patience));
    }
}

trine_status shm_wait_received(trine_comm *comm, comm_request *r, size_t bytes) {
    (void)bytes; /* checked on receipt */
    return shm_wait(comm, r);
}

/* Collectives of a group finish in order: a blocking call first finishes those started earlier. */
trine_status shm_finish_started(shm_state *s, uint64_t before) {
    comm_request *r = s->first;
    while (r) {
        if (is_message(r) || r->state == SHM_DONE || r->number >= before) {
            r = r->next;
            continue;
        }
        TRY(shm_wait(s->comm, r));
        r = s->first;
    }
    return TRINE_OK;
}

trine_status shm_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t part,
                                  comm_request *r) {
    shm_state *s = comm->shm;
    r->kind = TRINE_TALLY_ALL_GATHER;
    r->dst = dst;
    r->src = src;
    r->bytes = part;
    r->state = SHM_POSTED;
    TRY(shm_announce(s, src, part, dst, part * (size_t)comm->size, r->waits, &r->number));
    shm_enlist(s, r);
    return TRINE_OK;
}
