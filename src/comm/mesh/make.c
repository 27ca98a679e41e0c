#include "comm/mesh/make.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/stack.h"
#include "comm/watch/match.h"
#include "base/live.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static int place_among(const int *members, int n, int rank) {
    for (int i = 0; i < n; i++)
        if (members[i] == rank) return i;
    return -1;
}

/* 0: the members are not evenly spaced. */
static int stride_of(const int *members, int n) {
    int stride = n > 1 ? members[1] - members[0] : 1;
    for (int i = 1; i < n; i++)
        if (members[i] - members[i - 1] != stride) return 0;
    return stride;
}

trine_status group_create(trine_comm **comm, trine_world *world, trine_group group,
                          const int *members, int n, void *state) {
    trine_comm *c = calloc(1, sizeof *c);
    int *copy = calloc((size_t)n, sizeof *copy);
    uint32_t *messages = calloc(2 * (size_t)n, sizeof *messages);
    *comm = NULL;
    trine_status known = c ? live_add(c, LIVE_COMM, world) : TRINE_OK;
    if (!c || !copy || !messages || known != TRINE_OK) {
        live_remove(c);
        free(c);
        free(copy);
        free(messages);
        mpi_free(&state);
        return RAISE(TRINE_ENOMEM, "no memory for group %s of %d", comm_group_name(group), n);
    }
    ASSERT(n == 1 || state);
    memcpy(copy, members, (size_t)n * sizeof *copy);
    c->world = world;
    c->choice = world->choice;
    c->group = group;
    c->rank = place_among(members, n, world->rank);
    c->size = n;
    c->members = copy;
    c->stride = stride_of(copy, n);
    c->state = state;
    c->messages = messages;
    ASSERT(c->rank >= 0);
    c->next_group = world->groups;
    world->groups = c;
    match_begin(c);
    stack_build(c);
    *comm = c;
    return TRINE_OK;
}

void group_destroy(trine_comm **comm) {
    trine_comm *c = *comm;
    if (!c) return;
    for (trine_comm **at = &c->world->groups; *at; at = &(*at)->next_group)
        if (*at == c) {
            *at = c->next_group;
            break;
        }
    c->transport->destroy(c);
    live_remove(c);
    free(c->members);
    free(c->messages);
    free(c);
    *comm = NULL;
}
