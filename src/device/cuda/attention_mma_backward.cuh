/* Attention's backward pass in bf16 or fp16 on the tensor cores: the two kernels of
 * attention_backward.cu, whose formulas and order they have, with the tiles of attention_mma.cuh.
 * Four warps have 16 keys (or queries) each and go over tiles of 64 queries (or keys); a tile of
 * scores becomes p and ds in the registers that it was summed in, and is the next product's left
 * factor from there. All four tiles lie in shared memory; the left factors are read from it again
 * for each tile, since two outputs of 128 columns leave no registers for them.
 *
 * p and ds are rounded to 16 bits before they meet dy, q and k: an error of half a unit in the last
 * place of each, beside the one that storing the gradient makes. Sums and exponentials are fp32.
 * What bounds it at D 64: 4 and 3 products of 64 x 64 x 64 a pair of tiles beside twice the
 * exponentials of the forward pass; the tensor cores come first here.
 *
 * Invariants: as attention_mma.cuh: equal bits from run to run, and what is not seen reaches
 * nothing. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_MMA_BACKWARD_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_MMA_BACKWARD_CUH

#include "device/cuda/attention_mma.cuh"

/* scores (16, 64) = a b^T: the warp's 16 rows of tile a, all of tile b. */
template <int WIDTH, mma_type TYPE>
static __device__ inline void attention_mma_product(float scores[8][4], const uint16_t *a,
                                                    const uint16_t *b) {
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint16_t *left = a + (16 * warp + lane % 16) * (WIDTH + MMA_LANES) + lane / 16 * 8;
    const uint16_t *right = b + (lane / 16 * 8 + lane % 8) * (WIDTH + MMA_LANES) + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) scores[n][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t rows[4];
        mma_load(rows, left + 16 * k);
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
            uint32_t both[4];
            mma_load(both, right + 8 * n * (WIDTH + MMA_LANES) + 16 * k);
            mma<TYPE>(scores[n], rows, both);
            mma<TYPE>(scores[n + 1], rows, both + 2);
        }
    }
}

/* to (64, D) = the block's rows of out, times factor; `left` rows are there. */
template <int WIDTH, mma_type TYPE>
static __device__ inline void attention_mma_store(uint16_t *to, size_t stride,
                                                  const float out[WIDTH / 8][4], float factor,
                                                  size_t left, const attention_shape *s) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const size_t row = (size_t)((int)threadIdx.x / WARP * 16 + g + 8 * r);
        if (row >= left) continue;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            attention_mma_put<TYPE>(to + row * stride, (size_t)(8 * n + 2 * t),
                                    out[n][2 * r] * factor, out[n][2 * r + 1] * factor, s);
    }
}

/* Of one pair: the score becomes p as the dropout leaves it, dy_v becomes ds; zeros where nothing
 * is seen. `shift` is lse in units of log 2. */
static __device__ inline void attention_mma_pair(float *score, float *dy_v, float shift,
                                                 float delta, float scale, float factor,
                                                 bool seen) {
    const float p = exp2f(fmaf(*score, scale, -shift));
    *dy_v = seen ? p * (*dy_v * factor - delta) : 0.0f;
    *score = seen ? p * factor : 0.0f;
}

/* ---- dk, dv: rows are keys, columns are queries ---- */

/* What the dropout multiplies scores[n] by; `first` is the element of query 0 and the warp's key 0.
 * Four lanes with neighbouring keys share blocks of words. */
static __device__ inline void attention_mma_key_factors(float factors[4], const cuda_drop *drop,
                                                        uint64_t sample, uint64_t first,
                                                        unsigned n) {
    const unsigned lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, m = g % 4;
    const uint64_t base = first + (8 * n + 2 * t) * drop->T;
    if (drop->T % 4 != 0) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            factors[i] = cuda_drop_one(drop, sample, base + i % 2 * drop->T + i / 2 * 8 + g);
        return;
    }
    const uint64_t own = base + m % 2 * drop->T + m / 2 * 8 + g / 4 * 4;
    cuda_words words =
        attention_trade<4>(cuda_dropout_block(drop->key, sample, own / 4), m);
#pragma unroll
    for (int i = 0; i < 4; i++) factors[i] = cuda_drop_factor(drop, words.at[i]);
}

template <bool DROP>
static __device__ inline void
attention_mma_key_pairs(float p[8][4], float ds[8][4], const float *lse, const float *delta,
                        const cuda_drop *drop, const attention_shape *s, size_t head, size_t key,
                        size_t query) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const size_t row = key + (size_t)((int)threadIdx.x / WARP * 16 + g);
    uint64_t sample, first = attention_drop_at(drop, s, head, query, &sample) + row - (size_t)g;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float factors[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        if (DROP) attention_mma_key_factors(factors, drop, sample, first, (unsigned)n);
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const size_t column = query + (size_t)(8 * n + 2 * t + c);
            const bool there = column < s->T;
            const float shift = there ? lse[column] * LOG2_E : 0.0f;
            const float sum = there ? delta[column] : 0.0f;
#pragma unroll
            for (int r = 0; r < 2; r++)
                attention_mma_pair(&p[n][2 * r + c], &ds[n][2 * r + c], shift, sum,
                                   s->scale * LOG2_E, factors[2 * r + c],
                                   there && row + (size_t)(8 * r) <= column);
        }
    }
}

static inline __host__ __device__ constexpr int attention_mma_keys_shared(int width) {
    return MMA_TILE * (4 * (width + MMA_LANES) + MMA_ROOM) * (int)sizeof(uint16_t);
}

/* Launched with ATTENTION_THREADS threads, attention_mma_keys_shared(WIDTH) bytes, and a block for
 * every 64 keys of each head; s is of MMA_LANES elements at once. */
template <int WIDTH, typename real, bool DROP>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2)
    attention_mma_keys(real *dqkv, const real *dy, const real *qkv, const float *lse,
                       const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const mma_type TYPE = attention_mma_of<real>::type;
    const int tile = MMA_TILE * (WIDTH + MMA_LANES), warp = (int)threadIdx.x / WARP;
    uint16_t *k = tiles, *v = k + tile, *q = v + tile, *dy_rows = q + tile;
    uint16_t *room = dy_rows + tile + 16 * warp * MMA_ROOM;
    const size_t head = blockIdx.x % heads, key = blockIdx.x / heads * MMA_TILE;
    const size_t HD = s.H * s.D, stride = 3 * HD, at = attention_qkv_at(&s, head, 0);
    const uint16_t *rows = (const uint16_t *)qkv + at;
    const uint16_t *dys = (const uint16_t *)dy + attention_y_at(&s, head, 0);
    uint16_t *to = (uint16_t *)dqkv + at + key * stride;
    float dk[WIDTH / 8][4] = {}, dv[WIDTH / 8][4] = {}, p[8][4], ds[8][4];
    attention_mma_tile<WIDTH>(k, rows + HD + key * stride, stride, s.T - key, &s);
    attention_mma_tile<WIDTH>(v, rows + 2 * HD + key * stride, stride, s.T - key, &s);
    for (size_t query = key; query < s.T; query += MMA_TILE) {
        __syncthreads();
        attention_mma_tile<WIDTH>(q, rows + query * stride, stride, s.T - query, &s);
        attention_mma_tile<WIDTH>(dy_rows, dys + query * HD, HD, s.T - query, &s);
        __syncthreads();
        attention_mma_product<WIDTH, TYPE>(p, k, q);
        attention_mma_product<WIDTH, TYPE>(ds, v, dy_rows);
        attention_mma_key_pairs<DROP>(p, ds, lse + head * s.T, delta + head * s.T, &drop, &s, head,
                                      key, query);
        attention_mma_add<WIDTH, real, true>(dv, p, room, dy_rows, query == key);
        attention_mma_add<WIDTH, real, true>(dk, ds, room, q, query == key);
    }
    attention_mma_store<WIDTH, TYPE>(to + HD, stride, dk, s.scale, s.T - key, &s);
    attention_mma_store<WIDTH, TYPE>(to + 2 * HD, stride, dv, 1.0f, s.T - key, &s);
}

/* ---- dq: rows are queries, columns are keys ---- */

template <bool DROP>
static __device__ inline void
attention_mma_query_pairs(float scores[8][4], float ds[8][4], const float shift[2],
                          const float delta[2], const cuda_drop *drop, const attention_shape *s,
                          size_t head, size_t query, size_t key) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const size_t row = query + (size_t)((int)threadIdx.x / WARP * 16 + g);
    uint64_t sample, first = attention_drop_at(drop, s, head, row - (size_t)g, &sample) + key;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float factors[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        if (DROP) attention_mma_factors(factors, drop, sample, first, (unsigned)n);
#pragma unroll
        for (int i = 0; i < 4; i++)
            attention_mma_pair(&scores[n][i], &ds[n][i], shift[i / 2], delta[i / 2],
                               s->scale * LOG2_E, factors[i],
                               key + (size_t)(8 * n + 2 * t + i % 2) <= row + (size_t)(i / 2 * 8));
    }
}

static inline __host__ __device__ constexpr int attention_mma_queries_shared(int width) {
    return MMA_TILE * 4 * (width + MMA_LANES) * (int)sizeof(uint16_t);
}

/* The same, with attention_mma_queries_shared(WIDTH) bytes, a block for every 64 queries. */
template <int WIDTH, typename real, bool DROP>
static __global__ void __launch_bounds__(ATTENTION_THREADS, WIDTH <= 64 ? 3 : 2)
    attention_mma_dq(real *dqkv, const real *dy, const real *qkv, const float *lse,
                     const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const mma_type TYPE = attention_mma_of<real>::type;
    const int tile = MMA_TILE * (WIDTH + MMA_LANES), warp = (int)threadIdx.x / WARP;
    uint16_t *q = tiles, *dy_rows = q + tile, *k = dy_rows + tile, *v = k + tile;
    const size_t head = blockIdx.x % heads;
    const size_t query = (gridDim.x - 1 - blockIdx.x) / heads * MMA_TILE;
    const size_t HD = s.H * s.D, stride = 3 * HD, at = attention_qkv_at(&s, head, 0);
    const size_t end = query + MMA_TILE < s.T ? query + MMA_TILE : s.T;
    const uint16_t *rows = (const uint16_t *)qkv + at;
    const uint16_t *dys = (const uint16_t *)dy + attention_y_at(&s, head, query);
    float dq[WIDTH / 8][4] = {}, scores[8][4], ds[8][4], shift[2], row_delta[2];
    for (int r = 0; r < 2; r++) {
        const size_t t = query + (size_t)(16 * warp + (int)threadIdx.x % WARP / 4 + 8 * r);
        shift[r] = t < s.T ? lse[head * s.T + t] * LOG2_E : 0.0f;
        row_delta[r] = t < s.T ? delta[head * s.T + t] : 0.0f;
    }
    attention_mma_tile<WIDTH>(q, rows + query * stride, stride, end - query, &s);
    attention_mma_tile<WIDTH>(dy_rows, dys, HD, end - query, &s);
    for (size_t key = 0; key < end; key += MMA_TILE) {
        const uint16_t *from = rows + key * stride;
        __syncthreads();
        attention_mma_tile<WIDTH>(k, from + HD, stride, s.T - key, &s);
        attention_mma_tile<WIDTH>(v, from + 2 * HD, stride, s.T - key, &s);
        __syncthreads();
        attention_mma_product<WIDTH, TYPE>(scores, q, k);
        attention_mma_product<WIDTH, TYPE>(ds, dy_rows, v);
        attention_mma_query_pairs<DROP>(scores, ds, shift, row_delta, &drop, &s, head, query, key);
        /* On the diagonal, which comes last, the warp needs its queries no more. */
        attention_mma_add<WIDTH, real, false>(dq, ds, q + 16 * warp * (WIDTH + MMA_LANES), k,
                                              key == query);
    }
    attention_mma_store<WIDTH, TYPE>((uint16_t *)dqkv + at + query * stride, stride, dq, s.scale,
                                     s.T - query, &s);
}

#endif
