/* Errors relative to the exact formula, for gates from -40 to 40: forward and the gradient of `up` below 3e-7 of
 * the result, the gradient of the gate below 3e-7 |dy up|; measured by tests/ops/precision.c. Threads take pieces
 * of rows, so that all of them have work when text is generated, a row at a time. A piece is computed a vector at a
 * time; the last vector of a row is padded in a buffer. */
#include "device/cpu/element/lanes.h"
#include "device/cpu/exp.h"

#define PIECE 1024

static inline size_t piece_end(size_t start, size_t F) {
    return F - start < PIECE ? F : start + PIECE;
}

/* e = e^x */
static inline void exponentials(lanes *e, const lanes *x) {
    vec parts[LANES / VEC];
    memcpy(parts, x, sizeof parts);
    for (size_t j = 0; j < LANES / VEC; j++) parts[j] = exp_vec(parts[j]);
    memcpy(e, parts, sizeof parts);
}

static inline void forward(element *y, const element *gates, const element *ups) {
    lanes gate, up, e;
    element_lanes(&gate, gates);
    element_lanes(&up, ups);
    const lanes minus = -gate;
    exponentials(&e, &minus);
    const lanes out = gate / (1.0f + e) * up;
    element_store_lanes(y, &out);
}

static void forward_piece(element *y, const element *gates, const element *ups, size_t n) {
    size_t f = 0;
    for (; f + LANES <= n; f += LANES) forward(y + f, gates + f, ups + f);
    if (f == n) return;
    element part[3][LANES] = {{0}};
    memcpy(part[1], gates + f, (n - f) * sizeof *gates);
    memcpy(part[2], ups + f, (n - f) * sizeof *ups);
    forward(part[0], part[1], part[2]);
    memcpy(y + f, part[0], (n - f) * sizeof *y);
}

trine_status CPU(swiglu_forward)(device *d, void *y_, const void *x_, size_t T, size_t F) {
    element *y = y_;       /* (T, F) */
    const element *x = x_; /* (T, 2, F) */
#pragma omp parallel for collapse(2) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t start = 0; start < F; start += PIECE) {
            const element *gates = x + 2 * t * F + start;
            forward_piece(y + t * F + start, gates, gates + F, piece_end(start, F) - start);
        }
    return TRINE_OK;
}

/* silu and its slope at g. With s = 1 / (1 + e), e = e^(-g):  silu' = s + g s (1 - s), and 1 - s = e s. Below
 * -80 both are below 1e-32; there g is clipped, so that inf is not multiplied by 0. g - g is 0, or NaN
 * if g is not finite. */
static inline void silu_and_slope(lanes *silu, lanes *slope, const lanes *g) {
    const lanes low = (lanes){0} - 80.0f, zero = *g - *g;
    lanes cut = *g, e;
    lanes_larger(&cut, &low); /* keeps a NaN */
    const lanes minus = -cut;
    exponentials(&e, &minus);
    const lanes s = 1.0f / (1.0f + e);
    *silu = cut * s + zero;
    *slope = cut * s * (e * s) + s + zero;
}

static inline void backward(element *dgates, element *dups, const element *dy, const element *gates,
                            const element *ups) {
    lanes slope_in, gate, up, silu, slope;
    element_lanes(&slope_in, dy);
    element_lanes(&gate, gates);
    element_lanes(&up, ups);
    silu_and_slope(&silu, &slope, &gate);
    lanes dgate = slope_in * up * slope, dup = slope_in * silu;
    element_store_lanes(dgates, &dgate);
    element_store_lanes(dups, &dup);
}

static void backward_piece(element *dgates, element *dups, const element *dy, const element *gates,
                           const element *ups, size_t n) {
    size_t f = 0;
    for (; f + LANES <= n; f += LANES) backward(dgates + f, dups + f, dy + f, gates + f, ups + f);
    if (f == n) return;
    element part[5][LANES] = {{0}};
    memcpy(part[2], dy + f, (n - f) * sizeof *dy);
    memcpy(part[3], gates + f, (n - f) * sizeof *gates);
    memcpy(part[4], ups + f, (n - f) * sizeof *ups);
    backward(part[0], part[1], part[2], part[3], part[4]);
    memcpy(dgates + f, part[0], (n - f) * sizeof *dgates);
    memcpy(dups + f, part[1], (n - f) * sizeof *dups);
}

trine_status CPU(swiglu_backward)(device *d, void *dx_, const void *dy_, const void *x_, size_t T,
                                  size_t F) {
    element *dx = dx_;                /* (T, 2, F) */
    const element *dy = dy_, *x = x_; /* (T, F), (T, 2, F) */
#pragma omp parallel for collapse(2) num_threads(d->threads) schedule(static)
    for (size_t t = 0; t < T; t++)
        for (size_t start = 0; start < F; start += PIECE) {
            const size_t at = 2 * t * F + start;
            backward_piece(dx + at, dx + at + F, dy + t * F + start, x + at, x + at + F,
                           piece_end(start, F) - start);
        }
    return TRINE_OK;
}
