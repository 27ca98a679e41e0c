/* Shared by the operator tests: buffers with reproducible numbers, and comparison with a stated bound.
 * Everything is static inline, because each test file is a separate program. */
#ifndef TRINE_TESTS_OPS_FIXTURE_H
#define TRINE_TESTS_OPS_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/ops.h"
#include "harness.h"

/* Whether device cpu multiplies here with exact_threads; if not, status_message() has the reason. */
static inline bool fixture_exact_threads(trine_dtype compute) {
    const device_config config = {.kind = DEVICE_CPU, .threads = 1, .compute = compute, .exact_threads = true};
    device *d;
    if (device_open_with(&d, &config) != TRINE_OK) return false;
    trine_status status = device_prepare_linear(d, true, 64, 64, 64);
    device_close(&d);
    return status == TRINE_OK;
}

#define EPS 1.2e-7 /* the distance from 1 to the next float; a rounding error is at most half of it */

/* The next of a fixed sequence, uniform in [-1, 1): splitmix64. */
static inline double fixture_uniform(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1.0;
}

/* n floats, `spread` times uniform in [-1, 1); freed with free. n may be 0. */
static inline float *fixture_random(size_t n, uint64_t seed, double spread) {
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = (float)(spread * fixture_uniform(&seed));
    return x;
}

static inline float *fixture_copy(const float *x, size_t n) {
    float *copy = malloc((n + 1) * sizeof *copy);
    assert_non_null(copy);
    if (n) memcpy(copy, x, n * sizeof *x);
    return copy;
}

static inline void *fixture_bytes(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

/* Fails unless |got - want| <= bound * (size + |want|) in every element, or both are NaN. */
static inline void fixture_near(const char *what, const float *got, const float *want, size_t n,
                                double bound, double size) {
    for (size_t i = 0; i < n; i++) {
        double a = (double)got[i], b = (double)want[i];
        if (isnan(a) && isnan(b)) continue;
        if (a == b) continue; /* equal infinities too */
        if (!(fabs(a - b) <= bound * (size + fabs(b))))
            fail_msg("%s: element %zu of %zu is %.9g, not %.9g (off by %.3g, bound %.3g)", what, i,
                     n, a, b, fabs(a - b), bound * (size + fabs(b)));
    }
}

#endif
