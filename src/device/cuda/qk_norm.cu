/* RMS norm of heads: a warp normalises a head, which it keeps in registers, so that dx may be dy and no sum
 * needs a barrier. A thread block processes rows with all their heads. */
#include "device/cuda/kernel.cuh"

/* Warps of a thread block, and thread blocks of a multiprocessor, at once. */
#define WARPS           8
#define BLOCKS          6
#define BLOCKS_BACKWARD 4

/* Fours that a lane keeps of a head. */
#define KEPT (CUDA_WIDEST_HEAD / (4 * WARP))

/* Heads of a row: H query heads, K key heads, K value heads, each of D elements. */
typedef struct {
    unsigned H, K, D;
} cuda_heads;

template <bool VECTOR, typename real>
static inline __device__ void load_head(four *x, const real *head, unsigned D) {
    for (unsigned k = 0; k < KEPT; k++)
        x[k] = load_row<VECTOR>(head, 4 * (threadIdx.x + k * WARP), D);
}

template <bool VECTOR, typename real>
static inline __device__ void store_head(real *head, unsigned D, const four *x) {
    for (unsigned k = 0; k < KEPT; k++)
        store_row<VECTOR>(head, 4 * (threadIdx.x + k * WARP), D, x[k]);
}

/* x * gain * by */
template <bool VECTOR, typename real>
static inline __device__ void scale_head(four *x, float by, const real *gain, unsigned D) {
    four scale[KEPT];
    load_head<VECTOR>(scale, gain, D);
    for (unsigned k = 0; k < KEPT; k++)
        for (int j = 0; j < 4; j++) x[k].at[j] = x[k].at[j] * by * scale[k].at[j];
}

/* ---- Forward --------------------------------------------------------------------------------- */

template <bool VECTOR, typename real>
static __global__
AT_ONCE(WARPS *WARP, BLOCKS) void qk_norm_forward_kernel(real *y, float *stat, const real *q_gain,
                                                         const real *k_gain, const real *x,
                                                         float eps, size_t T, cuda_heads n) {
    const unsigned normed = n.H + n.K, heads = normed + n.K;
    for (size_t t = blockIdx.x; t < T; t += gridDim.x)
        for (unsigned h = threadIdx.y; h < heads; h += WARPS) {
            size_t at = (t * heads + h) * n.D;
            four head[KEPT];
            load_head<VECTOR>(head, x + at, n.D);
            if (h < normed) {
                float squares = 0.0f;
                for (unsigned k = 0; k < KEPT; k++) squares = add_squares(squares, head[k]);
                float rstd = 1.0f / sqrtf(warp_sum(squares) / (float)n.D + eps);
                scale_head<VECTOR>(head, rstd, h < n.H ? q_gain : k_gain, n.D);
                if (threadIdx.x == 0) stat[t * normed + h] = rstd;
            }
            store_head<VECTOR>(y + at, n.D, head);
        }
}

static trine_status check_width(size_t D) {
    CHECK(D <= CUDA_WIDEST_HEAD, TRINE_EUNSUPPORTED,
          "qk_norm: heads of %zu; the cuda device supports %d", D, CUDA_WIDEST_HEAD);
    return TRINE_OK;
}

template <typename real>
static trine_status qk_norm_forward(device *d, void *y_, float *stat, const void *q_gain_,
                                    const void *k_gain_, const void *x_, float eps, size_t T,
                                    size_t H, size_t K, size_t D) {
    real *y = (real *)y_;
    const real *q_gain = (const real *)q_gain_, *k_gain = (const real *)k_gain_;
    const real *x = (const real *)x_;
    TRY(check_width(D));
    if (T == 0 || H + K == 0 || D == 0) return TRINE_OK;
    bool vector = D % 4 == 0 && cuda_aligned(y) && cuda_aligned(q_gain) && cuda_aligned(k_gain) &&
                  cuda_aligned(x);
    auto kernel = vector ? qk_norm_forward_kernel<true, real> : qk_norm_forward_kernel<false, real>;
    LAUNCH(d, kernel, cuda_grid(d, T, BLOCKS), dim3(WARP, WARPS), 0)
    (y, stat, q_gain, k_gain, x, eps, T, cuda_heads{(unsigned)H, (unsigned)K, (unsigned)D});
    return LAUNCHED(qk_norm_forward_kernel);
}

CUDA_OF_COMPUTE(qk_norm_forward);

/* ---- Backward: with xhat = x * rstd and g = dy * gain,
 * dx = rstd * (g - xhat * mean(g * xhat)), dgain += dy * xhat ---- */

/* dy becomes dx, x becomes xhat, and dgain += dy * xhat. */
template <bool VECTOR, typename real>
static inline __device__ void head_backward(four *dy, four *dgain, four *x, const real *gain,
                                            float rstd, unsigned D) {
    four scale[KEPT];
    float sum = 0.0f;
    load_head<VECTOR>(scale, gain, D);
    for (unsigned k = 0; k < KEPT; k++) {
        for (int j = 0; j < 4; j++) x[k].at[j] *= rstd;
        dgain[k] = plus(dgain[k], times(dy[k], x[k]));
        dy[k] = times(dy[k], scale[k]);
        sum += sum4(times(dy[k], x[k]));
    }
    float mean = warp_sum(sum) / (float)D;
    for (unsigned k = 0; k < KEPT; k++)
        for (int j = 0; j < 4; j++) dy[k].at[j] = rstd * (dy[k].at[j] - x[k].at[j] * mean);
}

/* Adds the sums of the warps, in their order, and stores them. All threads must call. */
template <bool VECTOR>
static inline __device__ void store_sums(float *out, unsigned D, four *sums,
                                         float area[WARPS][CUDA_WIDEST_HEAD]) {
    __syncthreads();
    store_head<false>(area[threadIdx.y], CUDA_WIDEST_HEAD, sums);
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (unsigned w = 1; w < WARPS; w++) {
        four other[KEPT];
        load_head<false>(other, area[w], CUDA_WIDEST_HEAD);
        for (unsigned k = 0; k < KEPT; k++) sums[k] = plus(sums[k], other[k]);
    }
    store_head<VECTOR>(out, D, sums);
}

/* Thread block p processes rows [p * rows, (p + 1) * rows); its sums go to partials (p, 2, D), those of query heads
 * before those of key heads. dx may be dy. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS *WARP, BLOCKS_BACKWARD) void qk_norm_backward_kernel(
    real *dx, float *partials, const real *dy, const real *q_gain, const real *k_gain,
    const real *x, const float *stat, size_t T, cuda_heads n, size_t rows) {
    __shared__ float area[WARPS][CUDA_WIDEST_HEAD];
    const unsigned normed = n.H + n.K, heads = dx == dy ? normed : normed + n.K;
    size_t begin = blockIdx.x * rows, end = begin + rows < T ? begin + rows : T;
    four q_sums[KEPT] = {}, k_sums[KEPT] = {};
    for (size_t t = begin; t < end; t++)
        for (unsigned h = threadIdx.y; h < heads; h += WARPS) {
            size_t at = (t * (normed + n.K) + h) * n.D;
            four g[KEPT], head[KEPT];
            load_head<VECTOR>(g, dy + at, n.D);
            if (h < normed) {
                float rstd = stat[t * normed + h];
                load_head<VECTOR>(head, x + at, n.D);
                if (h < n.H)
                    head_backward<VECTOR>(g, q_sums, head, q_gain, rstd, n.D);
                else
                    head_backward<VECTOR>(g, k_sums, head, k_gain, rstd, n.D);
            }
            store_head<VECTOR>(dx + at, n.D, g);
        }
    float *partial = partials + blockIdx.x * (size_t)n.D * 2;
    store_sums<VECTOR>(partial, n.D, q_sums, area);
    store_sums<VECTOR>(partial + n.D, n.D, k_sums, area);
}

template <typename real, typename grad>
static trine_status qk_norm_backward(device *d, void *dx_, void *dq_gain, void *dk_gain,
                                     const void *dy_, const void *q_gain_, const void *k_gain_,
                                     const void *x_, const float *stat, size_t T, size_t H,
                                     size_t K, size_t D, grad_mode mode) {
    real *dx = (real *)dx_;
    const real *q_gain = (const real *)q_gain_, *k_gain = (const real *)k_gain_;
    const real *dy = (const real *)dy_, *x = (const real *)x_;
    TRY(check_width(D));
    if (D == 0) return TRINE_OK;
    float *partials = cuda_of(d)->scratch;
    cuda_cut cut = T ? cuda_cut_of(T, 2 * D) : cuda_cut{0, 0};
    if (T > 0) {
        bool vector = D % 4 == 0 && cuda_aligned(dx) && cuda_aligned(dy) && cuda_aligned(q_gain) &&
                      cuda_aligned(k_gain) && cuda_aligned(x);
        auto kernel =
            vector ? qk_norm_backward_kernel<true, real> : qk_norm_backward_kernel<false, real>;
        LAUNCH(d, kernel, (unsigned)cut.count, dim3(WARP, WARPS), 0)
        (dx, partials, dy, q_gain, k_gain, x, stat, T,
         cuda_heads{(unsigned)H, (unsigned)K, (unsigned)D}, cut.rows);
        TRY(LAUNCHED(qk_norm_backward_kernel));
    }
    return cuda_sum_partials(d, (grad *)dq_gain, (grad *)dk_gain, partials, cut.count, 2 * D, D,
                             mode);
}

CUDA_OF_BOTH(qk_norm_backward);
