/* Examines a job: facts, measurements, findings, report; takes some seconds. */
#ifndef TRINE_DOCTOR_RUN_H
#define TRINE_DOCTOR_RUN_H

#include "base/report_file.h"
#include "doctor/judge.h"

typedef struct {
    device_kind kind;    /* device of training, which is measured */
    const char *library; /* cuda: path of its shared object; NULL: search for it */
    double seconds;      /* duration of one measurement */
    int ranks_per_node;  /* 0: as found by MPI */
    uint64_t windows, memory; /* bytes per rank: in shared windows, in all; 0: unknown */
    bool verbose;        /* a line for each rank, however many there are */
    report_file *json;        /* NULL: none; used on rank 0 only */
    const char *hardware;     /* path of a hardware file to write (hardware_file.h); NULL: none */
    int runs;                 /* for it: of each model */
    bool quick;               /* for it: the smallest models only */
    bool busy;                /* for it: also where something else runs on the processors */
} doctor_options;

/* Examines the job and prints the report on rank 0's `out`. *starts, the same on every rank: whether
 * training could start. Errors that all ranks meet alike are returned on all of them: TRINE_ENOMEM,
 * TRINE_EMPI, TRINE_EMATH; TRINE_EIO if the report cannot be written; TRINE_EUNSUPPORTED: a hardware file
 * on busy processors, with neither `busy` nor `quick`. An error of one rank during the message measurements
 * aborts the job (trine_abort). Collective over: world. */
trine_status doctor_run(trine_world *world, const doctor_options *o, FILE *out, bool *starts);

#endif
