/* Ranks of one node that read each other's memory: MPI-3 shared windows (MPI 3.1, section 11.2.3). A mesh has one
 * `shm_node`: the ranks that share memory with this one, a control window with counters and small payloads for
 * every group, and the windows that trine_mesh_alloc made. A rank publishes the place of its data; a reader waits
 * for a counter and reads the data in place. Two counters control a group, both kept by its first rank: arrivals at
 * a call, and phases (points that all ranks must have reached before any of them may continue). Messages, and short
 * calls from one rank to all or to one, need neither: each is a slot preceded by its number, for which the reader
 * waits.
 *
 * Waiting: a short spin, some yields, then sleep on the rank's own futex ("wakeup"), which the last rank to arrive
 * wakes. So eight ranks on two cores do not take the processor from those that compute.
 * Invariant: the collectives of a group finish in the order in which they were started, on every rank; rank_order.c
 * does the additions. A start does not wait while there is space in the rings, and a waiting rank advances all of
 * its own requests, so that a wait depends only on the peers having started.
 * Cost: an arrival is one atomic addition; bulk data is read once. */
#ifndef TRINE_COMM_TRANSPORT_SHM_SHM_H
#define TRINE_COMM_TRANSPORT_SHM_SHM_H

#include "comm/group/group.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/mpi.h"
#include "comm/transport/mpi/try_mpi.h"

#include <stdatomic.h>

#define SHM_WINDOWS  64
#define SHM_RING     8 /* collectives of a group in progress before a start has to wait */
#define SHM_PHASES   64
#define SHM_SHORTS   16 /* short calls of a group in progress */
#define SHM_HALVES   4
#define SHM_MESSAGES 4 /* messages from one rank to another in progress before a send is queued */
#define SHM_EAGER    4096
#define SHM_STAGE    ((size_t)128 * 1024) /* half of a rank's staging memory */
#if defined(__x86_64__)
#define SHM_LINE 64 /* bytes that two ranks must not share if both write */
#else
#define SHM_LINE 256 /* the most that an Arm processor has (A64FX); Neoverse has 64 */
#endif

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters in shared memory need lock-free atomics");

/* The low half counts, modulo 2^32. Arrivals use the high half, too: each rank adds the high half of its chain of
 * calls (watch/match.h), so that the word has the expected value exactly if all ranks make the same calls. */
typedef _Atomic uint64_t shm_counter;

/* The place of a buffer: its window and offset, the same for all ranks of the node. */
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
    call_mark call;
} shm_desc;

/* A short call's number + 1 and what tells it from others, followed, on the same cache line if it fits, by the posted
 * data. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter posted;
    call_mark call;
    char data[SHM_EAGER];
} shm_short;

/* One rank's control memory for one group; written by that rank, except the counters of the group's first rank. It
 * is followed by SHM_RING payloads, then an outbox for every member, then for every member the number of messages
 * taken from it. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter arrived[SHM_RING];
    _Alignas(SHM_LINE) shm_counter passed[SHM_PHASES];
    shm_desc ring[SHM_RING];
    /* For short calls from one to all or from all to one: halves of the ring that this rank has finished; what it
     * posted. */
    _Alignas(SHM_LINE) shm_counter halves;
    uint64_t half_chains[SHM_HALVES]; /* the chain at the end of each, at its number % SHM_HALVES */
    shm_short shorts[SHM_SHORTS];
} shm_area;

/* A message's number + 1, its place, its count and type and, if it is short, its data. */
typedef struct {
    _Alignas(SHM_LINE) shm_counter posted;
    shm_place src;
    uint64_t shape;
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
    _Alignas(SHM_LINE) uint64_t area[TRINE_GROUPS]; /* offsets; 0: none */
    _Alignas(4096) char stage[2][SHM_STAGE];
} shm_head;

typedef struct {
    MPI_Win win;   /* MPI_WIN_NULL: memory of this rank alone */
    char *own;     /* NULL: the entry is free */
    size_t bytes;
    char **base;   /* (node size) the address of every rank's part */
} shm_window;

typedef struct shm_node {
    trine_world *world;
    MPI_Comm comm;
    int rank, size;
    int *members; /* (size) world ranks, ascending */
    size_t cache; /* bytes of the last-level cache */
    shm_window windows[SHM_WINDOWS];
    shm_window *control;
} shm_node;

typedef struct shm_state {
    shm_node *node;
    int *index;         /* (P) indices of the members in the node */
    shm_area **area;    /* (P) */
    void **dsts;        /* (P) destinations of an all-reduce */
    uint64_t calls;     /* collectives started */
    uint64_t full[SHM_RING]; /* the arrivals' counters when all have arrived with this rank's chain */
    uint64_t phase;     /* phases reached */
    /* An entry of the ring is free once the counter has this value; NULL: it is free. */
    struct {
        const shm_counter *counter;
        uint64_t target;
    } free_at[SHM_RING];
    uint64_t shorts;    /* short calls from one to all or from all to one that are finished */
    uint64_t half_free; /* the last half of their ring that was seen to be free */
    uint64_t *sent, *received;  /* (P) messages numbered so far */
    uint64_t *taken;            /* (P) of those sent, as last read */
    comm_request *first, *last; /* in progress, in the order of their start */
    trine_comm *comm;
    struct shm_state *next_busy;
    bool busy;
} shm_state;

/* ---- shm.c ----------------------------------------------------------------------------------- */

/* The place of a buffer of this rank. */
shm_place shm_find(const shm_node *node, const void *p, size_t bytes);
/* The address of the same place in the memory of the rank with this index in the node. */
void *shm_at(const shm_node *node, int index, shm_place place);
/* Bytes of control memory of a rank in groups of these sizes (0 or 1: none). Pure. */
size_t shm_control_bytes(const int sizes[TRINE_GROUPS]);
/* Lays out this rank's control memory; after a barrier of the node shm_attach finds it. */
void shm_layout(shm_node *node, const int sizes[TRINE_GROUPS]);
/* Attaches the shm state to `comm`, all of whose members are on the node. Errors: TRINE_ENOMEM. */
trine_status shm_attach(trine_comm *comm, shm_node *node);
void shm_detach(trine_comm *comm);

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* Returns when *counter has reached `target`. */
trine_status shm_await(shm_state *s, const shm_counter *counter, uint64_t target);
/* Wakes one member, or all except this rank, if they sleep. To be called after the store that they wait for. */
void shm_wake(const shm_state *s, int member);
void shm_wake_all(const shm_state *s);

/* The duration of a wait. */
typedef struct {
    unsigned polls;
    double waited; /* observed seconds */
} shm_patience;

/* Called after an unsuccessful look: spins, yields or sleeps until *counter may have reached `target`. NULL: only
 * MPI's progress can help. Errors: TRINE_EAUDIT if the group's ranks make different calls. */
trine_status shm_pause(shm_state *s, const shm_counter *counter, uint64_t target,
                       shm_patience *patience);

/* ---- call.c ---------------------------------------------------------------------------------- */

/* The forms of a call. All ranks derive the same form from the ring once all have arrived.
 *   PAYLOAD  short data lies in the ring; one arrival, no wait afterwards
 *   DIRECT   the buffers lie in windows and are read there, or written if every dst does, too
 *   STAGED   some buffer does not: all ranks copy through their staging memory, a segment at a time, in two halves,
 *            so that a segment is filled while the one before may still be read
 *   MPI      as STAGED, but some rank only starts the call and does other work (reductions: mpi/started.h): staging
 *            needs all ranks at once, and
 *            ranks that wait for two such calls in different orders would deadlock */
typedef enum { SHM_FORM_PAYLOAD, SHM_FORM_DIRECT, SHM_FORM_STAGED, SHM_FORM_MPI } shm_form;

/* Whether all have arrived at the call. Errors: TRINE_EAUDIT if their calls differ. */
trine_status shm_have_arrived(shm_state *s, uint64_t call, bool *arrived);
/* The counter of a call's arrivals, and its count when all have arrived; the same for phases. */
shm_counter *shm_arrivals(const shm_state *s, uint64_t call);
uint64_t shm_all_arrived(const shm_state *s, uint64_t call);
shm_counter *shm_passes(const shm_state *s, uint64_t phase);
uint64_t shm_all_passed(const shm_state *s, uint64_t phase);
/* Returns the phase that this rank has reached. */
uint64_t shm_pass(shm_state *s);
/* Passes, and waits for all ranks. */
trine_status shm_meet(shm_state *s);

/* Announces the next call: the places of src and dst (NULL: none). A short src is copied into the ring; src_bytes
 * is the same on all ranks. Waits while the ring is full. *call is the call's number. */
trine_status shm_announce(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                          size_t dst_bytes, bool waits, uint64_t *call);
/* This rank has finished the call: once all have reached its last phase, its entry in the ring is free. The entry
 * of a blocking call without a phase is freed when all announce the next call. */
void shm_finished(shm_state *s, uint64_t call);
/* The same for blocking calls: announce and wait for all; afterwards, if others may still read the caller's
 * buffers, wait until they have. */
trine_status shm_open_call(shm_state *s, const void *src, size_t src_bytes, const void *dst,
                           size_t dst_bytes, uint64_t *call);
trine_status shm_close_call(shm_state *s, uint64_t call, shm_form form);

/* Whether every member's src and dst can be accessed in place; the same on all ranks. */
bool shm_reachable(const shm_state *s, uint64_t call);
const shm_desc *shm_desc_of(const shm_state *s, int member, uint64_t call);
shm_form shm_form_of(const shm_state *s, uint64_t call, size_t bytes, bool dst_too);
/* For this rank: the address of a member's src (`bytes`, as announced) and dst; of a half of its staging
 * memory, SHM_STAGE bytes, alternating. */
const char *shm_src_of(const shm_state *s, int member, uint64_t call, size_t bytes);
char *shm_dst_of(const shm_state *s, int member, uint64_t call);
char *shm_stage(const shm_state *s, int member, uint64_t segment);

/* ---- short.c --------------------------------------------------------------------------------- */

/* Whether a call from one rank to all, or from all to one, with `bytes` from each sender is short. Pure, so that
 * all ranks choose alike. */
bool shm_is_short(size_t bytes);
/* From the root to all: the root posts src and continues, the others wait for it. To the root: the others post and
 * continue, the root waits for all. Then the ranks that waited may read what `member` posted, until
 * shm_short_end. */
trine_status shm_short_from(shm_state *s, const void *src, size_t bytes, int root);
trine_status shm_short_to(shm_state *s, const void *src, size_t bytes, int root);
const char *shm_short_of(const shm_state *s, int member);
void shm_short_end(shm_state *s);

/* ---- request.c ------------------------------------------------------------------------------- */

/* A request's state: complete; a message queued because the outbox is full; announced; read by this rank but not by
 * all; passed to MPI. */
enum { SHM_DONE, SHM_QUEUED, SHM_POSTED, SHM_LEFT, SHM_MPI };

void shm_enlist(shm_state *s, comm_request *r);
/* Forgets all requests of a group that cannot be used any more; nothing in a group without shared memory. */
void shm_abandon(trine_comm *comm);
/* Waits for the started collectives with numbers below `before`: collectives of a group finish in order. */
trine_status shm_finish_started(shm_state *s, uint64_t before);
/* dst (P, bytes) = every member's src of call r->number. */
void shm_copy_parts(const shm_state *s, const comm_request *r);

/* ---- shm_reduce.c ---------------------------------------------------------------------------- */

/* This rank's part of a started reduction of form payload or direct; all ranks have arrived. Never waits. */
void shm_reduce_part(shm_state *s, const comm_request *r, shm_form f);
/* Whether all destinations must be reachable. */
bool shm_reduces_to_all(const comm_request *r);

/* ---- message.c ------------------------------------------------------------------------------- */

/* Tries to advance one message; a complete one has the state SHM_DONE. */
trine_status shm_move_message(trine_comm *comm, comm_request *r);
/* The counter that a message waits for; NULL: it waits for MPI. */
const shm_counter *shm_message_counter(trine_comm *comm, const comm_request *r, uint64_t *target);

/* ---- The table: move.c, shm_reduce.c, request.c, message.c ------------------------------------ */

extern const comm_transport shm_transport;

#define SHM(function, takes, names) trine_status shm_##function takes;
TRANSPORT_CALLS(SHM)
#undef SHM

/* ---- Inside the control memory --------------------------------------------------------------- */

static inline bool shm_reached(const shm_counter *counter, uint64_t target) {
    uint64_t value = atomic_load_explicit(counter, memory_order_acquire);
    return (int32_t)((uint32_t)value - (uint32_t)target) >= 0;
}

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
    return (char *)(s->area[member] + 1) + call % SHM_RING * shm_payload_bytes(s->comm->size);
}

static inline shm_outbox *shm_outbox_of(const shm_state *s, int from, int to) {
    char *behind = (char *)(s->area[from] + 1) + SHM_RING * shm_payload_bytes(s->comm->size);
    return (shm_outbox *)behind + to;
}

/* The number of messages that `by` has taken from `from`. */
static inline shm_counter *shm_taken_of(const shm_state *s, int by, int from) {
    return &((shm_taken *)(shm_outbox_of(s, by, s->comm->size)))[from].count;
}

#endif
