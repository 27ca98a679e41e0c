/* The doctor's visit: facts, measurements, a judgement, a report; some seconds in all. */
#ifndef TRINE_DOCTOR_RUN_H
#define TRINE_DOCTOR_RUN_H

#include "base/output.h"
#include "doctor/judge.h"

typedef struct {
    device_kind kind;    /* what training will compute on, and what is measured */
    const char *library; /* cuda: its object; NULL: looked for */
    double seconds;      /* of one measurement */
    int ranks_per_node;  /* 0: as MPI finds it */
    uint64_t windows, memory; /* bytes that a rank will want: in shared windows, in all; 0: not said */
    bool verbose;        /* a line for each rank, however many there are */
    output *json;        /* NULL: none; looked at on rank 0 only */
} doctor_options;

/* Examines the job and prints the report on rank 0's `out`. *starts, the same on every rank: whether
 * training could start. Errors: those that all ranks meet alike are returned on all of them: TRINE_ENOMEM,
 * TRINE_EMPI, TRINE_EMATH; TRINE_EIO where the report cannot be written. One that a rank meets alone, in
 * a message, ends the job (trine_abort). Collective over: world. */
trine_status doctor_run(trine_world *world, const doctor_options *o, FILE *out, bool *starts);

#endif
