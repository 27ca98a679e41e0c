/* TEST np=none */
/* For scripts: train_gpt with another beat interval and number of missed beats.
 *
 *      lease_driver INTERVAL_MS BEATS arguments of train_gpt... */
#include <stdlib.h>

#include "ckpt/lease.h"

#define main train_main
#include "../../examples/train_gpt.c"
#undef main

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    lease_terms(atoi(argv[1]), atoi(argv[2]));
    argv[2] = argv[0];
    return train_main(argc - 2, argv + 2);
}
