/* A thread block has 16 ROWS queries of one head and loops over the keys up to its last query, 8 COLS at
 * a time. For each query it keeps the maximum so far and the sum of exponentials relative to it, and
 * rescales them when the maximum grows. Scores are in units of log 2, because exp2f needs few
 * instructions; lse is converted back.
 *
 * Arithmetic: 2 products of 2 D flop for each pair below the diagonal, B H (T (T + 1) / 2) 4 D flop,
 * and half a tile more on the diagonal; one exponential per pair. Thread blocks with most keys start
 * first. */
#include "device/cuda/attention_mma.cuh"
#include "device/cuda/sizes.h"

/* Replaces the products in scores by exp2(score - max) and updates max and sums; `factor` is the factor
 * by which the previous sums and outputs must be multiplied. */
template <int ROWS, int COLS>
static __device__ inline void exponentials(float scores[ROWS][COLS], float max[ROWS],
                                           float sum[ROWS], float factor[ROWS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float next = max[i];
#pragma unroll
        for (int j = 0; j < COLS; j++) next = fmaxf(next, scores[i][j]);
        next = attention_row_max(next);
        /* If all scores of the row so far are -infinity, their exponentials count as zeros. */
        float base = next == -INFINITY ? 0.0f : next;
        factor[i] = exp2f(max[i] - base);
        sum[i] *= factor[i];
        max[i] = next;
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            scores[i][j] = exp2f(scores[i][j] - base);
            sum[i] += scores[i][j];
        }
    }
}

/* Scores in units of log 2, -infinity where the query does not attend to the key. */
template <bool DOCUMENTS, int ROWS, int COLS>
static __device__ inline void mask(float scores[ROWS][COLS], const int start[ROWS], size_t query,
                                   size_t key, float scale) {
    const int ahead = (int)query - (int)key;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const int column = attention_tx() + ATTENTION_TX * j;
            bool seen = column <= ahead + attention_ty() + ATTENTION_TY * i &&
                        (!DOCUMENTS || column >= start[i] - (int)key);
            scores[i][j] = seen ? scores[i][j] * scale : -INFINITY;
        }
}

template <int WIDTH, int ROWS>
static __device__ inline void rescale(float out[ROWS][WIDTH / 8], const float factor[ROWS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) out[i][n] *= factor[i];
}

template <int ROWS, int COLS>
static __device__ inline void drop_some(float scores[ROWS][COLS], const cuda_drop *drop,
                                        const attention_shape *s, size_t head, size_t query,
                                        size_t key) {
    const unsigned tx = (unsigned)attention_tx();
    uint64_t sample;
    uint64_t base = attention_drop_at(drop, s, head, query + (size_t)attention_ty(), &sample) + key;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float factors[COLS];
        attention_factors<COLS, 1>(factors, drop, sample,
                                   base + (size_t)(ATTENTION_TY * i) * s->T + tx / 4 * 4,
                                   ATTENTION_TX, tx % 4);
#pragma unroll
        for (int j = 0; j < COLS; j++) scores[i][j] *= factors[j];
    }
}

template <int WIDTH, int ROWS, typename real>
static __device__ inline void finish(real *y, float *lse, const float out[ROWS][WIDTH / 8],
                                     const float max[ROWS], float sum[ROWS], size_t head,
                                     size_t query, const attention_shape *s) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        size_t t = query + (size_t)(attention_ty() + ATTENTION_TY * i);
        float all = attention_row_sum(sum[i]);
        if (t >= s->T) continue;
        attention_store<WIDTH>(y + attention_y_at(s, head, t), out[i], 1.0f / all, s);
        if (attention_tx() == 0) lse[head * s->T + t] = max[i] * LN_2 + logf(all);
    }
}

template <int WIDTH, int ROWS, int COLS> static constexpr int shared_floats() {
    return attention_tile(16 * ROWS, WIDTH) + attention_tile(8 * COLS, WIDTH) +
           attention_larger(attention_tile(8 * COLS, WIDTH), attention_tile(16 * ROWS, 8 * COLS));
}

template <typename real, bool DROP, bool DOCUMENTS, int WIDTH, int ROWS, int COLS, int BLOCKS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, BLOCKS)
    attention_forward_kernel(real *y, float *lse, const real *qkv, size_t heads, attention_shape s,
                             cuda_drop drop) {
    SHARED_MEMORY(float, shared);
    /* All keys have been read before the exponentials are written. */
    float *q = shared, *v = q + attention_tile(16 * ROWS, WIDTH),
          *k = v + attention_tile(8 * COLS, WIDTH), *p = k;
    size_t head = blockIdx.x % heads, tile = (gridDim.x - 1 - blockIdx.x) / heads;
    size_t query = tile * 16 * ROWS, stride = s.stride, KD = s.K * s.D;
    size_t end = query + 16 * ROWS < s.T ? query + 16 * ROWS : s.T;
    const real *queries = qkv + attention_q_at(&s, head, query);
    const real *keys = qkv + attention_k_at(&s, head, 0);
    float out[ROWS][WIDTH / 8] = {}, max[ROWS], sum[ROWS], factor[ROWS], scores[ROWS][COLS];
    for (int i = 0; i < ROWS; i++) max[i] = -INFINITY, sum[i] = 0.0f;
    attention_load<16 * ROWS, WIDTH>(q, queries, stride, end - query, &s);
    const attention_keys_seen<ROWS> seen =
        attention_seen<ROWS, DOCUMENTS>(&s, head, query, 8 * COLS);
    for (size_t key = seen.first; key < end; key += 8 * COLS) {
        const real *from = keys + key * stride;
        __syncthreads();
        attention_load<8 * COLS, WIDTH>(k, from, stride, s.T - key, &s);
        attention_load<8 * COLS, WIDTH>(v, from + KD, stride, s.T - key, &s);
        __syncthreads();
        attention_scores<WIDTH, ROWS, COLS>(scores, q, k, (int)s.D);
        mask<DOCUMENTS, ROWS, COLS>(scores, seen.start, query, key, s.scale * LOG2_E);
        exponentials<ROWS, COLS>(scores, max, sum, factor);
        rescale<WIDTH, ROWS>(out, factor);
        if (DROP) drop_some<ROWS, COLS>(scores, &drop, &s, head, query, key);
        __syncthreads();
        attention_share<ROWS, COLS>(p, scores);
        __syncthreads();
        attention_terms<ROWS> terms =
            attention_up_to_itself<ROWS, DOCUMENTS>(seen.start, query, key);
        if (key + 8 * COLS <= query && (!DOCUMENTS || key >= seen.all))
            attention_values<WIDTH, ROWS, 8 * COLS, false>(out, p, v, terms);
        else
            attention_values<WIDTH, ROWS, 8 * COLS, true>(out, p, v, terms);
    }
    finish<WIDTH, ROWS>(y, lse, out, max, sum, head, query, &s);
}

/* ---- Host code ---- */

template <typename real> struct variant {
    size_t width, rows, lanes, bytes; /* rows of a tile; elements at once; shared memory */
    bool wide; /* takes only rows that may be read `lanes` elements at a time */
    void (*kernel)(real *, float *, const real *, size_t, attention_shape, cuda_drop);
};

#define VARIANT(width, rows, cols, blocks)                                                         \
    {                                                                                              \
        width, 16 * rows, 4, shared_floats<width, rows, cols>() * sizeof(float), false,            \
            attention_forward_kernel<real, DROP, DOCUMENTS, width, rows, cols, blocks>             \
    }
#define MMA_VARIANT(width, wide)                                                                   \
    {                                                                                              \
        width, MMA_TILE, MMA_LANES, (size_t)attention_mma_shared(width, DOCUMENTS), wide,          \
            attention_mma_forward<width, real, DROP, wide, DOCUMENTS>                              \
    }

/* In order of width. All fit into 99 KiB, the smallest shared memory per thread block of today's GPUs. The
 * last number is how many thread blocks fit on a multiprocessor of an H200; they hide each other's memory
 * latency. 16-bit heads use the tensor cores, except the widest. */
template <typename real, bool DROP, bool DOCUMENTS> struct variants {
    static constexpr variant<real> list[] = {MMA_VARIANT(64, true),   MMA_VARIANT(96, true),
                                             MMA_VARIANT(128, true),  MMA_VARIANT(64, false),
                                             MMA_VARIANT(128, false), VARIANT(256, 2, 4, 2)};
};

template <bool DROP, bool DOCUMENTS> struct variants<float, DROP, DOCUMENTS> {
    typedef float real;
    static constexpr variant<real> list[] = {VARIANT(32, 4, 8, 3), VARIANT(64, 4, 8, 3),
                                             VARIANT(96, 4, 8, 2), VARIANT(128, 4, 8, 2),
                                             VARIANT(256, 2, 4, 2)};
};

template <typename real> static const variant<real> *variants_of(bool drop, bool documents) {
    if (documents)
        return drop ? variants<real, true, true>::list : variants<real, false, true>::list;
    return drop ? variants<real, true, false>::list : variants<real, false, false>::list;
}

template <typename real>
static attention_shape shape_for(const variant<real> *v, const real *y, const real *qkv,
                                 const int32_t *starts, size_t T, size_t H, size_t K, size_t D) {
    attention_shape s = attention_shape_of(T, H, K, D, v->lanes, starts);
    attention_look(&s, y, v->lanes);
    attention_look(&s, qkv, v->lanes);
    return s;
}

template <typename real>
static trine_status attention_forward(device *d, void *y_, float *lse, const void *qkv_,
                                      const int32_t *starts, void *work, const dropout_args *drop,
                                      size_t B, size_t T, size_t H, size_t K, size_t D) {
    real *y = (real *)y_;
    const real *qkv = (const real *)qkv_;
    (void)work;
    if (B == 0 || T == 0 || H == 0 || D == 0) return TRINE_OK;
    CHECK(D <= CUDA_WIDEST_HEAD, TRINE_EUNSUPPORTED,
          "attention: head width %zu is not supported; the cuda device supports up to %d", D,
          CUDA_WIDEST_HEAD);
    const variant<real> *v = variants_of<real>(drop, starts);
    attention_shape s = shape_for(v, y, qkv, starts, T, H, K, D);
    while (v->width < D || (v->wide && !s.wide)) s = shape_for(++v, y, qkv, starts, T, H, K, D);
    unsigned blocks = 0;
    TRY(attention_blocks(&blocks, B, T, H, v->rows));
    TRY_CUDA(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)v->bytes));
    LAUNCH(d, v->kernel, blocks, ATTENTION_THREADS, v->bytes)
    (y, lse, qkv, B * H, s, attention_drop_of(drop, T));
    return LAUNCHED(attention_forward_kernel);
}

CUDA_OF_COMPUTE(attention_forward);
