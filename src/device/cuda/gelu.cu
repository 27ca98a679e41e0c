/* 0.5 (1 + tanh u) = 1 / (1 + e^(-2 u)), so either pass needs one exponential only, as in
 * cpu/element/gelu.c. In fp32 the exponential and the division are the accurate ones. Results that are
 * rounded to 16 bits do not need that: there they use the special function unit (kernel.cuh), with an
 * error of 2^-18 of a result above 1e-8, where 16 bits have 2^-9 or 2^-12. An exponential above 2^126
 * makes the result 0 instead of a number below 1e-36. A multiprocessor of an H100 issues the
 * instructions of 128 lanes per clock, and its share of the memory bandwidth is some 14 bytes: an element
 * of 4 bytes, forward in 16 bits, allows 36 instructions, one of 6 bytes, backward, 55; the loops have 20
 * and 32 (sm_90), and would have 35 and 47 with the accurate functions.
 * A thread has two groups of four elements in flight in the forward pass, because it reads one tensor only.
 *
 * cuBLASLt's epilogues of the same name (GELU_AUX, DGELU) are not used: the accuracy of their tanh is
 * not documented, and their input is the product before rounding, so that the forward pass could not be
 * recomputed to the same bits from the kept values. */
#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  6                    /* of a multiprocessor, at once */
#define FACTOR  1.59576912160573071f /* 2 sqrt(2 / pi) */
#define CUBIC   0.044715f

template <typename real> static inline __device__ float forward(float x) {
    float u = x * fmaf(x * x, FACTOR * CUBIC, FACTOR);
    return divided<real>(x, 1.0f + exponential<real>(-u));
}

/* With s = 1 / (1 + e), e = e^(-u):  gelu' = s + x s (1 - s) u', and 1 - s = e s. Beyond 8 the
 * second term is below 1e-18; there x is clipped, so that inf is not multiplied by 0. x - x is 0, or
 * NaN if x is not finite. */
template <typename real> static inline __device__ float slope(float x) {
    float cut = x < -8.0f ? -8.0f : x;
    cut = cut > 8.0f ? 8.0f : cut;
    float square = cut * cut;
    float e = exponential<real>(-cut * fmaf(square, FACTOR * CUBIC, FACTOR));
    float s = divided<real>(1.0f, 1.0f + e);
    return fmaf(cut * (e * s * s), fmaf(square, 3.0f * FACTOR * CUBIC, FACTOR), s) + (x - x);
}

/* y may be x. */
template <typename real>
static __global__ AT_ONCE(THREADS, BLOCKS) void gelu_forward_kernel(real *y, const real *x,
                                                                    size_t n, size_t fours) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += 2 * step) {
        bool two = k + step < fours;
        four a = load4(x + 4 * k), b = {};
        if (two) b = load4(x + 4 * (k + step));
        for (int j = 0; j < 4; j++)
            a.at[j] = forward<real>(a.at[j]), b.at[j] = forward<real>(b.at[j]);
        store4(y + 4 * k, a);
        if (two) store4(y + 4 * (k + step), b);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) store(y + i, forward<real>(load(x + i)));
}

template <typename real>
static trine_status gelu_forward(device *d, void *y_, const void *x_, size_t n) {
    real *y = (real *)y_;
    const real *x = (const real *)x_;
    if (n == 0) return TRINE_OK;
    size_t fours = cuda_aligned(y) && cuda_aligned(x) ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    LAUNCH(d, gelu_forward_kernel<real>, grid, THREADS, 0)(y, x, n, fours);
    return LAUNCHED(gelu_forward_kernel);
}

CUDA_OF_COMPUTE(gelu_forward);

/* dx may be dy. */
template <typename real>
static __global__ AT_ONCE(THREADS, BLOCKS) void gelu_backward_kernel(real *dx, const real *dy,
                                                                     const real *x, size_t n,
                                                                     size_t fours) {
    size_t first = (size_t)blockIdx.x * THREADS + threadIdx.x, step = (size_t)gridDim.x * THREADS;
    for (size_t k = first; k < fours; k += step) {
        four a = load4(x + 4 * k), b = load4(dy + 4 * k);
        for (int j = 0; j < 4; j++) a.at[j] = b.at[j] * slope<real>(a.at[j]);
        store4(dx + 4 * k, a);
    }
    for (size_t i = 4 * fours + first; i < n; i += step)
        store(dx + i, load(dy + i) * slope<real>(load(x + i)));
}

template <typename real>
static trine_status gelu_backward(device *d, void *dx_, const void *dy_, const void *x_, size_t n) {
    real *dx = (real *)dx_;
    const real *dy = (const real *)dy_, *x = (const real *)x_;
    if (n == 0) return TRINE_OK;
    size_t fours = cuda_aligned(dx) && cuda_aligned(dy) && cuda_aligned(x) ? n / 4 : 0;
    unsigned grid = cuda_grid(d, cuda_ceil(fours ? fours : n, THREADS), BLOCKS);
    LAUNCH(d, gelu_backward_kernel<real>, grid, THREADS, 0)(dx, dy, x, n, fours);
    return LAUNCHED(gelu_backward_kernel);
}

CUDA_OF_COMPUTE(gelu_backward);
