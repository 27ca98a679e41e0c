/* The trainer's recorder (trace/trace.h): making it, the file of --trace, and the ring's file when a step's norm is
 * not finite. */
#ifndef TRINE_TRAIN_TRACE_RUN_H
#define TRINE_TRAIN_TRACE_RUN_H

#include "train/trainer.h"

/* Makes t->trace, and has the interpreter tell it. Errors: TRINE_ENOMEM; TRINE_EIO if the file cannot be written;
 * TRINE_EINVAL if it is a token file. Collective over: world. */
trine_status trace_run_begin(trine_trainer *t);
/* Before and after a training step, which is t->steps. The latter writes the file after the last traced step; what it
 * says is printed by the log. Errors: those of trine_trainer_trace. Collective over: world. */
trine_status trace_run_before(trine_trainer *t);
trine_status trace_run_after(trine_trainer *t);
/* After a step whose norm was not finite: writes the ring, if the step before had a finite one and no loss scale is
 * being searched for. Errors: the barrier's own. Collective over: world. */
trine_status trace_run_skipped(trine_trainer *t);
void trace_run_end(trine_trainer *t);

#endif
