/* Records as events of the "trace event format": JSON that ui.perfetto.dev and chrome://tracing read. A process is a
 * rank (pid: the rank), with a thread for instructions, one for messages and one for each group:
 *
 *   ph X   a span. cat: "step" (of a program), "instruction", "wait" (for an instruction's operands), "collective",
 *          "message"; ts and dur in microseconds, with three decimals, on rank 0's clock. args: unit, micro_batch,
 *          bytes, "GB/s" (from the start of a call to the end of its wait) and others. What has not ended ends when
 *          the file is written; its args have "unfinished": true
 *   ph s, f   an arrow from a message's send to the wait in which it was received; its id is the message's own
 *   ph M   names of processes and threads
 *
 * Instructions, waits and what lies between them add up to their program, to the nanosecond. */
#ifndef TRINE_TRACE_EVENT_H
#define TRINE_TRACE_EVENT_H

#include <stdio.h>

#include "trace/trace.h"

/* A rank's clock at two moments, or at one (then both are equal). */
typedef struct {
    uint64_t at[2];
    int64_t offset[2]; /* to rank 0's */
} trace_clock;

/* What is printed of a rank. */
typedef struct {
    int rank;
    trine_layout layout;
    trace_room room;
    trace_clock clock;
    uint64_t now; /* on its clock: the end of what has not ended */
    bool gone;    /* its process has ended */
} trace_rank;

typedef struct {
    FILE *out;
    int64_t events; /* so far */
} trace_events;

/* The value of an entry of the file's "otherData", which come before the events. */
void trace_file_begin(trace_events *e, FILE *out, const char *kind);
void trace_file_text(trace_events *e, const char *name, const char *text);
void trace_file_number(trace_events *e, const char *name, int64_t value);
void trace_file_clock(trace_events *e, int rank, const int64_t offset[2], uint64_t error);
void trace_file_events(trace_events *e);
void trace_file_end(trace_events *e);

/* The names of a rank's process and threads; `last`: its newest record, of program p, NULL: none. */
void trace_event_names(trace_events *e, const trace_rank *r, const trace_step *last, const program *p);
/* A record of program p. */
void trace_event_step(trace_events *e, const trace_rank *r, const trace_step *s, const program *p);

/* The instruction that a record's program is in, -1: it has ended; *waits: for its operands. Pure. */
int trace_event_at(const trace_step *s, trace_room kept, bool *waits);

#endif
