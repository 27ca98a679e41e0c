/* TEST np=0 device */
/* The cuda table against ref, row by row of cases.h, on a GPU. */
#include "ops/cuda_tests.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TESTS};
    static char why[256];
    kind = STAGED_GPU;
    if (!staged_backend(kind, why, sizeof why)) {
        if (!getenv("TRINE_CUDA_LIBRARY")) return harness_skip(why);
        printf("1..1\nnot ok 1 - %s\n", why); /* a named object must be tested */
        return 1;
    }
    return HARNESS_RUN_ALONE(tests);
}
