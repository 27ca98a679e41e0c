/* TEST np=none */
/* tools/trine_generate.c, one rank of which stops in MPI; run by tests/train/stopped.t. */
#include "stopped.h"

#define main generate_main
#include "../../tools/trine_generate.c"
#undef main

int main(int argc, char **argv) {
    return generate_main(stopped_arguments(argc, argv), argv);
}
