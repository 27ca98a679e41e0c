/* TEST np=0 */
/* The cuda table against ref, row by row of cases.h, on a GPU. */
#include "ops/cuda_tests.h"

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TESTS};
    static char why[256];
    kind = STAGED_GPU;
    if (!staged_backend(kind, why, sizeof why)) return harness_skip(why);
    return HARNESS_RUN_ALONE(tests);
}
