/* A measured run, from its log (train_gpt --log): its configuration and how long its steps took; and the factor by
 * which a machine's rates have to be multiplied so that its prediction is what was measured. */
#ifndef TRINE_PLAN_CALIBRATE_H
#define TRINE_PLAN_CALIBRATE_H

#include "config/logged.h"
#include "plan/forecast.h"

#define CALIBRATE_LEFT_OUT 2 /* first steps: they allocate, and fill caches */
#define CALIBRATE_STEPS    5 /* behind them, at least */
#define CALIBRATE_MOST     10 /* a run that is so many times as fast or slow is one of another machine */

typedef struct {
    logged_options started;
    int ranks, nodes;
    int steps;      /* that were measured and not left out */
    double seconds; /* their median */
    cJSON *line;    /* owned: has the texts of `started` */
} calibrate_run;

/* Reads the steps behind the last line that says how a run was started: a run that resumed another with other options
 * has its own steps only. What of that line is not known here is said on standard error.
 * Destroy with calibrate_run_end, on failure as well. Errors: TRINE_EDATA with path, line and value: no line says how
 * the run was started, an option is unknown, there are too few steps; TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status calibrate_read(calibrate_run *run, const char *path);
void calibrate_run_end(calibrate_run *run);

/* Predicts the run with Trine's operators. *factor: predicted over measured. Errors: TRINE_EDATA if the run had other
 * nodes than this machine would give it, or cannot be one of this machine; those of rehearse and forecast_step. Not
 * collective. */
trine_status calibrate_factor(const calibrate_run *run, const hardware *machine, const char *path, double *predicted,
                              double *factor);

#endif
