#include "comm/watch/end.h"
#include "comm/group/processes.h"
#include "comm/group/world.h"
#include "comm/transport/mpi/try_mpi.h"
#include "comm/watch/hook.h"
#include "comm/watch/watch.h"
#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

/* The processes of the job; 0: MPI does not run. */
static int processes(void) {
    int running = 0, over = 0, size = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&over);
    if (running && !over) MPI_Comm_size(job_processes(), &size);
    return size;
}

/* A single process needs no abort, and none of the launcher's messages about one. */
static void end_mpi(const trine_world *world, int size) {
    if (size == 1) MPI_Finalize();
    if (size < 2) return;
    const mpi_state *origin = world ? world->origin : NULL;
    watch_enter("MPI_Abort");
    MPI_Abort(origin ? origin->comm : job_processes(), 1);
}

_Noreturn void world_end(const trine_world *world) {
    int size = processes();
    fflush(NULL);
    if (size > 1) {
        board_hush();
        board_seal();
        /* The launcher reads standard error from a pipe; what it has not read when it kills the job
         * is lost. */
        clock_nap(0.5);
    }
    hook_call();
    end_mpi(world, size);
    _exit(1);
}

_Noreturn void world_leave(void) {
    fflush(NULL);
    hook_end();
}
