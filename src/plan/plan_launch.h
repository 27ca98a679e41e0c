/* What a run of a layout that was found needs beside its options: how its ranks are started, room in /dev/shm, and
 * how often it saves. */
#ifndef TRINE_PLAN_PLAN_LAUNCH_H
#define TRINE_PLAN_PLAN_LAUNCH_H

#include <stdio.h>

#include "plan/search.h"

/* The threads of a rank: what the configuration says, or on CPUs its share of the node's cores; 0: the machine does
 * not say its cores, or has fewer than ranks. */
int plan_launch_threads(const search_space *s);

/* "mpirun -n 16 --map-by ppr:8:node:PE=4 --bind-to core train_gpt": Open MPI's options for the fullest node, on
 * CPUs with the cores of the configuration's threads. */
void plan_launch(const search_space *s, FILE *out);

/* Lines of what the run needs: /dev/shm of a node where ranks share its memory, --save-interval, and how long
 * before its end a job of Slurm has to be told of it. Errors: those of rehearse. Not collective. */
trine_status plan_print_needs(const search_space *s, const search_layout *l, FILE *out);

#endif
