/* The clocks of ranks compared, and other small questions of a recorder (api/observe.h). */
#include "comm/api/observe.h"
#include "comm/group/group.h"
#include "comm/group/lane.h"
#include "comm/group/world.h"
#include "base/clock.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void comm_observe(trine_world *world, const comm_observer *o) {
    world->observer = o;
}

void comm_observe_end(trine_world *world, const comm_observer *o) {
    if (world->observer == o) world->observer = NULL;
}

trine_group comm_other_name(trine_group group) {
    return lane_is(group) ? lane_of(group).partner : group;
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

/* On a machine with more work than processors a message can take a time slice of every other process: of a peer that is
 * that slow only so many are awaited, and no more after so many seconds. */
#define LEAST        2
#define MOST_SECONDS 0.01

typedef struct {
    int64_t ns;
    uint64_t error;
} offset;

static trine_status send_ns(trine_world *world, const int64_t *value, size_t count, int peer) {
    return trine_send(world->comm, value, count, TRINE_I64, peer);
}

static trine_status receive_ns(trine_world *world, int64_t *value, size_t count, int peer) {
    return trine_recv(world->comm, value, count, TRINE_I64, peer);
}

/* The same for processes whose clock_ns is one clock: that of a machine since its start, in one time namespace. 0: not
 * known. */
static int64_t own_clock(void) {
    char text[64] = "";
    struct stat is;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    bool known = f && fgets(text, sizeof text, f) && stat("/proc/self/ns/time", &is) == 0;
    if (f) fclose(f);
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return known ? (int64_t)((hash ^ (uint64_t)is.st_ino) >> 1) : 0;
}

/* Rank 0's part: *o = that of `peer`. The other clock was read at some moment between the two readings here; the
 * middle is at most half of the time between them away. */
static trine_status ask(trine_world *world, int peer, int rounds, offset *o) {
    double begun = clock_seconds();
    int64_t own = own_clock(), other;
    TRY(send_ns(world, &own, 1, peer));
    TRY(receive_ns(world, &other, 1, peer));
    *o = (offset){0};
    if (own && own == other) return TRINE_OK;
    o->error = UINT64_MAX;
    for (int n = 0; n < LEAST || (n < rounds && clock_seconds() - begun < MOST_SECONDS); n++) {
        int64_t theirs, before = (int64_t)clock_ns();
        TRY(send_ns(world, &before, 1, peer));
        TRY(receive_ns(world, &theirs, 1, peer));
        int64_t after = (int64_t)clock_ns();
        uint64_t half = (uint64_t)(after - before + 1) / 2;
        if (half < o->error) *o = (offset){theirs - (before + (after - before) / 2), half};
    }
    const int64_t end = -1;
    int64_t answer[2] = {o->ns, (int64_t)o->error};
    TRY(send_ns(world, &end, 1, peer));
    return send_ns(world, answer, 2, peer);
}

static trine_status answer(trine_world *world, offset *o) {
    int64_t theirs, all[2], own = own_clock();
    TRY(receive_ns(world, &theirs, 1, 0));
    TRY(send_ns(world, &own, 1, 0));
    *o = (offset){0};
    if (own && own == theirs) return TRINE_OK;
    TRY(receive_ns(world, &theirs, 1, 0));
    while (theirs >= 0) {
        int64_t now = (int64_t)clock_ns();
        TRY(send_ns(world, &now, 1, 0));
        TRY(receive_ns(world, &theirs, 1, 0));
    }
    TRY(receive_ns(world, all, 2, 0));
    *o = (offset){all[0], (uint64_t)all[1]};
    return TRINE_OK;
}

/* Messages of a recorder are not the run's: they are not tallied, and no observer sees them. */
trine_status comm_clock_offset(trine_world *world, int rounds, int64_t *ns, uint64_t *error) {
    trine_tally before[TRINE_TALLY_KINDS];
    const comm_observer *observer = world->observer;
    trine_status status = TRINE_OK;
    offset own = {0};
    memcpy(before, world->comm->tally, sizeof before);
    world->observer = NULL;
    if (world->rank > 0) status = answer(world, &own);
    for (int r = 1; world->rank == 0 && r < world->size && status == TRINE_OK; r++) {
        offset other;
        status = ask(world, r, rounds, &other);
    }
    world->observer = observer;
    memcpy(world->comm->tally, before, sizeof before);
    *ns = own.ns;
    *error = own.error;
    return status;
}

/* ---- Names ----------------------------------------------------------------------------------- */

void comm_node_name(const trine_world *world, char *name, size_t size) {
    const comm_host *own = &world->hosts[world->rank];
    int lowest = world->rank;
    bool other = false;
    for (int r = world->size - 1; r >= 0; r--) {
        if (world->hosts[r].board == own->board) lowest = r;
        other = other ||
                (world->hosts[r].board != own->board && !strcmp(world->hosts[r].name, own->name));
    }
    if (other)
        snprintf(name, size, "%s-r%d", own->name, lowest);
    else
        snprintf(name, size, "%s", own->name);
}

int comm_job_number(const trine_world *world) {
    return world->hosts[0].pid;
}
