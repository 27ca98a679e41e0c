/* Groups of ranks and what they do together. Public half: trine_comm.h (collectives, mesh, tally); this
 * header adds what only the library needs: requests, watchdog, audit.
 *
 * A communicator is a table of transport functions (transport/transport.h; stack.c says which) plus a
 * tally. Movement is the transport's business; *addition is ours*: a reduction moves the
 * addends and adds them locally in rank order, so that its bits are fixed (docs/numbers.md).
 * Invariant: all members of a group issue the same operations in the same order; audit mode
 * verifies it. Cost: the bytes that trine_comm_tally counts, plus one pass of local additions.
 * <mpi.h> is included in this room only. */
#ifndef TRINE_COMM_API_COMM_H
#define TRINE_COMM_API_COMM_H

#include "trine.h"

/* One message or gather under way. Zero-initialise; idle when active is false. It must stay where
 * it is until it is idle again: a transport keeps it in a list. */
typedef struct comm_request {
    bool active;
    trine_comm *comm;
    /* What was started, for the wait's checks and the watchdog's report. */
    trine_tally_kind kind;
    trine_dtype type;
    size_t count;
    int peer;
    uint64_t call; /* its number in the group */
    bool waits; /* whoever started it waits for it at once */
    /* The transport's. */
    void *handle; /* an MPI_Request fits */
    struct comm_request *next;
    void *dst;
    const void *src;
    size_t bytes;
    uint64_t number, phase;
    int state;
    /* staging's: what its wait copies to the device, and the hole in it that is there already. Or
     * nccl/nccl_transport.c's: that NCCL has it, and its ticket there. */
    struct {
        void *to;
        const void *from;
        size_t bytes, hole, hole_bytes;
        bool direct;
        uint64_t ticket;
    } device;
} comm_request;

/* Starts sending or receiving; the buffer belongs to the transport until comm_wait. Requests on one
 * comm between the same two ranks match in the order in which they were started. In a group of one
 * (an end of the pipeline) both do nothing, whatever the peer, and the request stays idle:
 * schedules need no special case there. The request must be idle. Errors: TRINE_EINVAL, TRINE_EMPI;
 * a receive whose message has another length fails in comm_wait. Not collective (the peer makes the
 * matching call). */
trine_status comm_send_start(trine_comm *comm, const void *buf, size_t count, trine_dtype type,
                             int peer, comm_request *request);
trine_status comm_recv_start(trine_comm *comm, void *buf, size_t count, trine_dtype type, int peer,
                             comm_request *request);
/* As trine_all_gather, but returns at once; finished by comm_wait. Collective over: comm. */
trine_status comm_all_gather_start(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, comm_request *request);
/* Blocks until the request is done and makes it idle; an idle request returns at once. */
trine_status comm_wait(comm_request *request);

/* Messages that are started between these two go together where the transport can fuse them (NCCL:
 * one ncclGroup), and are under way when comm_group_end returns; elsewhere each goes when it is
 * started, and these do nothing. No other call of the mesh's groups may stand between them, no wait
 * either. They do not nest. Errors: TRINE_ENCCL. Not collective, but the peers of fused messages
 * must not wait for each other in between (core/check.h proves it for programs). */
trine_status comm_group_begin(const trine_mesh *mesh);
trine_status comm_group_end(const trine_mesh *mesh);

/* A world of its own for the ranks that give the same `color`, in their order here: its ranks count
 * from 0, and it has its own meshes and its own watchdog, though an abort still ends the whole job.
 * *part is NULL for color < 0. Ended by trine_world_destroy, before `world`. (Layouts of fewer
 * ranks beside each other in one job; a run on one rank to compare with.)
 * Errors: TRINE_ENOMEM, TRINE_EMPI. Collective over: world. */
trine_status comm_world_split(trine_world **part, trine_world *world, int color);

trine_group comm_group(const trine_comm *comm);
const char *comm_group_name(trine_group group);
trine_world *comm_world(const trine_comm *comm);
/* The world rank of a member. */
int comm_world_rank(const trine_comm *comm, int rank);

/* The watchdog. A rank that has waited in one call for longer than trine_world_timeout ends the job with
 * status 1 and one report of where every rank is (watchdog.c, for the library's own waits; watch.h, for
 * MPI's calls that block). What follows is what such a report says beside the call. */

/* What this rank is doing outside of programs, "saving a checkpoint"; copied, cut to 63 bytes. NULL
 * forgets it. */
void comm_doing(const char *what);

/* This rank runs instruction `at` of a program of `count`; `words` is that instruction. It is also the
 * position that audit mode compares. Until comm_program_end. */
#define COMM_WORDS 10
void comm_instruction(trine_world *world, int at, int count, const int32_t words[COMM_WORDS]);
void comm_program_end(trine_world *world);

/* How an instruction is written: into `text`, at most `size` bytes. Of the whole process. It is called when
 * a report is printed, for other ranks' instructions too, by a thread of its own perhaps. */
typedef void (*comm_words)(const int32_t words[COMM_WORDS], char *text, size_t size);
void comm_describe(comm_words words);

/* Does `work`, which waits for the file system, calls no MPI and no device, in another thread, and answers
 * other ranks meanwhile: they do not take this one for dead, however long it takes. A single call of the
 * file system (base/files.h) that takes longer than trine_world_io_timeout ends the job. Returns what work
 * returns, with its trail. Not collective. */
trine_status comm_with_files(trine_world *world, trine_status (*work)(void *context), void *context);

/* Audit mode: before each collective its kind, count, type, root and `position` (the program index
 * of the instruction that issues it, set by comm_instruction) are compared over the group; a mismatch
 * is TRINE_EAUDIT on every rank of the group and names both ranks and both calls. Positions are
 * compared within dp and tp groups only: the other groups join stages, whose programs differ. Costs
 * one small all-gather per collective. Its own messages are not tallied. */
void comm_audit(trine_world *world, bool on);
void comm_position(trine_world *world, int64_t position);
#define COMM_NOWHERE (-1) /* outside of programs, and at first */

/* Says whether data (bytes) is the same on all ranks of the group, by its hash: TRINE_EAUDIT, on
 * all of them, names `what` and the first rank that differs from the group's first. Not tallied.
 * Collective over: comm. */
trine_status comm_hash_agree(trine_comm *comm, const void *data, size_t bytes, const char *what);

/* The largest number of bytes that an MPI call may count in an int: longer messages travel as one
 * element of a derived datatype made of pieces of this size. Tests lower it. At least 1; default
 * INT_MAX rounded down to ARENA_ALIGN. */
void comm_message_limit(trine_world *world, size_t bytes);

/* Bytes that one rank hands to the transport for an operation on `count` elements of `type` in a
 * group of `size`, when it has this `rank` and (for rooted kinds) the root is `root`. Pure: what
 * --dry-run prints and what the tally must equal. */
uint64_t comm_bytes(trine_tally_kind kind, size_t count, trine_dtype type, int size, int rank,
                    int root);

/* trine_mesh_create, with groups TRINE_TP_PART of `tp_part` neighbours of a tp group, which tp_part divides: ranks
 * [i tp_part, (i + 1) tp_part) of it. Errors: also TRINE_EINVAL if it does not. Collective over: world. */
trine_status mesh_create(trine_mesh **mesh, trine_world *world, trine_layout layout,
                         int ranks_per_node, int tp_part);

/* Whether ranks of a node share memory with that choice of trine_world_transport. Pure. */
bool comm_may_share(trine_transport choice);
/* Bytes that a world's communicators hold for ordered additions. */
size_t comm_scratch_bytes(int world_size);
/* Bytes of transport that the rank at `coord` holds (in the memory plan): that scratch, and with
 * shm its control memory, where all ranks share one node; with more nodes it is less. Pure. */
size_t comm_transport_bytes(trine_layout layout, trine_coord coord, trine_transport transport);
/* The same for a mesh that exists, to the byte. */
size_t mesh_transport_bytes(const trine_mesh *mesh);
/* Bytes that this rank will ask trine_mesh_alloc for: where they will not fit, trine_mesh_create
 * already says so, with the sum. Not collective. */
void comm_expect(trine_world *world, size_t bytes);
/* Where rank `rank` of group node has what this rank has at p, in memory of trine_mesh_alloc: in its
 * own piece of the same allocation, at the same place. NULL when they share no memory. What one of
 * them stores the other one sees behind a barrier. */
void *mesh_peer_memory(const trine_mesh *mesh, const void *p, int rank);
/* Whether ranks of the mesh exchange through shared windows, so that trine_mesh_alloc pays. */
bool mesh_shares(const trine_mesh *mesh);

void comm_tally_reset(trine_comm *comm);

/* Calls, bytes and time between start and stop, by group and kind. The time is that in the
 * transport: the work of moving and adding, and the waiting for peers that are late; of what is
 * only started it is the start and the wait, not what passes between them. Groups of one are not
 * timed: they move nothing. Calls and bytes are the tallies' differences, counted at the stop. */
typedef struct comm_clock comm_clock;
typedef struct {
    uint64_t calls, bytes, ns;
} comm_time;

/* Errors: TRINE_ENOMEM. *clock is owned by the caller and must end before `mesh`. Starting a clock
 * that runs, or stopping one that does not, does nothing; of the clocks over a group one may run at
 * a time. Costs nothing while it stands, and two looks at the system's clock a call while it runs.
 * Not collective. */
trine_status comm_clock_create(comm_clock **clock, const trine_mesh *mesh);
void comm_clock_destroy(comm_clock **clock);
void comm_clock_start(comm_clock *clock);
void comm_clock_stop(comm_clock *clock);
comm_time comm_clock_time(const comm_clock *clock, trine_group group, trine_tally_kind kind);
/* Of all groups and kinds together, while it runs too. */
uint64_t comm_clock_ns(const comm_clock *clock);

/* The words of the lists in trine_comm.h: "reduce-scatter", "dp". Pure. */
const char *tally_kind_text(trine_tally_kind kind);

/* Nodes that the mesh spans, and which of them (from 0, by lowest rank) holds a world rank. */
int mesh_node_count(const trine_mesh *mesh);
int mesh_node_index(const trine_mesh *mesh, int rank);

/* The host names of all ranks, for the banner: (world size) strings, owned by the world. */
const char *const *comm_host_names(const trine_world *world);

#endif
