/* The inside of a world, for the files of this room. */
#ifndef TRINE_COMM_GROUP_WORLD_H
#define TRINE_COMM_GROUP_WORLD_H

#include "comm/api/comm.h"

#define HOST_BYTES 64

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
    void (*look)(void *context); /* nccl/gpu.c's, for waits of every kind; NULL: there is nothing to see */
    void *look_context;
    char no_nccl[NO_NCCL]; /* nccl/gpu.c's: why groups that want NCCL go without; "": they have it */
};

/* "rank 5 [pp1 dp0 tp1] on host7", or without the place when there is no mesh. */
void world_place(const trine_world *world, int rank, char *text, size_t size);

#endif
