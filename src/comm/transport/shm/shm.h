/* Ranks of one node that read each other's memory: MPI-3 shared windows (MPI 3.1, section 11.2.3).
 * A mesh has one `shm_node`: the ranks that share memory with this one, a control window with
 * counters and small payloads for every group, and the windows that trine_mesh_alloc made. Who
 * wants to give something publishes where it lies; who wants it waits for a counter and reads it
 * there. Two counters steer a group, both kept by its first rank: arrivals of a call, and phases
 * (what lies between two points that all ranks must have reached before one may go on). Messages,
 * and short calls from one rank to all or to one, need neither: each is a slot with its number in
 * front, which the reader waits for.
 *
 * Waiting: a short spin, some yields, then sleep on the rank's own futex ("wakeup"), which the last
 * to arrive rings. So eight ranks on two cores do not burn the time of those that compute.
 * Invariant: the collectives of a group finish in the order in which they were started, on every
 * rank; additions are ordered.c's. Nothing waits inside a start while there is room in the rings,
 * and whoever waits moves what he himself has under way, so that no wait depends on more than the
 * peers having started. Cost: an arrival is one atomic addition; bulk data is read once. */
#ifndef TRINE_COMM_TRANSPORT_SHM_SHM_H
#define TRINE_COMM_TRANSPORT_SHM_SHM_H

#include "comm/group/group.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/mpi/try_mpi.h"

#include <stdatomic.h>

#define SHM_WINDOWS  64
#define SHM_RING     8 /* collectives of a group under way before a start has to wait */
#define SHM_PHASES   64
#define SHM_SHORTS   16 /* short calls of a group under way */
#define SHM_MESSAGES 4 /* messages from one rank to another before a send has to queue */
#define SHM_EAGER    4096
#define SHM_STAGE    ((size_t)128 * 1024) /* half of a rank's staging memory */
#define SHM_LINE     64

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters in shared memory need lock-free atomics");

typedef _Atomic uint64_t shm_counter;

/* Where a buffer lies: its window and offset, the same for all ranks of the node. */
typedef struct {
    int64_t window; /* SHM_NOWHERE: in no window; SHM_PAYLOAD: in the ring */
    uint64_t offset;
} shm_place;

#define SHM_NOWHERE (-1)
#define SHM_PAYLOAD (-2)

typedef struct {
    _Alignas(SHM_LINE) shm_place src;
    shm_place dst;
    uint64_t waits; /* whether the caller waits for the call at once */
} shm_desc;

/* A short call's number + 1, and behind it, on the same line if there is room, what was posted. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter posted;
    char data[SHM_EAGER];
} shm_short;

/* One rank's control memory of one group; written by that rank, but for the counters of the
 * group's first. Behind it: SHM_RING payloads, then an outbox for every member, then for every
 * member the number of messages taken from it. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter arrived[SHM_RING];
    _Alignas(SHM_LINE) shm_counter passed[SHM_PHASES];
    shm_desc ring[SHM_RING];
    /* Of short calls from one to all or from all to one: halves of the ring that this rank has
     * finished; what it posted. */
    _Alignas(SHM_LINE) shm_counter halves;
    shm_short shorts[SHM_SHORTS];
} shm_block;

/* A message's number + 1, where it lies, and, if it is short, itself. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter posted;
    shm_place src;
    uint64_t bytes;
    char data[SHM_EAGER];
} shm_message;

/* Messages from one rank to another. */
typedef struct {
    shm_message ring[SHM_MESSAGES];
} shm_outbox;

typedef struct {
    _Alignas(SHM_LINE) shm_counter count;
} shm_taken;

/* The head of a rank's control memory. */
typedef struct {
    _Alignas(SHM_LINE) _Atomic uint32_t wakeup; /* a futex */
    _Atomic uint32_t sleeping;
    _Alignas(SHM_LINE) uint64_t block[TRINE_GROUPS]; /* offsets; 0: none */
    _Alignas(4096) char stage[2][SHM_STAGE];
} shm_head;

typedef struct {
    MPI_Win win;   /* MPI_WIN_NULL: memory of this rank alone */
    char *own;     /* NULL: the entry is free */
    size_t bytes;
    char **base;   /* (node size) the same memory of every rank of the node */
} shm_window;

typedef struct shm_node {
    trine_world *world;
    MPI_Comm comm;
    int rank, size;
    int *members; /* (size) world ranks, ascending */
    bool crowded; /* more ranks than processors */
    size_t cache; /* bytes of the last-level cache */
    shm_window windows[SHM_WINDOWS];
    shm_window *control;
} shm_node;

typedef struct shm_state {
    shm_node *node;
    int *index;         /* (P) of the members in the node */
    shm_block **block;  /* (P) */
    void **dsts;        /* (P) where an all-reduce writes */
    uint64_t calls;     /* collectives started */
    uint64_t phase;     /* phases reached */
    /* The ring's entry is free when the counter has this value; NULL: it is. */
    struct {
        const shm_counter *counter;
        uint64_t target;
    } free_at[SHM_RING];
    uint64_t shorts;    /* short calls from one to all or from all to one, finished */
    uint64_t half_free; /* the half of their ring that was last seen to be free */
    uint64_t *sent, *received;  /* (P) messages numbered so far */
    uint64_t *taken;            /* (P) of those sent, as last seen */
    comm_request *first, *last; /* under way, in the order of their start */
    trine_comm *comm;
    struct shm_state *next_busy;
    bool busy;
} shm_state;

/* ---- window.c -------------------------------------------------------------------------------- */

/* Makes the node of the ranks that share memory; `members` (size) as above, copied. *node is NULL
 * when this rank is alone or the world's choice is mpi. Collective over: world. */
trine_status shm_node_create(shm_node **node, trine_world *world, const int *members, int size);
void shm_node_destroy(shm_node **node);
/* Memory of every rank of the node, read by all. Errors: TRINE_ENOMEM when /dev/shm is too small.
 * Collective over: world (ranks without a node give NULL and bytes 0). */
trine_status shm_window_create(shm_node *node, trine_world *world, size_t bytes,
                               shm_window **window);
void shm_window_destroy(shm_node *node, shm_window *window);
/* What a window asked for with `bytes` takes: whole pages. Pure. */
size_t shm_window_bytes(size_t bytes);
/* Where a buffer of this rank lies. */
shm_place shm_find(const shm_node *node, const void *p, size_t bytes);
/* The same place as the rank of that index in the node has it. */
void *shm_at(const shm_node *node, int index, shm_place place);

/* ---- shm.c ----------------------------------------------------------------------------------- */

/* Bytes of control memory of a rank that is in groups of these sizes (0 or 1: none). Pure. */
size_t shm_control_bytes(const int sizes[TRINE_GROUPS]);
/* Lays out this rank's control memory; after a barrier of the node shm_attach finds it. */
void shm_layout(shm_node *node, const int sizes[TRINE_GROUPS]);
/* Gives `comm`, whose members all are in the node, what the shm transport needs. Errors: TRINE_ENOMEM. */
trine_status shm_attach(trine_comm *comm, shm_node *node);
void shm_detach(trine_comm *comm);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Returns when *counter has reached `target`. */
trine_status shm_await(shm_state *s, const shm_counter *counter, uint64_t target);
/* Wakes a member, or all of them but this rank, if they sleep. After the store that they wait for. */
void shm_wake(const shm_state *s, int member);
void shm_ring_all(const shm_state *s);

/* How long a wait has lasted. */
typedef struct {
    unsigned polls;
    double waited; /* seconds that were watched */
} shm_patience;

/* Called after a look in vain: spins, yields or sleeps until *counter may have reached `target`.
 * NULL: only MPI's progress can help. */
trine_status shm_pause(shm_node *node, const shm_counter *counter, uint64_t target,
                       shm_patience *patience);
/* Moves what this rank has under way in shared memory, in all groups. */
trine_status shm_progress(trine_world *world);

/* ---- call.c ---------------------------------------------------------------------------------- */

/* Three forms of a call, which everybody sees alike in the ring once all have arrived.
 *   PAYLOAD  short data lies in the ring; one arrival, nothing to wait for afterwards
 *   DIRECT   the buffers lie in windows and are read there, or written where every dst does, too
 *   STAGED   somebody's buffer does not: all copy through their staging memory, a piece at a time,
 *            in two halves, so that a piece is filled while the one before may still be read
 *   MPI      so it is, but somebody only starts the call and does something else: staging takes the
 *            help of all at once, and ranks that wait for two such calls in different orders would
 *            wait for ever */
typedef enum { SHM_FORM_PAYLOAD, SHM_FORM_DIRECT, SHM_FORM_STAGED, SHM_FORM_MPI } shm_form;

/* The counter of a call's arrivals, and its value when all have arrived; so for phases. */
shm_counter *shm_arrivals(const shm_state *s, uint64_t call);
uint64_t shm_all_arrived(const shm_state *s, uint64_t call);
shm_counter *shm_passes(const shm_state *s, uint64_t phase);
uint64_t shm_all_passed(const shm_state *s, uint64_t phase);
/* Returns the phase that this rank has reached, for those who wait for it. */
uint64_t shm_pass(shm_state *s);
/* Passes, and waits for all. */
trine_status shm_meet(shm_state *s);

/* Announces the next call: where src and dst lie (NULL: nowhere). A short src travels along; src_bytes
 * is the same on all. Waits when the ring is full. *call is its number. */
trine_status shm_announce(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                          size_t dst_bytes, bool waits, uint64_t *call);
/* This rank has finished the call: when all are in its last phase the place in the ring is free.
 * A blocking call that has no phase of its own leaves its place when all announce the next. */
void shm_finished(shm_state *s, uint64_t call);
/* The same for calls that block: announce and wait for all; then, when others may still read what
 * lies with the caller, wait until they have. */
trine_status shm_open_call(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                           size_t dst_bytes, uint64_t *call);
trine_status shm_close_call(shm_state *s, uint64_t call, shm_form form);

/* Whether every member's src can be read and its dst be written where it lies; alike on all. */
bool shm_reachable(const shm_state *s, uint64_t call);
const shm_desc *shm_desc_of(const shm_state *s, int member, uint64_t call);
shm_form shm_form_of(const shm_state *s, uint64_t call, size_t bytes, bool dst_too);
/* Where a member's src (`bytes`, as announced) and dst lie for this rank; a place of a member's; a
 * half of its staging memory, SHM_STAGE bytes, by turns. */
const char *shm_src_of(const shm_state *s, int member, uint64_t call, size_t bytes);
char *shm_dst_of(const shm_state *s, int member, uint64_t call);
void *shm_peer_at(const shm_state *s, int member, shm_place place);
char *shm_stage(const shm_state *s, int member, uint64_t piece);

/* ---- short.c --------------------------------------------------------------------------------- */

/* Whether a call from one rank to all, or from all to one, with `bytes` of each that has something,
 * goes this way. Pure, so that all choose alike. */
bool shm_is_short(size_t bytes);
/* From the root to all: the root posts src and goes on, the others wait for it. To the root: the
 * others post and go on, the root waits for all. Then what `member` posted can be read, by those
 * who waited for it, until shm_short_end. */
trine_status shm_short_from(shm_state *s, const void *src, size_t bytes, int root);
trine_status shm_short_to(shm_state *s, const void *src, size_t bytes, int root);
const char *shm_short_of(const shm_state *s, int member);
void shm_short_end(shm_state *s);

/* ---- request.c ------------------------------------------------------------------------------- */

/* A request's state: done; a message that found the outbox full; announced; read by this rank but
 * not by all; in MPI's hands. */
enum { SHM_DONE, SHM_QUEUED, SHM_POSTED, SHM_LEFT, SHM_MPI };

void shm_enlist(shm_state *s, comm_request *r);
/* Waits for the all-gathers with numbers below `before`: collectives of a group finish in order. */
trine_status shm_finish_gathers(shm_state *s, uint64_t before);
/* dst (P, bytes) = everybody's src of call r->number. */
void shm_copy_parts(const shm_state *s, const comm_request *r);

/* ---- message.c ------------------------------------------------------------------------------- */

/* Tries to move one message; a done one has the state SHM_DONE. */
trine_status shm_move_message(trine_comm *comm, comm_request *r);
/* What a message waits for; NULL: MPI. */
const shm_counter *shm_message_counter(trine_comm *comm, const comm_request *r, uint64_t *target);

/* ---- The table: move.c, reduce.c, request.c, message.c ---------------------------------------- */

extern const comm_transport shm_transport;

#define SHM(function, takes, names) trine_status shm_##function takes;
TRANSPORT_CALLS(SHM)
#undef SHM

/* ---- Inside the control memory --------------------------------------------------------------- */

/* Bytes of a payload in the ring of a group of `size`. */
static inline size_t shm_payload_bytes(int size) {
    size_t bytes = (size_t)64 * 1024 / (size_t)size;
    if (bytes > 16 * 1024) bytes = 16 * 1024;
    return bytes / SHM_LINE * SHM_LINE;
}

static inline bool shm_fits_payload(const shm_state *s, size_t bytes) {
    return bytes <= shm_payload_bytes(s->comm->size);
}

static inline char *shm_payload(const shm_state *s, int member, uint64_t call) {
    return (char *)(s->block[member] + 1) + call % SHM_RING * shm_payload_bytes(s->comm->size);
}

static inline shm_outbox *shm_outbox_of(const shm_state *s, int from, int to) {
    char *behind = (char *)(s->block[from] + 1) + SHM_RING * shm_payload_bytes(s->comm->size);
    return (shm_outbox *)behind + to;
}

/* How many messages `by` has taken from `from`. */
static inline shm_counter *shm_taken_of(const shm_state *s, int by, int from) {
    return &((shm_taken *)(shm_outbox_of(s, by, s->comm->size)))[from].count;
}

#endif
