/* What the files of the NCCL part share: a group, its two streams, its errors (nccl.h says what for).
 * nccl.cu makes and ends groups, waits, and sends messages; nccl_move.cu has the collectives.
 *
 * Invariant: between nccl_before and nccl_after, or a ticket, a call puts its work on the group's
 * stream, and nothing else. Cost: two events a call. */
#ifndef TRINE_COMM_NCCL_GROUP_H
#define TRINE_COMM_NCCL_GROUP_H

#include <nccl.h>

#include "comm/nccl.h"
#include "device/cuda/cuda.h"

/* What was started: its end on the group's stream, and whether the compute stream was told to wait. */
typedef struct {
    cudaEvent_t event;
    bool finished;
} nccl_ticket;

struct nccl_group {
    nccl_rank *r;
    nccl_group *next;
    ncclComm_t comm;
    cudaStream_t stream;
    char name[24];
    int size, rank;
    char *scratch; /* (size, chunk) addends; NULL in a group that does not add */
    size_t chunk;  /* bytes, for each rank */
    nccl_ticket *tickets; /* (slots) those after number `finished`, at number % slots */
    uint64_t slots;
    uint64_t finished, recorded, started; /* all up to here: finished; on the stream; given */
    bool fused;                           /* has messages in the ncclGroup that is open */
};

struct nccl_rank {
    device *dev;
    char gpu[64];
    bool ordered, failed, fusing;
    int open; /* ncclGroupStart without its end */
    void (*waits)(void *context, double *since);
    void *context;
    cudaEvent_t ready, done;
    nccl_group *first, *last;
};

/* Waits until NCCL has taken what it was given; an error aborts all communicators of the rank. `call`
 * may have arguments, which are not shown. */
trine_status nccl_settle(nccl_group *g, ncclResult_t result, const char *call);
/* The same inside an ncclGroup, where calls are only noted. */
trine_status nccl_noted(nccl_group *g, ncclResult_t result, const char *call);

#define TRY_NCCL(g, call)  TRY(nccl_settle((g), (call), #call))
#define TRY_NOTED(g, call) TRY(nccl_noted((g), (call), #call))

/* The group's stream goes on behind the work that the compute stream has been given. */
trine_status nccl_before(nccl_group *g);
/* And the compute stream behind the group's. */
trine_status nccl_after(nccl_group *g);
/* What was just started; in a fused group it is on the stream only when that ends. */
trine_status nccl_give_ticket(nccl_group *g, uint64_t *ticket);

/* nccl_move.cu: rows of the table (comm_nccl). */
#define NCCL_ROW(function) extern "C" __typeof__(*((comm_nccl *)0)->function) nccl_##function
NCCL_ROW(all_reduce);
NCCL_ROW(reduce);
NCCL_ROW(reduce_scatter);
NCCL_ROW(broadcast);
NCCL_ROW(scatter);
NCCL_ROW(gather);
NCCL_ROW(all_to_all);
NCCL_ROW(all_gather);
#undef NCCL_ROW

#endif
