/* A discrete-event simulation of programs: when each instruction runs if computations, and where wanted
 * communication, take a given time. A stage waits as the interpreter does (program_operands); a message is on its
 * way when both sides have started it. Tables of a schedule's idle time, the picture of --explain, the number of
 * gradient streams and forecasts of a step's time come from here. Cost: linear in the number of instructions,
 * times the number of times that a stage has to wait. */
#ifndef TRINE_PP_SIMULATE_H
#define TRINE_PP_SIMULATE_H

#include "core/program.h"

/* The time that an instruction takes, in any unit; 0 for those that do not compute. */
typedef double (*pp_cost)(const void *context, const program *p, const instr *i);

/* F 1, B 2, I 1, W 1 for a pass of a chunk, counted at its first instruction; the last chunk's I, whose head is not
 * split, the same. Ignores its context. Pure. */
double pp_unit_cost(const void *context, const program *p, const instr *i);

/* How long communication takes. The interpreter (run/exec.c) starts messages, REDUCE and GATHER into a buffer, and
 * waits where an instruction's operands conflict. A directed pair of stages is a link, on which a message waits until
 * it is free; so is what the ranks of a stage exchange over dp, in program order. All REDUCEs before one that is
 * awaited are awaited, too. What blocks (GATHER at rest, REDUCE_TP) occupies the stage; TIE and NORM begin when
 * the last of their stages has come. */
typedef struct {
    pp_cost of;  /* of a message, asked at its sender; the communication of GATHER, REDUCE, REDUCE_TP, TIE, NORM */
    bool blocks; /* a stage that sends waits until the message has arrived */
    bool late;   /* a REDUCE begins when it is awaited */
    bool occupies; /* the stage itself moves what it starts over dp: its next instruction waits */
} pp_durations;

typedef struct {
    double start, end; /* of a message: when this side started it, when it is complete */
    /* What happens at one time, in an order in which nothing precedes what it waits for. */
    int start_order, end_order;
} pp_time;

/* For what a stage waits; with its computations these add up to its end. */
typedef enum {
    PP_WAITS_PEER,       /* a message, TIE or NORM that another stage has not started; then, the end of the step */
    PP_WAITS_MESSAGE,    /* one that is on its way, or queues for its link */
    PP_WAITS_COLLECTIVE, /* GATHER, REDUCE, REDUCE_TP, TIE, NORM in progress */
    PP_WAITS
} pp_wait;

typedef struct {
    int stages;
    pp_time **at;    /* (stages)(instructions) */
    double makespan; /* the end of the last computation */
    double *busy;    /* (stages) time in computations */
    double (*waits)[PP_WAITS]; /* (stages) */
    double step;     /* the end of all; with busy, a stage's waits add up to it */
} pp_times;

/* The programs must be complete up to their messages and buffers; the part after the last message may be missing.
 * durations: NULL: communication takes no time, and TIE and NORM do not wait.
 * Errors: TRINE_EPROGRAM if stages wait for each other; TRINE_ENOMEM. Destroy *out with pp_times_destroy. */
trine_status pp_simulate(const program *stages, pp_cost cost, const pp_durations *durations, const void *context,
                         pp_times *out);
void pp_times_destroy(pp_times *t);
/* The fraction of the time in which a stage waits, over all stages. Pure. */
double pp_times_idle(const pp_times *t);

#endif
