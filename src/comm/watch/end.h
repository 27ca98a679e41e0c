/* The ways to end a job. */
#ifndef TRINE_COMM_WATCH_END_H
#define TRINE_COMM_WATCH_END_H

/* Aborts the job: ends all its processes with status 1. */
_Noreturn void world_end(void);
/* Ends this process only, for a rank that has given the aborting rank time to act: two MPI_Aborts in one job at
 * once made Open MPI's mpirun crash or hang in its own clean-up. A launcher ends a job whose rank exits with 1, so
 * this is a fallback as well. */
_Noreturn void world_leave(void);

#endif
