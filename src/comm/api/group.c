/* Making communicators, and what can be asked of one. */
#include "comm/transport/transport.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

size_t trine_dtype_bytes(trine_dtype type) {
    switch (type) {
#define DTYPE_CASE(name, text, bytes)                                                              \
    case name: return bytes;
        TRINE_DTYPE_LIST(DTYPE_CASE)
#undef DTYPE_CASE
    }
    return 0;
}

const char *comm_dtype_text(trine_dtype type) {
    switch (type) {
#define DTYPE_CASE(name, text, bytes)                                                              \
    case name: return text;
        TRINE_DTYPE_LIST(DTYPE_CASE)
#undef DTYPE_CASE
    }
    return "unknown type";
}

const char *comm_group_name(trine_group group) {
    switch (group) {
#define GROUP_CASE(name, text)                                                                     \
    case name: return text;
        TRINE_GROUP_LIST(GROUP_CASE)
#undef GROUP_CASE
    case TRINE_GROUPS: break;
    }
    return "unknown group";
}

static int place_among(const int *members, int n, int rank) {
    for (int i = 0; i < n; i++)
        if (members[i] == rank) return i;
    return -1;
}

/* 0: the members are not evenly apart. */
static int stride_of(const int *members, int n) {
    int stride = n > 1 ? members[1] - members[0] : 1;
    for (int i = 1; i < n; i++)
        if (members[i] - members[i - 1] != stride) return 0;
    return stride;
}

const transport_row *transport_of(trine_transport choice) {
    static const transport_row rows[TRINE_TRANSPORTS] = {
        [TRINE_TRANSPORT_AUTO] = {&mpi_transport, true},
        [TRINE_TRANSPORT_MPI] = {&mpi_transport, false},
        [TRINE_TRANSPORT_SHM] = {&mpi_transport, true},
        [TRINE_TRANSPORT_NCCL] = {&mpi_transport, true},
    };
    ASSERT((unsigned)choice < TRINE_TRANSPORTS);
    return &rows[choice];
}

bool comm_may_share(trine_transport choice) {
    return transport_of(choice)->shares;
}

trine_status group_create(trine_comm **comm, trine_world *world, trine_group group,
                          const int *members, int n, void *state) {
    trine_comm *c = calloc(1, sizeof *c);
    int *copy = calloc((size_t)n, sizeof *copy);
    *comm = NULL;
    if (!c || !copy) {
        free(c);
        free(copy);
        mpi_free(&state);
        return RAISE(TRINE_ENOMEM, "no memory for group %s of %d", comm_group_name(group), n);
    }
    ASSERT(n == 1 || state);
    memcpy(copy, members, (size_t)n * sizeof *copy);
    c->transport = state ? transport_of(world->choice)->messages : &self_transport;
    c->world = world;
    c->group = group;
    c->rank = place_among(members, n, world->rank);
    c->size = n;
    c->members = copy;
    c->stride = stride_of(copy, n);
    c->state = state;
    ASSERT(c->rank >= 0);
    *comm = c;
    return TRINE_OK;
}

void group_destroy(trine_comm **comm) {
    if (!*comm) return;
    (*comm)->transport->destroy(*comm);
    free((*comm)->members);
    free(*comm);
    *comm = NULL;
}

int trine_comm_rank(const trine_comm *comm) {
    return comm->rank;
}

int trine_comm_size(const trine_comm *comm) {
    return comm->size;
}

const char *trine_comm_transport(const trine_comm *comm) {
    return comm->transport->name;
}

trine_group comm_group(const trine_comm *comm) {
    return comm->group;
}

trine_world *comm_world(const trine_comm *comm) {
    return comm->world;
}

int comm_world_rank(const trine_comm *comm, int rank) {
    ASSERT(rank >= 0 && rank < comm->size);
    return comm->members[rank];
}
