/* The internals of a world, for this module. */
#ifndef TRINE_COMM_GROUP_WORLD_H
#define TRINE_COMM_GROUP_WORLD_H

#include "comm/api/comm.h"
#include "comm/api/observe.h"

#define HOST_BYTES   64
#define COMM_NOWHERE (-1)

/* What every rank knows about every other. */
typedef struct {
    char name[HOST_BYTES];
    int32_t pid;
    int32_t job;    /* its trine_world.job, as in its rank_place */
    uint64_t board; /* the token of its board (board.h) */
} comm_host;

#define NO_NCCL 512

struct trine_world {
    int rank, size;
    int job, job_size; /* rank and size in the world that trine_world_create has made, of which this may be a part */
    uint64_t id;       /* of that world, as in a rank_place; 0: all processes of the job */
    void *origin;      /* its duplicate of the caller's communicator; NULL: all processes of the job */
    bool owns_origin;  /* false in a part */
    bool finalise; /* we initialised MPI */
    int thread;    /* which alone may call MPI, and so the world's functions; 0: any, one at a time */
    bool watched;  /* has called watch_start */
    bool audit;        /* the trainer's: comm_audit */
    bool audit_wanted; /* the caller's: trine_world_audit */
    trine_transport choice; /* for groups that are made from now on */
    size_t expected;        /* comm_expect */
    int64_t position;     /* of the instruction in its program; COMM_NOWHERE: outside of programs */
    double timeout;       /* seconds; 0: no limit */
    double io_timeout;    /* of one file-system call */
    double looked;        /* time of watchdog_check's last look */
    trine_tally_kind noted; /* of the current call (watchdog_note) */
    uint64_t alarm;       /* the last alarm that this rank has sent */
    uint64_t called_off;  /* and cancelled */
    size_t message_limit; /* the most bytes that MPI may count in an int: a longer message is one element of a derived
                             datatype of segments of this size. Tests lower it */
    trine_comm *comm;     /* TRINE_WORLD */
    trine_comm *groups;   /* all of several ranks, the last one made first */
    int32_t meshes;       /* made so far */
    trine_layout layout;  /* of the last mesh made; zeros before */
    comm_host *hosts;     /* (size) */
    const char **names;   /* (size) into hosts */
    bool crowded;         /* more ranks on this one's host than processors */
    char *scratch;        /* (comm_scratch_bytes(size)) addends of the ordered reductions */
    const void **addends; /* (size + 1) address of each rank's addend, and of one before them */
    char *arrivals;       /* (arrival_bytes) the same, of the started reduction that moves */
    size_t arrival_bytes; /* comm_arrival_bytes of the last mesh made; before, of groups of one */
    struct started_reduction *started; /* transport/mpi/started.c's */
    int mpi_pending;           /* requests that complete only through MPI's own progress */
    struct shm_state *shm_busy; /* groups with requests in progress in shared memory */
    trine_status (*shm_move)(trine_world *world); /* moves those; set before there are any */
    void *watchdog; /* the watchdog's own communicator; NULL in a world of one */
    int *told;      /* (size) messages sent to each rank on it */
    int heard;      /* and received */
    struct match_room *shown; /* watch/match.c's: copies of this rank's calls on their way to others */
    bool leaves;    /* in trine_world_destroy: nothing is sent any more */
    void (*look)(void *context); /* mesh/gpu.c's, called from every wait; NULL: nothing to check */
    void *look_context;
    const comm_observer *observer; /* comm_observe; NULL: none */
    char no_nccl[NO_NCCL]; /* mesh/gpu.c's: why groups run without NCCL; "": they use it */
};

/* Lets others have the processor, in a wait that has done so `vain` times before: yields, and sleeps for a moment
 * if that has not helped on a host with more ranks than processors: a rank that only yields is soon run again, before
 * one that computes has had its share. */
void world_give_way(const trine_world *world, unsigned vain);

/* "rank 5 [pp1 dp0 tp1] on host7 (pid 123)"; without the coordinate if there is no mesh. */
void world_place(const trine_world *world, int rank, char *text, size_t size);

#endif
