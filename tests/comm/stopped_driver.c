/* TEST np=none */
/* examples/mesh.c, one rank of which stops in MPI; run by tests/train/stopped.t. */
#include "stopped.h"

#define main mesh_main
#include "../../examples/mesh.c"
#undef main

int main(int argc, char **argv) {
    return mesh_main(stopped_arguments(argc, argv), argv);
}
