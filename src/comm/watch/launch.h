/* What a process can know before MPI_Init: which rank of which job it is, from the launcher's environment (Open MPI,
 * PMIx, PMI of MPICH and of Slurm), and about processes of this node, from /proc. */
#ifndef TRINE_COMM_WATCH_LAUNCH_H
#define TRINE_COMM_WATCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int rank, size; /* size 0: unknown */
    int node_ranks; /* 0: unknown */
    uint64_t job;   /* what the processes of one job on one node have in common with no others */
} launch;

/* Not collective. */
launch launch_ask(void);
/* A number for two: of a job, and a part of it. Pure. */
uint64_t launch_mix(uint64_t job, uint64_t part);

typedef struct {
    char state; /* state letter of /proc; 'Z': a zombie */
    int parent;
    uint64_t start; /* in clock ticks since the node's boot */
} process;

/* False if there is no such process. */
bool process_of(int pid, process *p);
/* The namespace of the pids that this process sees; 0: unknown. */
uint64_t process_space(void);

#endif
