/* 0.5 (1 + tanh u) = 1 / (1 + e^(-2 u)), so one exponential does for both passes, as in cpu/gelu.c.
 * expf and the division are the accurate ones (1 ulp, rounded to nearest): some 35 instructions an
 * element, where bandwidth leaves room for 55 on an H100's fp32 units. A thread has two fours in
 * flight, because it reads only one stream. */
#include "device/cuda/kernel.cuh"

#define THREADS 256
#define BLOCKS  6                    /* of a multiprocessor, at once */
#define FACTOR  1.59576912160573071f /* 2 sqrt(2 / pi) */
#define CUBIC   0.044715f

static inline __device__ float forward(float x) {
    float u = x * fmaf(x * x, FACTOR * CUBIC, FACTOR);
    return x / (1.0f + expf(-u));
}

/* With s = 1 / (1 + e), e = e^(-u):  gelu' = s + x s (1 - s) u', and 1 - s = e s. Beyond 8 the
 * second term is below 1e-18; there x is cut, so that no inf is multiplied by 0. x - x is 0, or NaN
 * where x is not finite. */
static inline __device__ float slope(float x) {
    float cut = x < -8.0f ? -8.0f : x;
    cut = cut > 8.0f ? 8.0f : cut;
    float square = cut * cut;
    float e = expf(-cut * fmaf(square, FACTOR * CUBIC, FACTOR));
    float s = 1.0f / (1.0f + e);
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
        for (int j = 0; j < 4; j++) a.at[j] = forward(a.at[j]), b.at[j] = forward(b.at[j]);
        store4(y + 4 * k, a);
        if (two) store4(y + 4 * (k + step), b);
    }
    for (size_t i = 4 * fours + first; i < n; i += step) store(y + i, forward(load(x + i)));
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
        for (int j = 0; j < 4; j++) a.at[j] = b.at[j] * slope(a.at[j]);
        store4(dx + 4 * k, a);
    }
    for (size_t i = 4 * fours + first; i < n; i += step)
        store(dx + i, load(dy + i) * slope(load(x + i)));
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
