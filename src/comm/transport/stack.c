/* The transport tables of a group, from the outermost to the one that moves the bytes:
 *
 *     clock            while a clock runs over the group
 *     alone, nccl,     with device memory (api/device_memory.h): a group of one; a group with NCCL;
 *     reached, staged  one whose messages a CUDA-aware MPI takes from device memory; any other
 *     self             a group of one
 *     shm              a group whose ranks share memory
 *     shm+mpi          a group over several nodes, some of whose ranks share memory
 *     mpi              any other: the row of its transport below
 *
 * A table calls the next one for the functions that it does not implement. */
#include "comm/transport/stack.h"
#include "comm/transport/timed.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/nccl/nccl_transport.h"
#include "comm/transport/nodes/nodes.h"
#include "comm/transport/self/self.h"
#include "comm/transport/shm/shm.h"
#include "comm/transport/staging/staging.h"
#include "base/status.h"

/* The meaning of a choice of trine_world_transport. A new transport is a row in
 * TRINE_TRANSPORT_LIST, one here, and a directory with its table. */
typedef struct {
    const comm_transport *messages; /* for groups that share no memory */
    bool shares;                    /* ranks of a node read each other's memory where possible */
    comm_order gpus;                /* of sums of device memory: whether NCCL may make them */
} choice;

static const choice *choice_of(trine_transport which) {
    static const choice rows[TRINE_TRANSPORTS] = {
        [TRINE_TRANSPORT_AUTO] = {&mpi_transport, true, COMM_ORDER_LIBRARY},
        [TRINE_TRANSPORT_MPI] = {&mpi_transport, false, COMM_ORDER_RANKS},
        [TRINE_TRANSPORT_SHM] = {&mpi_transport, true, COMM_ORDER_RANKS},
        [TRINE_TRANSPORT_NCCL] = {&mpi_transport, true, COMM_ORDER_LIBRARY},
    };
    ASSERT((unsigned)which < TRINE_TRANSPORTS);
    return &rows[which];
}

bool comm_may_share(trine_transport which) {
    return choice_of(which)->shares;
}

comm_order comm_order_of(trine_transport which, bool gpus, bool ordered) {
    const choice *c = choice_of(which);
    comm_order order = c->messages->order;
    if (c->shares && shm_transport.order > order) order = shm_transport.order;
    if (gpus && !ordered && c->gpus > order) order = c->gpus;
    return order;
}

static const comm_transport *mover(const trine_comm *comm) {
    if (comm->shm) return &shm_transport;
    if (comm->nodes) return &comm->nodes->table;
    return comm->state ? choice_of(comm->choice)->messages : &self_transport;
}

static const comm_transport *over_device(const trine_comm *comm, const comm_transport *below) {
    const struct comm_device_state *f = comm->device_state;
    if (comm->size == 1) return staging_alone(comm, below);
    if (comm->nccl) return nccl_call_over(comm, below);
    return f->staged_by_host && f->memory.reached ? staging_reached(comm, below)
                                                  : staging_staged(comm, below);
}

void stack_build(trine_comm *comm) {
    const comm_transport *t = mover(comm);
    if (comm->device_state) t = over_device(comm, t);
    ASSERT(t->order != COMM_ORDER_UNSTATED);
    ASSERT(!comm->nccl || choice_of(comm->choice)->gpus == COMM_ORDER_LIBRARY);
    if (comm->clock) t = clock_over(comm, t);
    comm->transport = t;
}
