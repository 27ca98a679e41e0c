/* TEST np=none */
/* Worlds one after the other; run by second_world.t. Argument: who starts MPI, "trine" or "caller". In both cases
 * the last world is asked for after MPI_Finalize. */
#include <mpi.h>
#include <string.h>

#include "trine.h"

static trine_status one_world(void) {
    trine_world *world = NULL;
    trine_status status = trine_world_create(&world, NULL, NULL);
    trine_world_destroy(&world);
    return status;
}

int main(int argc, char **argv) {
    bool caller = argc > 1 && strcmp(argv[1], "caller") == 0;
    if (caller) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &(int){0});
        if (one_world() != TRINE_OK) return 2;
    }
    if (one_world() != TRINE_OK) return 2;
    if (caller) MPI_Finalize();
    if (one_world() != TRINE_EMPI) return 3;
    trine_abort(NULL);
}
