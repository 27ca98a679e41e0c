/* Cross-entropy over a shard of the vocabulary. Each kernel reads the logits once, with a team of
 * warps for each row; probabilities exist in registers only.
 *
 * A vocabulary is seldom a multiple of four (GPT-2's is 50257), so rows are not aligned. Therefore
 * threads read single, neighbouring elements, with BATCH loads in flight each; the team's size is a
 * compile-time constant, so that the distances are fixed.
 *
 * In the forward pass each thread keeps the maximum of its own columns, a batch at a time; the maxima
 * and sums of a team are combined once, at the end of the row. expf is the accurate one (1 ulp): with
 * the maximum that is 15 instructions per element (sm_90), where an H200's bandwidth allows some 28, and
 * 16 in 16 bits, where it allows 14. */
#include <math.h>

#include "device/cuda/kernel.cuh"

#define BATCH   8
#define THREADS 256 /* of a block: one team, or eight for a vocabulary of less than two batches */
#define BLOCKS  6   /* of a multiprocessor, at once */

/* A team's row, or a row of no columns past the last one and without a target. */
#define EACH_ROW(t, bound)                                                                         \
    for (size_t first_ = (size_t)blockIdx.x * blockDim.y, t = first_ + threadIdx.y,                \
                bound = has_target(targets, t, T) ? valid : 0;                                     \
         first_ < T; first_ += (size_t)gridDim.x * blockDim.y, t = first_ + threadIdx.y,           \
                bound = has_target(targets, t, T) ? valid : 0)

static inline __device__ bool has_target(const int32_t *targets, size_t t, size_t T) {
    return t < T && targets[t] != OPS_NO_TARGET;
}

/* Elements c, c + TEAM, ... of a row, all within it. */
template <unsigned TEAM, typename real>
static inline __device__ void load_whole(float *x, const real *row, unsigned c) {
    for (unsigned u = 0; u < BATCH; u++) x[u] = load(row + c + u * TEAM);
}

/* -inf for those past the end. */
template <unsigned TEAM, typename real>
static inline __device__ void load_rest(float *x, const real *row, unsigned c, unsigned bound) {
    for (unsigned u = 0; u < BATCH; u++)
        x[u] = c + u * TEAM < bound ? load(row + c + u * TEAM) : -INFINITY;
}

/* Whether a thread's batch from c on is completely within the row. */
template <unsigned TEAM> static inline __device__ bool whole(unsigned c, unsigned bound) {
    return c + (BATCH - 1) * TEAM < bound;
}

static inline __device__ float team_max(float x, float *area) {
    const unsigned warps = blockDim.x / WARP;
    for (int k = WARP / 2; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, k));
    if (warps == 1) return x;
    float *own = area + threadIdx.y * warps;
    if (threadIdx.x % WARP == 0) own[threadIdx.x / WARP] = x;
    __syncthreads();
    x = own[0];
    for (unsigned w = 1; w < warps; w++) x = fmaxf(x, own[w]);
    return x;
}

/* Statistics of the columns that a thread has processed: their maximum, which ignores NaNs, and the sum
 * of their exponentials relative to it, which does not. */
typedef struct {
    float max, sum;
} online;

/* The number that is subtracted from logits. It is never -inf, because -inf minus -inf would be NaN instead of an
 * exponential of 0. */
static inline __device__ float base_of(float max) {
    return max == -INFINITY ? 0.0f : max;
}

static inline __device__ void take(online *o, const float *x) {
    float max = o->max;
    for (int u = 0; u < BATCH; u++) max = fmaxf(max, x[u]);
    float base = base_of(max);
    o->sum *= expf(o->max - base);
    for (int u = 0; u < BATCH; u++) o->sum += expf(x[u] - base);
    o->max = max;
}

/* The target's column among the valid columns of the shard; `valid` if it is not among them. */
static inline __device__ unsigned target_column(int32_t target, int32_t first, unsigned valid) {
    int64_t column = (int64_t)target - first;
    return column >= 0 && column < (int64_t)valid ? (unsigned)column : valid;
}

template <unsigned TEAM, typename real>
static __global__
AT_ONCE(THREADS, BLOCKS) void xent_forward_kernel(float *max, float *sums, const real *logits,
                                                  const int32_t *targets, int32_t first, size_t T,
                                                  size_t V, unsigned valid) {
    __shared__ float area[2][THREADS / WARP];
    EACH_ROW(t, bound) {
        const real *row = logits + t * V;
        unsigned c = threadIdx.x;
        online o = {-INFINITY, 0.0f};
        float x[BATCH];
        for (; whole<TEAM>(c, bound); c += BATCH * TEAM) {
            load_whole<TEAM>(x, row, c);
            take(&o, x);
        }
        load_rest<TEAM>(x, row, c, bound);
        take(&o, x);
        float most = team_max(o.max, area[0]);
        float sum = team_sum(o.sum * expf(o.max - base_of(most)), area[1]);
        if (threadIdx.x == 0 && t < T && targets[t] == OPS_NO_TARGET) {
            max[t] = 0.0f, sums[2 * t] = 1.0f, sums[2 * t + 1] = 0.0f;
        } else if (threadIdx.x == 0 && t < T) {
            unsigned target = target_column(targets[t], first, valid);
            max[t] = isnan(sum) && most < INFINITY ? sum : most;
            sums[2 * t] = sum;
            sums[2 * t + 1] = target < valid ? load(row + target) : 0.0f;
        }
    }
}

template <unsigned TEAM, typename real>
static __global__ AT_ONCE(THREADS, BLOCKS) void xent_backward_kernel(
    real *logits, const float *max, const float *sums, const int32_t *targets, int32_t first,
    float scale, size_t T, size_t V, unsigned valid) {
    EACH_ROW(t, bound) {
        if (t >= T) continue;
        real *row = logits + t * V;
        unsigned c = threadIdx.x, target = target_column(targets[t], first, valid);
        float most = max[t], factor = scale / sums[2 * t], x[BATCH];
        for (; whole<TEAM>(c, bound); c += BATCH * TEAM) {
            load_whole<TEAM>(x, row, c);
            for (unsigned u = 0; u < BATCH; u++) {
                float p = expf(x[u] - most) * factor;
                store(row + c + u * TEAM, c + u * TEAM == target ? p - scale : p);
            }
        }
        load_rest<TEAM>(x, row, c, bound);
        for (unsigned u = 0; u < BATCH; u++) {
            float p = expf(x[u] - most) * factor;
            if (c + u * TEAM < bound)
                store(row + c + u * TEAM, c + u * TEAM == target ? p - scale : p);
        }
        for (c = (unsigned)bound + threadIdx.x; c < V; c += TEAM) store(row + c, 0.0f);
    }
}

/* The assignment of rows to teams, for both passes. */
typedef struct {
    bool warps; /* a team is a warp, and not all of the block */
    dim3 block;
    unsigned grid;
} shape;

static shape shape_of(const device *d, size_t T, size_t valid) {
    bool warps = valid < 2 * BATCH * WARP;
    unsigned teams = warps ? THREADS / WARP : 1;
    return {warps, dim3(THREADS / teams, teams), cuda_grid(d, cuda_ceil(T, teams), BLOCKS)};
}

template <typename real>
static trine_status xent_forward(device *d, float *max, float *sums, const void *logits,
                                 const int32_t *targets, int32_t first, size_t T, size_t V,
                                 size_t valid) {
    if (T == 0) return TRINE_OK;
    shape s = shape_of(d, T, valid);
    auto kernel = s.warps ? xent_forward_kernel<WARP, real> : xent_forward_kernel<THREADS, real>;
    LAUNCH(d, kernel, s.grid, s.block, 0)
    (max, sums, (const real *)logits, targets, first, T, V, (unsigned)valid);
    return LAUNCHED(xent_forward_kernel);
}

CUDA_OF_COMPUTE(xent_forward);

template <typename real>
static trine_status xent_backward(device *d, void *logits, const float *max, const float *sums,
                                  const int32_t *targets, int32_t first, float scale, size_t T,
                                  size_t V, size_t valid) {
    if (T == 0 || V == 0) return TRINE_OK;
    shape s = shape_of(d, T, valid);
    auto kernel = s.warps ? xent_backward_kernel<WARP, real> : xent_backward_kernel<THREADS, real>;
    LAUNCH(d, kernel, s.grid, s.block, 0)
    ((real *)logits, max, sums, targets, first, scale, T, V, (unsigned)valid);
    return LAUNCHED(xent_backward_kernel);
}

CUDA_OF_COMPUTE(xent_backward);

/* ---- Statistics of rows ---------------------------------------------------------------------- */

#define TERMS 256

/* A NaN wins. */
static __global__ void xent_max_kernel(float *max, const float *own, size_t parts, size_t T) {
    size_t t = (size_t)blockIdx.x * TERMS + threadIdx.x;
    if (t >= T) return;
    float most = own[t];
    for (size_t p = 1; p < parts; p++) {
        float next = own[p * T + t];
        if (next > most || next != next) most = next;
    }
    max[t] = most;
}

static trine_status xent_max(device *d, float *max, const float *own, size_t parts, size_t T) {
    if (T == 0) return TRINE_OK;
    LAUNCH(d, xent_max_kernel, (unsigned)cuda_ceil(T, TERMS), TERMS, 0)(max, own, parts, T);
    return LAUNCHED(xent_max_kernel);
}

CUDA_OF_ALL(xent_max);

static __global__ void xent_rescale_kernel(float *sums, const float *own, const float *max,
                                           size_t T) {
    size_t t = (size_t)blockIdx.x * TERMS + threadIdx.x;
    if (t < T) sums[2 * t] *= expf(own[t] - max[t]);
}

static trine_status xent_rescale(device *d, float *sums, const float *own, const float *max,
                                 size_t T) {
    if (T == 0) return TRINE_OK;
    LAUNCH(d, xent_rescale_kernel, (unsigned)cuda_ceil(T, TERMS), TERMS, 0)(sums, own, max, T);
    return LAUNCHED(xent_rescale_kernel);
}

CUDA_OF_ALL(xent_rescale);

/* partials: the sums over TERMS rows each, in double. */
static __global__ void xent_loss_kernel(double *partials, const float *max, const float *sums,
                                        const int32_t *targets, size_t T) {
    __shared__ double area[TERMS / WARP];
    size_t t = (size_t)blockIdx.x * TERMS + threadIdx.x;
    double term = 0.0;
    if (has_target(targets, t, T))
        term = log((double)sums[2 * t]) + ((double)max[t] - (double)sums[2 * t + 1]);
    term = block_sum(term, area);
    if (threadIdx.x == 0) partials[blockIdx.x] = term;
}

static trine_status xent_loss(device *d, double *loss, const float *max, const float *sums,
                              const int32_t *targets, double scale, size_t T) {
    if (T == 0) return TRINE_OK;
    double *partials = (double *)cuda_of(d)->scratch;
    size_t count = cuda_ceil(T, TERMS);
    CHECK(count <= CUDA_SCRATCH / 2, TRINE_EUNSUPPORTED,
          "xent_loss: %zu tokens in one call; the cuda device has scratch for %zu", T,
          CUDA_SCRATCH / 2 * TERMS);
    LAUNCH(d, xent_loss_kernel, (unsigned)count, TERMS, 0)(partials, max, sums, targets, T);
    TRY(LAUNCHED(xent_loss_kernel));
    return cuda_total(d, loss, partials, count, scale, GRAD_ADD);
}

CUDA_OF_ALL(xent_loss);
