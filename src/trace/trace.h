/* The recorder of a run: when each instruction, wait, collective and message of a step began and ended.
 *
 *   exec (observer) --+                 +--> the ring: the last two programs of each rank, in memory of the node that
 *   groups (comm_observer) --> a record -+    outlives the rank (comm_keep); ring_file.c writes a node's file
 *                                       +--> with --trace: a copy of each traced step; trace_file.c writes one file
 *                                             of all ranks, on rank 0's clock
 *
 * A record has the times of a program's instructions, indexed by their position, and its calls of groups in their
 * order. The instructions themselves are not recorded: every rank has the programs of all stages. A record is written
 * where it stays, so a rank that is killed or stopped in an instruction leaves a record that shows it: times that are
 * still 0. The ring has two records, and a program takes them in turn; evaluations are programs, too.
 *
 * Room follows from the program (trace_room_of): a time for each instruction, and calls for each by its kind. Calls
 * of a group beyond the room of the instructions so far are added to the last one in the same instruction, so no time
 * is lost; messages of the pipeline have room for each. The ring has at most TRACE_RING_INSTRUCTIONS and
 * TRACE_RING_CALLS of a program, the last ones; where steps are traced, all.
 *
 * Clocks. A traced step's times are those of the rank's own clock. Before the first and after the last traced step
 * the difference to rank 0's clock is measured (comm_clock_offset), and is linear in between; the larger error of
 * the two stands in the file. The ring has the difference measured when the trainer was made.
 *
 * The files are JSON of the "trace event format" that ui.perfetto.dev and chrome://tracing read (event.h).
 *
 * Invariant: the bits of a run do not depend on it; a step allocates nothing. Cost: two readings of the clock for
 * each instruction and each call of a group. A GPU's instructions are recorded as the host sees them, which only
 * starts them. */
#ifndef TRINE_TRACE_TRACE_H
#define TRINE_TRACE_TRACE_H

#include <stdatomic.h>

#include "comm/api/observe.h"
#include "core/program.h"

/* ---- Records ----------------------------------------------------------------------------------- */

/* Of an instruction, which began when the one before it ended. 0: not yet. At program->count: the wait for this
 * rank's last sends. */
typedef struct {
    _Atomic uint64_t waited, ended; /* ns of this rank's clock: its operands were there; it was done */
} trace_time;

/* A call of a group. */
typedef struct {
    uint64_t began;
    _Atomic uint64_t ended; /* 0: not yet */
    uint64_t number, bytes; /* comm_called's */
    int32_t at;             /* the instruction in which it was made */
    int32_t peer;
    uint16_t calls; /* that were added up; 1: one */
    uint8_t group, kind, part; /* part: comm_call_part */
} trace_call;

/* Records of a program. */
typedef struct {
    int64_t times, calls;
} trace_room;

/* A program's record; trace_room.times times and trace_room.calls calls lie behind it, of which a later one
 * overwrites the one that is as many places before. */
typedef struct {
    int64_t step;         /* 0: nothing yet. Of an evaluation: the step before it */
    uint64_t began, ended; /* ended 0: it runs */
    int64_t calls;         /* so far */
    int32_t evaluates, count; /* count: of its instructions */
    _Atomic int32_t at;       /* the one in progress; count: the last sends, also when it has ended */
} trace_step;

#define TRACE_RING_INSTRUCTIONS (1 << 15)
#define TRACE_RING_CALLS        (1 << 16)
#define TRACE_CALLS_BESIDE      64 /* of a program, beside those of its instructions */

/* Of a stage's training program, and the part of it that a record has: all of it where steps are traced, else at most
 * TRACE_RING_... of each. Pure. */
trace_room trace_room_of(const program *p, trine_layout layout);
trace_room trace_room_kept(trace_room all, bool traced);
/* What trace_create takes for a room that is kept: the ring, in whole pages, and `steps` traced steps. Pure. */
size_t trace_bytes(trace_room kept, int steps);
size_t trace_step_bytes(trace_room kept);

/* The calls for which an instruction has room. Pure. */
int trace_calls_of(const instr *i, trine_layout layout);

trace_time *trace_time_at(const trace_step *s, trace_room kept, int at);
trace_call *trace_call_at(const trace_step *s, trace_room kept, int64_t n);

/* ---- The ring ------------------------------------------------------------------------------------- */

#define TRACE_MAGIC UINT64_C(0x31676e6972747274)

/* At the beginning of the ring; the two records lie behind it. */
typedef struct {
    uint64_t magic;
    int32_t rank, stage; /* in the world */
    trace_room room;
    int64_t offset; /* of this rank's clock to rank 0's, and its error, ns */
    uint64_t error;
    _Atomic uint64_t programs; /* begun so far: number n is in record n % 2 */
} trace_ring;

/* The record of program n. */
trace_step *trace_ring_step(const trace_ring *ring, uint64_t n);

/* ---- Recording ------------------------------------------------------------------------------------- */

/* What is recorded. */
typedef struct {
    trine_world *world;
    const trine_mesh *mesh;
    trine_layout layout;
    const program *stages, *eval_stages; /* of all stages; borrowed */
    int stage;                           /* of this rank */
    bool ring;
    int first, last; /* traced steps; last 0: none */
} trace_subject;

typedef struct trace {
    trace_subject of;
    trace_room room;
    trace_ring *ring; /* with two records, also where `of.ring` is false */
    size_t ring_bytes;
    bool shared;      /* the node's other ranks can read it */
    char *steps;      /* traced steps, one after the other; NULL: none */
    int count;        /* of them so far */
    int64_t step;     /* the next one of the training */
    comm_observer observer;
    /* while a program runs */
    trace_step *now; /* NULL: nothing is recorded */
    int64_t used, allowed; /* calls beside the pipeline's messages: so far; up to the end of this instruction */
    trace_call *call;      /* in progress; NULL: none */
    /* of the clock, before and after the traced steps: when, the difference, its error */
    struct {
        uint64_t at;
        int64_t offset;
        uint64_t error;
    } clock[2];
    bool written; /* the file */
    char folder[512], job[40], node[96]; /* of the ring's file */
} trace;

/* *t is the caller's, NULL if nothing is to be recorded; to be destroyed before the world. Sends messages to measure
 * clocks. Errors: TRINE_ENOMEM. Collective over: world. */
trine_status trace_create(trace **t, const trace_subject *of);
void trace_destroy(trace **t);
/* Whether trace_create has no memory that outlives this rank. */
bool trace_is_private(const trace *t);
/* For the interpreter: the program begins; and its events (run/exec.h). *t is a trace. */
void trace_program(void *t, const program *p, int at);
void trace_waited(void *t, const program *p, int at);
void trace_executed(void *t, const program *p, int at);

/* Before training step `step`, which is measured if it is the first traced one that this run makes; after it. *due:
 * the file can be written. Errors: the messages' own. Collective over: world. */
trine_status trace_before(trace *t, int64_t step);
trine_status trace_after(trace *t, int64_t step, bool *due);
/* Whether steps were traced that are in no file. The same on every rank. */
bool trace_pending(const trace *t);

/* Rank 0 writes `path`, a rank after the other, and text = what it has: steps, ranks, the error of the clocks.
 * Errors, on every rank alike: TRINE_EIO, TRINE_ENOMEM. Collective over: world. */
trine_status trace_write(trace *t, const char *path, char *text, size_t size);

/* From now on, until trace_destroy, the ring is written where a job ends (comm_on_end): into the folder of this path;
 * NULL: the current one. */
void trace_set_folder(trace *t, const char *path_beside);
/* Writes the ring of this node's ranks to FOLDER/trine-trace-JOB-NODE.json, unless another of its ranks does; text =
 * the path, or why it cannot be written. A comm_last_words; *t is a trace. */
bool trace_write_ring(void *t, const char *why, char *text, size_t size);

#endif
