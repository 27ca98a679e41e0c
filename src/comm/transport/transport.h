/* The inside of a communicator: what every file of the room knows about groups, the world and the
 * transport table. Nothing outside src/comm includes it.
 *
 * A transport moves bytes; it knows neither types nor additions. self.c copies (groups of one),
 * mpi.c sends. Two shapes of movement: whole operations (broadcast, gather, ...), and posted
 * messages, of which any number to and from distinct peers are made and then flushed together; the
 * ordered reductions are written once, over posts. A transport that can do better puts its own
 * reduction into the table.
 *
 * Invariant: comm.c has checked every argument; a transport is called with legal ones, on all ranks
 * of the group alike. Between two flushes a peer is posted to at most once and from at most once.
 * Cost: one indirect call. Nothing here allocates after creation, but for MPI's own requests and
 * the datatypes of messages above the message limit. */
#ifndef TRINE_COMM_TRANSPORT_TRANSPORT_H
#define TRINE_COMM_TRANSPORT_TRANSPORT_H

#include "comm/api/comm.h"

#define HOST_BYTES 64
#define NO_PEER    (-1)

typedef struct {
    const char *name;
    trine_status (*broadcast)(trine_comm *comm, void *buf, size_t bytes, int root);
    /* part: bytes that one rank holds of the whole */
    trine_status (*scatter)(trine_comm *comm, void *dst, const void *src, size_t part, int root);
    trine_status (*gather)(trine_comm *comm, void *dst, const void *src, size_t part, int root);
    trine_status (*all_to_all)(trine_comm *comm, void *dst, const void *src, size_t part);
    trine_status (*barrier)(trine_comm *comm);

    trine_status (*all_reduce)(trine_comm *comm, void *dst, const void *src, size_t count,
                               trine_dtype type, trine_reduction op);
    trine_status (*reduce)(trine_comm *comm, void *dst, const void *src, size_t count,
                           trine_dtype type, trine_reduction op, int root);
    trine_status (*reduce_scatter)(trine_comm *comm, void *dst, const void *src, size_t count,
                                   trine_dtype type, trine_reduction op);

    /* These return at once; the request is for wait, its last fields are the transport's. A wait
     * for a receive checks its `bytes`. */
    trine_status (*all_gather_start)(trine_comm *comm, void *dst, const void *src, size_t part,
                                     comm_request *request);
    trine_status (*send_start)(trine_comm *comm, const void *buf, size_t bytes, int peer,
                               comm_request *request);
    trine_status (*recv_start)(trine_comm *comm, void *buf, size_t bytes, int peer,
                               comm_request *request);
    trine_status (*wait)(trine_comm *comm, comm_request *request);
    trine_status (*wait_received)(trine_comm *comm, comm_request *request, size_t bytes);

    /* Posted messages; NULL in a transport that has no peers. Messages of 0 bytes are not sent. */
    trine_status (*post_send)(trine_comm *comm, const void *buf, size_t bytes, int peer);
    trine_status (*post_recv)(trine_comm *comm, void *buf, size_t bytes, int peer);
    trine_status (*flush)(trine_comm *comm);

    void (*destroy)(trine_comm *comm);
} comm_transport;

extern const comm_transport self_transport;
extern const comm_transport mpi_transport;
extern const comm_transport shm_transport;

/* What a choice of trine_world_transport means. */
typedef struct {
    const comm_transport *messages; /* of groups that share no memory */
    bool shares; /* ranks of a node read each other's memory where they can */
} transport_row;

/* group.c: the row of a choice, never NULL. A transport of one's own is a row in TRINE_TRANSPORT_LIST, one there,
 * and a file with its table. Pure. */
const transport_row *transport_of(trine_transport choice);

/* One call as the user made it: what is checked, tallied, audited and, if it hangs, reported. */
typedef struct {
    trine_tally_kind kind;
    size_t count;
    trine_dtype type;
    trine_reduction op; /* reductions only */
    int peer;           /* root or peer in the group, or NO_PEER */
} comm_call;

struct trine_comm {
    const comm_transport *transport;
    trine_world *world; /* not owned */
    trine_group group;
    int rank, size;
    int *members; /* (size) world ranks, ascending */
    int stride;   /* between them; 0: they are not evenly apart */
    uint64_t calls; /* so far, messages included: the same number on all ranks of a collective */
    void *state;  /* mpi.c's; NULL in a group of one */
    struct shm_state *shm; /* shm.c's; NULL when the group does not share a node */
    struct nodes_state *nodes; /* nodes.c's; NULL but in a group over several nodes */
    trine_tally tally[TRINE_TALLY_KINDS];
    comm_clock *clock; /* while it times this group: `transport` is its table then */
    struct comm_far *far; /* far.c's; NULL: no buffer of the group is far */
    const struct comm_nccl *nccl; /* gpu.c's: far buffers go this way; NULL: they are staged */
    struct nccl_group *nccl_group;
    struct comm_gpus *gpus; /* gpu.c's, in the dp group of a mesh */
};

/* What every rank knows of every other. */
typedef struct {
    char name[HOST_BYTES];
    int32_t pid;
    int32_t job;    /* its rank in MPI's world, which is that of its place */
    uint64_t board; /* what tells its board from others (board.h) */
} comm_host;

#define NO_NCCL 512

struct trine_world {
    int rank, size;
    bool finalise; /* we initialised MPI */
    bool watched;  /* has started the watch, and ends it */
    bool audit;
    trine_transport choice; /* how groups are made from now on */
    size_t expected;        /* comm_expect */
    int64_t position;     /* comm_position */
    double timeout;       /* seconds; 0 is for ever */
    double io_timeout;    /* of one call of the file system */
    double looked;        /* watchdog_check's last look */
    trine_tally_kind noted; /* of the call under way (watchdog_note) */
    uint64_t alarm;       /* the last one that this rank has sent */
    uint64_t called_off;  /* and called off */
    size_t message_limit; /* bytes */
    trine_comm *comm;     /* TRINE_WORLD */
    trine_layout layout;  /* of the last mesh made; zeros before one */
    comm_host *hosts;     /* (size) */
    const char **names;   /* (size) into hosts */
    char *scratch;        /* (comm_scratch_bytes(size)) addends of the ordered reductions */
    const void **addends; /* (size) where each rank's addend lies */
    int mpi_pending;           /* requests that only MPI's own progress can finish */
    struct shm_state *shm_busy; /* groups with requests under way in shared memory */
    void *watchdog; /* the watchdog's own communicator; NULL in a world of one */
    int *told;      /* (size) messages that this rank has sent to each on it */
    int heard;      /* and has received */
    void (*look)(void *context); /* gpu.c's, for waits of every kind; NULL: there is nothing to see */
    void *look_context;
    char no_nccl[NO_NCCL]; /* gpu.c's: why groups that want NCCL go without; "": they have it */
};

/* group.c: a communicator over members (n, ascending world ranks, this rank among them). `state` is
 * the MPI communicator that mpi_split or mpi_duplicate made, NULL for a group of one; the
 * communicator owns it from here on, also when this fails. Not collective. */
trine_status group_create(trine_comm **comm, trine_world *world, trine_group group,
                          const int *members, int n, void *state);
void group_destroy(trine_comm **comm);

/* mpi.c */
/* The state for a group that shares `color` (< 0: for none, *state is NULL), ordered by world rank.
 * Collective over: world. */
trine_status mpi_split(trine_world *world, int color, void **state);
/* The state for a new communicator over all of MPI's ranks. Collective over: world. */
trine_status mpi_duplicate(void **state);
/* Whether the request is done; if so it needs no wait any more. */
trine_status mpi_test(trine_comm *comm, comm_request *request, bool *done);
/* As the table's send_start and recv_start, for the pieces of a transport's own algorithm: they
 * never meet a message of the user's. mpi_transport.wait ends them. Not collective. */
trine_status mpi_piece_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                            comm_request *request);
trine_status mpi_piece_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                            comm_request *request);
/* The same for buffers in a GPU's memory, which MPI must be able to reach; they meet neither. */
trine_status mpi_gpu_send(trine_comm *comm, const void *buf, size_t bytes, int peer,
                          comm_request *request);
trine_status mpi_gpu_recv(trine_comm *comm, void *buf, size_t bytes, int peer,
                          comm_request *request);
/* Whether MPI says that it is CUDA-aware: it sends from GPUs' memory and receives there. */
bool mpi_reaches_gpus(void);
/* The lowest world rank on this rank's node. Collective over: world. */
trine_status mpi_node_leader(trine_world *world, int *leader);
void mpi_free(void **state);

/* tally.c */
void tally_count(trine_comm *comm, const comm_call *call);
bool tally_kind_has_root(trine_tally_kind kind);

/* audit.c: compares `call` over the group; one all-gather. Collective over: comm. */
trine_status audit_compare(trine_comm *comm, const comm_call *call);

/* far.c: whether the host may read what lies at p; the table behind far.c's own. */
bool far_is_host(const trine_comm *comm, const void *p);
const comm_transport *far_inner(const trine_comm *comm);

/* direct.c: the table of a group whose far buffers NCCL moves. */
comm_transport direct_table(const comm_transport *inner);

/* watchdog.c */
/* Notes the call that this rank may wait in from now on, the last of its group or another one. */
void watchdog_note(const trine_comm *comm, const comm_call *call);
void watchdog_note_number(const trine_comm *comm, const comm_call *call, uint64_t number);
/* Notes this rank's place in the mesh that was made last. */
void watchdog_note_mesh(const trine_world *world);
/* Called from inside a wait now and then; *waited is 0 when the wait starts, and the seconds that were
 * watched of it. Does not return when the wait has become too long and no rank is found that waits for
 * its file system. */
void watchdog_check(trine_world *world, double *waited);
/* The same after each poll of a wait, the first of which is number 1: looks at every 32nd and, where a poll
 * is long, because it yields and others have the processor, every 20 ms. */
void watchdog_polled(trine_world *world, unsigned polls, double *waited);

/* Of ranks that fail at about the same time (all ranks of a tp group read the same bad token, say)
 * the first to come speaks, or the lowest of those who come together; it returns true there. False
 * elsewhere, after a time in which that rank should have ended the job. Not collective. */
bool watchdog_speaks(const trine_world *world);
/* Receives what others have told this rank and it has not looked at, and returns when all have: a communicator
 * is freed without messages in it (MPICH 5 ends the job otherwise). Collective over: world. */
void watchdog_leave(trine_world *world);

/* world.c: ends every process of the job with status 1. */
_Noreturn void world_end(void);
/* Ends this process only, for a rank that has given the one that ends the job time to do so: two
 * MPI_Aborts of one job at once made Open MPI's mpirun crash or hang in its own clean-up. A
 * launcher ends a job whose rank exits with 1, so this is the second way out as well. */
_Noreturn void world_leave(void);

/* "rank 5 [pp1 dp0 tp1] on host7", or without the place when there is no mesh. */
void world_place(const trine_world *world, int rank, char *text, size_t size);

const char *comm_dtype_text(trine_dtype type);

#endif
