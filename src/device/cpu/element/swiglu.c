/* Errors relative to the exact formula, for gates from -40 to 40: forward and the gradient of `up` below 3e-7 of
 * the result, the gradient of the gate below 3e-7 |dy up|; measured by tests/ops/precision.c. Threads take pieces
 * of rows, so that all of them have work when text is generated, a row at a time. */
#include "device/cpu/element/element.h"
#include "device/cpu/exp.h"

#define PIECE 1024

static inline size_t piece_end(size_t start, size_t F) {
    return F - start < PIECE ? F : start + PIECE;
}

trine_status CPU(swiglu_forward)(device *d, void *y_, const void *x_, size_t T, size_t F) {
    element *y = y_;       /* (T, F) */
    const element *x = x_; /* (T, 2, F) */
#pragma omp parallel for collapse(2) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t start = 0; start < F; start += PIECE) {
            const element *gates = x + 2 * t * F, *ups = gates + F;
#pragma omp simd
            for (size_t f = start; f < piece_end(start, F); f++) {
                float gate = element_get(gates[f]);
                float silu = gate / (1.0f + exp_fast(-gate));
                y[t * F + f] = element_put(silu * element_get(ups[f]));
            }
        }
    return TRINE_OK;
}

/* silu and its slope at g. With s = 1 / (1 + e), e = e^(-g):  silu' = s + g s (1 - s), and 1 - s = e s. Below
 * -80 both are below 1e-32; there g is clipped, so that inf is not multiplied by 0. g - g is 0, or NaN
 * if g is not finite. */
static inline void silu_and_slope(float *silu, float *slope, float g) {
    float cut = g < -80.0f ? -80.0f : g;
    float e = exp_fast(-cut);
    float s = 1.0f / (1.0f + e);
    *silu = cut * s + (g - g);
    *slope = fused(cut * s, e * s, s) + (g - g);
}

trine_status CPU(swiglu_backward)(device *d, void *dx_, const void *dy_, const void *x_, size_t T,
                                  size_t F) {
    element *dx = dx_;                /* (T, 2, F) */
    const element *dy = dy_, *x = x_; /* (T, F), (T, 2, F) */
#pragma omp parallel for collapse(2) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t start = 0; start < F; start += PIECE) {
            const element *gates = x + 2 * t * F, *ups = gates + F;
            element *dgates = dx + 2 * t * F, *dups = dgates + F;
#pragma omp simd
            for (size_t f = start; f < piece_end(start, F); f++) {
                float slope_in = element_get(dy[t * F + f]), silu, slope;
                silu_and_slope(&silu, &slope, element_get(gates[f]));
                dgates[f] = element_put(slope_in * element_get(ups[f]) * slope);
                dups[f] = element_put(slope_in * silu);
            }
        }
    return TRINE_OK;
}
