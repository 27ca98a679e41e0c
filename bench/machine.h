/* The machine of a measurement: processor, caches, compiler, libraries. Strings are static; "unknown" for what the
 * system does not report. Cost: reads /proc/cpuinfo once. */
#ifndef TRINE_BENCH_MACHINE_H
#define TRINE_BENCH_MACHINE_H

#include <stddef.h>

typedef struct {
    const char *cpu;          /* the model's name */
    const char *compiler;     /* "gcc 12.2.0" */
    const char *onednn, *mpi; /* "2.6.3", "Open MPI v4.1.4" */
    int cores, node_cores;    /* in the affinity mask; online on the node */
    size_t cache;             /* bytes of the last level */
} machine;

const machine *machine_of(void);
/* From now on the last-level cache has `bytes`, for quick runs whose figures mean nothing. */
void machine_assume_cache(size_t bytes);

#endif
