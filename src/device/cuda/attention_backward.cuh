/* Three kernels. The first computes delta (B, H, T) = sum over D of dy y, which is stored in `work`. In
 * the second a thread block has a tile of keys and loops over the queries that attend to them, those of all
 * query heads that read this key head, in ascending order; in the third it has a tile of queries and loops
 * over the keys that they attend to. Both recompute the scores from lse (FlashAttention, appendix B):
 *
 *   p = exp(q k / sqrt(D) - lse)    ds = p (dy v - delta)
 *   dv = p^T dy    dk = ds^T q / sqrt(D)    dq = ds k / sqrt(D)
 *
 * With a dropout factor f of p, ds = p (f dy v - delta) and dv = (f p)^T dy; y includes f, and so does
 * delta.
 *
 * A single kernel for the last two would compute p and ds once, 5 products instead of 7, but dq would
 * be summed over thread blocks that run in any order: with atomics, and so with different bits from run
 * to run, or in (T / 64) partial sums of its size. Two more products are the cheaper way to equal bits.
 *
 * Arithmetic: 7 products of 2 D flop for each pair below the diagonal, B H (T (T + 1) / 2) 14 D.
 *
 * Each type is compiled in a file of its own (attention_backward_f32.cu and so on): together they took 15
 * minutes of one core. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_BACKWARD_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_BACKWARD_CUH

#include "device/cuda/attention_backward.h"
#include "device/cuda/attention_mma_backward.cuh"
#include "device/cuda/sizes.h"

#define DELTA_THREADS 256

/* The elements that a lane reads at once. */
template <typename real> struct alignas(16) sixteen_bytes {
    static constexpr int COUNT = 16 / sizeof(real);
    real at[COUNT];
};

/* Elements [c, c + COUNT) of a row of D elements, in one load if the alignment allows it; elements past the
 * row's end are left unchanged. */
template <bool WIDE, typename real>
static __device__ inline void read_bytes(sixteen_bytes<real> *to, const real *row, size_t c,
                                         size_t D) {
    if (WIDE)
        *to = *(const sixteen_bytes<real> *)(row + c);
    else
        for (int j = 0; j < to->COUNT; j++)
            if (c + j < D) to->at[j] = row[c + j];
}

/* delta (B, H, T): `lanes` lanes of a warp for each row of y (B, T, H, D). */
template <bool WIDE, typename real>
static __global__ AT_ONCE(DELTA_THREADS,
                          4) void attention_delta(float *delta, const real *dy, const real *y,
                                                  size_t rows, unsigned lanes, attention_shape s) {
    const int count = sixteen_bytes<real>::COUNT;
    size_t row = (size_t)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes;
    float sum = 0.0f;
    if (row < rows)
        for (size_t c = threadIdx.x % lanes * count; c < s.D; c += lanes * count) {
            sixteen_bytes<real> a, b;
            read_bytes<WIDE>(&a, dy + row * s.D, c, s.D);
            read_bytes<WIDE>(&b, y + row * s.D, c, s.D);
            for (int j = 0; j < count; j++)
                if (WIDE || c + j < s.D) sum = fmaf(load(&a.at[j]), load(&b.at[j]), sum);
        }
    for (unsigned k = lanes / 2; k > 0; k /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, k);
    if (row >= rows || threadIdx.x % lanes > 0) return;
    size_t h = row % s.H, t = row / s.H % s.T, b = row / s.H / s.T;
    delta[(b * s.H + h) * s.T + t] = sum;
}

/* For one pair of query and key: replaces the score by p and returns ds. Both are zero if the query does not
 * attend to the key. `factor` is the dropout factor. */
template <bool DROP>
static __device__ inline float pair(float *score, float dy_v, float lse, float delta, float scale,
                                    bool seen, float factor) {
    float p = exp2f(fmaf(*score, scale, -lse * LOG2_E));
    if (DROP) dy_v *= factor;
    *score = seen ? (DROP ? p * factor : p) : 0.0f;
    return seen ? p * (dy_v - delta) : 0.0f;
}

/* ---- dk, dv ---- */

/* The loop over queries for a tile of keys from `key` on. */
template <int ROWS> struct queries_seen {
    int ends[ROWS];  /* behind the documents of this thread's keys */
    size_t end, all; /* as in attention_mma_key_block */
};

template <int ROWS, bool DOCUMENTS>
static __device__ inline queries_seen<ROWS> seen_from(const attention_shape *s, size_t head,
                                                      size_t key) {
    const size_t last = key + 16 * ROWS - 1;
    queries_seen<ROWS> seen = {{}, s->T, s->T};
    if constexpr (DOCUMENTS) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            seen.ends[i] =
                attention_end(s, head, key + (size_t)(attention_ty() + ATTENTION_TY * i));
        seen.end = (size_t)attention_end(s, head, last < s->T ? last : s->T - 1);
        seen.all = (size_t)attention_end(s, head, key);
    }
    return seen;
}

/* Replaces scores (keys, queries) by p, and dy_v by ds. */
template <bool DROP, bool DOCUMENTS, int ROWS, int COLS>
static __device__ inline void key_pairs(float scores[ROWS][COLS], float dy_v[ROWS][COLS],
                                        float factors[ROWS][COLS], const int ends[ROWS],
                                        const float *lse, const float *delta, size_t key,
                                        size_t query, const attention_shape *s) {
    const int ahead = (int)query - (int)key;
#pragma unroll
    for (int j = 0; j < COLS; j++) {
        int column = attention_tx() + ATTENTION_TX * j;
        size_t t = query + (size_t)column;
        bool there = t < s->T;
        float row_lse = there ? lse[t] : 0.0f, row_delta = there ? delta[t] : 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            bool seen = there && attention_ty() + ATTENTION_TY * i <= ahead + column &&
                        (!DOCUMENTS || (int)t < ends[i]);
            dy_v[i][j] = pair<DROP>(&scores[i][j], dy_v[i][j], row_lse, row_delta,
                                    s->scale * LOG2_E, seen, factors[i][j]);
        }
    }
}

/* Keys are rows here: the threads that share dropout words are those of four neighbouring rows, the ty of a
 * warp. */
template <int ROWS, int COLS>
static __device__ inline void key_factors(float factors[ROWS][COLS], const cuda_drop *drop,
                                          const attention_shape *s, size_t head, size_t key,
                                          size_t query) {
    const unsigned ty = (unsigned)attention_ty();
    uint64_t sample;
    uint64_t base = attention_drop_at(drop, s, head, query + (size_t)attention_tx(), &sample) + key;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        attention_factors<COLS, ATTENTION_TX>(factors[i], drop, sample,
                                              base + ty / 4 * 4 + (unsigned)(ATTENTION_TY * i),
                                              ATTENTION_TX * s->T, ty % 4);
}

/* Queries from the key's own position to the end of its document attend to a key; `query` is the first one
 * of a tile of `queries`. */
template <int ROWS, bool DOCUMENTS>
static __device__ inline attention_terms<ROWS> from_itself(const int ends[ROWS], size_t query,
                                                           size_t key, int queries) {
    const int ahead = (int)query - (int)key;
    attention_terms<ROWS> terms;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        terms.first[i] = attention_ty() + ATTENTION_TY * i - ahead;
        terms.end[i] = DOCUMENTS ? ends[i] - (int)query : queries;
    }
    return terms;
}

/* out += pairs times rows, with the pairs in shared memory; all pairs are used unless `cut`. */
template <int WIDTH, int ROWS, int COLS>
static __device__ inline void add_up(float out[ROWS][WIDTH / 8], float *shared,
                                     const float pairs[ROWS][COLS], const float *rows, bool cut,
                                     const attention_terms<ROWS> &terms) {
    __syncthreads();
    attention_share<ROWS, COLS>(shared, pairs);
    __syncthreads();
    if (cut)
        attention_values<WIDTH, ROWS, 8 * COLS, true>(out, shared, rows, terms);
    else
        attention_values<WIDTH, ROWS, 8 * COLS, false>(out, shared, rows, terms);
}

template <int WIDTH, int ROWS, typename real>
static __device__ inline void store_rows(real *to, size_t stride, const float out[ROWS][WIDTH / 8],
                                         float factor, size_t first, const attention_shape *s) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        size_t t = (size_t)(attention_ty() + ATTENTION_TY * i);
        if (first + t < s->T) attention_store<WIDTH>(to + t * stride, out[i], factor, s);
    }
}

template <int WIDTH, int ROWS, int COLS> static constexpr int keys_shared() {
    return 2 * attention_tile(16 * ROWS, WIDTH) + 2 * attention_tile(8 * COLS, WIDTH) +
           attention_tile(16 * ROWS, 8 * COLS);
}

template <typename real, bool DROP, bool DOCUMENTS, int WIDTH, int ROWS, int COLS, int BLOCKS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, BLOCKS)
    attention_keys(real *dqkv, const real *dy, const real *qkv, const float *lse,
                   const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(float, shared);
    float *k = shared, *v = k + attention_tile(16 * ROWS, WIDTH),
          *q = v + attention_tile(16 * ROWS, WIDTH), *dy_rows = q + attention_tile(8 * COLS, WIDTH),
          *p = dy_rows + attention_tile(8 * COLS, WIDTH);
    const size_t first = blockIdx.x % heads * s.group, key = blockIdx.x / heads * 16 * ROWS;
    const size_t HD = s.H * s.D, KD = s.K * s.D, stride = s.stride;
    const size_t at = attention_k_at(&s, first, key);
    const queries_seen<ROWS> seen = seen_from<ROWS, DOCUMENTS>(&s, first, key);
    float dk[ROWS][WIDTH / 8] = {}, dv[ROWS][WIDTH / 8] = {}, scores[ROWS][COLS], ds[ROWS][COLS];
    float factors[ROWS][COLS];
    attention_load<16 * ROWS, WIDTH>(k, qkv + at, stride, s.T - key, &s);
    attention_load<16 * ROWS, WIDTH>(v, qkv + at + KD, stride, s.T - key, &s);
#pragma unroll 1
    for (size_t head = first; head < first + s.group; head++) {
        const real *rows = qkv + attention_q_at(&s, head, 0);
        const real *dys = dy + attention_y_at(&s, head, 0);
        for (size_t query = key / (8 * COLS) * (8 * COLS); query < seen.end; query += 8 * COLS) {
            __syncthreads();
            attention_load<8 * COLS, WIDTH>(q, rows + query * stride, stride, seen.end - query, &s);
            attention_load<8 * COLS, WIDTH>(dy_rows, dys + query * HD, HD, seen.end - query, &s);
            __syncthreads();
            attention_scores<WIDTH, ROWS, COLS>(scores, k, q, (int)s.D);
            attention_scores<WIDTH, ROWS, COLS>(ds, v, dy_rows, (int)s.D);
            if (DROP) key_factors<ROWS, COLS>(factors, &drop, &s, head, key, query);
            key_pairs<DROP, DOCUMENTS, ROWS, COLS>(scores, ds, factors, seen.ends, lse + head * s.T,
                                                   delta + head * s.T, key, query, &s);
            bool cut = query < key + 16 * ROWS || (DOCUMENTS && query + 8 * COLS > seen.all);
            attention_terms<ROWS> terms =
                from_itself<ROWS, DOCUMENTS>(seen.ends, query, key, 8 * COLS);
            add_up<WIDTH, ROWS, COLS>(dv, p, scores, dy_rows, cut, terms);
            add_up<WIDTH, ROWS, COLS>(dk, p, ds, q, cut, terms);
        }
    }
    store_rows<WIDTH, ROWS>(dqkv + at, stride, dk, s.scale, key, &s);
    store_rows<WIDTH, ROWS>(dqkv + at + KD, stride, dv, 1.0f, key, &s);
}

/* ---- dq ---- */

/* Replaces scores (queries, keys) and dy_v by p and ds; lse and delta are those of this thread's rows. */
template <bool DROP, bool DOCUMENTS, int ROWS, int COLS>
static __device__ inline void
query_pairs(float scores[ROWS][COLS], float dy_v[ROWS][COLS], const int start[ROWS],
            const float lse[ROWS], const float delta[ROWS], const cuda_drop *drop,
            const attention_shape *s, size_t head, size_t query, size_t key) {
    const unsigned tx = (unsigned)attention_tx();
    const int ahead = (int)query - (int)key;
    uint64_t sample;
    uint64_t base = attention_drop_at(drop, s, head, query + (size_t)attention_ty(), &sample) + key;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float factors[COLS];
        if (DROP)
            attention_factors<COLS, 1>(factors, drop, sample,
                                       base + (size_t)(ATTENTION_TY * i) * s->T + tx / 4 * 4,
                                       ATTENTION_TX, tx % 4);
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const int column = attention_tx() + ATTENTION_TX * j;
            bool seen = column <= ahead + attention_ty() + ATTENTION_TY * i &&
                        (!DOCUMENTS || column >= start[i] - (int)key);
            dy_v[i][j] = pair<DROP>(&scores[i][j], dy_v[i][j], lse[i], delta[i], s->scale * LOG2_E,
                                    seen, factors[j]);
        }
    }
}

template <int WIDTH, int ROWS, int COLS> static constexpr int queries_shared() {
    return 2 * attention_tile(16 * ROWS, WIDTH) + attention_tile(8 * COLS, WIDTH) +
           attention_larger(attention_tile(8 * COLS, WIDTH), attention_tile(16 * ROWS, 8 * COLS));
}

template <typename real, bool DROP, bool DOCUMENTS, int WIDTH, int ROWS, int COLS, int BLOCKS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, BLOCKS)
    attention_queries(real *dqkv, const real *dy, const real *qkv, const float *lse,
                      const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(float, shared);
    /* All values have been read before ds is written. */
    float *q = shared, *dy_rows = q + attention_tile(16 * ROWS, WIDTH),
          *k = dy_rows + attention_tile(16 * ROWS, WIDTH), *v = k + attention_tile(8 * COLS, WIDTH),
          *p = v;
    const size_t head = blockIdx.x % heads;
    const size_t query = (gridDim.x - 1 - blockIdx.x) / heads * 16 * ROWS;
    const size_t HD = s.H * s.D, KD = s.K * s.D, stride = s.stride;
    const size_t end = query + 16 * ROWS < s.T ? query + 16 * ROWS : s.T;
    const size_t at = attention_q_at(&s, head, query);
    const real *keys = qkv + attention_k_at(&s, head, 0),
               *dys = dy + attention_y_at(&s, head, query);
    float dq[ROWS][WIDTH / 8] = {}, scores[ROWS][COLS], ds[ROWS][COLS];
    float row_lse[ROWS], row_delta[ROWS];
    for (int i = 0; i < ROWS; i++) {
        size_t t = query + (size_t)(attention_ty() + ATTENTION_TY * i);
        row_lse[i] = t < s.T ? lse[head * s.T + t] : 0.0f;
        row_delta[i] = t < s.T ? delta[head * s.T + t] : 0.0f;
    }
    attention_load<16 * ROWS, WIDTH>(q, qkv + at, stride, end - query, &s);
    attention_load<16 * ROWS, WIDTH>(dy_rows, dys, HD, end - query, &s);
    const attention_keys_seen<ROWS> seen =
        attention_seen<ROWS, DOCUMENTS>(&s, head, query, 8 * COLS);
    for (size_t key = seen.first; key < end; key += 8 * COLS) {
        const real *from = keys + key * stride;
        __syncthreads();
        attention_load<8 * COLS, WIDTH>(k, from, stride, s.T - key, &s);
        attention_load<8 * COLS, WIDTH>(v, from + KD, stride, s.T - key, &s);
        __syncthreads();
        attention_scores<WIDTH, ROWS, COLS>(scores, q, k, (int)s.D);
        attention_scores<WIDTH, ROWS, COLS>(ds, dy_rows, v, (int)s.D);
        query_pairs<DROP, DOCUMENTS, ROWS, COLS>(scores, ds, seen.start, row_lse, row_delta, &drop,
                                                 &s, head, query, key);
        add_up<WIDTH, ROWS, COLS>(dq, p, ds, k,
                                  key + 8 * COLS > query || (DOCUMENTS && key < seen.all),
                                  attention_up_to_itself<ROWS, DOCUMENTS>(seen.start, query, key));
    }
    store_rows<WIDTH, ROWS>(dqkv + at, stride, dq, s.scale, query, &s);
}

/* ---- Host code ---- */

template <typename real> struct variant {
    size_t width, rows, lanes, bytes; /* rows of a tile; elements at once; shared memory */
    bool wide; /* takes only rows that may be read `lanes` elements at a time */
    void (*kernel)(real *, const real *, const real *, const float *, const float *, size_t,
                   attention_shape, cuda_drop);
};

#define KEYS(width, rows, cols, blocks)                                                            \
    {                                                                                              \
        width, 16 * rows, 4, keys_shared<width, rows, cols>() * sizeof(float), false,              \
            attention_keys<real, DROP, DOCUMENTS, width, rows, cols, blocks>                       \
    }
#define QUERIES(width, rows, cols, blocks)                                                         \
    {                                                                                              \
        width, 16 * rows, 4, queries_shared<width, rows, cols>() * sizeof(float), false,           \
            attention_queries<real, DROP, DOCUMENTS, width, rows, cols, blocks>                    \
    }

#define MMA_KEYS(width, wide)                                                                      \
    {                                                                                              \
        width, MMA_TILE, MMA_LANES, (size_t)attention_mma_keys_shared(width, DROP), wide,          \
            attention_mma_keys<width, real, DROP, wide, DOCUMENTS>                                 \
    }
#define MMA_QUERIES(width, wide)                                                                   \
    {                                                                                              \
        width, MMA_TILE, MMA_LANES, (size_t)attention_mma_queries_shared(width, DOCUMENTS), wide,  \
            attention_mma_dq<width, real, DROP, wide, DOCUMENTS>                                   \
    }

/* In order of width; if there are two variants of a width, the second is for GPUs with 99 KiB of shared
 * memory per thread block. The last number is how many thread blocks fit on a multiprocessor of an H200,
 * by shared memory (228 KiB) and registers. 16-bit heads use the tensor cores, except the widest. */
template <typename real, bool DROP, bool DOCUMENTS> struct variants {
    static constexpr variant<real> keys[] = {
        MMA_KEYS(64, true),   MMA_KEYS(96, true), MMA_KEYS(128, true), MMA_KEYS(64, false),
        MMA_KEYS(128, false), KEYS(256, 2, 4, 1), KEYS(256, 1, 2, 2),
    };
    static constexpr variant<real> queries[] = {
        MMA_QUERIES(64, true),  MMA_QUERIES(96, true),   MMA_QUERIES(128, true),
        MMA_QUERIES(64, false), MMA_QUERIES(128, false), QUERIES(256, 2, 4, 1),
        QUERIES(256, 1, 2, 2),
    };
};

template <bool DROP, bool DOCUMENTS> struct variants<float, DROP, DOCUMENTS> {
    typedef float real;
    static constexpr variant<real> keys[] = {
        KEYS(32, 4, 8, 2),  KEYS(64, 4, 8, 2),  KEYS(96, 4, 4, 2),  KEYS(128, 4, 4, 2),
        KEYS(128, 2, 4, 2), KEYS(256, 2, 4, 1), KEYS(256, 1, 2, 2),
    };
    static constexpr variant<real> queries[] = {
        QUERIES(32, 4, 8, 3),  QUERIES(64, 4, 8, 3),  QUERIES(96, 4, 4, 2),
        QUERIES(128, 4, 4, 2), QUERIES(256, 2, 4, 1), QUERIES(256, 1, 2, 2),
    };
};

template <typename real, size_t COUNT>
static trine_status choose(const variant<real> **chosen, const device *d,
                           const variant<real> (&variants)[COUNT], const attention_shape *s) {
    size_t room = 0;
    TRY(attention_room(d, &room));
    for (size_t i = 0; i < COUNT; i++)
        if (variants[i].width >= s->D && variants[i].bytes <= room &&
            (!variants[i].wide || s->wide)) {
            *chosen = &variants[i];
            return TRINE_OK;
        }
    return RAISE(
        TRINE_EUNSUPPORTED,
        "attention: head width %zu is not supported; the cuda device supports up to %d, and "
        "this GPU has %zu bytes of shared memory per thread block",
        s->D, CUDA_WIDEST_HEAD, room);
}

template <typename real> struct operands {
    real *dqkv;
    const real *dy, *qkv;
    const float *lse;
    float *delta;
    cuda_drop drop;
};

/* A thread block for every tile of each of `heads` heads. */
template <typename real>
static trine_status launch(device *d, const variant<real> *v, const operands<real> *o, size_t B,
                           size_t heads, const attention_shape *s) {
    unsigned blocks = 0;
    TRY(attention_blocks(&blocks, B, s->T, heads, v->rows));
    TRY_CUDA(cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)v->bytes));
    LAUNCH(d, v->kernel, blocks, ATTENTION_THREADS, v->bytes)
    (o->dqkv, o->dy, o->qkv, o->lse, o->delta, B * heads, *s, o->drop);
    return LAUNCHED(attention_backward);
}

/* A power of two that divides a warp, and not more than a row can use. */
static unsigned delta_lanes(size_t D, size_t count) {
    unsigned lanes = 1;
    while (lanes < WARP && lanes * count < D) lanes *= 2;
    return lanes;
}

template <typename real>
static trine_status launch_delta(device *d, float *delta, const real *dy, const real *y, size_t B,
                                 const attention_shape *s) {
    const size_t rows = B * s->T * s->H, count = sixteen_bytes<real>::COUNT;
    const unsigned lanes = delta_lanes(s->D, count);
    const bool wide = s->D % count == 0 && ((uintptr_t)dy | (uintptr_t)y) % 16 == 0;
    unsigned blocks = 0;
    TRY(attention_blocks(&blocks, 1, rows, 1, DELTA_THREADS / lanes));
    auto kernel = wide ? attention_delta<true, real> : attention_delta<false, real>;
    LAUNCH(d, kernel, blocks, DELTA_THREADS, 0)(delta, dy, y, rows, lanes, *s);
    return LAUNCHED(attention_delta);
}

template <typename real, bool DROP, bool DOCUMENTS>
static trine_status all_three(device *d, const operands<real> *o, const real *y,
                              const int32_t *starts, size_t B, size_t T, size_t H, size_t K,
                              size_t D) {
    const variant<real> *keys = NULL, *queries = NULL;
    const size_t lanes = sizeof(real) == 2 && D <= MMA_WIDEST ? MMA_LANES : 4;
    attention_shape s = attention_shape_of(T, H, K, D, lanes, starts);
    attention_look(&s, o->dqkv, lanes);
    attention_look(&s, o->dy, lanes);
    attention_look(&s, o->qkv, lanes);
    TRY(choose(&keys, d, variants<real, DROP, DOCUMENTS>::keys, &s));
    TRY(choose(&queries, d, variants<real, DROP, DOCUMENTS>::queries, &s));
    TRY(launch_delta(d, o->delta, o->dy, y, B, &s));
    TRY(launch(d, keys, o, B, K, &s));
    return launch(d, queries, o, B, H, &s);
}

template <typename real>
trine_status attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                const void *y, const float *lse, const int32_t *starts, void *work,
                                const dropout_args *drop, size_t B, size_t T, size_t H, size_t K,
                                size_t D) {
    if (B == 0 || T == 0 || H == 0 || D == 0) return TRINE_OK;
    const operands<real> o = {(real *)dqkv, (const real *)dy, (const real *)qkv,
                              lse,          (float *)work,    attention_drop_of(drop, T)};
    const real *rows = (const real *)y;
    if (starts)
        return drop ? all_three<real, true, true>(d, &o, rows, starts, B, T, H, K, D)
                    : all_three<real, false, true>(d, &o, rows, starts, B, T, H, K, D);
    return drop ? all_three<real, true, false>(d, &o, rows, NULL, B, T, H, K, D)
                : all_three<real, false, false>(d, &o, rows, NULL, B, T, H, K, D);
}

#endif
