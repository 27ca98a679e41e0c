/* The board: where every rank of this node is, written by each rank and read by whoever has waited too
 * long, or by the thread that stands in for one that cannot look (watch.h). It lies in /dev/shm, is there
 * before MPI is, and costs a rank a few stores a call. Its name goes as soon as all ranks have come, so
 * that no end of a job leaves it behind, but for one that is killed before; whoever makes the next board
 * removes those whose processes are gone.
 *
 * Ranks find each other by what the launcher's environment says (Open MPI, PMIx, PMI of MPICH and of
 * Slurm). Where it says nothing, where /dev/shm has no room, or somebody else has the place, a rank has
 * a board of its own: the messages then know less, and nothing else changes.
 *
 * Invariant: a slot is written by its own process alone, and a reader never waits for it: a rank that was
 * stopped while it wrote is shown as it was, its texts cut at their ends. Nothing here calls MPI. */
#ifndef TRINE_COMM_WATCH_BOARD_H
#define TRINE_COMM_WATCH_BOARD_H

#include "trine.h"

#define PLACE_HOST  64
#define PLACE_CALL  32
#define PLACE_DOING 64
#define PLACE_FILE  128
#define PLACE_WORDS 10

/* Where a rank is. */
typedef struct {
    int32_t rank, size; /* in the job; size 0: nobody has written here */
    int32_t pid;
    uint64_t start; /* of the process, in clock ticks since the node's boot: with pid, its name */
    uint64_t pids;  /* the namespace in which pid is one */
    char host[PLACE_HOST];
    int32_t meshed; /* whether coord says something */
    int32_t coord[TRINE_AXES];

    char call[PLACE_CALL]; /* MPI's call that this rank is blocked in; "": it is in none */
    int32_t calls;         /* such calls begun so far */
    char doing[PLACE_DOING];   /* outside of a program: "saving a checkpoint"; "": nothing is said */
    int32_t at, count;         /* instruction `at` of `count`; count 0: in no program */
    int32_t words[PLACE_WORDS]; /* the instruction */

    int32_t kind, type; /* trine_tally_kind and trine_dtype of the last communication */
    int32_t group;      /* trine_group; -1: there was none yet */
    int32_t members, first, stride; /* world ranks of the group; stride 0: they are not evenly apart */
    int32_t peer;       /* world rank; -1: the kind has none */
    uint64_t elements, number; /* number: of the call in its group, from 1 */
    double waited;      /* seconds in its wait, so far */

    char file[PLACE_FILE]; /* "fsync of run/..." that this rank waits for; "": it waits for no file */
    double file_waited;    /* seconds in that */
} rank_place;

/* What can be said of a rank whose place was looked at for a while, from what it did meanwhile. */
#define RANK_STATE_LIST(X)                                                                         \
    X(RANK_STOPPED) /* by a signal, or a debugger */                                               \
    X(RANK_ENDED)   /* its process is gone */                                                      \
    X(RANK_ABSENT)  /* it never came, or nobody answers for it */                                  \
    X(RANK_STILL)   /* its process does not run: frozen, or swapped out */                         \
    X(RANK_RUNS)    /* it is in no communication */                                                \
    X(RANK_FILES)   /* it waits for the file system, and answers */                                \
    X(RANK_WAITS)   /* it waits for others */

typedef enum {
#define RANK_STATE_ENUM(name) name,
    RANK_STATE_LIST(RANK_STATE_ENUM)
#undef RANK_STATE_ENUM
    RANK_STATES
} rank_status;

/* One rank as it was found. */
typedef struct {
    rank_place at;
    int32_t state; /* rank_status */
    int32_t moved; /* whether it came to another place meanwhile */
} sighting;

/* ---- This process's slot --------------------------------------------------------------------- */

/* Takes this process's slot. May be called again; each call wants its board_leave. Not collective. */
void board_join(void);
void board_leave(void);

/* Between these the caller, the process's main thread, changes the place. Readers see all of it or
 * nothing. */
rank_place *board_write(void);
void board_written(void);

/* A sign of life: of the process, by the thread; of a wait, by whoever is in it. */
void board_beat(void);
void board_look(void);

/* ---- The board ------------------------------------------------------------------------------- */

/* What tells this board from others; the same on all ranks that share it. Pure. */
uint64_t board_token(void);
/* Ranks that the launcher has started on this node; 0: it does not say. */
int board_expected(void);
/* This process's rank in the job, which is the launcher's until MPI has said it. Pure. */
int board_rank(void);
/* MPI has said who this is. */
void board_settle(int rank, int size);
/* All have come: takes the board's name away. */
void board_seal(void);

/* Looks at all slots for `seconds`, and puts those that somebody has written into *all (*count, owned by
 * the caller), in the order of ranks. `self` is what the caller's own state is. False without memory. */
bool board_sight(double seconds, rank_status self, sighting **all, int *count);

/* Of the ranks of a board that have waited too long at about the same time one speaks. True: it is this one,
 * until board_yield. */
bool board_speak(void);
void board_yield(void);
/* Whether one of them speaks. */
bool board_spoken(void);
/* Whether this rank is the first of its board to take up an alarm of this number (not 0). */
bool board_answers(uint64_t alarm);

#endif
