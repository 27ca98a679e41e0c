/* TEST np=none */
/* Writes a file of windows (training.h) for scripts: windows_driver FILE T. */
#include "training.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    return rename(training_windows(atoi(argv[2])), argv[1]) != 0;
}
