/* Makes and frees the communicators of MPI, and gives its errors words. */
#include "comm/transport/mpi/mpi.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/try_mpi.h"

#include <stdlib.h>

trine_status mpi_raise(int code, const char *file, int line, const char *func, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return status_raise(TRINE_EMPI, file, line, func, "%s: %s", call, text);
}

/* Bits of a tag above its kind; MPI promises 15 in all. */
static int tag_bits(MPI_Comm comm) {
    int *most = NULL, there = 0, bits = 15;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &there);
    unsigned limit = there ? (unsigned)*most : 32767;
    while (bits < 31 && limit >> bits) bits++;
    if (limit & (limit + 1)) bits--; /* not all numbers of so many bits */
    return (bits < 15 ? 15 : bits) - MPI_TAG_KINDS;
}

static bool posted_room(mpi_posted *list, size_t messages) {
    list->requests = calloc(messages, sizeof *list->requests);
    list->receives = calloc(messages, sizeof *list->receives);
    return list->requests && list->receives;
}

static void posted_free(mpi_posted *list) {
    free(list->requests);
    free(list->receives);
}

/* Takes ownership of `comm`, also on failure. */
static trine_status state_create(void **state, MPI_Comm comm) {
    int size = 0;
    TRY_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_size(comm, &size));
    mpi_state *s = calloc(1, sizeof *s);
    if (!s) MPI_Comm_free(&comm);
    CHECK(s, TRINE_ENOMEM, "no memory for a group of %d", size);
    s->comm = comm;
    s->tag_bits = tag_bits(comm);
    s->statuses = calloc(2 * (size_t)size, sizeof *s->statuses);
    bool room =
        posted_room(&s->posted, 2 * (size_t)size) && posted_room(&s->started, 2 * (size_t)size);
    *state = s;
    if (s->statuses && room) return TRINE_OK;
    mpi_free(state);
    return RAISE(TRINE_ENOMEM, "no memory for the requests of a group of %d", size);
}

trine_status mpi_duplicate(void **state, MPI_Comm comm) {
    MPI_Comm own;
    TRY_MPI_BLOCKING(MPI_Comm_dup(comm, &own));
    return state_create(state, own);
}

trine_status mpi_split(trine_world *world, int color, int place, void **state) {
    *state = NULL;
    if (world->size == 1) return TRINE_OK;
    MPI_Comm comm;
    TRY_MPI_BLOCKING(MPI_Comm_split(((const mpi_state *)world->comm->state)->comm,
                                    color < 0 ? MPI_UNDEFINED : color, place, &comm));
    return comm == MPI_COMM_NULL ? TRINE_OK : state_create(state, comm);
}

trine_status mpi_node_leader(trine_world *world, int *leader) {
    *leader = world->rank;
    if (world->size == 1) return TRINE_OK;
    MPI_Comm node;
    TRY_MPI_BLOCKING(MPI_Comm_split_type(((const mpi_state *)world->comm->state)->comm,
                                         MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &node));
    TRY_MPI_BLOCKING(MPI_Bcast(leader, 1, MPI_INT, 0, node));
    TRY_MPI_BLOCKING(MPI_Comm_free(&node));
    return TRINE_OK;
}

/* Frees all but the communicator. */
static void state_free(mpi_state *s) {
    for (struct mpi_exchange *next; s->exchanges; s->exchanges = next) {
        next = s->exchanges->next;
        free(s->exchanges);
    }
    posted_free(&s->posted);
    posted_free(&s->started);
    free(s->statuses);
    free(s);
}

void mpi_free(void **state) {
    mpi_state *s = *state;
    if (!s) return;
    watch_enter("MPI_Comm_free");
    MPI_Comm_free(&s->comm);
    watch_leave();
    state_free(s);
    *state = NULL;
}

void mpi_leave(trine_comm *comm) {
    if (comm->state && comm->trail->found.known) {
        state_free(comm->state);
        comm->state = NULL;
    }
    mpi_free(&comm->state);
}
