/* A configuration without a running job: checked, with its programs and a device that knows sizes only. What
 * --dry-run,
 * --explain and a proof start from. */
#ifndef TRINE_PLAN_REHEARSE_H
#define TRINE_PLAN_REHEARSE_H

#include "plan/report.h"
#include "trine.h"

typedef struct {
    trine_config config; /* resolved */
    double epochs; /* that were asked for; config.epochs is 0 unless their steps are unknown (epochs.h) */
    int ranks;
    program_spec spec;
    program *stages;
    steady steady; /* if the plan of a long step was asked for; then no whole program is made */
    bool is_steady;
    device *dev;
} rehearsal;

/* PLAN: the numbers of a plan are enough. UNCHECKED: programs that the checker would refuse, too. */
typedef enum { REHEARSE_PROGRAMS, REHEARSE_PLAN, REHEARSE_UNCHECKED } rehearse_what;

/* ranks 0: those of the layout. End with rehearsal_end, on failure as well. Errors: those of trine_config_check, of
 * resolve_vocabulary without --vocab-size, of epochs_resolve_of_files, and of the programs. Not collective. */
trine_status rehearse(rehearsal *r, const trine_config *config, int ranks, rehearse_what what);
void rehearsal_end(rehearsal *r);

/* What its report starts from; points into it. Pure. */
report rehearsal_report(const rehearsal *r);
/* What its heaviest rank takes, with what libraries take on a GPU: this has to fit. Errors: those of report_plan. Not
 * collective. */
trine_status rehearsal_bytes(const rehearsal *r, size_t *bytes);

#endif
