/* RMS norm, in the way of norm.cu: a team of warps keeps a row in registers; column sums of the backward pass
 * are partials in scratch, which a second kernel adds. */
#include "device/cuda/kernel.cuh"

/* Fours that a lane keeps of a row; of three rows and a sum in the backward pass. */
#define KEPT          8
#define KEPT_BACKWARD 4

/* Warps of a team at most. */
#define WARPS          8
#define BLOCKS         3 /* of a multiprocessor, at once */
#define WARPS_BACKWARD TEAM_WARPS

static unsigned least(size_t a, size_t b) {
    return (unsigned)(a < b ? a : b);
}

static inline __device__ four scaled(four x, float by) {
    for (int j = 0; j < 4; j++) x.at[j] *= by;
    return x;
}

/* ---- Forward --------------------------------------------------------------------------------- */

static inline __device__ float rstd_of(float squares, unsigned C, float eps) {
    return 1.0f / sqrtf(squares / (float)C + eps);
}

template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS *WARP,
                          BLOCKS) void rms_norm_forward_kernel(real *y, float *stat,
                                                               const real *gain, const real *x,
                                                               float eps, size_t T, unsigned C) {
    __shared__ float area[2][WARPS];
    int turn = 0;
    for (size_t first = (size_t)blockIdx.x * blockDim.y; first < T;
         first += (size_t)gridDim.x * blockDim.y) {
        size_t t = first + threadIdx.y;
        unsigned bound = t < T ? C : 0; /* a team without a row still joins the barriers */
        four row[KEPT];
        float squares = 0.0f;
        for (unsigned k = 0; k < KEPT; k++)
            row[k] = load_row<VECTOR>(x + t * C, 4 * (threadIdx.x + k * blockDim.x), bound);
        for (unsigned k = 0; k < KEPT; k++) squares = add_squares(squares, row[k]);
        float rstd = rstd_of(team_sum(squares, area[turn]), C, eps);
        turn = !turn;
        for (unsigned k = 0; k < KEPT; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            four scale = load_row<VECTOR>(gain, c, bound);
            store_row<VECTOR>(y + t * C, c, bound, times(scaled(row[k], rstd), scale));
        }
        if (threadIdx.x == 0 && t < T) stat[t] = rstd;
    }
}

/* The same for rows that are too wide: one team per thread block, two passes over the row. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS *WARP, BLOCKS) void rms_norm_forward_wide(real *y, float *stat,
                                                                          const real *gain,
                                                                          const real *x, float eps,
                                                                          size_t T, unsigned C) {
    __shared__ float area[2][WARPS];
    const unsigned begin = 4 * threadIdx.x, step = 4 * blockDim.x;
    int turn = 0;
    for (size_t t = blockIdx.x; t < T; t += gridDim.x) {
        const real *row = x + t * C;
        float squares = 0.0f;
        for (unsigned c = begin; c < C; c += step)
            squares = add_squares(squares, load_row<VECTOR>(row, c, C));
        float rstd = rstd_of(team_sum(squares, area[turn]), C, eps);
        turn = !turn;
        for (unsigned c = begin; c < C; c += step) {
            four scale = load_row<VECTOR>(gain, c, C), x_c = load_row<VECTOR>(row, c, C);
            store_row<VECTOR>(y + t * C, c, C, times(scaled(x_c, rstd), scale));
        }
        if (threadIdx.x == 0) stat[t] = rstd;
    }
}

template <typename real>
static trine_status rms_norm_forward(device *d, void *y_, float *stat, const void *gain_,
                                     const void *x_, float eps, size_t T, size_t C) {
    real *y = (real *)y_;
    const real *gain = (const real *)gain_, *x = (const real *)x_;
    if (T == 0 || C == 0) return TRINE_OK;
    unsigned warps = least(cuda_ceil(C, 4 * WARP * KEPT), WARPS), teams = WARPS / warps;
    bool wide = C > (size_t)WARPS * WARP * 4 * KEPT;
    bool vector = C % 4 == 0 && cuda_aligned(y) && cuda_aligned(gain) && cuda_aligned(x);
    dim3 block(warps * WARP, teams);
    unsigned grid = cuda_grid(d, cuda_ceil(T, teams), BLOCKS);
    void (*kernel)(real *, float *, const real *, const real *, float, size_t, unsigned) =
        wide
            ? (vector ? rms_norm_forward_wide<true, real> : rms_norm_forward_wide<false, real>)
            : (vector ? rms_norm_forward_kernel<true, real> : rms_norm_forward_kernel<false, real>);
    LAUNCH(d, kernel, grid, block, 0)(y, stat, gain, x, eps, T, (unsigned)C);
    return LAUNCHED(rms_norm_forward_kernel);
}

CUDA_OF_COMPUTE(rms_norm_forward);

/* ---- Backward: with xhat = x * rstd and g = dy * gain,
 * dx (+)= rstd * (g - xhat * mean(g * xhat)), dgain += dy * xhat ---- */

/* stream + rstd * (g - xhat * mean) */
static inline __device__ four gradient(four stream, four g, four xhat, float mean, float rstd) {
    for (int j = 0; j < 4; j++) stream.at[j] += rstd * (g.at[j] - xhat.at[j] * mean);
    return stream;
}

/* Thread block p, one team, processes rows [p * rows, (p + 1) * rows); its column sums go to partials (p, C), which
 * is aligned as VECTOR requires. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS_BACKWARD *WARP, 1) void rms_norm_backward_kernel(
    real *dx, float *partials, const real *dy, const real *gain, const real *x, const float *stat,
    size_t T, unsigned C, size_t rows, bool add) {
    __shared__ float area[2][WARPS_BACKWARD];
    size_t begin = blockIdx.x * rows, end = begin + rows < T ? begin + rows : T;
    four dgain[KEPT_BACKWARD] = {};
    for (size_t t = begin; t < end; t++) {
        float rstd = stat[t], sum = 0.0f;
        four g[KEPT_BACKWARD], xhat[KEPT_BACKWARD], stream[KEPT_BACKWARD] = {};
        for (unsigned k = 0; k < KEPT_BACKWARD; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            g[k] = load_row<VECTOR>(dy + t * C, c, C);
            xhat[k] = load_row<VECTOR>(x + t * C, c, C);
            if (add) stream[k] = load_row<VECTOR>(dx + t * C, c, C);
        }
        for (unsigned k = 0; k < KEPT_BACKWARD; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            xhat[k] = scaled(xhat[k], rstd);
            dgain[k] = plus(dgain[k], times(g[k], xhat[k]));
            g[k] = times(g[k], load_row<VECTOR>(gain, c, C));
            sum += sum4(times(g[k], xhat[k]));
        }
        float mean = team_sum(sum, area[t % 2]) / (float)C;
        for (unsigned k = 0; k < KEPT_BACKWARD; k++)
            store_row<VECTOR>(dx + t * C, 4 * (threadIdx.x + k * blockDim.x), C,
                              gradient(stream[k], g[k], xhat[k], mean, rstd));
    }
    for (unsigned k = 0; k < KEPT_BACKWARD; k++)
        store_row<VECTOR>(partials + blockIdx.x * (size_t)C, 4 * (threadIdx.x + k * blockDim.x), C,
                          dgain[k]);
}

/* The same for rows that are too wide: a row is read twice, and the sums are kept in `partials`. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS_BACKWARD *WARP,
                          1) void rms_norm_backward_wide(real *dx, float *partials, const real *dy,
                                                         const real *gain, const real *x,
                                                         const float *stat, size_t T, unsigned C,
                                                         size_t rows, bool add) {
    __shared__ float area[2][WARPS_BACKWARD];
    const unsigned first = 4 * threadIdx.x, step = 4 * blockDim.x;
    size_t begin = blockIdx.x * rows, end = begin + rows < T ? begin + rows : T;
    float *dgain = partials + blockIdx.x * (size_t)C;
    for (size_t t = begin; t < end; t++) {
        float rstd = stat[t], sum = 0.0f;
        for (unsigned c = first; c < C; c += step) {
            four xhat = scaled(load_row<VECTOR>(x + t * C, c, C), rstd);
            four g = load_row<VECTOR>(dy + t * C, c, C), gains = {};
            if (t > begin) gains = load_row<VECTOR>(dgain, c, C);
            store_row<VECTOR>(dgain, c, C, plus(gains, times(g, xhat)));
            sum += sum4(times(times(g, load_row<VECTOR>(gain, c, C)), xhat));
        }
        float mean = team_sum(sum, area[t % 2]) / (float)C;
        for (unsigned c = first; c < C; c += step) {
            four xhat = scaled(load_row<VECTOR>(x + t * C, c, C), rstd), stream = {};
            four g = times(load_row<VECTOR>(dy + t * C, c, C), load_row<VECTOR>(gain, c, C));
            if (add) stream = load_row<VECTOR>(dx + t * C, c, C);
            store_row<VECTOR>(dx + t * C, c, C, gradient(stream, g, xhat, mean, rstd));
        }
    }
}

template <typename real, typename grad>
static trine_status rms_norm_backward(device *d, void *dx_, void *dgain, const void *dy_,
                                      const void *gain_, const void *x_, const float *stat,
                                      size_t T, size_t C, grad_mode stream, grad_mode mode) {
    real *dx = (real *)dx_;
    const real *dy = (const real *)dy_, *gain = (const real *)gain_, *x = (const real *)x_;
    if (C == 0) return TRINE_OK;
    float *partials = cuda_of(d)->scratch;
    cuda_cut cut = T ? cuda_cut_of(T, C) : cuda_cut{0, 0};
    CHECK(cut.count <= CUDA_SCRATCH / C, TRINE_EUNSUPPORTED,
          "rms_norm_backward: %zu columns; the cuda device has scratch for %zu", C, CUDA_SCRATCH);
    if (T > 0) {
        unsigned warps = least(cuda_ceil(C, 4 * WARP * KEPT_BACKWARD), WARPS_BACKWARD);
        bool wide = C > (size_t)WARPS_BACKWARD * WARP * 4 * KEPT_BACKWARD;
        bool vector = C % 4 == 0 && cuda_aligned(dx) && cuda_aligned(dy) && cuda_aligned(gain) &&
                      cuda_aligned(x);
        void (*kernel)(real *, float *, const real *, const real *, const real *, const float *,
                       size_t, unsigned, size_t, bool) =
            wide ? (vector ? rms_norm_backward_wide<true, real>
                           : rms_norm_backward_wide<false, real>)
                 : (vector ? rms_norm_backward_kernel<true, real>
                           : rms_norm_backward_kernel<false, real>);
        LAUNCH(d, kernel, (unsigned)cut.count, warps * WARP, 0)
        (dx, partials, dy, gain, x, stat, T, (unsigned)C, cut.rows, stream == GRAD_ADD);
        TRY(LAUNCHED(rms_norm_backward_kernel));
    }
    return cuda_sum_partials(d, (grad *)dgain, (grad *)NULL, partials, cut.count, C, C, mode);
}

CUDA_OF_BOTH(rms_norm_backward);
