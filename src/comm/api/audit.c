/* Audit mode: compares the calls and the replicas of a group's ranks. Both gather a few bytes from
 * every rank into the world's scratch, which is free between operations. */
#include "comm/api/audit.h"
#include "comm/api/axes.h"
#include "comm/group/world.h"
#include "comm/transport/staging/staging.h"
#include "comm/watch/match.h"
#include "comm/watch/tally.h"
#include "comm/watch/watchdog.h"
#include "base/status.h"

#include <string.h>
#include <xxhash.h>

/* The values that must be equal. All fields have one size, so that there is no padding to
 * compare. */
typedef struct {
    int64_t kind, count, type, op, peer, position;
} record;

typedef struct {
    uint64_t hash, bytes;
} digest;

static trine_status gather_all(trine_comm *comm, const void *own, size_t bytes) {
    comm_request request = {0};
    TRY(comm->transport->all_gather_start(comm, comm->world->scratch, own, bytes, &request));
    return comm->transport->wait(comm, &request);
}

/* The first rank whose `bytes` differ from rank 0's; the size of the group if there is none. */
static int first_other(const trine_comm *comm, size_t bytes) {
    const char *all = comm->world->scratch;
    int r = 1;
    while (r < comm->size && memcmp(all, all + (size_t)r * bytes, bytes) == 0) r++;
    return r;
}

static void describe(const trine_comm *comm, int rank, const record *x, char *text, size_t size) {
    char place[192], root[32] = "", position[48] = "";
    world_place(comm->world, comm->members[rank], place, sizeof place);
    if (tally_kind_has_root((trine_tally_kind)x->kind))
        snprintf(root, sizeof root, ", root %lld", (long long)x->peer);
    if (x->position >= 0)
        snprintf(position, sizeof position, ", at instruction %lld", (long long)x->position);
    snprintf(text, size, "%s calls %s of %lld %s%s%s%s", place,
             tally_kind_text((trine_tally_kind)x->kind), (long long)x->count,
             comm_dtype_text((trine_dtype)x->type), comm_op_text((trine_reduction)x->op), root,
             position);
}

trine_status audit_compare(trine_comm *comm, const comm_call *call) {
    /* Stages run different programs: positions must agree only inside a stage. */
    record own = {call->kind, (int64_t)call->count,
                  call->type, call->op,
                  call->peer, axes_add(comm->group) ? comm->world->position : -1};
    TRY(gather_all(comm, &own, sizeof own));
    int other = first_other(comm, sizeof own);
    if (other == comm->size) return TRINE_OK;
    record records[2];
    char text[2][512];
    memcpy(&records[0], comm->world->scratch, sizeof(record));
    memcpy(&records[1], comm->world->scratch + (size_t)other * sizeof(record), sizeof(record));
    describe(comm, 0, &records[0], text[0], sizeof text[0]);
    describe(comm, other, &records[1], text[1], sizeof text[1]);
    return RAISE(TRINE_EAUDIT, "group %s (%d ranks): %s, but %s", comm_group_name(comm->group),
                 comm->size, text[0], text[1]);
}

trine_status comm_hash_agree(trine_comm *comm, const void *data, size_t bytes, const char *what) {
    char place[2][192];
    if (comm->size == 1) return TRINE_OK;
    ASSERT(staging_is_host(comm, data));
    digest own = {XXH3_64bits(data, bytes), bytes};
    const comm_call call = {.kind = TRINE_TALLY_ALL_GATHER,
                            .count = sizeof own * (size_t)comm->size,
                            .type = TRINE_U8,
                            .peer = NO_PEER};
    watchdog_note(comm, &call);
    TRY(match_enter(comm, &call));
    TRY(gather_all(comm, &own, sizeof own));
    int other = first_other(comm, sizeof own);
    if (other == comm->size) return TRINE_OK;
    world_place(comm->world, comm->members[0], place[0], sizeof place[0]);
    world_place(comm->world, comm->members[other], place[1], sizeof place[1]);
    return RAISE(TRINE_EAUDIT, "group %s (%d ranks): %s differs between %s and %s",
                 comm_group_name(comm->group), comm->size, what, place[0], place[1]);
}
