/* The forward pass of attention in bf16 or fp16 on the tensor cores. The method is that of
 * attention_forward.cu: tiles of 64 queries and 64 keys, a maximum and a sum for each query, nothing
 * above the diagonal. Heads are at most 128 wide.
 *
 * A thread block has four warps of 16 queries each. Queries stay in registers, and scores pass from the
 * accumulators of one product to the factor of the next within registers: there is no tile of scores in
 * shared memory, and one barrier per tile. Keys and values have two stages: while one pair of tiles is
 * used, the next is copied. Only the tile on the diagonal is masked; it comes last, after the loop. With
 * DOCUMENTS those in which the document of a query begins are masked, too; so that a tile can be masked while
 * the next one is copied, the scores in shared memory have room of their own then.
 * Statistics, exponentials and sums are fp32; p is rounded to 16 bits before it is multiplied by v,
 * which adds 2^-9 (bf16) or 2^-12 (fp16) of the largest v to the error of y, as much as rounding y does.
 *
 * Performance limit, on a multiprocessor of an H100 at D 64, for the tile of a warp: 64 products of 2048
 * multiply-adds and 1024 exponentials. Its tensor cores do 2048 multiply-adds per clock with wgmma
 * (989.4 TFLOP/s = 2 * 2048 * 132 multiprocessors * 1.83 GHz; an A100's 1024), about two thirds of
 * that with mma.sync, and it does 16 exponentials: 64 to 100 clocks, and 64. It issues four
 * instructions per clock, and a tile has some 340 (counted by tools/sass.sh): 85. None of the three
 * dominates.
 * wgmma would be the next step, after this version has run on hardware.
 *
 * Invariants: equal bits from run to run. The tensor cores multiply p above the diagonal as zero, and
 * zero times a NaN or an infinity is a NaN: if a tile of values on the diagonal contains one, plain loops
 * compute it, with the keys that each query attends to only. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_MMA_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_MMA_CUH

#include "device/cuda/attention.cuh"
#include "device/cuda/mma.cuh"
#include "device/cuda/ptx.cuh"

#define MMA_TILE   64  /* queries, and keys, of a block */
#define MMA_LANES  8   /* padding of the row pitch, in elements, so that rows are in different groups of banks */
#define MMA_WIDEST 128 /* head */

/* Elements from one row of a tile to the next, and from one to the next of a warp's 16 rows of scores in
 * shared memory. */
static inline __host__ __device__ constexpr int attention_mma_pitch(int width) {
    return width + MMA_LANES;
}

/* The size of a warp's scores in shared memory, in elements. */
static inline __host__ __device__ constexpr int attention_mma_room(int cols) {
    return 16 * attention_mma_pitch(cols);
}

/* Keys and values in two stages. */
static inline __host__ __device__ constexpr int attention_mma_shared(int width, bool documents) {
    return (4 * MMA_TILE * attention_mma_pitch(width) +
            (documents ? ATTENTION_THREADS / WARP * attention_mma_room(MMA_TILE) : 0)) *
           (int)sizeof(uint16_t);
}

/* The types of mma.cuh for the 16-bit types, and the bits of their exponents. */
template <typename real> struct attention_mma_of;
template <> struct attention_mma_of<bf16> {
    static constexpr mma_type type = MMA_BF16;
    static constexpr uint32_t exponent = 0x7f80;
};
template <> struct attention_mma_of<fp16> {
    static constexpr mma_type type = MMA_FP16;
    static constexpr uint32_t exponent = 0x7c00;
};

/* ---- Tiles in shared memory: eight threads copy a row, 8 elements each, 64 columns at once ---- */

#define MMA_SHARERS   8
#define MMA_ROWS_ONCE (ATTENTION_THREADS / MMA_SHARERS)

/* The start of this thread's part of a tensor: its first row and columns. */
static __device__ inline size_t attention_mma_own(uint32_t stride) {
    return threadIdx.x / MMA_SHARERS * (size_t)stride + threadIdx.x % MMA_SHARERS * 8;
}

/* Copies 8 elements, of which `left` belong to the row; zeros if the row is not `there`. WIDE: an asynchronous copy;
 * the elements past the row's end have been cleared before. */
template <bool WIDE>
static __device__ inline void attention_mma_piece(uint16_t *to, const uint16_t *from, int left,
                                                  bool there) {
    if (!WIDE)
        for (int i = 0; i < 8; i++) to[i] = there && i < left ? from[i] : (uint16_t)0;
    else if (!there)
        *(float4 *)to = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    else if (left > 0)
        ptx_copy16(to, from);
}

/* from + n stride, for a step n of an unrolled loop. Of two equal forms each width has the one with which its
 * kernels issue fewer instructions for a tile (counted by tools/sass.sh; up to four percent). */
template <int WIDTH>
static __device__ inline const uint16_t *attention_mma_row(const uint16_t *from, uint32_t n,
                                                           uint32_t stride) {
    if (WIDTH <= 64) return from + (size_t)(n * stride);
    return (const uint16_t *)((const char *)from + (size_t)(2 * n * stride));
}

/* tile (ROWS, WIDTH) = rows of D elements, `stride` apart; CUT: zeros from row `left` on. `from` is that
 * of this thread. Without WIDE the loops are not unrolled, because the code for eight elements is large. */
template <int WIDTH, int ROWS, bool WIDE, bool CUT>
static __device__ inline void attention_mma_copy(uint16_t *tile, const uint16_t *from,
                                                 uint32_t stride, int left, int D) {
    const int pitch = attention_mma_pitch(WIDTH), row = (int)threadIdx.x / MMA_SHARERS;
    const int column = (int)threadIdx.x % MMA_SHARERS * 8;
    uint16_t *to = tile + row * pitch + column;
    if (WIDTH <= 64) stride = ptx_opaque(stride);
#pragma unroll(WIDE ? 8 : 1)
    for (int n = 0; n < ROWS; n += MMA_ROWS_ONCE)
#pragma unroll(WIDE ? 8 : 1)
        for (int c = 0; c < WIDTH; c += 8 * MMA_SHARERS) {
            if (WIDTH % (8 * MMA_SHARERS) != 0 && column + c >= WIDTH) continue;
            attention_mma_piece<WIDE>(to + n * pitch + c,
                                      attention_mma_row<WIDTH>(from, (uint32_t)n, stride) + c,
                                      D - column - c, !CUT || row + n < left);
        }
}

/* Rows of two tensors, in memory; the pointers are this thread's. */
typedef struct {
    const uint16_t *first, *second;
    uint32_t first_stride, second_stride;
} attention_mma_source;

/* Starts to copy the next ROWS rows of both tensors, of which `left` exist, to a stage. */
template <int WIDTH, int ROWS, bool WIDE>
static __device__ inline void attention_mma_fetch(uint16_t *stage, attention_mma_source *from,
                                                  int left, int D) {
    uint16_t *second = stage + ROWS * attention_mma_pitch(WIDTH);
    if (left >= ROWS) {
        attention_mma_copy<WIDTH, ROWS, WIDE, false>(stage, from->first, from->first_stride, 0, D);
        attention_mma_copy<WIDTH, ROWS, WIDE, false>(second, from->second, from->second_stride, 0,
                                                     D);
    } else {
        attention_mma_copy<WIDTH, ROWS, WIDE, true>(stage, from->first, from->first_stride, left,
                                                    D);
        attention_mma_copy<WIDTH, ROWS, WIDE, true>(second, from->second, from->second_stride, left,
                                                    D);
    }
    ptx_copies_end();
    from->first += (size_t)(ROWS * from->first_stride);
    from->second += (size_t)(ROWS * from->second_stride);
}

/* Waits until all copies of the thread block have arrived and all its warps have finished with the old contents. */
static __device__ inline void attention_mma_arrive(void) {
    ptx_copies_wait<0>();
    __syncthreads();
}

/* Zeroes the columns that no copy writes. */
template <int WIDTH, bool WIDE>
static __device__ inline void attention_mma_clear(uint16_t *tiles, int rows, int D) {
    if (WIDE && D < WIDTH) {
        for (int n = (int)threadIdx.x; n < rows * attention_mma_pitch(WIDTH) / 8;
             n += ATTENTION_THREADS)
            ((float4 *)tiles)[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
    }
}

/* ---- Products ---- */

/* The fragments of A for a warp's 16 rows of a tile. */
template <int WIDTH>
static __device__ inline void attention_mma_left(uint32_t left[WIDTH / 16][4],
                                                 const uint16_t *tile) {
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint16_t *row =
        tile + (16 * warp + lane % 16) * attention_mma_pitch(WIDTH) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) mma_load(left[k], row + 16 * k);
}

/* scores (16, COLS) += left right^T over columns 16 k to 16 k + 15. */
template <int WIDTH, int COLS, mma_type TYPE>
static __device__ inline void attention_mma_step(float scores[COLS / 8][4], const uint32_t left[4],
                                                 const uint16_t *right, int k) {
    const int lane = (int)threadIdx.x % WARP, pitch = attention_mma_pitch(WIDTH);
    const uint16_t *row = right + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8;
#pragma unroll
    for (int n = 0; n < COLS / 8; n += 2) {
        uint32_t both[4]; /* rows 8 n on, and the 8 after them */
        mma_load(both, row + 8 * n * pitch + 16 * k);
        mma<TYPE>(scores[n], left, both);
        mma<TYPE>(scores[n + 1], left, both + 2);
    }
}

/* The same over all columns. */
template <int WIDTH, int COLS, mma_type TYPE>
static __device__ inline void attention_mma_scores(float scores[COLS / 8][4],
                                                   const uint32_t left[WIDTH / 16][4],
                                                   const uint16_t *right) {
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++)
        attention_mma_step<WIDTH, COLS, TYPE>(scores, left[k], right, k);
}

/* out (16, WIDTH) += p v; p (16, COLS) is packed here. */
template <int WIDTH, int COLS, mma_type TYPE>
static __device__ inline void
attention_mma_values(float out[WIDTH / 8][4], const float p[COLS / 8][4], const uint16_t *values) {
    const int lane = (int)threadIdx.x % WARP, pitch = attention_mma_pitch(WIDTH);
    const uint16_t *row = values + lane % 16 * pitch + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < COLS / 16; k++) {
        const uint32_t left[4] = {mma_pack<TYPE>(p[2 * k][0], p[2 * k][1]),
                                  mma_pack<TYPE>(p[2 * k][2], p[2 * k][3]),
                                  mma_pack<TYPE>(p[2 * k + 1][0], p[2 * k + 1][1]),
                                  mma_pack<TYPE>(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n += 2) {
            uint32_t both[4]; /* columns 8 n on, and the 8 after them */
            mma_load_transposed(both, row + 16 * k * pitch + 8 * n);
            mma<TYPE>(out[n], left, both);
            mma<TYPE>(out[n + 1], left, both + 2);
        }
    }
}

/* Whether a tile of `rows` rows has neither NaNs nor infinities; the same in all lanes. */
template <int WIDTH, typename real>
static __device__ inline bool attention_mma_finite(const uint16_t *tile, int rows) {
    const uint32_t low = attention_mma_of<real>::exponent, high = low << 16;
    bool finite = true;
#pragma unroll 4
    for (int n = (int)threadIdx.x % WARP; n < rows * WIDTH / 2; n += WARP) {
        const int row = n / (WIDTH / 2), c = n % (WIDTH / 2) * 2;
        uint32_t both = *(const uint32_t *)(tile + row * attention_mma_pitch(WIDTH) + c);
        finite = finite && (both & low) != low && (both & high) != high;
    }
    return __all_sync(ALL_LANES, finite);
}

/* out (16, WIDTH) += p (16, COLS) times rows of a masked tile, by plain loops. Row r of the thread block
 * uses the tile's rows up to r, or (FROM) from r on; the tile starts `ahead` rows after the thread block.
 * DOCUMENTS: `limit` has, for this lane's rows g and g + 8, the first row of the tile that they use, or (FROM)
 * the one behind the last. p passes through `room`, attention_mma_room(COLS) elements for each warp. */
template <int WIDTH, int COLS, typename real, bool FROM, bool DOCUMENTS>
static __device__ inline void attention_mma_seen(float out[WIDTH / 8][4],
                                                 const float p[COLS / 8][4], uint16_t *room,
                                                 const uint16_t *tile, int ahead,
                                                 const int limit[2]) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const int first = (int)threadIdx.x / WARP * 16 + g - ahead, pitch = attention_mma_pitch(COLS);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < COLS / 8; n++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *(uint32_t *)(room + (g + 8 * r) * pitch + 8 * n + 2 * t) =
                mma_pack<attention_mma_of<real>::type>(p[n][2 * r], p[n][2 * r + 1]);
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < COLS; k++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (FROM ? k < first + 8 * r : k > first + 8 * r) continue;
            if (DOCUMENTS && (FROM ? k >= limit[r] : k < limit[r])) continue;
            const float x = load((const real *)room + (g + 8 * r) * pitch + k);
            const real *row = (const real *)tile + k * attention_mma_pitch(WIDTH) + 2 * t;
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++) {
                out[n][2 * r] = fmaf(x, load(row + 8 * n), out[n][2 * r]);
                out[n][2 * r + 1] = fmaf(x, load(row + 8 * n + 1), out[n][2 * r + 1]);
            }
        }
}

/* out (16, WIDTH) += p times rows of a tile; with MASKED, only those rows that each query attends to. */
template <int WIDTH, int COLS, typename real, bool FROM, bool DOCUMENTS, bool MASKED>
static __device__ inline void attention_mma_add(float out[WIDTH / 8][4], const float p[COLS / 8][4],
                                                uint16_t *room, const uint16_t *tile, int ahead,
                                                const int limit[2]) {
    if (MASKED && !attention_mma_finite<WIDTH, real>(tile, COLS))
        attention_mma_seen<WIDTH, COLS, real, FROM, DOCUMENTS>(out, p, room, tile, ahead, limit);
    else
        attention_mma_values<WIDTH, COLS, attention_mma_of<real>::type>(out, p, tile);
}

/* ---- Softmax ---- */

/* Reductions over the 4 lanes of a row. */
static __device__ inline float attention_mma_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

static __device__ inline float attention_mma_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

/* A warp's 16 queries: as left factors, and their statistics so far. max is that of unscaled scores. */
template <int WIDTH> struct attention_mma_queries {
    uint32_t left[WIDTH / 16][4];
    float out[WIDTH / 8][4], max[2], sum[2];
};

/* Whether column 8 n + i % 2, from this lane's first one on, of a tile that begins `ahead` keys after the
 * thread block's first query is masked for its row g + i / 2 * 8; the keys from `first` on are of the row's
 * document. */
template <bool DOCUMENTS>
static __device__ inline bool attention_mma_masks(int n, int i, int ahead, const int first[2]) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const int last = (int)threadIdx.x / WARP * 16 + g - 2 * t - ahead; /* that row g attends to */
    const int column = 8 * n + i % 2;
    return column > last + i / 2 * 8 || (DOCUMENTS && column < first[i / 2] - 2 * t);
}

/* Masks a tile: -infinity for keys that the query does not attend to. */
template <bool DOCUMENTS>
static __device__ inline void attention_mma_mask(float scores[8][4], int ahead,
                                                 const int first[2]) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (attention_mma_masks<DOCUMENTS>(n, i, ahead, first)) scores[n][i] = -INFINITY;
}

/* A loop over keys for a thread block's 64 queries from `query` on. */
typedef struct {
    int query;
    int first;    /* key of the first tile */
    int all;      /* all queries attend to the keys from here on, up to themselves */
    int start[2]; /* of the documents of this lane's queries g and g + 8 */
} attention_mma_loop;

template <bool DOCUMENTS>
static __device__ inline attention_mma_loop attention_mma_loop_of(const attention_shape *s,
                                                                  size_t head, int query) {
    const size_t row = (size_t)query + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    attention_mma_loop l = {query, 0, 0, {0, 0}};
    if (!DOCUMENTS) return l;
    l.first = attention_start(s, head, (size_t)query) / MMA_TILE * MMA_TILE;
    l.all = attention_start(s, head, (size_t)query + MMA_TILE - 1);
    l.start[0] = attention_start(s, head, row), l.start[1] = attention_start(s, head, row + 8);
    return l;
}

/* For the tile of keys from `key` on: what attention_mma_masks takes. Without DOCUMENTS only the tile on the
 * diagonal is masked. */
template <bool DOCUMENTS>
static __device__ inline int attention_mma_ahead(const attention_mma_loop *l, int key,
                                                 int first[2]) {
    first[0] = l->start[0] - key, first[1] = l->start[1] - key;
    return DOCUMENTS ? key - l->query : 0;
}

/* Replaces scores by exp2((score - max) scale) for this lane's rows g and g + 8, and updates max, sums and
 * outputs. */
template <int WIDTH>
static __device__ inline void attention_mma_softmax(float scores[8][4],
                                                    attention_mma_queries<WIDTH> *w, float scale) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float next = w->max[r];
#pragma unroll
        for (int n = 0; n < 8; n++)
            next = fmaxf(next, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        next = attention_mma_max(next);
        /* If all scores of the row so far are -infinity, their exponentials count as zeros. */
        const float base = next == -INFINITY ? 0.0f : next * scale;
        const float factor = ptx_exp2(fmaf(w->max[r], scale, -base));
        w->max[r] = next, w->sum[r] *= factor;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            scores[n][2 * r] = ptx_exp2(fmaf(scores[n][2 * r], scale, -base));
            scores[n][2 * r + 1] = ptx_exp2(fmaf(scores[n][2 * r + 1], scale, -base));
            w->sum[r] += scores[n][2 * r] + scores[n][2 * r + 1];
        }
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            w->out[n][2 * r] *= factor, w->out[n][2 * r + 1] *= factor;
    }
}

/* Stores elements c and c + 1 of a row; c + 1 may be D. */
template <mma_type TYPE, bool WIDE>
static __device__ inline void attention_mma_put(uint16_t *row, int c, float low, float high,
                                                int D) {
    uint32_t both = mma_pack<TYPE>(low, high);
    if (WIDE) {
        if (c < D) *(uint32_t *)(row + c) = both;
        return;
    }
    if (c < D) row[c] = (uint16_t)both;
    if (c + 1 < D) row[c + 1] = (uint16_t)(both >> 16);
}

template <int WIDTH, mma_type TYPE, bool WIDE>
static __device__ inline void
attention_mma_finish(uint16_t *y, float *lse, const attention_mma_queries<WIDTH> *w, size_t head,
                     int query, const attention_shape *s) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const size_t row = (size_t)(query + g + 8 * r);
        const float all = attention_mma_sum(w->sum[r]), factor = 1.0f / all;
        if (row >= s->T) continue;
        uint16_t *to = y + attention_y_at(s, head, row);
        if (t == 0) lse[head * s->T + row] = w->max[r] * (s->scale * LOG2_E) * LN_2 + logf(all);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            attention_mma_put<TYPE, WIDE>(to, 8 * n + 2 * t, w->out[n][2 * r] * factor,
                                          w->out[n][2 * r + 1] * factor, (int)s->D);
    }
}

/* ---- Dropout ---- */

/* The dropout factors of scores[n]; `first` is the element of row 0 (a query) of the warp and column 0. If
 * rows start at a multiple of four elements, two neighbouring lanes share a Philox block: the even lane
 * computes that of row g, the odd lane that of row g + 8, and they exchange halves. */
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
    cuda_words w = cuda_dropout_block(drop->key, sample, ((odd ? high : low) + t / 2 * 4) / 4);
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

/* ---- The kernel ---- */

/* A tile of keys, followed by their values; with MASKED the one on the diagonal, or one with the first key of a
 * document. */
template <int WIDTH, typename real, bool DROP, bool DOCUMENTS, bool MASKED>
static __device__ inline void attention_mma_tile(attention_mma_queries<WIDTH> *w,
                                                 const uint16_t *keys, uint16_t *room,
                                                 const cuda_drop *drop, const attention_shape *s,
                                                 size_t head, const attention_mma_loop *l,
                                                 int key) {
    const mma_type TYPE = attention_mma_of<real>::type;
    float scores[8][4] = {};
    int first[2];
    const int ahead = attention_mma_ahead<DOCUMENTS>(l, key, first);
    const int query = l->query + (int)threadIdx.x / WARP * 16;
    attention_mma_scores<WIDTH, MMA_TILE, TYPE>(scores, w->left, keys);
    if (MASKED) attention_mma_mask<DOCUMENTS>(scores, ahead, first);
    attention_mma_softmax<WIDTH>(scores, w, s->scale * LOG2_E);
    if (DROP) attention_mma_drop(scores, drop, s, head, (size_t)query, (size_t)key);
    attention_mma_add<WIDTH, MMA_TILE, real, false, DOCUMENTS, MASKED>(
        w->out, scores, room, keys + MMA_TILE * attention_mma_pitch(WIDTH), ahead, first);
}

/* Launched with ATTENTION_THREADS threads, attention_mma_shared(WIDTH, DOCUMENTS) bytes, and a thread block for
 * every 64 queries of each head. WIDE: rows of all tensors are aligned to 16 bytes and multiples of 16 bytes
 * long. */
template <int WIDTH, typename real, bool DROP, bool WIDE, bool DOCUMENTS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, WIDTH <= 64 ? 3 : 2)
    attention_mma_forward(real *y, float *lse, const real *qkv, size_t heads, attention_shape s,
                          cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const int size = 2 * MMA_TILE * attention_mma_pitch(WIDTH); /* of a stage */
    const int T = (int)s.T, D = (int)s.D, warp = (int)threadIdx.x / WARP;
    const uint32_t stride = s.stride;
    const size_t head = blockIdx.x % heads, own = attention_mma_own(stride);
    const int query = (int)((gridDim.x - 1 - blockIdx.x) / heads) * MMA_TILE;
    const attention_mma_loop l = attention_mma_loop_of<DOCUMENTS>(&s, head, query);
    const uint16_t *rows = (const uint16_t *)qkv + attention_q_at(&s, head, (size_t)query) + own;
    const uint16_t *keys = (const uint16_t *)qkv + attention_k_at(&s, head, (size_t)l.first) + own;
    attention_mma_source from = {keys, keys + s.K * s.D, stride, stride};
    attention_mma_queries<WIDTH> w = {{}, {}, {-INFINITY, -INFINITY}, {}};
    uint16_t *own_room = tiles + 2 * size + warp * attention_mma_room(MMA_TILE);
    int stage = 0;
    attention_mma_clear<WIDTH, WIDE>(tiles, 4 * MMA_TILE, D);
    attention_mma_copy<WIDTH, MMA_TILE, WIDE, true>(tiles + size, rows, stride, T - query, D);
    attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles, &from, T - l.first, D);
    attention_mma_arrive();
    attention_mma_left<WIDTH>(w.left, tiles + size);
    /* `left` keys follow the tile. */
    for (int left = T - MMA_TILE - l.first; left >= T - query; left -= MMA_TILE) {
        const int key = T - MMA_TILE - left;
        attention_mma_arrive();
        attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles + (size - stage), &from, left, D);
        if (DOCUMENTS && key < l.all)
            attention_mma_tile<WIDTH, real, DROP, DOCUMENTS, true>(
                &w, tiles + stage, own_room, &drop, &s, head, &l, key);
        else
            attention_mma_tile<WIDTH, real, DROP, DOCUMENTS, false>(&w, tiles + stage, NULL, &drop,
                                                                    &s, head, &l, key);
        stage = size - stage;
    }
    attention_mma_arrive();
    if (!DOCUMENTS) own_room = tiles + (size - stage) + warp * attention_mma_room(MMA_TILE);
    attention_mma_tile<WIDTH, real, DROP, DOCUMENTS, true>(&w, tiles + stage, own_room, &drop, &s,
                                                           head, &l, query);
    attention_mma_finish<WIDTH, attention_mma_of<real>::type, WIDE>((uint16_t *)y, lse, &w, head,
                                                                    query + 16 * warp, &s);
}

#endif
