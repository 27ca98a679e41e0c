/* The transport of ranks that share a node: its table, and the control memory of its groups. */
#include "comm/transport/shm/shm.h"
#include "comm/group/lane.h"

#include <stdlib.h>
#include <string.h>

/* ---- Places --------------------------------------------------------------------------------- */

shm_place shm_find(const shm_node *node, const void *p, size_t bytes) {
    uintptr_t at = (uintptr_t)p;
    for (int w = 0; p && w < SHM_WINDOWS; w++) {
        const shm_window *x = &node->windows[w];
        uintptr_t own = (uintptr_t)x->own;
        if (!own || x->win == MPI_WIN_NULL || at < own || at - own >= x->bytes) continue;
        if (x->bytes - (at - own) < bytes) break;
        return (shm_place){w, at - own};
    }
    return (shm_place){SHM_NOWHERE, 0};
}

void *shm_at(const shm_node *node, int index, shm_place place) {
    return node->windows[place.window].base[index] + place.offset;
}

/* ---- Control memory -------------------------------------------------------------------------- */

static size_t area_bytes(int size) {
    size_t members = (size_t)size;
    if (size < 2) return 0;
    return sizeof(shm_area) + SHM_RING * shm_payload_bytes(size) +
           members * (sizeof(shm_outbox) + sizeof(shm_taken));
}

size_t shm_control_bytes(const int sizes[TRINE_GROUPS]) {
    size_t bytes = sizeof(shm_head);
    for (int g = 0; g < TRINE_GROUPS; g++) bytes += area_bytes(sizes[g]);
    return bytes;
}

void shm_layout(shm_node *node, const int sizes[TRINE_GROUPS]) {
    shm_head *own = (shm_head *)node->control->own;
    size_t at = sizeof *own;
    for (int g = 0; g < TRINE_GROUPS; g++) {
        own->area[g] = sizes[g] > 1 ? at : 0;
        at += area_bytes(sizes[g]);
    }
}

/* A lane is an outgoing one for one of its stages and an incoming one for the other, on the edge that closes a ring
 * as well. */
static trine_group name_at(trine_group own, int member, int rank) {
    return member == rank || !lane_is(own) ? own : lane_of(own).partner;
}

static int index_in(const shm_node *node, int world_rank) {
    int i = 0;
    while (node->members[i] != world_rank) i++;
    return i;
}

trine_status shm_attach(trine_comm *comm, shm_node *node) {
    size_t size = (size_t)comm->size;
    shm_state *s = comm->shm = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for group %s", comm_group_name(comm->group));
    s->node = node;
    s->comm = comm;
    s->index = calloc(size, sizeof *s->index);
    s->area = calloc(size, sizeof *s->area);
    s->dsts = calloc(size, sizeof *s->dsts);
    s->sent = calloc(size, sizeof *s->sent);
    s->received = calloc(size, sizeof *s->received);
    s->taken = calloc(size, sizeof *s->taken);
    CHECK(s->index && s->area && s->dsts && s->sent && s->received && s->taken, TRINE_ENOMEM,
          "no memory for group %s of %zu", comm_group_name(comm->group), size);
    for (int i = 0; i < comm->size; i++) {
        s->index[i] = index_in(node, comm->members[i]);
        char *base = node->control->base[s->index[i]];
        s->area[i] =
            (shm_area *)(base + ((shm_head *)base)->area[name_at(comm->group, i, comm->rank)]);
    }
    return TRINE_OK;
}

void shm_detach(trine_comm *comm) {
    shm_state *s = comm->shm;
    if (!s) return;
    for (shm_state **at = &comm->world->shm_busy; *at; at = &(*at)->next_busy)
        if (*at == s) {
            *at = s->next_busy;
            break;
        }
    free(s->index);
    free(s->area);
    free(s->dsts);
    free(s->sent);
    free(s->received);
    free(s->taken);
    free(s);
    comm->shm = NULL;
}

static void shm_destroy(trine_comm *comm) {
    shm_detach(comm);
    mpi_leave(comm);
}

#define ROW(function, takes, names) .function = shm_##function,

const comm_transport shm_transport = {
    .name = "shm", .order = COMM_ORDER_RANKS, .destroy = shm_destroy, TRANSPORT_CALLS(ROW)};
