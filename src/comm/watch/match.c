#include "comm/watch/match.h"
#include "comm/group/lane.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/tally.h"
#include "comm/watch/watch.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TAG_CALLS 3 /* on the watchdog's communicator, which has 0 to 2 */
/* Seconds for the answers of ranks that have found a difference, too, and of sends. */
#define GRACE 10.0

/* What a rank shows of its calls in a group. */
typedef struct {
    uint64_t context;
    uint64_t number;
    uint64_t kept[CALLS_KEPT];
    call_difference found;
    call_message wanted; /* that the sender of this waits for */
} record;

#define NEIGHBOURS 2 /* in a group */
#define COPIES     4

/* What neighbours are told of the calls; MPI reads it until they have received it. */
typedef struct {
    record record;
    MPI_Request requests[NEIGHBOURS];
    bool on_its_way;
} shown_copy;

struct match_room {
    shown_copy copies[COPIES];
};

match_room *match_room_make(void) {
    return calloc(1, sizeof(match_room));
}

/* One by one: GCC takes MPICH's MPI_STATUSES_IGNORE, which MPI_Testall would get, for an array without room. */
static bool all_done(MPI_Request *requests, int n) {
    bool all = true;
    for (int i = 0; i < n; i++) {
        int done = 0;
        MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
        all &= done != 0;
    }
    return all;
}

static bool is_free(shown_copy *c) {
    c->on_its_way = c->on_its_way && !all_done(c->requests, NEIGHBOURS);
    return !c->on_its_way;
}

void match_room_free(match_room *room) {
    for (int i = 0; room && i < COPIES; i++)
        if (!is_free(&room->copies[i])) return;
    free(room);
}

/* ---- Signatures ------------------------------------------------------------------------------ */

_Static_assert(TRINE_TALLY_KINDS <= 16, "a kind has four bits");
_Static_assert(TRINE_F16 < 8, "a type has three bits");
_Static_assert(COMM_SUM_ONTO < 4, "an operation has two bits");

static uint64_t signature_of(const comm_call *call) {
    return (uint64_t)call->kind | (uint64_t)call->type << 4 | (uint64_t)call->op << 7 |
           (uint64_t)((call->peer + 1) & 0x7fff) << 9 | (uint64_t)call->count << 24;
}

static comm_call call_of(uint64_t signature) {
    return (comm_call){.kind = (trine_tally_kind)(signature & 15),
                       .type = (trine_dtype)(signature >> 4 & 7),
                       .op = (trine_reduction)(signature >> 7 & 3),
                       .peer = (int)(signature >> 9 & 0x7fff) - 1,
                       .count = (size_t)(signature >> 24)};
}

/* Count and type. */
static uint64_t shape_of(uint64_t signature) {
    return signature >> 24 << 3 | (signature >> 4 & 7);
}

static uint64_t signature_of_message(const comm_request *r) {
    return signature_of(
        &(comm_call){.kind = r->kind, .count = r->count, .type = r->type, .peer = r->peer});
}

/* The high bits of a product depend on all bits of its factors. */
static uint64_t chained(uint64_t chain, uint64_t signature) {
    return ((chain << 23 | chain >> 41) ^ signature) * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void describe(const trine_comm *comm, int rank, uint64_t signature, char *text,
                     size_t size) {
    char place[192], more[48] = "";
    const comm_call call = call_of(signature);
    world_place(comm->world, rank, place, sizeof place);
    if (tally_kind_has_root(call.kind)) snprintf(more, sizeof more, ", root %d", call.peer);
    if (call.kind == TRINE_TALLY_SEND) snprintf(more, sizeof more, " to member %d", call.peer);
    if (call.kind == TRINE_TALLY_RECV) snprintf(more, sizeof more, " from member %d", call.peer);
    snprintf(text, size, "%s calls %s of %zu %s%s%s", place, tally_kind_text(call.kind), call.count,
             comm_dtype_text(call.type), comm_op_text(call.op), more);
}

trine_status match_refuse(const trine_comm *comm) {
    const call_difference *d = &comm->trail->found;
    char text[2][512];
    if (d->unexplained)
        return RAISE(TRINE_EAUDIT,
                     "group %s (%d ranks): an earlier call was different on some ranks, which have "
                     "not answered; after that the group cannot be used",
                     comm_group_name(comm->group), comm->trail->comm->size);
    for (int i = 0; i < 2; i++)
        describe(comm->trail->comm, d->rank[i], d->call[i], text[i], sizeof text[i]);
    return RAISE(TRINE_EAUDIT,
                 "group %s (%d ranks): %s, but %s; after that the group cannot be used",
                 comm_group_name(comm->group), comm->trail->comm->size, text[0], text[1]);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static MPI_Comm channel(const trine_world *world) {
    return ((const mpi_state *)world->watchdog)->comm;
}

/* Sends *copy to n ranks; false: not all have received it in time. */
static bool send_copy(const trine_comm *comm, record *copy, MPI_Request *requests, const int *ranks,
                      int n, const call_message *wanted) {
    const call_trail *t = comm->trail;
    trine_world *world = comm->world;
    *copy = (record){.context = t->context, .number = t->number, .found = t->found};
    memcpy(copy->kept, t->kept, sizeof copy->kept);
    if (wanted) copy->wanted = *wanted;
    for (int i = 0; i < n; i++) {
        MPI_Isend(copy, (int)sizeof *copy, MPI_BYTE, ranks[i], TAG_CALLS, channel(world),
                  &requests[i]);
        world->told[ranks[i]]++;
    }
    bool done = false;
    double last = 0;
    for (double left = GRACE; left > 0 && !done; left -= watch_step(&last)) {
        done = all_done(requests, n);
        if (!done) clock_nap(0.001);
    }
    return done;
}

/* A copy that is not on its way; NULL: all are, to ranks that are gone or do not answer, which the watchdog names. */
static shown_copy *free_copy(match_room *room) {
    for (int i = 0; i < COPIES; i++)
        if (is_free(&room->copies[i])) return &room->copies[i];
    return NULL;
}

/* Up to NEIGHBOURS ranks. Allocates nothing: a step in which a peer is late does not either. */
static void show_to(const trine_comm *comm, const int *ranks, int n, const call_message *wanted) {
    shown_copy *c = free_copy(comm->world->shown);
    if (!c) return;
    for (int i = 0; i < NEIGHBOURS; i++) c->requests[i] = MPI_REQUEST_NULL;
    c->on_its_way = !send_copy(comm, &c->record, c->requests, ranks, n, wanted);
}

/* If the calls of a group's ranks differ, those of some neighbours do. */
static void show_to_neighbours(const trine_comm *comm) {
    int ranks[NEIGHBOURS], n = 1, size = comm->size;
    ranks[0] = comm->members[(comm->rank + 1) % size];
    ranks[1] = comm->members[(comm->rank + size - 1) % size];
    if (size > 2) n = 2;
    show_to(comm, ranks, n, NULL);
}

/* The difference that ends the group. What is not received in time is leaked: MPI may still read it. */
static void show_to_all(const trine_comm *comm) {
    int n = 0, *ranks = calloc((size_t)comm->size, sizeof *ranks);
    record *copy = malloc(sizeof *copy);
    MPI_Request *requests = calloc((size_t)comm->size, sizeof *requests);
    for (int i = 0; ranks && i < comm->size; i++)
        if (i != comm->rank) ranks[n++] = comm->members[i];
    if (ranks && copy && requests && !send_copy(comm, copy, requests, ranks, n, NULL)) copy = NULL;
    free(ranks);
    free(copy);
    free(requests);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void settle(trine_comm *owner, const int ranks[2], const uint64_t calls[2]) {
    call_difference *d = &owner->trail->found;
    if (d->known) return;
    bool swap = ranks[1] < ranks[0];
    *d = (call_difference){.known = 1};
    for (int i = 0; i < 2; i++) {
        d->rank[i] = ranks[swap ? 1 - i : i];
        d->call[i] = calls[swap ? 1 - i : i];
    }
    if (!owner->world->leaves) show_to_all(owner);
}

static int member_of(const trine_comm *comm, int rank) {
    int i = 0;
    while (comm->members[i] != rank) i++;
    return i;
}

/* What a sender remembers of the message that another rank waits for. */
static void compare_message(trine_comm *comm, int source, const call_message *wanted) {
    const call_trail *t = comm->trail;
    int to = member_of(comm, source);
    for (int i = 0; i < CALLS_SENT; i++) {
        const call_message *m = &t->sent[i];
        if (!m->known || m->member != to || m->number != wanted->number) continue;
        if (shape_of(m->call) != shape_of(wanted->call))
            settle(comm, (const int[]){comm->world->rank, source},
                   (const uint64_t[]){m->call, wanted->call});
        return;
    }
}

/* Another rank's record of a group of this rank's. */
static void compare(trine_comm *comm, int source, const record *r) {
    call_trail *t = comm->trail;
    if (t->found.known) return;
    if (r->found.known) {
        t->found = r->found;
        return;
    }
    if (r->wanted.known && r->wanted.member == comm->rank)
        compare_message(comm, source, &r->wanted);
    uint64_t most = t->number > r->number ? t->number : r->number;
    uint64_t least = t->number > r->number ? r->number : t->number;
    for (uint64_t n = most > CALLS_KEPT ? most - CALLS_KEPT : 0; n < least; n++) {
        uint64_t own = t->kept[n % CALLS_KEPT], other = r->kept[n % CALLS_KEPT];
        if (own == other) continue;
        settle(comm, (const int[]){comm->world->rank, source}, (const uint64_t[]){own, other});
        return;
    }
}

bool match_take(trine_world *world) {
    MPI_Status status;
    record r;
    int there = 0;
    if (!world->watchdog) return false;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_CALLS, channel(world), &there, &status);
    if (!there) return false;
    MPI_Recv(&r, (int)sizeof r, MPI_BYTE, status.MPI_SOURCE, TAG_CALLS, channel(world),
             MPI_STATUS_IGNORE);
    world->heard++;
    for (trine_comm *c = world->groups; c; c = c->next_group)
        if (c->trail->context == r.context) compare(c, status.MPI_SOURCE, &r);
    return true;
}

/* ---- The group's calls ----------------------------------------------------------------------- */

/* The two ranks of a lane have two names for it. */
void match_begin(trine_comm *comm) {
    call_trail *t = comm->trail = &comm->own_trail;
    trine_group name = comm->group;
    if (lane_is(name) && lane_of(name).partner < name) name = lane_of(name).partner;
    const int32_t about[] = {comm->world->meshes, (int32_t)name, comm->size};
    t->context = XXH3_64bits_withSeed(comm->members, (size_t)comm->size * sizeof *comm->members,
                                      XXH3_64bits(about, sizeof about));
    t->comm = comm;
    t->chain = t->context;
}

trine_status match_enter(trine_comm *comm, const comm_call *call) {
    call_trail *t = comm->trail;
    if (comm->size == 1) return TRINE_OK;
    if (t->number % MATCH_LOOKS == MATCH_LOOKS - 1)
        while (match_take(comm->world)) continue;
    TRY(match_usable(comm));
    uint64_t signature = signature_of(call);
    t->kept[t->number++ % CALLS_KEPT] = signature;
    t->last = (call_mark){signature, t->chain};
    t->chain = chained(t->chain, signature);
    return TRINE_OK;
}

/* A wait shows this rank's calls after MATCH_PATIENCE, and again whenever its time has doubled. */
static bool is_time(call_trail *t, double waited) {
    if (waited < MATCH_PATIENCE || (waited >= t->shown && waited < 2 * t->shown)) return false;
    t->shown = waited;
    return true;
}

trine_status match_wait(trine_comm *comm, double waited) {
    call_trail *t = comm->trail;
    TRY(match_usable(comm));
    if (is_time(t, waited)) show_to_neighbours(t->comm);
    return TRINE_OK;
}

trine_status match_wait_message(trine_comm *comm, const comm_request *r, double waited) {
    const call_message wanted = {
        .number = r->chain, .call = signature_of_message(r), .member = r->peer, .known = 1};
    TRY(match_usable(comm));
    if (is_time(comm->trail, waited)) show_to(comm, &comm->members[r->peer], 1, &wanted);
    return TRINE_OK;
}

void match_sent(trine_comm *comm, const comm_request *r) {
    call_trail *t = comm->trail;
    if (t->sends % MATCH_LOOKS == MATCH_LOOKS - 1)
        while (match_take(comm->world)) continue;
    t->sent[t->sends++ % CALLS_SENT] = (call_message){
        .number = r->chain, .call = signature_of_message(r), .member = r->peer, .known = 1};
}

uint64_t match_message_hash(size_t count, trine_dtype type) {
    return chained(0, (uint64_t)count << 3 | (uint64_t)type);
}

static trine_status found(trine_comm *comm, const int members[2], const uint64_t calls[2]) {
    const int ranks[2] = {comm->members[members[0]], comm->members[members[1]]};
    settle(comm->trail->comm, ranks, calls);
    return match_refuse(comm);
}

trine_status match_marks(trine_comm *comm, const int members[2], const call_mark marks[2]) {
    if (marks[0].before != marks[1].before) return match_differs(comm);
    if (marks[0].call == marks[1].call) return TRINE_OK;
    return found(comm, members, (const uint64_t[]){marks[0].call, marks[1].call});
}

trine_status match_message(trine_comm *comm, const comm_request *r, size_t count,
                           trine_dtype type) {
    comm_call sent = {.kind = TRINE_TALLY_SEND, .count = count, .type = type, .peer = comm->rank};
    comm_call own = {.kind = TRINE_TALLY_RECV, .count = r->count, .type = r->type, .peer = r->peer};
    return found(comm, (const int[]){r->peer, comm->rank},
                 (const uint64_t[]){signature_of(&sent), signature_of(&own)});
}

trine_status match_differs(trine_comm *comm) {
    call_trail *t = comm->trail;
    double last = 0;
    show_to_neighbours(t->comm);
    for (double left = GRACE; left > 0 && !t->found.known; left -= watch_step(&last))
        if (!match_take(comm->world)) clock_nap(0.001);
    if (!t->found.known) t->found = (call_difference){.known = 1, .unexplained = 1};
    return match_refuse(comm);
}
