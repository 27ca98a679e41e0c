/* Doubles that are equal up to a tolerance; cmocka compares floats. */
#ifndef TRINE_TESTS_NEAR_H
#define TRINE_TESTS_NEAR_H

#include <math.h>

#include "harness.h"

#define NEAR(got, want, tolerance) near_check((got), (want), (tolerance), #got)

static inline void near_check(double got, double want, double tolerance, const char *text) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: %.17g, not %.17g within %g", text, got, want, tolerance);
}

#endif
