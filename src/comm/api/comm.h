/* Groups of ranks and their communication. The public part is trine_comm.h (collectives, mesh, tally); this header
 * adds what only the library needs: requests, watchdog, audit.
 *
 * A communicator is a table of transport functions (transport/transport.h; stack.c selects it) and a tally. The
 * transport moves data. Trine does the additions: a reduction moves the addends and adds them locally in rank
 * order, which fixes its bits (docs/numbers.md).
 * Invariant: all members of a group issue the same operations in the same order; audit mode verifies it. Cost: the
 * bytes that trine_comm_tally counts, plus one pass of local additions. Only this module includes <mpi.h>. */
#ifndef TRINE_COMM_API_COMM_H
#define TRINE_COMM_API_COMM_H

#include "trine_types.h"

/* One message, gather or reduction in progress. Zero-initialise; idle when active is false. It must not move until it
 * is idle again: transports keep it in a list. */
typedef struct comm_request {
    bool active;
    trine_comm *comm;
    /* The call, for the checks of the wait and for the watchdog's report. */
    trine_tally_kind kind;
    trine_dtype type;
    trine_reduction op; /* reductions only */
    size_t count;
    int peer;
    uint64_t call; /* its number in the group */
    bool waits; /* the caller waits for it at once */
    uint64_t chain; /* of the group's calls up to this one; of a message: its number between the two ranks */
    /* Owned by the transport. */
    void *handle; /* large enough for an MPI_Request */
    void *exchange; /* mpi's: the messages of a gather */
    bool receives;  /* mpi's: else it sends */
    struct comm_request *next;
    void *dst;
    const void *src;
    size_t bytes;
    uint64_t number, phase;
    int state;
    /* Of a reduction: the next one that this rank has started; who moves it (mpi/started.h). */
    struct comm_request *next_started;
    int mover;
    /* For staging: what the wait copies to the device, and the range in it that the device already has. For
     * nccl/nccl_transport.c: whether NCCL has the request, and its ticket. */
    struct {
        void *to;
        const void *from;
        size_t bytes, hole, hole_bytes;
        bool direct;
        uint64_t ticket;
    } device;
} comm_request;

/* Starts sending or receiving; the buffer belongs to the transport until comm_wait. Requests on one comm between
 * the same two ranks match in the order in which they were started. In a group of one (at either end of the
 * pipeline) both do nothing, whatever the peer, and the request stays idle: schedules need no special case. The
 * request must be idle. Errors: TRINE_EINVAL, TRINE_EMPI; a receive whose message has another count or type fails in
 * comm_wait. Not collective (the peer makes the matching call). */
trine_status comm_send_start(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                             int peer, comm_request *request);
trine_status comm_recv_start(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer,
                             comm_request *request);
/* As trine_all_gather, but returns immediately; completed by comm_wait. Collective over: comm. */
trine_status comm_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, comm_request *request);
/* As trine_all_reduce and trine_reduce_scatter, bit for bit, but return immediately; completed by comm_wait. Until
 * then src must not change and dst belongs to the transport. The group's other calls, started or blocking, may come
 * before the wait. A wait depends only on the peers having started the call; calls of different groups must be
 * started in an order that would not deadlock if they blocked. Collective over: comm. */
trine_status comm_all_reduce_start(trine_comm *comm, void *dst, const void *src, size_t count, trine_dtype type,
                                   trine_reduction op, comm_request *request);
trine_status comm_reduce_scatter_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                       trine_dtype type, trine_reduction op, comm_request *request);
/* The same with TRINE_SUM, but the first addend is what dst has: dst (count/P) = ((dst + r0) + r1) + ..., rounded
 * once in 16 bits, and in this order over NCCL, too. dst must not overlap src. Between n nodes of equal size
 * (n + 2) / (n + 1) of the bytes are sent. In a group of one dst and src are both in device memory, and of the type
 * of its gradients, or both in host memory. Collective over: comm. */
trine_status comm_reduce_scatter_onto_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                            trine_dtype type, comm_request *request);
/* Moves this rank's started reductions, in all groups, as far as their peers have come, without waiting for any; with
 * shared memory its started gathers and messages, too: one that is queued behind others would else be posted, or
 * taken, only when this rank has to wait for something. Every blocking call and every wait does it as well. NCCL
 * needs no such calls. Cost: a look at each request in progress. Not collective. */
trine_status comm_progress(trine_world *world);
/* Whether a reduction that this rank has started is not complete, except those that NCCL makes. */
bool comm_reducing(const trine_world *world);
/* Blocks until the request is complete and makes it idle; returns immediately for an idle request. */
trine_status comm_wait(comm_request *request);

/* Messages started between these two calls are fused where the transport can (NCCL: one ncclGroup) and are in
 * progress when comm_group_end returns. Other transports start each message at once, and these calls do nothing. No
 * other call on the mesh's groups, and no wait, is allowed between them. They do not nest. Errors: TRINE_ENCCL. Not
 * collective, but the peers of fused messages must not wait for each other in between (core/check.h proves it for
 * programs). */
trine_status comm_group_begin(const trine_mesh *mesh);
trine_status comm_group_end(const trine_mesh *mesh);

/* Makes a separate world for the ranks that give the same `color`, in their order here: its ranks count from 0, and
 * it has its own meshes and its own watchdog, but an abort still aborts the entire job. *part is NULL for color < 0.
 * Freed by trine_world_destroy, before `world`. (Used for several smaller layouts in one job, and for a reference
 * run on one rank.) Errors: TRINE_ENOMEM, TRINE_EMPI. Collective over: world. */
trine_status comm_world_split(trine_world **part, trine_world *world, int color);
/* The same for all ranks, each one place further: the last is rank 0. (Another machine does the work of each
 * rank.) */
trine_status comm_world_turn(trine_world **turned, trine_world *world);

const char *comm_group_name(trine_group group);
trine_world *comm_world(const trine_comm *comm);
/* The world rank of a member. */
int comm_world_rank(const trine_comm *comm, int rank);

/* The watchdog. If a rank waits in one call for longer than trine_world_timeout, the job aborts with status 1 and
 * one report of every rank's state (watchdog.c for the library's own waits, watch.h for blocking calls of MPI). The
 * functions below set what the report prints beside the call. */

/* Sets what this rank is doing outside of programs, "saving a checkpoint"; copied, truncated to 63 bytes. NULL
 * clears it. */
void comm_doing(const char *what);

/* This rank runs instruction `at` of a program of `count`; `words` encodes the instruction. `at` is also the
 * position that audit mode compares. Valid until comm_program_end. */
#define COMM_WORDS 11
void comm_instruction(trine_world *world, int at, int count, const int32_t words[COMM_WORDS]);
void comm_program_end(trine_world *world);

/* Formats an instruction into `text`, at most `size` bytes. One function per process. It is called when a report is
 * printed, also for instructions of other ranks, and possibly in another thread. */
typedef void (*comm_words)(const int32_t words[COMM_WORDS], char *text, size_t size);
void comm_describe(comm_words words);

/* For a process that ends by a signal (base/signals.h), or says that it has received one: of the ranks of a node that
 * want to say the same (`word`, 0 to 30), one may, and none in a job that a rank aborts. Before trine_world_create
 * any may that has not called comm_before_world. From any thread; not after trine_world_destroy. Not collective. */
bool comm_may_say(int word);
/* For a process that catches signals before trine_world_create: asks the launcher's environment which rank it is. Not
 * collective. */
void comm_before_world(void);
/* The ranks that the launcher has started on this node; 0: unknown. From any thread. */
int comm_launched(void);
/* Whether trine_world_destroy has been called: the ranks leave the job together, and the launcher signals those that
 * are still there when one has exited with an error. From any thread. */
bool comm_leaving(void);

/* Runs `work`, which waits for the file system and calls neither MPI nor a device, in another thread, and answers
 * other ranks meanwhile: they do not report this rank as dead, however long it takes. If a single file-system call
 * (base/files.h) takes longer than trine_world_io_timeout, the job aborts. Returns the status of `work`, with its
 * trail. Not collective. */
trine_status comm_with_files(trine_world *world, trine_status (*work)(void *context), void *context);

/* Audit mode: before each collective, its kind, count, type, root and `position` (the program index of the
 * instruction that issues it, set by comm_instruction) are compared over the group; a mismatch is TRINE_EAUDIT on
 * every rank of the group and names both ranks and both calls. Positions are compared within dp and tp groups only:
 * the other groups join stages, whose programs differ. Costs one small all-gather per collective. Its own messages
 * are not tallied. */
void comm_audit(trine_world *world, bool on);

/* Checks by hash that data (bytes) is the same on all ranks of the group. TRINE_EAUDIT, on all of them, names
 * `what` and the first rank that differs from the group's first. Not tallied. Collective over: comm. */
trine_status comm_hash_agree(trine_comm *comm, const void *data, size_t bytes, const char *what);

/* Bytes that one rank passes to the transport for an operation on `count` elements of `type` in a group of `size`,
 * with this `rank` and (for rooted kinds) this `root`. Pure. --dry-run prints it, and the tally must equal it. */
uint64_t comm_bytes(trine_tally_kind kind, size_t count, trine_dtype type, int size, int rank,
                    int root);

/* The groups that a mesh has beside those of its axes, NODE, and the lanes between each stage and the next. What is
 * not needed is not made: such a group has size 1 and no MPI communicator. */
typedef struct {
    int tp_part; /* neighbours in a TRINE_TP_PART: ranks [i tp_part, (i + 1) tp_part) of a tp group; it divides tp */
    bool ring;   /* ACT_ and GRAD_ lanes from the last stage to the first too; needs 3 stages or more */
    bool back;   /* BACK_ lanes, from each stage to the previous one */
    int tie[2];  /* the stages that TRINE_TIE joins; if equal, or one of them is negative: none */
} mesh_needs;

/* One chunk a stage: tp_part 1, no ring, no BACK_ lanes, TRINE_TIE of the first and the last stage (also for a model
 * that is not tied). Pure. */
mesh_needs mesh_needs_default(trine_layout layout);

/* As trine_mesh_create, which has mesh_needs_default. Errors: also TRINE_EINVAL if tp_part does not divide tp, a ring
 * has fewer than 3 stages, or a stage of `tie` does not exist. Collective over: world. */
trine_status mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                         int ranks_per_node, mesh_needs needs);

/* Whether this choice of trine_world_transport lets ranks of a node share memory. Pure. */
bool comm_may_share(trine_transport choice);

/* The order in which the ranks of a group are added. Each transport's table states it (transport/transport.h). */
typedef enum {
    COMM_ORDER_UNSTATED, /* what a table has that leaves it out: no transport's */
    COMM_ORDER_RANKS,    /* ((r0 + r1) + r2) + ..., also where the sum goes along a chain of nodes; or a tree */
    COMM_ORDER_LIBRARY   /* a library chooses it, by sizes and machine: nobody knows */
} comm_order;

/* The order in the groups of this choice, before they exist: of the tables that they may get, the one that says
 * least. `gpus`: their buffers are on GPUs; `ordered`: comm_gpu.ordered. Pure. */
comm_order comm_order_of(trine_transport choice, bool gpus, bool ordered);
/* Bytes that a world's communicators hold for the addends of ordered additions. Pure. */
size_t comm_scratch_bytes(int world_size);
/* Bytes for the addends of started reductions, if no group but the world's own and group node is larger than
 * group_size; larger groups reduce in smaller chunks, of at least one element. Pure. */
size_t comm_arrival_bytes(int world_size, int group_size);
/* Bytes of transport memory of the rank at `coord` (for the memory plan): both of these and, with shm, its control
 * memory if all ranks share one node; with more nodes it is less. Pure. */
size_t comm_transport_bytes(trine_layout layout, trine_coord coord, trine_transport transport,
                            mesh_needs needs);
/* *bytes = those of /dev/shm that a rank's control memory takes where the ranks lie on nodes as node_of (the layout's
 * number of ranks) says; 0: it is alone on its node. Errors: TRINE_ENOMEM. Not collective. */
trine_status comm_control_bytes(size_t *bytes, trine_layout layout, int rank, mesh_needs needs,
                                const int *node_of);
/* Bytes of /dev/shm for `bytes` of trine_mesh_alloc where a node has several ranks. Pure. */
size_t comm_window_bytes(size_t bytes);
/* What the check of a mesh sets aside for MPI's own memory in /dev/shm, for each rank: the size of an Open MPI
 * segment, whose pages are allocated after ours. */
#define COMM_MPI_SHM ((size_t)4 << 20)
/* comm_transport_bytes of an existing mesh, to the byte. */
size_t mesh_transport_bytes(const trine_mesh *mesh);
/* Bytes that this rank will request from trine_mesh_alloc: if they cannot fit, trine_mesh_create already fails,
 * with the sum. Not collective. */
void comm_expect(trine_world *world, size_t bytes);
/* The address at which rank `rank` of group node has the counterpart of p: the same offset in its part of the same
 * trine_mesh_alloc allocation. NULL if the ranks do not share memory. A store by one of them is visible to the
 * other after a barrier. */
void *mesh_peer_memory(const trine_mesh *mesh, const void *p, int rank);
/* Whether ranks of the mesh exchange through shared windows, so that trine_mesh_alloc is worthwhile. */
bool mesh_shares(const trine_mesh *mesh);

void comm_tally_reset(trine_comm *comm);

/* Calls, bytes and time between start and stop, by group and kind. The time is spent in the transport: moving and
 * adding data, and waiting for late peers. For asynchronous calls it covers the start and the wait, not the time
 * between them. Groups of one are not timed: they move nothing. Calls and bytes are differences of the tallies,
 * taken at the stop. */
typedef struct comm_clock comm_clock;
typedef struct {
    uint64_t calls, bytes, ns;
} comm_time;

/* Errors: TRINE_ENOMEM. *clock is owned by the caller and must be destroyed before `mesh`. Starting a running clock
 * or stopping a stopped one does nothing; only one clock over a group may run at a time. Costs nothing while
 * stopped, and two readings of the system clock a call while running. Not collective. */
trine_status comm_clock_create(comm_clock **clock, const trine_mesh *mesh);
void comm_clock_destroy(comm_clock **clock);
void comm_clock_start(comm_clock *clock);
void comm_clock_stop(comm_clock *clock);
comm_time comm_clock_time(const comm_clock *clock, trine_group group, trine_tally_kind kind);
/* Total over all groups and kinds, also while running. */
uint64_t comm_clock_ns(const comm_clock *clock);
/* Of started reductions: the time that this rank spent outside of all calls while one was in progress
 * (comm_reducing), and the time in comm_wait for one. */
typedef struct {
    uint64_t hidden_ns, waited_ns;
} comm_overlap;
comm_overlap comm_clock_overlap(const comm_clock *clock);

/* The names from the lists in trine_comm.h: "reduce-scatter", "dp". Pure. */
const char *tally_kind_text(trine_tally_kind kind);

/* Number of nodes that the mesh spans, and the index (from 0, by lowest rank) of the node of a world rank. */
int mesh_node_count(const trine_mesh *mesh);
int mesh_node_index(const trine_mesh *mesh, int rank);

/* data (bytes) on every rank = that of world rank 0, before there is a mesh. Errors: those of trine_broadcast.
 * Collective over: world. */
trine_status comm_world_broadcast(trine_world *world, void *data, size_t bytes);

/* The host names of all ranks, for the banner: (world size) strings, owned by the world. */
const char *const *comm_host_names(const trine_world *world);

#endif
