/* Shared by the NCCL files: a group, its two streams, its errors (see nccl.h). nccl.cu waits and sends messages;
 * make.cu creates and destroys groups; move.cu has the collectives; open.cu finds NCCL, whose functions are called
 * only through the table `nccl`.
 *
 * Invariant: between nccl_before and nccl_after, or a ticket, a call puts its work on the group's stream and
 * nowhere else.
 * Cost: two events a call. */
#ifndef TRINE_COMM_TRANSPORT_NCCL_GROUP_H
#define TRINE_COMM_TRANSPORT_NCCL_GROUP_H

#include <nccl.h>

#include "comm/transport/nccl/nccl.h"
#include "device/cuda/cuda.h"

/* The NCCL functions in use, without the prefix. */
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

/* Filled by comm_nccl's `find`; NULL before. */
extern nccl_calls nccl;

/* A started call: the event behind it on the group's stream, and whether the compute stream waits for it. */
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
    int ctas;      /* nccl_place's */
    char *scratch; /* (size, chunk) addends; NULL if the group does not reduce */
    size_t chunk;  /* bytes, for each rank */
    size_t largest; /* nccl_place's */
    bool joins;    /* has a call in the open message group */
    nccl_ticket *tickets; /* (slots) tickets after number `finished`, each at number % slots */
    uint64_t slots;
    uint64_t finished, recorded, started; /* the last ticket that is finished; on the stream; given */
};

struct nccl_rank {
    device *dev;
    char gpu[64];
    bool ordered, chained, failed, fusing;
    int open; /* ncclGroupStart calls without their ncclGroupEnd */
    void (*waits)(void *context, double *since);
    void *context;
    void (*enter)(const char *call);
    void (*leave)(void);
    cudaEvent_t ready, done;
    cudaEvent_t called;      /* behind the last call of all groups, if they are chained */
    nccl_group *last_called; /* whose stream it is on; NULL before the first */
    nccl_group *first, *last;
};

/* Checks the result of `call`, a function name. After an error the rank makes no more calls. Errors: TRINE_ENCCL,
 * which names the group, the rank and the GPU. */
trine_status nccl_answer(nccl_group *g, ncclResult_t result, const char *call);

/* Calls nccl##name for the group and returns its error. A call may block while NCCL connects to peers, so each call
 * is under the watch. */
#define TRY_NCCL(g, name, ...)                                                                     \
    do {                                                                                           \
        (g)->r->enter("nccl" #name);                                                               \
        ncclResult_t try_nccl_ = nccl.name(__VA_ARGS__);                                           \
        (g)->r->leave();                                                                           \
        TRY(nccl_answer((g), try_nccl_, "nccl" #name));                                            \
    } while (0)

/* Returns when the stream is empty. Errors: TRINE_EMATH from the device, TRINE_ENCCL from a communicator. */
trine_status nccl_await(nccl_rank *r, cudaStream_t stream);
/* Checks the communicators' asynchronous errors, until there was one. */
trine_status nccl_check(nccl_rank *r);

/* Makes the group's stream wait for the work submitted to the compute stream so far and, if groups are chained, for
 * their last call. */
trine_status nccl_before(nccl_group *g);
/* Makes the compute stream wait for the group's stream. */
trine_status nccl_after(nccl_group *g);
/* The ticket of the call just started; between begin and end it is recorded on the stream only at the end. */
trine_status nccl_give_ticket(nccl_group *g, uint64_t *ticket);

/* move.cu: functions of the table (comm_nccl). */
#define NCCL_ROW(function) extern "C" __typeof__(*((comm_nccl *)0)->function) nccl_##function
NCCL_ROW(all_reduce);
NCCL_ROW(reduce);
NCCL_ROW(reduce_scatter);
NCCL_ROW(broadcast);
NCCL_ROW(scatter);
NCCL_ROW(gather);
NCCL_ROW(all_to_all);
NCCL_ROW(all_reduce_start);
NCCL_ROW(reduce_scatter_start);
NCCL_ROW(reduce_scatter_onto_start);
NCCL_ROW(all_gather);

/* *p: device memory for `what`; cudaFree frees it. Errors: TRINE_ENOMEM, which names it; TRINE_EMATH. */
trine_status nccl_take(const nccl_group *g, char **p, size_t bytes, const char *what);

/* Makes each kind of call of the group, in the sizes in which it is made, launches the kernels that add, and waits:
 * NCCL connects ranks, and allocates memory for that, when a connection or an algorithm is first used
 * (NCCL_RUNTIME_CONNECT), and chooses algorithms by size. Messages only in groups that send some: a connection takes
 * memory for each peer. Takes a buffer of the largest call and frees it. Collective over: the group. */
trine_status nccl_warm_up(nccl_group *g);

/* make.cu: functions of the table. */
NCCL_ROW(open);
NCCL_ROW(close);
NCCL_ROW(abort);
NCCL_ROW(make_id);
NCCL_ROW(prepare);
NCCL_ROW(join);

/* open.cu: a function of the table. */
NCCL_ROW(find);
#undef NCCL_ROW

#endif
