/* The seam between the library and what needs NCCL (nccl.cu, a part of libtrine_cuda.so): groups
 * whose ranks compute on a GPU each. No type of NCCL's stands here; the object links with nothing of
 * the library, and what it needs from there it is given.
 *
 * A group has a communicator and a stream. A call first makes the stream wait (an event) for all
 * that the device's compute stream has been given so far, puts its work there and returns. Then the
 * compute stream is made to wait for it: at once, or in `finish` for what was only started. So every
 * call is in the device's order, as device.h wants it, and the host waits for nothing.
 * Communicators are of NCCL's non-blocking kind: where NCCL or the device has to be waited for, the
 * host looks at all communicators' asynchronous errors, and at the deadline of the library's
 * watchdog. After an error every communicator is aborted, so that nothing hangs on the GPU.
 *
 * Invariants: all ranks of a group make the same calls in the same order; between groups their
 * programs have passed the checker's model of one queue for each device (core/check.h), since
 * kernels of two groups that meet in different orders on two GPUs may stop each other for ever.
 * Pointers are the device's. Additions are NCCL's; `ordered` ones, and maxima of floating-point
 * numbers (a NaN must win), move addends and combine them in rank order, a chunk at a time.
 * Cost: what NCCL takes, two events a call; NCCL_SCRATCH bytes of the device for a group that adds.
 * Sources: NCCL user guide, "Thread safety and fault tolerance", "Group calls". */
#ifndef TRINE_COMM_NCCL_H
#define TRINE_COMM_NCCL_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_ABI 1
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
} nccl_setting;

/* What a group is made of. */
typedef struct {
    const char *name; /* "dp"; copied */
    int size, rank;
    bool adds; /* reductions will be made */
} nccl_place;

/* The functions below return TRINE_ENCCL, TRINE_EMATH or, from join, TRINE_ENOMEM with a message that
 * names GPU, rank and group. Buffers and places are those of trine.h's functions; part: elements (or
 * bytes) that one rank has. */
typedef struct comm_nccl {
    int abi; /* NCCL_ABI */
    /* *r is ended by close, which ends its groups, too. Errors: TRINE_ENOMEM. */
    trine_status (*open)(nccl_rank **r, const nccl_setting *setting);
    /* Collective over: each of the groups, in the order in which they were joined; after abort not. */
    void (*close)(nccl_rank **r);
    /* Ends all that is under way; from then on every call fails. */
    void (*abort)(nccl_rank *r);
    trine_status (*make_id)(nccl_rank *r, char id[NCCL_ID]);
    /* Owned by r. Collective over: those who give this id. */
    trine_status (*join)(nccl_rank *r, nccl_group **g, const char id[NCCL_ID],
                         const nccl_place *place);

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
    /* Looks at the communicators' asynchronous errors. */
    trine_status (*check)(nccl_rank *r);
} comm_nccl;

#ifdef __cplusplus
}
#endif

#endif
