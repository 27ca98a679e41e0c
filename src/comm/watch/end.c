#include "comm/watch/end.h"
#include "comm/watch/watch.h"
#include "base/clock.h"

#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

/* A single process needs no abort, and none of the launcher's messages about one. */
static void end_mpi(void) {
    int running = 0, over = 0, size = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&over);
    if (!running || over) return;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1) {
        MPI_Finalize();
        return;
    }
    board_hush();
    /* The launcher reads standard error from a pipe; what it has not read when it kills the job is
     * lost. */
    clock_nap(0.5);
    watch_enter("MPI_Abort");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

_Noreturn void world_end(void) {
    fflush(NULL);
    end_mpi();
    _exit(1);
}

_Noreturn void world_leave(void) {
    fflush(NULL);
    _exit(1);
}
