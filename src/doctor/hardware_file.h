/* This machine as a hardware file (cost/hardware.h), for forecasts of training on it.
 *
 * Operators are measured as training calls them (cost/op_measure.h): for each number of ranks that share a node's
 * cores (1, 2, 4 ... and all of this job) as many ranks run at once, each with its share of the threads, while the
 * others wait; in fp32, and in bf16 where the processor has it. A point is the mean of these ranks' medians. With two
 * ranks a node or more, so are all-reduce, all-gather, reduce-scatter and messages, by bytes and by the group's size.
 * What was not measured is stated as an assumption.
 *
 * Each number of ranks and type is a stage, and so are the links. After each but the last, FILE.partial has what is
 * measured, a hardware file, whose "about" says how many stages. A job that ends before leaves it; the next on the
 * same machine, with as many ranks and the same options, measures only the others. */
#ifndef TRINE_DOCTOR_HARDWARE_FILE_H
#define TRINE_DOCTOR_HARDWARE_FILE_H

#include "cost/hardware.h"
#include "doctor/doctor.h"

/* What is known already. */
typedef struct {
    trine_world *world;
    const trine_mesh *mesh;
    const doctor_rank *ranks; /* of all, on world rank 0 */
    const doctor_pair *pairs;
    int pair_count, threads; /* threads: this rank's */
    const char *path;        /* of the file */
    int runs;                /* of each model that is measured */
    bool quick;              /* only the smallest models and messages, to see what such a file looks like */
    bool busy;               /* for "about": the processors are, and the caller wants to measure all the same */
} hardware_job;

/* The path of what is measured of `path` so far. False: it is too long. Pure. */
bool hardware_partial(const char *path, char partial[HARDWARE_PATH]);

/* Measures, writes the file on world rank 0, and prints there on `out` a line a stage, then what was measured, what
 * not, and how well the points agree. Errors: TRINE_EUNSUPPORTED; TRINE_EDATA: FILE.partial is something else;
 * TRINE_EIO; TRINE_ENOMEM; the device's and the groups'. Collective over: world. */
trine_status hardware_measure(const hardware_job *job, FILE *out);

#endif
