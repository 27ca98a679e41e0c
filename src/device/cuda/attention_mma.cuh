/* Attention's forward pass in bf16 or fp16 on the tensor cores, beside attention_forward.cu, whose
 * method it shares: tiles of 64 queries and 64 keys, maximum and sum kept for each query, nothing
 * above the diagonal. It takes heads up to 128 wide.
 *
 * A block is four warps of 16 queries each. Queries stay in registers, scores go from one product's
 * accumulators to the next one's factor without leaving them: no tile of scores in shared memory
 * and one barrier less. Statistics, exponentials and sums are fp32; p is rounded to 16 bits before
 * it meets v, which adds 2^-9 (bf16) or 2^-12 (fp16) of the largest v to the error of y, as much as
 * rounding y does.
 *
 * What bounds it: at D 64 a warp's tile is 64 products of 2048 multiply-adds and 1024 exponentials.
 * An H100's multiprocessor does 4096 of the former a clock by wgmma, by mma.sync some two thirds of
 * that, and 16 of the latter: 32 to 48 clocks and 64. So exponentials come first, then the tensor
 * cores; wgmma would be the next step, after hardware has seen this one.
 *
 * Invariants: equal bits from run to run. The tensor cores multiply p above the diagonal as a zero,
 * and zero times a NaN or an infinity is a NaN: where a tile of values on the diagonal has one,
 * plain loops multiply it, each query by what it sees. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_MMA_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_MMA_CUH

#include "device/cuda/attention.cuh"
#include "device/cuda/mma.cuh"

#define MMA_TILE  64 /* queries, and keys, of a block */
#define MMA_LANES 8  /* of pitch, in elements: rows lie in different groups of banks */
#define MMA_ROOM  (MMA_TILE + MMA_LANES) /* pitch of a warp's scores in shared memory */

static inline __host__ __device__ constexpr int attention_mma_shared(int width) {
    return 3 * MMA_TILE * (width + MMA_LANES) * (int)sizeof(uint16_t);
}

/* The 16-bit types' words for mma.cuh, and their exponents' bits. */
template <typename real> struct attention_mma_of;
template <> struct attention_mma_of<bf16> {
    static constexpr mma_type type = MMA_BF16;
    static constexpr uint32_t exponent = 0x7f80;
};
template <> struct attention_mma_of<fp16> {
    static constexpr mma_type type = MMA_FP16;
    static constexpr uint32_t exponent = 0x7c00;
};

/* tile (64, WIDTH) = rows of `from`, zeros from row `left` and column D on. wide: 16 bytes at
 * once. */
template <int WIDTH>
static __device__ inline void attention_mma_tile(uint16_t *tile, const uint16_t *from,
                                                 size_t stride, size_t left,
                                                 const attention_shape *s) {
    const int pieces = WIDTH / 8;
    for (int n = (int)threadIdx.x; n < MMA_TILE * pieces; n += ATTENTION_THREADS) {
        const int row = n / pieces, c = n % pieces * 8;
        const uint16_t *at = from + (size_t)row * stride + c;
        uint16_t *to = tile + row * (WIDTH + MMA_LANES) + c;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (s->wide) {
            if ((size_t)row < left && (size_t)c < s->D) x = *(const float4 *)at;
            *(float4 *)to = x;
        } else {
            for (int i = 0; i < 8; i++)
                to[i] = (size_t)row < left && (size_t)(c + i) < s->D ? at[i] : (uint16_t)0;
        }
    }
}

/* A's fragments of a warp's 16 queries. */
template <int WIDTH>
static __device__ inline void attention_mma_queries(uint32_t q[WIDTH / 16][4],
                                                    const uint16_t *tile) {
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint16_t *row = tile + (16 * warp + lane % 16) * (WIDTH + MMA_LANES) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) mma_load(q[k], row + 16 * k);
}

/* scores (16, 64) = q k^T */
template <int WIDTH, mma_type TYPE>
static __device__ inline void
attention_mma_scores(float scores[8][4], const uint32_t q[WIDTH / 16][4], const uint16_t *keys) {
    const int lane = (int)threadIdx.x % WARP;
    const uint16_t *row =
        keys + (lane / 16 * 8 + lane % 8) * (WIDTH + MMA_LANES) + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) scores[n][i] = 0.0f;
#pragma unroll
    for (int n = 0; n < 8; n += 2)
#pragma unroll
        for (int k = 0; k < WIDTH / 16; k++) {
            uint32_t both[4]; /* keys 8 n on, and the 8 after them */
            mma_load(both, row + 8 * n * (WIDTH + MMA_LANES) + 16 * k);
            mma<TYPE>(scores[n], q[k], both);
            mma<TYPE>(scores[n + 1], q[k], both + 2);
        }
}

/* out (16, WIDTH) += p v; p is packed from the exponentials on the way. */
template <int WIDTH, mma_type TYPE>
static __device__ inline void attention_mma_values(float out[WIDTH / 8][4], const float p[8][4],
                                                   const uint16_t *values) {
    const int lane = (int)threadIdx.x % WARP;
    const uint16_t *row = values + lane % 16 * (WIDTH + MMA_LANES) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint32_t left[4] = {mma_pack<TYPE>(p[2 * k][0], p[2 * k][1]),
                                  mma_pack<TYPE>(p[2 * k][2], p[2 * k][3]),
                                  mma_pack<TYPE>(p[2 * k + 1][0], p[2 * k + 1][1]),
                                  mma_pack<TYPE>(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n += 2) {
            uint32_t both[4]; /* columns 8 n on, and the 8 after them */
            mma_load_turned(both, row + 16 * k * (WIDTH + MMA_LANES) + 8 * n);
            mma<TYPE>(out[n], left, both);
            mma<TYPE>(out[n + 1], left, both + 2);
        }
    }
}

/* Over the 4 lanes of a row. */
static __device__ inline float attention_mma_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

static __device__ inline float attention_mma_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

/* Scores to exp2(score - max) for this lane's rows g and g + 8, with max, sums and outputs brought
 * up to date; `ahead` is the warp's first query minus the tile's first key. */
template <int WIDTH>
static __device__ inline void attention_mma_softmax(float scores[8][4], float out[WIDTH / 8][4],
                                                    float max[2], float sum[2], int ahead,
                                                    float scale) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float next = max[r];
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                bool seen = 8 * n + 2 * t + i % 2 <= ahead + g + 8 * r;
                scores[n][i] = seen ? scores[n][i] * scale : -INFINITY;
                next = fmaxf(next, scores[n][i]);
            }
        next = attention_mma_max(next);
        float base = next == -INFINITY ? 0.0f : next, factor = exp2f(max[r] - base);
        max[r] = next, sum[r] *= factor;
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++)
                sum[r] += scores[n][i] = exp2f(scores[n][i] - base);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) out[n][2 * r] *= factor, out[n][2 * r + 1] *= factor;
    }
}

/* Elements c and c + 1 of a row; D may end between them. */
template <mma_type TYPE>
static __device__ inline void attention_mma_put(uint16_t *row, size_t c, float low, float high,
                                                const attention_shape *s) {
    uint32_t both = mma_pack<TYPE>(low, high);
    if (s->wide && c < s->D) {
        *(uint32_t *)(row + c) = both;
        return;
    }
    if (c < s->D) row[c] = (uint16_t)both;
    if (c + 1 < s->D) row[c + 1] = (uint16_t)(both >> 16);
}

template <int WIDTH, mma_type TYPE>
static __device__ inline void
attention_mma_finish(uint16_t *y, float *lse, const float out[WIDTH / 8][4], const float max[2],
                     const float sum[2], size_t head, size_t query, const attention_shape *s) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const size_t row = query + (size_t)(g + 8 * r);
        const float all = attention_mma_sum(sum[r]), factor = 1.0f / all;
        if (row >= s->T) continue;
        uint16_t *to = y + attention_y_at(s, head, row);
        if (t == 0) lse[head * s->T + row] = max[r] * LN_2 + logf(all);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            attention_mma_put<TYPE>(to, (size_t)(8 * n + 2 * t), out[n][2 * r] * factor,
                                    out[n][2 * r + 1] * factor, s);
    }
}

/* What the dropout multiplies scores[n] by: `first` is the element of row 0 (a query) of the warp
 * and column 0. Where blocks of words begin at a multiple of four, two neighbouring lanes share
 * one: the even lane computes that of row g, the odd one that of row g + 8; they trade halves. */
static __device__ inline void attention_mma_factors(float factors[4], const cuda_drop *drop,
                                                    uint64_t sample, uint64_t first, unsigned n) {
    const unsigned lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const uint64_t low = first + g * drop->T + 8 * n, high = low + 8 * drop->T;
    if (drop->T % 4 != 0) {
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            factors[i] = cuda_drop_one(drop, sample, (i < 2 ? low : high) + 2 * t + i % 2);
        return;
    }
    const bool odd = t % 2 != 0;
    cuda_words w =
        cuda_dropout_block(drop->key, sample, ((odd ? high : low) + t / 2 * 4) / 4);
    uint32_t one = __shfl_xor_sync(ALL_LANES, odd ? w.at[0] : w.at[2], 1);
    uint32_t two = __shfl_xor_sync(ALL_LANES, odd ? w.at[1] : w.at[3], 1);
    factors[0] = cuda_drop_factor(drop, odd ? one : w.at[0]);
    factors[1] = cuda_drop_factor(drop, odd ? two : w.at[1]);
    factors[2] = cuda_drop_factor(drop, odd ? w.at[2] : one);
    factors[3] = cuda_drop_factor(drop, odd ? w.at[3] : two);
}

static __device__ inline void attention_mma_drop(float scores[8][4], const cuda_drop *drop,
                                                 const attention_shape *s, size_t head,
                                                 size_t query, size_t key) {
    uint64_t sample, first = attention_drop_at(drop, s, head, query, &sample) + key;
#pragma unroll
    for (unsigned n = 0; n < 8; n++) {
        float factors[4];
        attention_mma_factors(factors, drop, sample, first, n);
#pragma unroll
        for (int i = 0; i < 4; i++) scores[n][i] *= factors[i];
    }
}

/* Whether the tile has neither NaNs nor infinities; the same in all lanes. */
template <int WIDTH, typename real>
static __device__ inline bool attention_mma_finite(const uint16_t *tile) {
    const uint32_t low = attention_mma_of<real>::exponent, high = low << 16;
    bool finite = true;
#pragma unroll 4
    for (int n = (int)threadIdx.x % WARP; n < MMA_TILE * WIDTH / 2; n += WARP) {
        const int row = n / (WIDTH / 2), c = n % (WIDTH / 2) * 2;
        uint32_t both = *(const uint32_t *)(tile + row * (WIDTH + MMA_LANES) + c);
        finite = finite && (both & low) != low && (both & high) != high;
    }
    return __all_sync(ALL_LANES, finite);
}

/* out (16, WIDTH) += p times rows of a tile on the diagonal, of which a row of the warp takes those
 * up to itself, or (FROM) from itself on, by plain loops. p goes through `room`, 16 * MMA_ROOM
 * elements of the warp's own. */
template <int WIDTH, typename real, bool FROM>
static __device__ inline void attention_mma_seen(float out[WIDTH / 8][4], const float p[8][4],
                                                 uint16_t *room, const uint16_t *tile) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const int first = (int)threadIdx.x / WARP * 16 + g;
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *(uint32_t *)(room + (g + 8 * r) * MMA_ROOM + 8 * n + 2 * t) =
                mma_pack<attention_mma_of<real>::type>(p[n][2 * r], p[n][2 * r + 1]);
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < MMA_TILE; k++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (FROM ? k < first + 8 * r : k > first + 8 * r) continue;
            const float x = load((const real *)room + (g + 8 * r) * MMA_ROOM + k);
            const real *row = (const real *)tile + k * (WIDTH + MMA_LANES) + 2 * t;
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++) {
                out[n][2 * r] = fmaf(x, load(row + 8 * n), out[n][2 * r]);
                out[n][2 * r + 1] = fmaf(x, load(row + 8 * n + 1), out[n][2 * r + 1]);
            }
        }
}

/* out (16, WIDTH) += p times rows of a tile, which lies on the diagonal or not. */
template <int WIDTH, typename real, bool FROM>
static __device__ inline void attention_mma_add(float out[WIDTH / 8][4], const float p[8][4],
                                                uint16_t *room, const uint16_t *tile,
                                                bool diagonal) {
    if (diagonal && !attention_mma_finite<WIDTH, real>(tile))
        attention_mma_seen<WIDTH, real, FROM>(out, p, room, tile);
    else
        attention_mma_values<WIDTH, attention_mma_of<real>::type>(out, p, tile);
}

/* Launched with ATTENTION_THREADS threads, attention_mma_shared(WIDTH) bytes, and a block for every
 * 64 queries of each head; s is of MMA_LANES elements at once. */
template <int WIDTH, typename real, bool DROP>
static __global__ void __launch_bounds__(ATTENTION_THREADS, WIDTH <= 64 ? 3 : 2)
    attention_mma_forward(real *y, float *lse, const real *qkv, size_t heads, attention_shape s,
                          cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const mma_type TYPE = attention_mma_of<real>::type;
    const int tile = MMA_TILE * (WIDTH + MMA_LANES), warp = (int)threadIdx.x / WARP;
    uint16_t *q = tiles, *k = q + tile, *v = k + tile;
    const size_t head = blockIdx.x % heads, HD = s.H * s.D, stride = 3 * HD;
    const size_t query = (gridDim.x - 1 - blockIdx.x) / heads * MMA_TILE;
    const size_t end = query + MMA_TILE < s.T ? query + MMA_TILE : s.T;
    const int warp_query = (int)query + 16 * warp;
    const uint16_t *rows = (const uint16_t *)qkv + attention_qkv_at(&s, head, 0);
    uint32_t left[WIDTH / 16][4];
    float out[WIDTH / 8][4] = {}, scores[8][4], sum[2] = {0.0f, 0.0f};
    float max[2] = {-INFINITY, -INFINITY};
    attention_mma_tile<WIDTH>(q, rows + query * stride, stride, end - query, &s);
    __syncthreads();
    attention_mma_queries<WIDTH>(left, q);
    for (size_t key = 0; key < end; key += MMA_TILE) {
        const uint16_t *from = rows + key * stride;
        const int ahead = warp_query - (int)key;
        __syncthreads();
        attention_mma_tile<WIDTH>(k, from + HD, stride, s.T - key, &s);
        attention_mma_tile<WIDTH>(v, from + 2 * HD, stride, s.T - key, &s);
        __syncthreads();
        attention_mma_scores<WIDTH, TYPE>(scores, left, k);
        attention_mma_softmax<WIDTH>(scores, out, max, sum, ahead, s.scale * LOG2_E);
        if (DROP) attention_mma_drop(scores, &drop, &s, head, (size_t)warp_query, key);
        /* The warp has its queries in registers: they leave room. */
        attention_mma_add<WIDTH, real, false>(out, scores, q + 16 * warp * (WIDTH + MMA_LANES), v,
                                              key == query);
    }
    attention_mma_finish<WIDTH, TYPE>((uint16_t *)y, lse, out, max, sum, head, (size_t)warp_query,
                                      &s);
}

#endif
