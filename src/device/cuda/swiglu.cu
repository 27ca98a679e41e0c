/* The exponential and the division are those of gelu.cu, which says why they are accurate enough: silu is
 * GELU with another argument of the exponential. */
#include "device/cuda/kernel.cuh"

#define BLOCKS          6 /* of a multiprocessor, at once */
#define BLOCKS_BACKWARD 5

template <typename real> static inline __device__ float silu(float g) {
    return divided<real>(g, 1.0f + exponential<real>(-g));
}

/* Thread blocks along the columns of a (T, F) matrix and along its rows. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void swiglu_forward_kernel(real *y, const real *x,
                                                                    size_t T, size_t F) {
    size_t f = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        const real *row = x + 2 * t * F;
        four gate = load_row<VECTOR>(row, f, F), up = load_row<VECTOR>(row + F, f, F);
        for (int j = 0; j < 4; j++) gate.at[j] = silu<real>(gate.at[j]) * up.at[j];
        store_row<VECTOR>(y + t * F, f, F, gate);
    }
}

template <typename real>
static trine_status swiglu_forward(device *d, void *y_, const void *x_, size_t T, size_t F) {
    real *y = (real *)y_;
    const real *x = (const real *)x_;
    if (T == 0 || F == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, F, BLOCKS);
    bool vector = F % 4 == 0 && cuda_aligned(y) && cuda_aligned(x);
    auto kernel = vector ? swiglu_forward_kernel<true, real> : swiglu_forward_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(y, x, T, F);
    return LAUNCHED(swiglu_forward_kernel);
}

CUDA_OF_COMPUTE(swiglu_forward);

/* gate and up become their gradients. With s = 1 / (1 + e), e = e^(-g):  silu' = s + g s (1 - s), and
 * 1 - s = e s. Below -80 silu and silu' are below 1e-32; there g is clipped, so that inf is not multiplied
 * by 0. g - g is 0, or NaN if g is not finite. */
template <typename real> static inline __device__ void gradients(float *gate, float *up, float dy) {
    float g = *gate, cut = g < -80.0f ? -80.0f : g;
    float e = exponential<real>(-cut);
    float s = divided<real>(1.0f, 1.0f + e);
    *gate = dy * *up * (fmaf(cut * s, e * s, s) + (g - g));
    *up = dy * (cut * s + (g - g));
}

template <bool VECTOR, typename real>
static __global__
AT_ONCE(PLANE, BLOCKS_BACKWARD) void swiglu_backward_kernel(real *dx, const real *dy, const real *x,
                                                            size_t T, size_t F) {
    size_t f = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t = blockIdx.y; t < T; t += gridDim.y) {
        const real *row = x + 2 * t * F;
        four gate = load_row<VECTOR>(row, f, F), up = load_row<VECTOR>(row + F, f, F);
        four slope = load_row<VECTOR>(dy + t * F, f, F);
        for (int j = 0; j < 4; j++) gradients<real>(&gate.at[j], &up.at[j], slope.at[j]);
        store_row<VECTOR>(dx + 2 * t * F, f, F, gate);
        store_row<VECTOR>(dx + 2 * t * F + F, f, F, up);
    }
}

template <typename real>
static trine_status swiglu_backward(device *d, void *dx_, const void *dy_, const void *x_, size_t T,
                                    size_t F) {
    real *dx = (real *)dx_;
    const real *dy = (const real *)dy_, *x = (const real *)x_;
    if (T == 0 || F == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, T, F, BLOCKS_BACKWARD);
    bool vector = F % 4 == 0 && cuda_aligned(dx) && cuda_aligned(dy) && cuda_aligned(x);
    auto kernel = vector ? swiglu_backward_kernel<true, real> : swiglu_backward_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(dx, dy, x, T, F);
    return LAUNCHED(swiglu_backward_kernel);
}

CUDA_OF_COMPUTE(swiglu_backward);
