/* The board: the state of every rank of this node, written by each rank and read by a rank that has waited too
 * long, or by the watch thread of a rank that is blocked (watch.h). It lies in /dev/shm, exists before MPI is
 * initialised, and costs a rank a few stores a call. Its name is removed as soon as all ranks have joined, so that
 * no job leaves it behind, unless it is killed before. The ranks of a caller's communicator, which others of the job
 * may not be in, have a board of their own from the moment on that they have agreed on their world's number
 * (board_move), and its name is removed as soon.
 *
 * A process has its board locked (flock, shared) until it ends, however it ends. So a board that can be locked
 * exclusively is of a job that is gone, whatever it contains: the next start removes it, and says so. That costs an
 * open and a lock for each, and a start gives a second to it at most.
 *
 * Ranks find each other through the launcher's environment (launch.h). If the environment has no such variables,
 * /dev/shm is full, or another process holds the slot, a rank uses a private board: reports then know less, and
 * nothing else changes.
 *
 * Invariant: a slot is written only by its own process, and a reader never waits for it: a rank that was stopped
 * during a write is shown as it was, with texts terminated. Nothing here calls MPI. */
#ifndef TRINE_COMM_WATCH_BOARD_H
#define TRINE_COMM_WATCH_BOARD_H

#include "trine_types.h"

#define PLACE_HOST  64
#define PLACE_CALL  32
#define PLACE_DOING 64
#define PLACE_FILE  128
#define PLACE_WORDS 11

/* The state of a rank. */
typedef struct {
    int32_t rank, size; /* in the job, or in the world of `world`; size 0: the slot is unused */
    uint64_t world; /* 0: none yet, or all processes of the job; else a number that the ranks of a caller's
                       communicator have in common. That of the last communication, if this process is in several */
    int32_t pid;
    uint64_t start; /* of the process, in clock ticks since the node's boot: identifies it together with pid */
    uint64_t pids;  /* the pid namespace of pid */
    char host[PLACE_HOST];
    int32_t meshed; /* whether coord is set */
    int32_t coord[TRINE_AXES];

    char call[PLACE_CALL]; /* the blocking MPI or NCCL call that this rank is in; "": none */
    int32_t calls;         /* blocking calls so far */
    char doing[PLACE_DOING];   /* outside of a program: "saving a checkpoint"; "": not set */
    int32_t at, count;         /* instruction `at` of `count`; count 0: in no program */
    int32_t words[PLACE_WORDS]; /* the instruction */

    int32_t kind, type; /* trine_tally_kind and trine_dtype of the last communication */
    int32_t group;      /* trine_group; -1: no communication yet */
    int32_t members, first, stride; /* world ranks of the group; stride 0: not evenly spaced */
    int32_t peer;       /* world rank; -1: the kind has none */
    uint64_t elements, number; /* number: of the call in its group, from 1 */
    double waited;      /* seconds in the current wait */

    char file[PLACE_FILE]; /* the file-system call that this rank waits for, "fsync of run/..."; "": none */
    double file_waited;    /* seconds in that call */

    uint64_t kept; /* bytes of board_keep; 0: none */
} rank_place;

/* The status of a rank, from two looks at its slot. */
#define RANK_STATE_LIST(X)                                                                         \
    X(RANK_STOPPED) /* by a signal or a debugger */                                                \
    X(RANK_EXITED)  /* its process is gone */                                                      \
    X(RANK_ABSENT)  /* it never joined, or its node does not answer */                             \
    X(RANK_STILL)   /* its process does not run: frozen or swapped out */                          \
    X(RANK_RUNS)    /* it is not communicating */                                                  \
    X(RANK_FILES)   /* it waits for the file system, and answers */                                \
    X(RANK_WAITS)   /* it waits for other ranks */

typedef enum {
#define RANK_STATE_ENUM(name) name,
    RANK_STATE_LIST(RANK_STATE_ENUM)
#undef RANK_STATE_ENUM
    RANK_STATES
} rank_status;

/* The observed state of one rank. */
typedef struct {
    rank_place at;
    int32_t state; /* rank_status */
    int32_t moved; /* whether its place changed between the two looks */
} sighting;

/* ---- This process's slot --------------------------------------------------------------------- */

/* Takes this process's slot, in the board of the job. May be called again; each call needs its board_leave. Not
 * collective. */
void board_join(void);
void board_leave(void);
/* Asks the launcher's environment which rank of how many this is, which board_join does, too: for board_expected and
 * board_may_say before it. Not collective. */
void board_ask(void);
/* Takes a slot in the board of this world instead (a number that its ranks have in common), and leaves the job's,
 * whose name it removes: whoever of other worlds joins later has another, as on another node. Nothing if the process
 * has joined more than once, or has a private board. No other thread may use the board meanwhile. Not collective. */
void board_move(uint64_t world);
/* Whether this process has begun to leave (board_begin_leaving) the last of the worlds that it has joined. From any
 * thread. */
void board_begin_leaving(void);
bool board_is_leaving(void);

/* Between these two the caller, the process's main thread, changes its place. Readers see all of the changes or
 * none. */
rank_place *board_write(void);
void board_written(void);

/* Signs of life: of the process, from the watch thread; of a wait, from the waiting thread. */
void board_beat(void);
void board_look(void);

/* ---- The board ------------------------------------------------------------------------------- */

/* Identifies this board; the same on all ranks that share it. Pure. */
uint64_t board_token(void);
/* Number of ranks that the launcher has started on this node; 0: unknown. */
int board_expected(void);
/* This process's rank in the job: the launcher's, until board_set_rank. Pure. */
int board_rank(void);
/* Sets the rank and size that MPI has reported, and the world that they are in. */
void board_set_rank(int rank, int size, uint64_t world);
/* A random number other than 0, for a world. */
uint64_t board_random(void);
/* All ranks have joined, or will not find it: removes the board's name. */
void board_seal(void);

/* Observes all slots for `seconds`, and returns those in use in *all (*count, owned by the caller), in rank order.
 * `self` is the caller's own status. False without memory. */
bool board_observe(double seconds, rank_status self, sighting **all, int *count);

/* Of the ranks of a board that time out at about the same time, one reports. True: it is this one, until
 * board_release_report. */
bool board_claim_report(void);
void board_release_report(void);
/* Whether a rank of this board reports. */
bool board_has_reporter(void);
/* Of the ranks of a board that want to say the same (`word`, 0 to 30) because each has received a signal, the first
 * may, also before board_join, after board_ask. After board_hush none may: a rank aborts the job, and the launcher
 * signals the others. From any thread. */
bool board_may_say(int word);
void board_hush(void);
/* Whether this rank is the first of its board to answer the alarm of this number (not 0). */
bool board_claim_answer(uint64_t alarm);

/* ---- Memory that outlives its process (api/observe.h) ------------------------------------------ */

/* `bytes` zeroed bytes in the board's file, behind the slots; NULL: this board is private, /dev/shm has no room, or
 * this process has some already. Not collective. */
void *board_keep(size_t bytes);
/* False if p is not from board_keep. */
bool board_keep_free(void *p);
/* Calls `each` for those of all ranks of this process's world, with their places; `gone`: the process has ended. From
 * any thread. */
void board_kept_each(void (*each)(void *context, const rank_place *at, bool gone, const void *p, size_t bytes),
                     void *context);
/* Whether the next rank of this process's world on this board, in a ring of them, has ended without board_leave; its
 * place. From one thread, after board_seal. Cost: a look at its slot, and into /proc. */
bool board_neighbour_gone(rank_place *at);
/* Of the ranks of a board that want to write a file for it within two seconds, one may. From any thread. */
bool board_claim_file(void);

#endif
