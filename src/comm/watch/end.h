/* The ways out of a job. */
#ifndef TRINE_COMM_WATCH_END_H
#define TRINE_COMM_WATCH_END_H

/* Ends every process of the job with status 1. */
_Noreturn void world_end(void);
/* Ends this process only, for a rank that has given the one that ends the job time to do so: two
 * MPI_Aborts of one job at once made Open MPI's mpirun crash or hang in its own clean-up. A
 * launcher ends a job whose rank exits with 1, so this is the second way out as well. */
_Noreturn void world_leave(void);

#endif
