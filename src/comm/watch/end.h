/* The ways to end a job. What the program has installed (hook.h) is called first. */
#ifndef TRINE_COMM_WATCH_END_H
#define TRINE_COMM_WATCH_END_H

#include "trine_comm.h"

/* Aborts the job: ends all its processes with status 1; of a world of the caller's communicator, the processes of
 * that (MPI_Abort; most launchers then end the job). `world` NULL: none could be made. */
_Noreturn void world_end(const trine_world *world);
/* Ends this process only, for a rank that has given the aborting rank time to act: two MPI_Aborts in one job at
 * once made Open MPI's mpirun crash or hang in its own clean-up. A launcher ends a job whose rank exits with 1, so
 * this is a fallback as well. */
_Noreturn void world_leave(void);

#endif
