/* TEST np=none */
/* examples/train_gpt.c with one rank that stops in MPI; run by stopped.t. */
#include "stopped.h"

#define main train_main
#include "../../examples/train_gpt.c"
#undef main

int main(int argc, char **argv) {
    return train_main(stopped_arguments(argc, argv), argv);
}
