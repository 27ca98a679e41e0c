/* A discrete-event simulation of programs: when each instruction runs if computations take a given time and messages
 * none. A stage waits as the interpreter does (program_operands); a message is complete when both sides have started
 * it. Tables of a schedule's idle time, the picture of --explain and the number of gradient streams come from here.
 * Cost: linear in the number of instructions, times the number of times that a stage has to wait. */
#ifndef TRINE_PP_SIMULATE_H
#define TRINE_PP_SIMULATE_H

#include "core/program.h"

/* The time that an instruction takes, in any unit; 0 for those that do not compute. */
typedef double (*pp_cost)(const void *context, const program *p, const instr *i);

/* F 1, B 2, I 1, W 1 for a pass of a chunk, counted at its first instruction; the last chunk's I, whose head is not
 * split, the same. Ignores its context. Pure. */
double pp_unit_cost(const void *context, const program *p, const instr *i);

typedef struct {
    double start, end; /* of a message: when this side started it, when it is complete */
    /* What happens at one time, in an order in which nothing precedes what it waits for. */
    int start_order, end_order;
} pp_time;

typedef struct {
    int stages;
    pp_time **at;    /* (stages)(instructions) */
    double makespan; /* the end of the last computation */
    double *busy;    /* (stages) time in computations */
} pp_times;

/* The programs must be complete up to their messages and buffers; the part after the last message may be missing.
 * Errors: TRINE_EPROGRAM if stages wait for each other; TRINE_ENOMEM. Destroy *out with pp_times_destroy. */
trine_status pp_simulate(const program *stages, pp_cost cost, const void *context, pp_times *out);
void pp_times_destroy(pp_times *t);
/* The fraction of the time in which a stage waits, over all stages. Pure. */
double pp_times_idle(const pp_times *t);

#endif
