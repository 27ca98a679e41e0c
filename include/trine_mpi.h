/* A world of a communicator that the program has, for programs that use MPI themselves: a simulation beside a
 * training, several trainings in one mpirun (examples/coupled.c). Apart from trine.h, which includes no <mpi.h>;
 * compile with the flags of the MPI that Trine was built with (mpicc, or mpicxx). MPI's own C++ functions are not
 * used: included before <mpi.h>, this header leaves them out. The conventions are those of trine.h. */
#ifndef TRINE_MPI_H
#define TRINE_MPI_H

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "trine_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a world of the ranks of `comm`, an intracommunicator, in its order. `comm` is duplicated (MPI_Comm_dup) and
 * not used any more after that: it, its error handler and its messages stay the caller's, as do MPI_COMM_WORLD and
 * the ranks outside of `comm`. trine_world_destroy frees the duplicates, before the caller's MPI_Finalize. *world is
 * owned by the caller.
 *
 * Worlds may follow each other, lie beside each other on other ranks, and share ranks; those that share ranks are
 * created and destroyed, and their functions called, in one order on these ranks, as any two communicators of MPI.
 * An abort (trine_abort, a wait that is longer than trine_world_timeout) is MPI_Abort of the duplicate: MPI promises
 * an attempt to end the ranks of `comm`, and most launchers end the others, too; trine_on_abort is called before.
 *
 * Of the process, and so common to all its worlds: the limit of blocking MPI calls (trine_world_timeout), the signals
 * that a program lets Trine catch, trine_on_abort, and the rank that a message begins with, which is that in the
 * world created last.
 *
 * Errors: TRINE_EINVAL before MPI_Init_thread, after MPI_Finalize, with a thread level below MPI_THREAD_FUNNELED,
 * from a thread that may not call MPI at this level, for MPI_COMM_NULL and for an intercommunicator; TRINE_EMPI,
 * TRINE_ENOMEM. Collective over: comm. */
trine_status trine_world_create_from_mpi(trine_world **world, MPI_Comm comm);

#ifdef __cplusplus
}
#endif

#endif
