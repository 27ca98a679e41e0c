/* The internals of a communicator, for this module. */
#ifndef TRINE_COMM_GROUP_GROUP_H
#define TRINE_COMM_GROUP_GROUP_H

#include "comm/transport/transport.h"

#define NO_PEER (-1)

/* One call as the user made it: checked, tallied, audited and, if it hangs, reported. */
typedef struct {
    trine_tally_kind kind;
    size_t count;
    trine_dtype type;
    trine_reduction op; /* reductions only */
    int peer;           /* root or peer in the group, or NO_PEER */
} comm_call;

struct trine_comm {
    const comm_transport *transport; /* the outermost of its tables: stack.c */
    trine_transport choice; /* the world's choice when this was made */
    trine_world *world; /* not owned */
    trine_group group;
    int rank, size;
    int *members; /* (size) world ranks, ascending */
    int stride;   /* between them; 0: not evenly spaced */
    uint64_t calls; /* so far, messages included: the same number on all ranks of a collective */
    void *state;  /* mpi's; NULL in a group of one */
    struct shm_state *shm; /* shm's; NULL when the group does not share a node */
    struct nodes_state *nodes; /* nodes'; NULL unless the group spans several nodes */
    trine_tally tally[TRINE_TALLY_KINDS];
    comm_clock *clock; /* set while it times this group */
    struct comm_device_state *device_state; /* staging's; NULL: the group has no device buffers */
    const struct comm_nccl *nccl; /* nccl/gpu.c's: moves device buffers; NULL: they are staged */
    struct nccl_group *nccl_group;
    struct comm_gpus *gpus; /* nccl/gpu.c's, in the dp group of a mesh */
};

/* "bf16". Pure. */
const char *comm_dtype_text(trine_dtype type);

#endif
