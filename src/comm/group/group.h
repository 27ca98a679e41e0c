/* The internals of a communicator, for this module. */
#ifndef TRINE_COMM_GROUP_GROUP_H
#define TRINE_COMM_GROUP_GROUP_H

#include "comm/transport/transport.h"

#define NO_PEER (-1)
/* The operation of comm_reduce_scatter_onto_start alone: TRINE_SUM with dst as one more addend, before the ranks'. */
#define COMM_SUM_ONTO ((trine_reduction)(TRINE_SUM_TREE + 1))

/* One call as the user made it: checked, tallied, audited and, if it hangs, reported. */
typedef struct {
    trine_tally_kind kind;
    size_t count;
    trine_dtype type;
    trine_reduction op; /* reductions only */
    int peer;           /* root or peer in the group, or NO_PEER */
    bool starts;        /* a wait for it follows */
    bool waits;         /* at once */
} comm_call;

/* Two calls of a group, at the same place in its order, that differ. */
typedef struct {
    uint64_t call[2]; /* signatures (watch/match.h) */
    int32_t rank[2];  /* world ranks */
    int32_t known;    /* 0: no difference was found */
    int32_t unexplained; /* 1: the two calls are not known */
} call_difference;

#define CALLS_KEPT 16
#define CALLS_SENT 32

/* A message to a member: its number between the two ranks, and the signature of the call. */
typedef struct {
    uint64_t number, call;
    int32_t member; /* of a message that is expected: who sends it */
    int32_t known;
} call_message;

/* What tells a collective from others: its signature, and the chain of all calls before it. */
typedef struct {
    uint64_t call, before;
} call_mark;

/* The collectives of a group so far (watch/match.h). */
typedef struct {
    uint64_t number; /* of collectives */
    uint64_t chain;  /* a hash of all their signatures: the same on all ranks, or their calls differ */
    call_mark last;
    call_difference found;
    uint64_t kept[CALLS_KEPT]; /* the last signatures: that of collective n at n % CALLS_KEPT */
    uint64_t context; /* of the group, the same on its ranks and in no other group of the world */
    call_message sent[CALLS_SENT]; /* the last ones */
    uint64_t sends;
    double shown; /* seconds of a wait at which it last showed this to other ranks */
    trine_comm *comm; /* the group */
} call_trail;

struct trine_comm {
    const comm_transport *transport; /* the outermost of its tables: stack.c */
    trine_transport choice; /* the world's choice when this was made */
    trine_world *world; /* not owned */
    trine_group group;
    int rank, size;
    int *members; /* (size) world ranks, ascending */
    int stride;   /* between them; 0: not evenly spaced */
    uint64_t calls; /* so far, messages included: the same number on all ranks of a collective */
    call_trail *trail;     /* of the group that it is a part of (nodes), or own_trail */
    call_trail own_trail;
    uint32_t *messages;    /* (2 P) numbers of messages to and from each member; NULL in a part */
    trine_comm *next_group; /* of the world's */
    void *state;  /* mpi's; NULL in a group of one */
    struct shm_state *shm; /* shm's; NULL when the group does not share a node */
    struct nodes_state *nodes; /* nodes'; NULL unless the group spans several nodes */
    trine_tally tally[TRINE_TALLY_KINDS];
    comm_clock *clock; /* set while it times this group */
    struct comm_device_state *device_state; /* staging's; NULL: the group has no device buffers */
    const struct comm_nccl *nccl; /* mesh/gpu.c's: moves device buffers; NULL: they are staged */
    struct nccl_group *nccl_group;
    struct comm_gpus *gpus; /* mesh/gpu.c's, in the dp group of a mesh */
    /* api/count.c's: told of each call, which moves nothing; NULL in a group with peers. */
    trine_status (*counts)(void *counter, trine_tally_kind kind, size_t count, trine_dtype type,
                           bool started);
    void *counter;
};

/* "bf16". Pure. */
const char *comm_dtype_text(trine_dtype type);
/* " (max)"; "" for a sum in rank order. Pure. */
const char *comm_op_text(trine_reduction op);

#endif
