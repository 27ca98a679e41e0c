/* e^x in double for x <= 0, in arithmetic that vectorises: x = n ln 2 + r, |r| <= 0.35, e^r by its Taylor series up
 * to r^13 (relative truncation error below 5e-18), times 2^n; the reduction is that of device/cpu/exp.h.
 *
 * Invariant: equal bits on every machine and in every vector width, since the compiler does not contract. Relative
 * error below 4e-16 from -708 to 0; 0 below -708, NaN for NaN. tests/generate/sample.c measures it. Cost: some 35
 * operations, no table, no branch. */
#ifndef TRINE_GENERATE_EXP64_H
#define TRINE_GENERATE_EXP64_H

#include <stdint.h>
#include <string.h>

/* Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits. */
#define EXP64_SHIFT 0x1.8p52

static inline double exp64_below(double x) {
    double cut = x < -708 ? -708 : x;
    double shifted = cut * 0x1.71547652b82fep+0 + EXP64_SHIFT, n = shifted - EXP64_SHIFT;
    double r = cut - n * 0x1.62e42fee00000p-1 - n * 0x1.a39ef35793c76p-33; /* ln 2, high and low */
    /* Written out: a loop over the coefficients keeps Clang from vectorising its caller. */
    double e = 1.0 / 6227020800;
    e = e * r + 1.0 / 479001600;
    e = e * r + 1.0 / 39916800;
    e = e * r + 1.0 / 3628800;
    e = e * r + 1.0 / 362880;
    e = e * r + 1.0 / 40320;
    e = e * r + 1.0 / 5040;
    e = e * r + 1.0 / 720;
    e = e * r + 1.0 / 120;
    e = e * r + 1.0 / 24;
    e = e * r + 1.0 / 6;
    e = e * r + 1.0 / 2;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x < -708 ? 0 : (e * r * r + r + 1) * power;
}

#endif
