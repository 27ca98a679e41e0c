/* The second pass of sums over rows. The partials were just written and are in the L2 cache. */
#include "device/cuda/kernel.cuh"

/* A thread block has WARP columns and WARP warps, which share the partials. */
template <typename grad>
static __global__
AT_ONCE(WARP *WARP, 1) void sum_partials_kernel(grad *first, grad *second, const float *partials,
                                                size_t count, size_t N, size_t width, bool add) {
    __shared__ float parts[WARP][WARP];
    size_t n = (size_t)blockIdx.x * WARP + threadIdx.x;
    float sum = 0.0f;
    if (n < N)
        for (size_t p = threadIdx.y; p < count; p += WARP) sum += partials[p * N + n];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || n >= N) return;
    for (int w = 1; w < WARP; w++) sum += parts[w][threadIdx.x];
    grad *out = n < width ? first + n : second + (n - width);
    store(out, add ? load(out) + sum : sum);
}

template <typename grad>
trine_status cuda_sum_partials(device *d, grad *first, grad *second, const float *partials,
                               size_t count, size_t N, size_t width, grad_mode mode) {
    unsigned grid = (unsigned)cuda_ceil(N, WARP);
    LAUNCH(d, sum_partials_kernel<grad>, grid, dim3(WARP, WARP), 0)
    (first, second, partials, count, N, width, mode == GRAD_ADD);
    return LAUNCHED(sum_partials_kernel);
}

#define FOR_GRADS(grad)                                                                            \
    template trine_status cuda_sum_partials(device *d, grad *first, grad *second,                  \
                                            const float *partials, size_t count, size_t N,         \
                                            size_t width, grad_mode mode)

FOR_GRADS(float);
FOR_GRADS(bf16);
FOR_GRADS(fp16);

static __global__ AT_ONCE(CUDA_TOTAL_THREADS,
                          1) void total_kernel(double *out, const double *partials, size_t count,
                                               double scale, bool add) {
    double sum = cuda_total_of(partials, count);
    if (threadIdx.x == 0) *out = add ? *out + scale * sum : scale * sum;
}

trine_status cuda_total(device *d, double *out, const double *partials, size_t count, double scale,
                        grad_mode mode) {
    LAUNCH(d, total_kernel, 1, CUDA_TOTAL_THREADS, 0)
    (out, partials, count, scale, mode == GRAD_ADD);
    return LAUNCHED(total_kernel);
}
