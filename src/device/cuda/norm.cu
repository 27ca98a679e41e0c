/* Layer norm. A team of warps processes a row and keeps it in registers between the sums, so that every
 * element is read once. The backward pass also keeps the column sums of its rows in registers and writes
 * them as partials to scratch; a second kernel adds the partials. Rows that are too wide for registers
 * are read again, from the caches. */
#include "device/cuda/kernel.cuh"

#define EPS 1e-5f

/* Fours that a lane keeps of a row; of three rows and two sums in the backward pass. */
#define KEPT          8
#define KEPT_BACKWARD 4

/* Warps of a team at most. */
#define WARPS          8
#define BLOCKS         3 /* of a multiprocessor, at once */
#define WARPS_BACKWARD TEAM_WARPS

static unsigned least(size_t a, size_t b) {
    return (unsigned)(a < b ? a : b);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* x - mean of elements [c, c + 4), 0 past the row's end. */
static inline __device__ four centre(four x, float mean, unsigned c, unsigned C) {
    for (unsigned j = 0; j < 4; j++) x.at[j] = c + j < C ? x.at[j] - mean : 0.0f;
    return x;
}

/* For a centred x. */
static inline __device__ four normalise(four x, float rstd, four gain, four bias) {
    for (int j = 0; j < 4; j++) x.at[j] = x.at[j] * rstd * gain.at[j] + bias.at[j];
    return x;
}

template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS *WARP,
                          BLOCKS) void norm_forward_kernel(real *y, float *stat, const real *gain,
                                                           const real *bias, const real *x,
                                                           size_t T, unsigned C) {
    __shared__ float area[2][WARPS];
    for (size_t first = (size_t)blockIdx.x * blockDim.y; first < T;
         first += (size_t)gridDim.x * blockDim.y) {
        size_t t = first + threadIdx.y;
        unsigned bound = t < T ? C : 0; /* a team without a row still joins the barriers */
        four row[KEPT];
        float sum = 0.0f, squares = 0.0f;
        for (unsigned k = 0; k < KEPT; k++)
            row[k] = load_row<VECTOR>(x + t * C, 4 * (threadIdx.x + k * blockDim.x), bound);
        for (unsigned k = 0; k < KEPT; k++) sum += sum4(row[k]);
        float mean = team_sum(sum, area[0]) / (float)C;
        for (unsigned k = 0; k < KEPT; k++) {
            row[k] = centre(row[k], mean, 4 * (threadIdx.x + k * blockDim.x), bound);
            squares = add_squares(squares, row[k]);
        }
        float rstd = 1.0f / sqrtf(team_sum(squares, area[1]) / (float)C + EPS);
        for (unsigned k = 0; k < KEPT; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            four scale = load_row<VECTOR>(gain, c, bound), shift = load_row<VECTOR>(bias, c, bound);
            store_row<VECTOR>(y + t * C, c, bound, normalise(row[k], rstd, scale, shift));
        }
        if (threadIdx.x == 0 && t < T) stat[2 * t] = mean, stat[2 * t + 1] = rstd;
    }
}

/* The same for rows that are too wide: one team per thread block, three passes over the row. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS *WARP,
                          BLOCKS) void norm_forward_wide(real *y, float *stat, const real *gain,
                                                         const real *bias, const real *x, size_t T,
                                                         unsigned C) {
    __shared__ float area[2][WARPS];
    const unsigned begin = 4 * threadIdx.x, step = 4 * blockDim.x;
    for (size_t t = blockIdx.x; t < T; t += gridDim.x) {
        const real *row = x + t * C;
        float sum = 0.0f, squares = 0.0f;
        for (unsigned c = begin; c < C; c += step) sum += sum4(load_row<VECTOR>(row, c, C));
        float mean = team_sum(sum, area[0]) / (float)C;
        for (unsigned c = begin; c < C; c += step)
            squares = add_squares(squares, centre(load_row<VECTOR>(row, c, C), mean, c, C));
        float rstd = 1.0f / sqrtf(team_sum(squares, area[1]) / (float)C + EPS);
        for (unsigned c = begin; c < C; c += step) {
            four scale = load_row<VECTOR>(gain, c, C), shift = load_row<VECTOR>(bias, c, C);
            four x_c = centre(load_row<VECTOR>(row, c, C), mean, c, C);
            store_row<VECTOR>(y + t * C, c, C, normalise(x_c, rstd, scale, shift));
        }
        if (threadIdx.x == 0) stat[2 * t] = mean, stat[2 * t + 1] = rstd;
    }
}

template <typename real>
static trine_status norm_forward(device *d, void *y_, float *stat, const void *gain_,
                                 const void *bias_, const void *x_, size_t T, size_t C) {
    real *y = (real *)y_;
    const real *gain = (const real *)gain_, *bias = (const real *)bias_, *x = (const real *)x_;
    if (T == 0 || C == 0) return TRINE_OK;
    unsigned warps = least(cuda_ceil(C, 4 * WARP * KEPT), WARPS), teams = WARPS / warps;
    bool wide = C > (size_t)WARPS * WARP * 4 * KEPT;
    bool vector = C % 4 == 0 && cuda_aligned(y) && cuda_aligned(gain) && cuda_aligned(bias) &&
                  cuda_aligned(x);
    dim3 block(warps * WARP, teams);
    unsigned grid = cuda_grid(d, cuda_ceil(T, teams), BLOCKS);
    void (*kernel)(real *, float *, const real *, const real *, const real *, size_t, unsigned) =
        wide ? (vector ? norm_forward_wide<true, real> : norm_forward_wide<false, real>)
             : (vector ? norm_forward_kernel<true, real> : norm_forward_kernel<false, real>);
    LAUNCH(d, kernel, grid, block, 0)(y, stat, gain, bias, x, T, (unsigned)C);
    return LAUNCHED(norm_forward_kernel);
}

CUDA_OF_COMPUTE(norm_forward);

/* ---- Backward: with xhat = (x - mean) * rstd and g = dy * gain,
 * dx (+)= rstd * (g - mean(g) - xhat * mean(g * xhat)), dgain += dy * xhat, dbias += dy ---- */

static inline __device__ four hat(four x, float mean, float rstd) {
    for (int j = 0; j < 4; j++) x.at[j] = (x.at[j] - mean) * rstd;
    return x;
}

/* stream + rstd * (g - means[0] - xhat * means[1]) */
static inline __device__ four gradient(four stream, four g, four xhat, const float *means,
                                       float rstd) {
    for (int j = 0; j < 4; j++) stream.at[j] += rstd * (g.at[j] - means[0] - xhat.at[j] * means[1]);
    return stream;
}

/* Thread block p, one team, processes rows [p * rows, (p + 1) * rows); its column sums go to partials (p, 2 C), those
 * of dgain before those of dbias. `partials` is aligned as VECTOR requires. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS_BACKWARD *WARP,
                          1) void norm_backward_kernel(real *dx, float *partials, const real *dy,
                                                       const real *gain, const real *x,
                                                       const float *stat, size_t T, unsigned C,
                                                       size_t rows, bool add) {
    __shared__ float area[2][2 * WARPS_BACKWARD];
    size_t begin = blockIdx.x * rows, end = begin + rows < T ? begin + rows : T;
    four dgain[KEPT_BACKWARD] = {}, dbias[KEPT_BACKWARD] = {};
    for (size_t t = begin; t < end; t++) {
        float mean = stat[2 * t], rstd = stat[2 * t + 1], means[2] = {};
        four g[KEPT_BACKWARD], xhat[KEPT_BACKWARD], stream[KEPT_BACKWARD] = {};
        for (unsigned k = 0; k < KEPT_BACKWARD; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            g[k] = load_row<VECTOR>(dy + t * C, c, C);
            xhat[k] = load_row<VECTOR>(x + t * C, c, C);
            if (add) stream[k] = load_row<VECTOR>(dx + t * C, c, C);
        }
        for (unsigned k = 0; k < KEPT_BACKWARD; k++) {
            unsigned c = 4 * (threadIdx.x + k * blockDim.x);
            xhat[k] = hat(xhat[k], mean, rstd);
            dgain[k] = plus(dgain[k], times(g[k], xhat[k]));
            dbias[k] = plus(dbias[k], g[k]);
            g[k] = times(g[k], load_row<VECTOR>(gain, c, C));
            means[0] += sum4(g[k]);
            means[1] += sum4(times(g[k], xhat[k]));
        }
        team_sums<2>(means, area[t % 2]);
        means[0] /= (float)C, means[1] /= (float)C;
        for (unsigned k = 0; k < KEPT_BACKWARD; k++)
            store_row<VECTOR>(dx + t * C, 4 * (threadIdx.x + k * blockDim.x), C,
                              gradient(stream[k], g[k], xhat[k], means, rstd));
    }
    float *partial = partials + blockIdx.x * (size_t)C * 2;
    for (unsigned k = 0; k < KEPT_BACKWARD; k++) {
        unsigned c = 4 * (threadIdx.x + k * blockDim.x);
        store_row<VECTOR>(partial, c, C, dgain[k]);
        store_row<VECTOR>(partial + C, c, C, dbias[k]);
    }
}

/* The same for rows that are too wide: a row is read twice, and the sums are kept in `partials`. */
template <bool VECTOR, typename real>
static __global__ AT_ONCE(WARPS_BACKWARD *WARP,
                          1) void norm_backward_wide(real *dx, float *partials, const real *dy,
                                                     const real *gain, const real *x,
                                                     const float *stat, size_t T, unsigned C,
                                                     size_t rows, bool add) {
    __shared__ float area[2][2 * WARPS_BACKWARD];
    const unsigned first = 4 * threadIdx.x, step = 4 * blockDim.x;
    size_t begin = blockIdx.x * rows, end = begin + rows < T ? begin + rows : T;
    float *dgain = partials + blockIdx.x * (size_t)C * 2, *dbias = dgain + C;
    for (size_t t = begin; t < end; t++) {
        float mean = stat[2 * t], rstd = stat[2 * t + 1], means[2] = {};
        for (unsigned c = first; c < C; c += step) {
            four xhat = hat(load_row<VECTOR>(x + t * C, c, C), mean, rstd);
            four g = load_row<VECTOR>(dy + t * C, c, C), gains = {}, biases = {};
            if (t > begin) gains = load_row<VECTOR>(dgain, c, C);
            if (t > begin) biases = load_row<VECTOR>(dbias, c, C);
            store_row<VECTOR>(dgain, c, C, plus(gains, times(g, xhat)));
            store_row<VECTOR>(dbias, c, C, plus(biases, g));
            g = times(g, load_row<VECTOR>(gain, c, C));
            means[0] += sum4(g);
            means[1] += sum4(times(g, xhat));
        }
        team_sums<2>(means, area[t % 2]);
        means[0] /= (float)C, means[1] /= (float)C;
        for (unsigned c = first; c < C; c += step) {
            four xhat = hat(load_row<VECTOR>(x + t * C, c, C), mean, rstd), stream = {};
            four g = times(load_row<VECTOR>(dy + t * C, c, C), load_row<VECTOR>(gain, c, C));
            if (add) stream = load_row<VECTOR>(dx + t * C, c, C);
            store_row<VECTOR>(dx + t * C, c, C, gradient(stream, g, xhat, means, rstd));
        }
    }
}

template <typename real, typename grad>
static trine_status norm_backward(device *d, void *dx_, void *dgain, void *dbias, const void *dy_,
                                  const void *gain_, const void *x_, const float *stat, size_t T,
                                  size_t C, grad_mode stream, grad_mode mode) {
    real *dx = (real *)dx_;
    const real *dy = (const real *)dy_, *gain = (const real *)gain_, *x = (const real *)x_;
    if (C == 0) return TRINE_OK;
    float *partials = cuda_of(d)->scratch;
    cuda_cut cut = T ? cuda_cut_of(T, 2 * C) : cuda_cut{0, 0};
    CHECK(cut.count <= CUDA_SCRATCH / (2 * C), TRINE_EUNSUPPORTED,
          "norm_backward: %zu columns; the cuda device has scratch for %zu", C, CUDA_SCRATCH / 2);
    if (T > 0) {
        unsigned warps = least(cuda_ceil(C, 4 * WARP * KEPT_BACKWARD), WARPS_BACKWARD);
        bool wide = C > (size_t)WARPS_BACKWARD * WARP * 4 * KEPT_BACKWARD;
        bool vector = C % 4 == 0 && cuda_aligned(dx) && cuda_aligned(dy) && cuda_aligned(gain) &&
                      cuda_aligned(x);
        void (*kernel)(real *, float *, const real *, const real *, const real *, const float *,
                       size_t, unsigned, size_t, bool) =
            wide ? (vector ? norm_backward_wide<true, real> : norm_backward_wide<false, real>)
                 : (vector ? norm_backward_kernel<true, real> : norm_backward_kernel<false, real>);
        LAUNCH(d, kernel, (unsigned)cut.count, warps * WARP, 0)
        (dx, partials, dy, gain, x, stat, T, (unsigned)C, cut.rows, stream == GRAD_ADD);
        TRY(LAUNCHED(norm_backward_kernel));
    }
    return cuda_sum_partials(d, (grad *)dgain, (grad *)dbias, partials, cut.count, 2 * C, C, mode);
}

CUDA_OF_BOTH(norm_backward);
