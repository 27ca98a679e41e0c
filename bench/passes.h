/* The times of passes in a step: measured while a program runs, and as the costs of a simulation (pp/simulate.h).
 * A step is simulated as the passes of its programs, messages taking no time, followed by its tail: what comes after
 * the last backward pass, TIE, NORM and UPDATE. */
#ifndef TRINE_BENCH_PASSES_H
#define TRINE_BENCH_PASSES_H

#include "run/exec.h"

typedef enum { PASS_FORWARD, PASS_BACKWARD, PASS_INPUT, PASS_WEIGHT, PASS_KINDS } pass_kind;
typedef enum { PASS_EMBEDDING, PASS_BLOCK, PASS_HEAD, PASS_ROLES } pass_role;

/* Seconds of a pass of a unit; of UPDATE in a step. */
typedef struct {
    double of[PASS_ROLES][PASS_KINDS];
    double update;
} pass_times;

/* Adds up times while an interpreter runs. */
typedef struct {
    const exec *interpreter; /* not owned */
    uint64_t since;
    uint64_t ns[PASS_ROLES][PASS_KINDS], calls[PASS_ROLES][PASS_KINDS];
    uint64_t update;
    int steps;
} pass_clock;

/* An observer that measures the instructions of `e` into *c, which must be zero at first and outlive it. */
exec_observer pass_clock_observe(pass_clock *c, const exec *e);
/* Call after each step. */
void pass_clock_step(pass_clock *c);
/* Means over the calls, and over the steps. Pure. */
pass_times pass_clock_means(const pass_clock *c);

pass_role pass_role_of(const program_spec *spec, int unit);
/* A pp_cost; the context is an array of pass_times, one for each stage. Pure. */
double pass_cost(const void *context, const program *p, const instr *i);

/* The result of a simulation: seconds of the passes, the same with the tail, the fraction of the former in which
 * stages wait, and the largest sum of a stage's passes. */
typedef struct {
    double passes, step, idle, busiest;
} pass_forecast;

/* stages: all programs of a step; times (stages). Errors: those of pp_simulate. Pure. */
trine_status pass_simulate(const program *stages, const pass_times *times, pass_forecast *out);

#endif
