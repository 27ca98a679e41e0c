/* What a recorder of a run needs of the groups (trace/trace.h): being told of each call, memory that outlives its
 * process, the difference of two ranks' clocks, and being asked for its last words when a job ends. */
#ifndef TRINE_COMM_API_OBSERVE_H
#define TRINE_COMM_API_OBSERVE_H

#include "comm/api/comm.h"

/* ---- Calls ---- */

/* A call of a group of several ranks. */
typedef enum {
    COMM_CALL_WHOLE, /* a blocking one */
    COMM_CALL_START, /* the start of one that a wait ends */
    COMM_CALL_WAIT
} comm_call_part;

typedef struct {
    trine_group group;
    trine_tally_kind kind;
    size_t bytes;    /* of the elements that the caller named */
    int peer;        /* world rank of the root, or of a message's other end; -1: none */
    uint64_t number; /* of a message: among those from its sender to its receiver in the group, the same on both
                        sides; else of the call in its group */
    comm_call_part part;
} comm_called;

typedef struct {
    void *context;
    void (*begins)(void *context, const comm_called *call);
    void (*ends)(void *context); /* that which began last */
} comm_observer;

/* From now on *o, and no other, is told of the calls of all groups of this world; *o is borrowed until
 * comm_observe_end, which does nothing if another has come. Calls within calls, and those of no elements, are not
 * told. Cost: a comparison a call without an observer. Not collective. */
void comm_observe(trine_world *world, const comm_observer *o);
void comm_observe_end(trine_world *world, const comm_observer *o);

/* The lane that the rank at the other end of a lane knows by another name; another group: itself. Pure. */
trine_group comm_other_name(trine_group group);

/* ---- Memory that outlives its process ---- */

/* `bytes` zeroed bytes that the processes of this node can read until the last of them is gone, however this one
 * ends: in /dev/shm, without a name (watch/board.h). *shared = false: private memory, since this process's launcher
 * is unknown, /dev/shm has no room, or the process has such memory already. NULL: there is no memory. Freed by
 * comm_keep_free. Not collective. */
void *comm_keep(size_t bytes, bool *shared);
void comm_keep_free(void *p);
/* Calls `each` for the shared memory of each rank of this node, by its rank in the job; `gone`: its process has
 * ended. From any thread. Not collective. */
typedef void (*comm_kept)(void *context, int rank, bool gone, const void *p, size_t bytes);
void comm_kept_each(comm_kept each, void *context);

/* ---- Clocks ---- */

/* *ns = this rank's clock_ns less rank 0's at one moment, from at most `rounds` messages there and back between the
 * two, of which the fastest counts: it was on its way for 2 *error, so the truth is at most *error away. Both are 0
 * where the two read one clock (a machine's, in one time namespace). Errors: the messages' own. Collective over:
 * world. */
trine_status comm_clock_offset(trine_world *world, int rounds, int64_t *ns, uint64_t *error);

/* ---- The end of a job ---- */

/* Writes what it knows about the last moments of this node's ranks; text = where it is, or why not. False: another
 * rank of the node does it. `why` is a word: "timeout". From any thread. */
typedef bool (*comm_last_words)(void *context, const char *why, char *text, size_t size);
/* One a process, the one that came last, until comm_on_end_no_more of its context, which returns when a call in
 * progress has ended. */
void comm_on_end(comm_last_words write, void *context);
void comm_on_end_no_more(const void *context);
/* Calls it; COMM_LAST_NONE: there is none, and text is "". Reports of a wait that lasts too long do,
 * trine_abort, and the rank whose neighbour on the node has ended. From any thread. */
typedef enum { COMM_LAST_NONE, COMM_LAST_ELSEWHERE, COMM_LAST_OWN } comm_last;
comm_last comm_write_last(const char *why, char *text, size_t size);
/* What stands below the report of such an end, on the rank that reports it: "to go on from step 500: ..."; at most
 * COMM_WAY_ON bytes of it. NULL: nothing. State of the process: the context that came last, which alone can take its
 * text back. From any thread. */
#define COMM_WAY_ON 300
void comm_way_on(const void *context, const char *text);
/* Of this node's ranks that want to write within two seconds, one may. From any thread. */
bool comm_may_write(void);
/* This job ends by a signal to all of it: from now on no rank of this node says that another is gone, and no
 * comm_may_say is true. From any thread. */
void comm_hush(void);
/* The name of this node in the names of files: its host's, with its lowest rank behind it ("host7-r4") where another
 * node of the world has the same host name. */
void comm_node_name(const trine_world *world, char *name, size_t size);
/* A number that this world's ranks have in common with no other job of rank 0's host: the number of its process. */
int comm_job_number(const trine_world *world);

#endif
