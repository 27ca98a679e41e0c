/* The interface between the library and the code that needs NCCL (*.cu, a part of libtrine_cuda.so): groups whose
 * ranks each compute on a GPU. It uses no NCCL type. The object links neither with the library, which passes in
 * what it needs, nor with NCCL: `find` opens NCCL when the first group needs it, or returns why it cannot.
 *
 * A group has a communicator and a stream. A call first makes the stream wait (an event) for all work submitted to
 * the device's compute stream so far, submits its own work and returns. Then the compute stream is made to wait for
 * it: at once, or in `finish` for calls that were only started. So every call is in the device's order, as device.h
 * requires, and the host does not wait.
 *
 * Communicators are blocking: a call on a non-blocking one starts a thread (2.18 to 2.28). A blocking call returns
 * once its work is on the stream, but only after NCCL has connected the ranks, which needs the peers. Therefore
 * `join` makes each kind of call once, and every call is between setting.enter and setting.leave, where the
 * library's watch aborts calls that take too long. Where the host has to wait for the device, it polls, and checks
 * the asynchronous errors of all communicators and the watchdog's deadline.
 *
 * After an error nothing is aborted before the error is printed: ncclCommAbort waits for the device, where a kernel
 * may wait for a peer for ever. Either the process exits with the error, or `close` aborts all communicators
 * together.
 *
 * Invariants: all ranks of a group make the same calls in the same order; across groups the programs have passed
 * the checker's model of one queue a device (core/check.h), since kernels of two groups that run in different
 * orders on two GPUs may deadlock. NCCL keeps the host's order (NCCL_LAUNCH_ORDER_IMPLICIT), or the streams do
 * (chained). Pointers are device pointers. NCCL does the additions; `ordered` ones, those in
 * a tree or onto dst, and maxima of floating-point numbers (a NaN must win) move addends and combine them in their
 * order, a chunk at a time.
 * Cost: NCCL's memory, two events a call; NCCL_SCRATCH bytes of the device for a group that reduces.
 * Sources: NCCL user guide, "Thread safety and fault tolerance", "Group calls", "Using multiple NCCL communicators
 * concurrently". */
#ifndef TRINE_COMM_TRANSPORT_NCCL_NCCL_H
#define TRINE_COMM_TRANSPORT_NCCL_NCCL_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_ABI 7
#define NCCL_ID  128 /* bytes of a communicator's id */
/* Buffer for incoming addends, of all members of a group together. */
#define NCCL_SCRATCH ((size_t)8 << 20)

typedef struct nccl_rank nccl_rank;   /* this process: its GPU and its groups */
typedef struct nccl_group nccl_group; /* one communicator */

typedef struct {
    device *dev;
    const char *gpu; /* the GPU's name in messages; copied */
    bool ordered;    /* additions in rank order */
    bool chained;    /* a call waits on the device for the last one of every other group */
    /* Called repeatedly while the host waits; does not return if the wait takes too long. *since is 0 at first. */
    void (*waits)(void *context, double *since);
    void *context;
    /* Called before and after a call that may block; `call`, its name, outlives the call. A call that takes too
     * long ends the process. */
    void (*enter)(const char *call);
    void (*leave)(void);
} nccl_setting;

/* The parameters of a group. */
typedef struct {
    const char *name; /* "dp"; copied */
    int size, rank;
    bool adds; /* the group makes reductions */
    size_t largest; /* of `adds`: bytes of its largest reduction or gather; 0: unknown */
    int ctas; /* at most so many thread blocks of a kernel of NCCL, and channels; 0: NCCL's choice */
} nccl_place;

/* The functions below return TRINE_ENCCL, TRINE_EMATH or, from prepare, TRINE_ENOMEM with a message that names GPU,
 * rank and group. Buffers and indices are those of trine_comm.h's functions; part: elements (or bytes) of one
 * rank. */
typedef struct comm_nccl {
    int abi; /* NCCL_ABI */
    /* Opens NCCL, once a process: from home/lib (or lib64) if home is not NULL and has it, else from the loader's
     * path. Returns NULL, or the reason why there is no NCCL, a string that the object owns. Before `open`. */
    const char *(*find)(const char *home);
    /* *r is freed by close, with its groups. Errors: TRINE_ENOMEM. */
    trine_status (*open)(nccl_rank **r, const nccl_setting *setting);
    /* Waits for calls in progress, and frees everything. Returns the error of a call that nobody has waited for;
     * then nothing is freed. Collective over: each of the groups, in the order in which they were prepared; not
     * collective after abort or an NCCL error. */
    trine_status (*close)(nccl_rank **r);
    /* Aborts all calls in progress; every later call fails. */
    void (*abort)(nccl_rank *r);
    trine_status (*make_id)(nccl_rank *r, char id[NCCL_ID]);
    /* *g: the device resources of a group; owned by r. */
    trine_status (*prepare)(nccl_rank *r, nccl_group **g, const nccl_place *place);
    /* Makes the communicator and its first calls, for which NCCL allocates device memory. Collective over: the
     * ranks that pass this id. */
    trine_status (*join)(nccl_group *g, const char id[NCCL_ID]);

    trine_status (*all_reduce)(nccl_group *g, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op);
    trine_status (*reduce)(nccl_group *g, void *dst, const void *src, size_t count,
                           trine_dtype type, trine_reduction op, int root);
    trine_status (*reduce_scatter)(nccl_group *g, void *dst, const void *src, size_t part,
                                   trine_dtype type, trine_reduction op);
    trine_status (*broadcast)(nccl_group *g, void *buf, size_t bytes, int root);
    trine_status (*scatter)(nccl_group *g, void *dst, const void *src, size_t part, int root);
    trine_status (*gather)(nccl_group *g, void *dst, const void *src, size_t part, int root);
    trine_status (*all_to_all)(nccl_group *g, void *dst, const void *src, size_t part);

    /* Starts only: *ticket is for finish, which makes the compute stream wait for the call. */
    trine_status (*all_reduce_start)(nccl_group *g, void *dst, const void *src, size_t count,
                                     trine_dtype type, trine_reduction op, uint64_t *ticket);
    trine_status (*reduce_scatter_start)(nccl_group *g, void *dst, const void *src, size_t part,
                                         trine_dtype type, trine_reduction op, uint64_t *ticket);
    trine_status (*reduce_scatter_onto_start)(nccl_group *g, void *dst, const void *src, size_t part,
                                              trine_dtype type, uint64_t *ticket);
    trine_status (*all_gather)(nccl_group *g, void *dst, const void *src, size_t part,
                               uint64_t *ticket);
    trine_status (*send)(nccl_group *g, const void *buf, size_t bytes, int peer, uint64_t *ticket);
    trine_status (*recv)(nccl_group *g, void *buf, size_t bytes, int peer, uint64_t *ticket);
    trine_status (*finish)(nccl_group *g, uint64_t ticket);
    /* Sends and receives between these two are fused. */
    trine_status (*begin)(nccl_rank *r);
    trine_status (*end)(nccl_rank *r);

    /* Returns when the compute stream is empty. */
    trine_status (*await)(nccl_rank *r);
    /* Checks the communicators' asynchronous errors, until one has been raised. */
    trine_status (*check)(nccl_rank *r);
} comm_nccl;

#ifdef __cplusplus
}
#endif

#endif
