/* The seam between the library and what needs NCCL (*.cu, a part of libtrine_cuda.so): groups
 * whose ranks compute on a GPU each. No type of NCCL's stands here; the object links with nothing of
 * the library, and what it needs from there it is given. Neither does it link with NCCL: `find` opens
 * that when the first group wants it, and says why it cannot.
 *
 * A group has a communicator and a stream. A call first makes the stream wait (an event) for all
 * that the device's compute stream has been given so far, puts its work there and returns. Then the
 * compute stream is made to wait for it: at once, or in `finish` for what was only started. So every
 * call is in the device's order, as device.h wants it, and the host waits for nothing.
 *
 * Communicators are of NCCL's blocking kind: a call on another kind starts a thread (2.18 to 2.28).
 * Blocking calls return when their work is on the stream, but not before NCCL has connected the
 * ranks, for which it needs the peers. So `join` makes each kind of call once, and every call is
 * between setting.enter and setting.leave, where the library's watch ends what lasts too long. Where
 * the device has to be waited for, the host asks it again and again, and looks at all communicators'
 * asynchronous errors and at the deadline of the watchdog.
 *
 * After an error nothing is aborted before it is printed: ncclCommAbort waits for the device, where a
 * kernel may wait for a peer for ever. The process ends with the error, or `close` aborts all
 * communicators together.
 *
 * Invariants: all ranks of a group make the same calls in the same order; between groups their
 * programs have passed the checker's model of one queue for each device (core/check.h), since
 * kernels of two groups that meet in different orders on two GPUs may stop each other for ever.
 * Pointers are the device's. Additions are NCCL's; `ordered` ones, and maxima of floating-point
 * numbers (a NaN must win), move addends and combine them in rank order, a chunk at a time.
 * Cost: what NCCL takes, two events a call; NCCL_SCRATCH bytes of the device for a group that adds.
 * Sources: NCCL user guide, "Thread safety and fault tolerance", "Group calls". */
#ifndef TRINE_COMM_TRANSPORT_NCCL_NCCL_H
#define TRINE_COMM_TRANSPORT_NCCL_NCCL_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_ABI 2
#define NCCL_ID  128 /* bytes of a communicator's name */
/* Addends that arrive, of all members of a group together. */
#define NCCL_SCRATCH ((size_t)8 << 20)

typedef struct nccl_rank nccl_rank;   /* this process: its GPU and its groups */
typedef struct nccl_group nccl_group; /* one communicator */

typedef struct {
    device *dev;
    const char *gpu; /* its name in messages; copied */
    bool ordered;    /* additions in rank order */
    /* Called again and again while the host waits; does not return when that takes too long.
     * *since is 0 at first. */
    void (*waits)(void *context, double *since);
    void *context;
    /* Around a call that may block; `call`, its name, outlives it. What lasts too long ends the process. */
    void (*enter)(const char *call);
    void (*leave)(void);
} nccl_setting;

/* What a group is made of. */
typedef struct {
    const char *name; /* "dp"; copied */
    int size, rank;
    bool adds; /* reductions will be made */
} nccl_place;

/* The functions below return TRINE_ENCCL, TRINE_EMATH or, from prepare, TRINE_ENOMEM with a message that
 * names GPU, rank and group. Buffers and places are those of trine_comm.h's functions; part: elements (or
 * bytes) that one rank has. */
typedef struct comm_nccl {
    int abi; /* NCCL_ABI */
    /* Opens NCCL, once a process: home/lib's (or lib64's) if home is not NULL and has one, else what the
     * loader finds. NULL, or why there is none: a sentence, which the object owns. Before `open`. */
    const char *(*find)(const char *home);
    /* *r is ended by close, which ends its groups, too. Errors: TRINE_ENOMEM. */
    trine_status (*open)(nccl_rank **r, const nccl_setting *setting);
    /* Waits for what is under way, and ends all. An error is that of a call that nobody has
     * waited for; then nothing is freed.
     * Collective over: each of the groups, in the order in which they were prepared; after abort, or
     * after an error of NCCL's, not. */
    trine_status (*close)(nccl_rank **r);
    /* Ends all that is under way; from then on every call fails. */
    void (*abort)(nccl_rank *r);
    trine_status (*make_id)(nccl_rank *r, char id[NCCL_ID]);
    /* *g: what a group takes of the device; owned by r. */
    trine_status (*prepare)(nccl_rank *r, nccl_group **g, const nccl_place *place);
    /* Makes its communicator and its first calls, which take device memory of NCCL's own. Collective
     * over: those who give this id. */
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

    /* Only started: *ticket is for finish, which makes the compute stream wait for it. */
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
    /* Looks at the communicators' asynchronous errors, until one has been raised. */
    trine_status (*check)(nccl_rank *r);
} comm_nccl;

#ifdef __cplusplus
}
#endif

#endif
