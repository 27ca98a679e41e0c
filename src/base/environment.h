/* The environment of the process, which nothing else in the library reads or writes (tools/layers.awk). Only for
 * threads that the library has not made (base/thread.h says why): their maker reads for them. */
#ifndef TRINE_BASE_ENVIRONMENT_H
#define TRINE_BASE_ENVIRONMENT_H

/* A variable, which lives until the environment changes; NULL if unset. Launchers put a process's rank there before
 * MPI_Init. ASSERTs that the thread is not the library's. Not collective. */
const char *environment_value(const char *name);

/* The first of these variables (NULL ends them) that is a number from 0 to ENVIRONMENT_MOST; -1: none is. As
 * environment_value. */
#define ENVIRONMENT_MOST (1 << 20) /* more ranks than any job has */
int environment_number(const char *const *names);

/* This process's rank by its launcher (Open MPI, PMIx, PMI of MPICH and of Slurm), before MPI_Init; -1: unknown. As
 * environment_value. */
int environment_rank(void);

/* Sets a variable of this process, unless it is set. Not thread-safe. Not collective. */
void environment_set(const char *name, const char *value);

/* The job's name from the batch system or else the launcher (SLURM_JOB_ID, PMIX_NAMESPACE); "" if neither is set. In
 * a thread of the library what it was when the thread was made. Not collective. */
const char *environment_job(void);

#endif
