/* What the files of the NCCL part share: a group, its two streams, its errors (nccl.h says what for).
 * nccl.cu waits, and sends messages; make.cu makes and ends groups; move.cu has the collectives;
 * open.cu finds NCCL, whose functions are called through the table `nccl` only.
 *
 * Invariant: between nccl_before and nccl_after, or a ticket, a call puts its work on the group's
 * stream, and nothing else. Cost: two events a call. */
#ifndef TRINE_COMM_TRANSPORT_NCCL_GROUP_H
#define TRINE_COMM_TRANSPORT_NCCL_GROUP_H

#include <nccl.h>

#include "comm/transport/nccl/nccl.h"
#include "device/cuda/cuda.h"

/* What we call of NCCL, without the prefix. */
#define NCCL_CALLS(X)                                                                              \
    X(GetVersion)                                                                                  \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(GetUniqueId)                                                                                 \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(AllReduce)                                                                                   \
    X(Reduce)                                                                                      \
    X(ReduceScatter)                                                                               \
    X(Broadcast)                                                                                   \
    X(AllGather)                                                                                   \
    X(Send)                                                                                        \
    X(Recv)

typedef struct {
#define NCCL_POINTER(name) decltype(&nccl##name) name;
    NCCL_CALLS(NCCL_POINTER)
#undef NCCL_POINTER
} nccl_calls;

/* Filled by comm_nccl's `find`; NULLs before. */
extern nccl_calls nccl;

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
};

struct nccl_rank {
    device *dev;
    char gpu[64];
    bool ordered, failed, fusing;
    int open; /* ncclGroupStart without its end */
    void (*waits)(void *context, double *since);
    void *context;
    void (*enter)(const char *call);
    void (*leave)(void);
    cudaEvent_t ready, done;
    nccl_group *first, *last;
};

/* What NCCL has answered to `call`, its function's name. After an error the rank makes no more calls.
 * Errors: TRINE_ENCCL, with the names of the group, the rank and the GPU. */
trine_status nccl_answer(nccl_group *g, ncclResult_t result, const char *call);

/* Calls nccl##name for the group, and returns its error. A call may block while NCCL connects with
 * peers, so each is under the watch. */
#define TRY_NCCL(g, name, ...)                                                                     \
    do {                                                                                           \
        (g)->r->enter("nccl" #name);                                                               \
        ncclResult_t try_nccl_ = nccl.name(__VA_ARGS__);                                           \
        (g)->r->leave();                                                                           \
        TRY(nccl_answer((g), try_nccl_, "nccl" #name));                                            \
    } while (0)

/* Returns when the stream is empty. Errors: TRINE_EMATH of the device, TRINE_ENCCL of a
 * communicator. */
trine_status nccl_await(nccl_rank *r, cudaStream_t stream);
/* Looks at the communicators' asynchronous errors, until there was one. */
trine_status nccl_check(nccl_rank *r);

/* The group's stream goes on behind the work that the compute stream has been given. */
trine_status nccl_before(nccl_group *g);
/* And the compute stream behind the group's. */
trine_status nccl_after(nccl_group *g);
/* What was just started; in a fused group it is on the stream only when that ends. */
trine_status nccl_give_ticket(nccl_group *g, uint64_t *ticket);

/* move.cu: rows of the table (comm_nccl). */
#define NCCL_ROW(function) extern "C" __typeof__(*((comm_nccl *)0)->function) nccl_##function
NCCL_ROW(all_reduce);
NCCL_ROW(reduce);
NCCL_ROW(reduce_scatter);
NCCL_ROW(broadcast);
NCCL_ROW(scatter);
NCCL_ROW(gather);
NCCL_ROW(all_to_all);
NCCL_ROW(all_gather);

/* Makes each kind of the group's calls once, and waits: NCCL connects ranks, and takes the memory for it, when
 * a way between them is first used. Collective over: the group. */
trine_status nccl_warm_up(nccl_group *g);

/* make.cu: rows, too. */
NCCL_ROW(open);
NCCL_ROW(close);
NCCL_ROW(abort);
NCCL_ROW(make_id);
NCCL_ROW(prepare);
NCCL_ROW(join);

/* open.cu: a row. */
NCCL_ROW(find);
#undef NCCL_ROW

#endif
