/* Communication: status, world, mesh, groups and collectives. Included by trine.h, which states the
 * conventions. */
#ifndef TRINE_COMM_H
#define TRINE_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------- */

#define TRINE_STATUS_LIST(X)                                                                       \
    X(TRINE_OK, "ok")                                                                              \
    X(TRINE_EINVAL, "invalid argument")                                                            \
    X(TRINE_ENOMEM, "out of memory")                                                               \
    X(TRINE_EIO, "input or output failed")                                                         \
    X(TRINE_EDATA, "bad data")                                                                     \
    X(TRINE_EMPI, "MPI failed")                                                                    \
    X(TRINE_EMATH, "maths library failed")                                                         \
    X(TRINE_ETIMEOUT, "timed out")                                                                 \
    X(TRINE_EPROGRAM, "illegal program")                                                           \
    X(TRINE_EAUDIT, "ranks disagree")                                                              \
    X(TRINE_EUNSUPPORTED, "not supported here")                                                    \
    X(TRINE_ENCCL, "NCCL failed")                                                                  \
    X(TRINE_EOVERFLOW, "gradients overflow")                                                       \
    X(TRINE_EBUSY, "in use by another job")

typedef enum {
#define TRINE_STATUS_ENUM(name, text) name,
    TRINE_STATUS_LIST(TRINE_STATUS_ENUM)
#undef TRINE_STATUS_ENUM
} trine_status;

/* The text of a status, never NULL. Not collective. */
const char *trine_status_text(trine_status status);

/* Prints the error trail (message first, then frames) to stderr, once: a second call prints
 * nothing until another error is raised. Mistakes in options, configuration or files are printed
 * without frames. Not collective. */
void trine_error_print(void);

/* ---- World, mesh and groups ------------------------------------------------------------------ */

typedef struct trine_world trine_world;
typedef struct trine_mesh trine_mesh;
typedef struct trine_comm trine_comm;

/* The axes of the mesh, one for each parallel dimension: X(name, member, option, help). The member is
 * also the name of the trainer's option, `option` its long form. */
#define TRINE_AXIS_LIST(X)                                                                         \
    X(TRINE_AXIS_DP, dp, "data-parallel-size",                                                     \
      "data-parallel ranks; 0: ranks / (tp x pp)")                                                 \
    X(TRINE_AXIS_TP, tp, "tensor-model-parallel-size", "tensor-parallel ranks")                    \
    X(TRINE_AXIS_PP, pp, "pipeline-model-parallel-size", "pipeline stages")

typedef enum {
#define TRINE_AXIS_ENUM(name, member, option, help) name,
    TRINE_AXIS_LIST(TRINE_AXIS_ENUM)
#undef TRINE_AXIS_ENUM
    TRINE_AXES
} trine_axis;

#define TRINE_AXIS_MEMBER(name, member, option, help) int member;

/* The sizes of the axes, by name (.dp) or by axis; their product is the number of ranks. (ISO C++ has no anonymous
 * structs; compilers that Trine supports have.) */
typedef union {
    __extension__ struct {
        TRINE_AXIS_LIST(TRINE_AXIS_MEMBER)
    };
    int size[TRINE_AXES];
} trine_layout;

/* A rank's coordinate: rank = (pp * DP + dp) * TP + tp, so that a tp group is consecutive ranks. */
typedef union {
    __extension__ struct {
        TRINE_AXIS_LIST(TRINE_AXIS_MEMBER)
    };
    int at[TRINE_AXES];
} trine_coord;
#undef TRINE_AXIS_MEMBER

/* The groups that every rank belongs to. TIE joins the first and the last stage (size 1 elsewhere and with one
 * stage). TP_PART: neighbours in a tp group with the same shard, because the model has fewer parts than tp (size 1
 * otherwise). NODE: ranks on the same node.
 *
 * The eight groups in between, ACT_IN to BACK_GRAD_OUT, are the lanes of pipeline edges: groups of two stages, in
 * which rank 0 is the stage with the lower number. Named from this stage: ACT_OUT sends activations to the next
 * stage, which receives them from ACT_IN, and sends their gradients from GRAD_OUT to GRAD_IN here. If the pipeline
 * is a ring, the last stage's next one is the first; if not, these lanes have size 1 at the two ends. BACK_: the
 * same for edges to the previous stage: activations go from BACK_ACT_OUT to the previous stage's BACK_ACT_IN,
 * gradients from that stage's BACK_GRAD_OUT to BACK_GRAD_IN here; size 1 if the placement of chunks has no such
 * edge. A mesh from trine_mesh_create is no ring and has no BACK_ lanes. */
#define TRINE_GROUP_LIST(X)                                                                        \
    X(TRINE_WORLD, "world")                                                                        \
    X(TRINE_DP, "dp")                                                                              \
    X(TRINE_TP, "tp")                                                                              \
    X(TRINE_PP, "pp")                                                                              \
    X(TRINE_TP_PART, "tp_part")                                                                    \
    X(TRINE_TIE, "tie")                                                                            \
    X(TRINE_ACT_IN, "act_in")                                                                      \
    X(TRINE_ACT_OUT, "act_out")                                                                    \
    X(TRINE_GRAD_IN, "grad_in")                                                                    \
    X(TRINE_GRAD_OUT, "grad_out")                                                                  \
    X(TRINE_BACK_ACT_IN, "back_act_in")                                                            \
    X(TRINE_BACK_ACT_OUT, "back_act_out")                                                          \
    X(TRINE_BACK_GRAD_IN, "back_grad_in")                                                          \
    X(TRINE_BACK_GRAD_OUT, "back_grad_out")                                                        \
    X(TRINE_NODE, "node")

typedef enum {
#define TRINE_GROUP_ENUM(name, text) name,
    TRINE_GROUP_LIST(TRINE_GROUP_ENUM)
#undef TRINE_GROUP_ENUM
    TRINE_GROUPS
} trine_group;

/* Joins the job: initialises MPI, unless the caller has, and determines the number of ranks. A
 * process started without mpirun is a world of one rank. argc and argv may be NULL. *world is owned
 * by the caller. Errors: TRINE_EMPI, also after MPI_Finalize, which trine_world_destroy calls if this function has
 * initialised MPI; TRINE_EINVAL if the caller has with a thread level below MPI_THREAD_FUNNELED; TRINE_ENOMEM.
 * trine_mpi.h makes a world of some of the processes. Collective over: all processes of the job. */
trine_status trine_world_create(trine_world **world, int *argc, char ***argv);

/* Leaves the job; finalises MPI if trine_world_create initialised it. A mesh, a trainer or a generator of this world
 * that is not destroyed yet cannot be used any more, and its memory stays: whoever uses it is told.
 * Collective over: world. */
void trine_world_destroy(trine_world **world);

/* This process's rank, from 0, and the number of ranks. Not collective. */
int trine_world_rank(const trine_world *world);
int trine_world_size(const trine_world *world);

/* Seconds that a rank may wait in a communication, or in a blocking MPI call, before it reports where
 * every rank is and aborts the job with status 1; 0: no limit. Time during which the job is suspended
 * does not count. Default: the environment variable TRINE_TIMEOUT, else 600. `world` NULL: for
 * trine_world_create and the worlds that it makes. Seconds that are negative or not finite change nothing and are
 * printed. Not collective. */
void trine_world_timeout(trine_world *world, double seconds);

/* The same for one file system call (e.g. fsync) on a checkpoint, during which other ranks wait
 * regardless of their timeout. Default: 1800. Not collective. */
void trine_world_io_timeout(trine_world *world, double seconds);

/* The transport of the groups of meshes created from now on:
 *   mpi   messages, and local additions in rank order
 *   shm   ranks of one node read each other's memory (MPI-3 shared windows) and each adds its
 *         slice, in the same order. A mesh in which a group spans nodes is refused (TRINE_EINVAL
 *         from trine_mesh_create).
 *   auto  shm for groups on one node; shm+mpi (shared memory within a node, messages between nodes)
 *         for groups on several nodes with consecutive ranks on each and two or more on one; mpi for
 *         the rest; the default. Device memory is sent by NCCL in groups whose ranks each have a
 *         GPU, and otherwise staged: copied to the host and sent as above.
 *   nccl  as auto, but all device memory is sent by NCCL, or the job is refused
 * Results are bitwise independent of the transport, except for NCCL's own sums (see trine_parallel). */
#define TRINE_TRANSPORT_LIST(X)                                                                    \
    X(TRINE_TRANSPORT_AUTO, "auto")                                                                \
    X(TRINE_TRANSPORT_MPI, "mpi")                                                                  \
    X(TRINE_TRANSPORT_SHM, "shm")                                                                  \
    X(TRINE_TRANSPORT_NCCL, "nccl")

typedef enum {
#define TRINE_TRANSPORT_ENUM(name, text) name,
    TRINE_TRANSPORT_LIST(TRINE_TRANSPORT_ENUM)
#undef TRINE_TRANSPORT_ENUM
    TRINE_TRANSPORTS
} trine_transport;

/* Not collective, but every rank must set the same transport before it creates a mesh. */
void trine_world_transport(trine_world *world, trine_transport transport);

/* Audit mode, off at first: before each collective its kind, count, type, operation and root are compared over its
 * group, and a difference is TRINE_EAUDIT on every rank, with both ranks and both calls, before anything is sent; the
 * group can be used afterwards. It costs a small all-gather for each collective. A call in a second thread, while one
 * is in a function of an audited world or where MPI allows the first thread only, is TRINE_EINVAL with both threads,
 * on that rank alone (docs/api.md, "Threads"). It is for all groups of the world,
 * those that exist and those that are made later; a trainer's own setting (trine_parallel) comes in addition. Without
 * audit calls are compared, too, with the exceptions stated at "Collectives". Errors: TRINE_EAUDIT if the ranks pass
 * different values, which changes nothing; those of a collective. Collective over: world. */
trine_status trine_world_audit(trine_world *world, bool on);

/* Propagates a failure to all ranks: returns TRINE_OK if every rank passes TRINE_OK, else the status
 * of the lowest-numbered rank that failed; only that rank keeps its error trail, so that a fault seen
 * by all ranks is printed once. What is none of trine_status counts as TRINE_EINVAL. Errors: also TRINE_ENOMEM,
 * TRINE_EMPI.
 * Collective over: world. */
trine_status trine_world_agree(trine_world *world, trine_status status);

/* Prints the error trail with this rank's host and coordinate, and aborts the job: every process exits
 * with status 1. Of several ranks that abort at about the same time one prints, so that a fault seen
 * by many ranks is printed once; that takes about a second. Ranks without an error trail (the fault was
 * another rank's, see trine_world_agree) stay silent. Does not return. Not collective. */
__attribute__((noreturn)) void trine_abort(trine_world *world);

/* Called before the library ends this process, once: on trine_abort, after a wait that was longer than a limit, and
 * in ranks that end because another one reports such a thing. The report has been printed, on the rank that prints
 * it. It decides what happens: it may end the process in its own way, also with MPI_Abort of its own communicator;
 * when it returns, the library aborts as described above. It must not call the library. It runs in the thread that
 * has found the end, which may be one of the library's while another thread is blocked in MPI. */
typedef void (*trine_abort_hook)(void *context);
/* One a process, the one that came last; NULL: none. `context` is passed to it. Not collective. */
void trine_on_abort(trine_abort_hook hook, void *context);

/* Splits the world into the mesh of `layout` and creates all its groups, in one fixed order.
 * ranks_per_node > 0 defines nodes as so many consecutive ranks; 0: nodes as detected by MPI. *mesh is
 * owned by the caller, and `world` must outlive it. Errors: TRINE_EINVAL if dp*tp*pp differs from the
 * world's size, or transport shm is impossible; TRINE_EMPI, TRINE_ENOMEM.
 * Collective over: world. */
trine_status trine_mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                               int ranks_per_node);

/* Frees the mesh and its groups; they must be idle. Collective over: world. */
void trine_mesh_destroy(trine_mesh **mesh);

/* Allocates `bytes` bytes of zeros for this rank (may differ between ranks, and be 0), aligned to 4096.
 * Peers on the node read this memory in place; collectives and messages on other memory work as well,
 * but make an extra copy. Owned by the mesh, which frees what is left of it. Errors: TRINE_ENOMEM,
 * which names /dev/shm and the size needed; TRINE_EMPI; on every rank alike. Collective over: world. */
trine_status trine_mesh_alloc(trine_mesh *mesh, void **p, size_t bytes);
/* Frees *p, from trine_mesh_alloc, and sets it to NULL. No communication on it may be in progress. Another pointer is
 * printed, and nothing is freed. Collective over: world. */
void trine_mesh_free(trine_mesh *mesh, void **p);

/* The mesh's layout, and this rank's coordinate in it. Not collective. */
trine_layout trine_mesh_layout(const trine_mesh *mesh);
trine_coord trine_mesh_coord(const trine_mesh *mesh);
/* From a rank to its coordinate in a layout of positive sizes, and back. What is outside is printed: zeros, and -1.
 * Pure. */
trine_coord trine_layout_coord(trine_layout layout, int rank);
int trine_layout_rank(trine_layout layout, trine_coord coord);

/* The communicator of one of this rank's groups; owned by the mesh. NULL for a group that is none of trine_group,
 * which is printed. */
trine_comm *trine_mesh_group(const trine_mesh *mesh, trine_group group);

/* ---- Collectives ----------------------------------------------------------------------------- */

#define TRINE_DTYPE_LIST(X)                                                                        \
    X(TRINE_F32, "f32", 4)                                                                         \
    X(TRINE_F64, "f64", 8)                                                                         \
    X(TRINE_I32, "i32", 4)                                                                         \
    X(TRINE_I64, "i64", 8)                                                                         \
    X(TRINE_U8, "u8", 1)                                                                           \
    X(TRINE_BF16, "bf16", 2)                                                                       \
    X(TRINE_F16, "fp16", 2)

typedef enum {
#define TRINE_DTYPE_ENUM(name, text, bytes) name,
    TRINE_DTYPE_LIST(TRINE_DTYPE_ENUM)
#undef TRINE_DTYPE_ENUM
} trine_dtype;

/* Integers wrap; a maximum of floats is NaN if one of them is. bf16 and fp16 are added in fp32, and the sum is
 * rounded once, to the nearest, ties to even.
 * TRINE_SUM adds in rank order, ((r0 + r1) + r2) + ...
 * TRINE_SUM_TREE adds in a tree: n addends are cut at the largest power of two below n, both parts are summed in
 * the same way, and their sums are added. So if each rank's addend is the tree's sum of 2^k consecutive addends of
 * its own, not rounded to 16 bits, the result has the bits of the tree's sum of all of them. Between nodes it sends
 * as much as the plain exchange (see trine_tally). */
typedef enum { TRINE_SUM, TRINE_MAX, TRINE_SUM_TREE } trine_reduction;

/* Bytes of one element; 0 for an invalid type. Pure. */
size_t trine_dtype_bytes(trine_dtype type);
/* This process's rank in the group, from 0, and the group's size P. Not collective. */
int trine_comm_rank(const trine_comm *comm);
int trine_comm_size(const trine_comm *comm);

/* The group's transport: "self" (a group of one), "mpi", "shm", or "shm+mpi" for a group over several
 * nodes; for device memory "nccl", "gpu mpi" (sent from there by a CUDA-aware MPI), or "staged mpi",
 * "staged shm" and "staged shm+mpi" (through host memory). Never NULL. Not collective. */
const char *trine_comm_transport(const trine_comm *comm);

/* All collectives below block until this rank's part is complete. P is the group's size. `count`
 * is the number of elements of the *full* buffer (the larger side); where every rank has one P-th of
 * it, P must divide it (TRINE_EINVAL otherwise, before anything is sent). count 0 is legal: all
 * ranks still take part. Buffers of different roles must not overlap except where "in place" is
 * described. Reductions add in the order of trine_reduction for every size, so that results depend bitwise
 * neither on the message size nor on the transport; u8 is for moving bytes and has no reductions.
 *
 * The ranks' calls are compared always: if kind, count, type, operation or root differ, every rank gets TRINE_EAUDIT
 * with two of the ranks and their calls, no rank uses the data of a different call or writes beyond its buffer, and
 * every later call on the group is refused with the same error. A rank that need not wait for others (the root of a
 * broadcast or scatter, the other ranks of a reduce or gather, a sender) may get the error from one of its next calls
 * instead; until it makes one, the others report it or, if it never does, abort after the timeout. Only audit
 * (trine_world_audit) compares calls on device memory that NCCL moves, before they are made, and leaves the group
 * usable. A hash of the calls is compared, of 32 bits in shared memory and 12 to 28 in MPI's tags: a difference is
 * missed with a probability of 2^-32, or 2^-12 with an MPI that has no larger tags than the standard requires.
 * Errors: TRINE_EINVAL, TRINE_EMPI, TRINE_EAUDIT. A wait longer than the world's
 * timeout aborts the job. Collective over: comm. */

/* dst (count) = sum or max over ranks of src (count), on every rank. In place: dst == src. */
trine_status trine_all_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type, trine_reduction op);
/* The same, to `root` only; dst is not read on other ranks and may be NULL. In place: dst ==
 * src. */
trine_status trine_reduce(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, trine_reduction op, int root);
/* buf (count) on every rank = buf of root. */
trine_status trine_broadcast(trine_comm *comm, void *buf, size_t count, trine_dtype type, int root);
/* dst (count) = the ranks' src (count/P), in rank order. In place: src == dst + rank*count/P. */
trine_status trine_all_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type);
/* dst (count/P) = this rank's part of src (count) of root; src may be NULL elsewhere.
 * In place on root: dst == src + root*count/P. */
trine_status trine_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                           trine_dtype type, int root);
/* dst (count) on root = the ranks' src (count/P), in rank order; dst may be NULL elsewhere.
 * In place on root: src == dst + root*count/P. */
trine_status trine_gather(trine_comm *comm, void *dst, const void *src, size_t count,
                          trine_dtype type, int root);
/* dst (count/P) = this rank's part of the sum (or max) over ranks of src (count).
 * In place: dst == src + rank*count/P (the rest of src is left as it was). */
trine_status trine_reduce_scatter(trine_comm *comm, void *dst, const void *src, size_t count,
                                  trine_dtype type, trine_reduction op);
/* Part j of src (count) goes to part `rank` of rank j's dst (count). In place: dst == src. */
trine_status trine_all_to_all(trine_comm *comm, void *dst, const void *src, size_t count,
                              trine_dtype type);
/* Point-to-point within the group; messages between two ranks arrive in order. peer must differ from
 * this rank. send and recv of a message must have the same count and type: if not, recv is TRINE_EAUDIT with both,
 * and the group cannot be used any more, which the sender learns as above. Not collective: the peer makes the
 * matching call. */
trine_status trine_send(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                        int peer);
trine_status trine_recv(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer);
/* Returns when every rank of the group has called it. */
trine_status trine_barrier(trine_comm *comm);

/* Calls and bytes since the start, by kind. `bytes` is what this rank hands to the transport for
 * its peers (all-gather and reduce-scatter of n elements: (P-1)/P n; all-reduce at most twice). It
 * is the volume of the plain exchange on every transport: shm sends none of it, and over K nodes
 * shm+mpi sends 2 (K-1) n between nodes for an all-reduce, (K-1) n for an all-gather and less than
 * K n for a reduce-scatter, all ranks together, where the plain exchange sends about ranks-per-node
 * times as much; partial sums of 16-bit numbers are fp32 there, which makes it 3 (K-1) n
 * and less than 2 K n. */
#define TRINE_TALLY_LIST(X)                                                                        \
    X(TRINE_TALLY_ALL_REDUCE, "all-reduce")                                                        \
    X(TRINE_TALLY_REDUCE, "reduce")                                                                \
    X(TRINE_TALLY_BROADCAST, "broadcast")                                                          \
    X(TRINE_TALLY_ALL_GATHER, "all-gather")                                                        \
    X(TRINE_TALLY_SCATTER, "scatter")                                                              \
    X(TRINE_TALLY_GATHER, "gather")                                                                \
    X(TRINE_TALLY_REDUCE_SCATTER, "reduce-scatter")                                                \
    X(TRINE_TALLY_ALL_TO_ALL, "all-to-all")                                                        \
    X(TRINE_TALLY_SEND, "send")                                                                    \
    X(TRINE_TALLY_RECV, "recv")                                                                    \
    X(TRINE_TALLY_BARRIER, "barrier")

typedef enum {
#define TRINE_TALLY_ENUM(name, text) name,
    TRINE_TALLY_LIST(TRINE_TALLY_ENUM)
#undef TRINE_TALLY_ENUM
    TRINE_TALLY_KINDS
} trine_tally_kind;

typedef struct {
    uint64_t calls, bytes;
} trine_tally;

/* Not collective. */
trine_tally trine_comm_tally(const trine_comm *comm, trine_tally_kind kind);

#ifdef __cplusplus
}
#endif

#endif
