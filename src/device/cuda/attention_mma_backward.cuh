/* The backward pass of attention in bf16 or fp16 on the tensor cores: the two kernels of
 * attention_backward.cuh, with the same formulas and order, and the tiles of attention_mma.cuh. Four warps
 * have 16 keys (or queries) each and loop over tiles of queries (or keys), which are copied one tile
 * ahead. A tile of scores is replaced by p and ds in its accumulator registers, which are the left factor
 * of the next product. Only tiles on the diagonal and, for keys, an incomplete last tile are masked; the
 * loops over all other tiles have no comparison. With DOCUMENTS those in which a document begins or ends are
 * masked, too.
 *
 * p and ds are rounded to 16 bits before they are multiplied by dy, q and k: an error of half a unit in the
 * last place of each, in addition to that of storing the gradient. Sums and exponentials are fp32.
 * Performance limit at D 64: 4 and 3 products of 64 x 64 x 64 per pair of tiles, and twice the
 * exponentials of the forward pass; here the tensor cores dominate. Registers: dk and dv are two outputs,
 * so a tile has 32 queries if heads are wider than 64 or with a dropout, and the left factors of the keys
 * are read from shared memory for each tile; dq is one output, and its left factors stay in registers.
 *
 * Invariants: as in attention_mma.cuh: equal bits from run to run, and masked pairs do not affect any
 * result. */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_MMA_BACKWARD_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_MMA_BACKWARD_CUH

#include "device/cuda/attention_mma.cuh"

/* to (64, D) = the thread block's rows of out, times factor; `left` rows exist. */
template <int WIDTH, mma_type TYPE, bool WIDE>
static __device__ inline void attention_mma_store(uint16_t *to, uint32_t stride,
                                                  const float out[WIDTH / 8][4], float factor,
                                                  int left, int D) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = (int)threadIdx.x / WARP * 16 + g + 8 * r;
        if (row >= left) continue;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++)
            attention_mma_put<TYPE, WIDE>(to + row * (size_t)stride, 8 * n + 2 * t,
                                          out[n][2 * r] * factor, out[n][2 * r + 1] * factor, D);
    }
}

/* For one pair: replaces the score by p and dy_v - delta by ds. `shift` is lse in units of log 2. */
static __device__ inline void attention_mma_pair(float *score, float *dy_v, float scale,
                                                 float shift) {
    *score = ptx_exp2(fmaf(*score, scale, -shift));
    *dy_v = *score * *dy_v;
}

/* The same with a dropout factor, from dy_v. */
static __device__ inline void attention_mma_pair_dropped(float *score, float *dy_v, float scale,
                                                         float shift, float delta, float factor) {
    const float p = ptx_exp2(fmaf(*score, scale, -shift));
    *dy_v = p * (*dy_v * factor - delta);
    *score = p * factor;
}

/* ---- dk, dv: rows are keys, columns are queries ---- */

/* Queries of a tile, limited by the number of registers. */
static inline __host__ __device__ constexpr int attention_mma_keys_cols(int width, bool drop) {
    return width <= 64 && !drop ? 64 : 32;
}

/* Elements of a stage: queries, dy, and for each query the sums below. */
static inline __host__ __device__ constexpr int attention_mma_keys_stage(int width, int cols) {
    return cols * (2 * attention_mma_pitch(width) + 3 * (int)(sizeof(float) / sizeof(uint16_t)));
}

static inline __host__ __device__ constexpr int attention_mma_keys_shared(int width, bool drop) {
    const int cols = attention_mma_keys_cols(width, drop);
    return (2 * MMA_TILE * attention_mma_pitch(width) + 2 * attention_mma_keys_stage(width, cols) +
            ATTENTION_THREADS / WARP * attention_mma_room(cols)) *
           (int)sizeof(uint16_t);
}

/* For the queries of a tile: lse in units of log 2, (COLS), followed by -delta in the order in which two
 * columns of a product are summed: -delta[2j], -delta[2j + 1], and both again. Threads 0 to 63 load an lse
 * each, the others a delta. */
template <int COLS>
static __device__ inline void attention_mma_put_sums(float *sums, float sum) {
    const int thread = (int)threadIdx.x % MMA_TILE;
    if (thread >= COLS) return;
    if ((int)threadIdx.x < MMA_TILE) {
        sums[thread] = sum * LOG2_E;
    } else {
        float *quad = sums + COLS + thread / 2 * 4 + thread % 2;
        quad[0] = quad[2] = -sum;
    }
}

static __device__ inline float attention_mma_get_sum(const float *sums, int query, int T) {
    return query + (int)threadIdx.x % MMA_TILE < T ? sums[query] : 0.0f;
}

/* The dropout factors of scores[n]; `first` is the element of query 0 and the warp's key 0. Four lanes with
 * neighbouring keys share Philox blocks. */
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

/* Replaces scores and dy v (or, without a dropout, dy v - delta) by p and ds; with MASKED by zeros for
 * masked pairs: queries before the key (`first` is this lane's first key minus the tile's first query) and
 * queries from `left` on, or with DOCUMENTS from `limit` on, which is that of each of this lane's two keys. */
template <int COLS, bool DROP, bool DOCUMENTS, bool MASKED>
static __device__ inline void
attention_mma_key_pairs(float p[COLS / 8][4], float ds[COLS / 8][4], const float *sums,
                        const cuda_drop *drop, const attention_shape *s, size_t head, int key,
                        int query, const int limit[2]) {
    const int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    const int row = (int)threadIdx.x / WARP * 16 + key - query, left = (int)s->T - query;
    uint64_t sample = 0, first = 0;
    if (DROP)
        first = attention_drop_at(drop, s, head, (size_t)query, &sample) + (size_t)(row + query);
#pragma unroll
    for (int n = 0; n < COLS / 8; n++) {
        const float *shifts = sums + 8 * n + 2 * t, *quad = sums + COLS + (4 * n + t) * 4;
        const float2 shift = *(const float2 *)shifts;
        float factors[4];
        if (DROP) attention_mma_key_factors(factors, drop, sample, first, (unsigned)n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = 8 * n + 2 * t + i % 2;
            if (DROP)
                attention_mma_pair_dropped(&p[n][i], &ds[n][i], s->scale * LOG2_E,
                                           i % 2 ? shift.y : shift.x, -quad[i], factors[i]);
            else
                attention_mma_pair(&p[n][i], &ds[n][i], s->scale * LOG2_E,
                                   i % 2 ? shift.y : shift.x);
            if (MASKED && (column < row + g + i / 2 * 8 ||
                           column >= (DOCUMENTS ? limit[i / 2] : left)))
                p[n][i] = ds[n][i] = 0.0f;
        }
    }
}

/* The initial values of the sums over a tile's columns: zeros, or -delta of each column. */
template <int COLS, bool DROP>
static __device__ inline void attention_mma_begin(float ds[COLS / 8][4], const float *sums) {
#pragma unroll
    for (int n = 0; n < COLS / 8; n++) {
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (!DROP) x = *(const float4 *)(sums + COLS + (4 * n + (int)threadIdx.x % 4) * 4);
        ds[n][0] = x.x, ds[n][1] = x.y, ds[n][2] = x.z, ds[n][3] = x.w;
    }
}

/* scores (16, COLS) += the warp's 16 rows of tile a, times b^T. */
template <int WIDTH, int COLS, mma_type TYPE>
static __device__ inline void attention_mma_product(float scores[COLS / 8][4], const uint16_t *a,
                                                    const uint16_t *b) {
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const uint16_t *left = a + (16 * warp + lane % 16) * attention_mma_pitch(WIDTH) + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < WIDTH / 16; k++) {
        uint32_t rows[4];
        mma_load(rows, left + 16 * k);
        attention_mma_step<WIDTH, COLS, TYPE>(scores, rows, b, k);
    }
}

/* The state of a thread block of keys in its loop over queries. */
template <int WIDTH> struct attention_mma_key_block {
    float dk[WIDTH / 8][4], dv[WIDTH / 8][4];
    attention_mma_source from; /* queries and dy */
    const float *sums;         /* this thread's, of the head's first query */
    size_t head;
    int key, query, stage; /* the stage with the tile of `query`, or the next one: 0 or its elements */
    int end;     /* behind the queries that attend to a key of the thread block */
    int all;     /* the queries up to here attend to all of its keys that are not behind them */
    int ends[2]; /* behind the documents of this lane's keys g and g + 8 */
};

/* The queries that the loop runs over. */
template <int WIDTH, bool DOCUMENTS>
static __device__ inline void attention_mma_keys_bound(attention_mma_key_block<WIDTH> *w,
                                                       const attention_shape *s) {
    const size_t key = (size_t)w->key, last = key + MMA_TILE - 1;
    const size_t row = key + threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
    w->end = w->all = w->ends[0] = w->ends[1] = (int)s->T;
    if (!DOCUMENTS) return;
    w->end = attention_end(s, w->head, last < s->T ? last : s->T - 1);
    w->all = attention_end(s, w->head, key);
    w->ends[0] = attention_end(s, w->head, row), w->ends[1] = attention_end(s, w->head, row + 8);
}

/* Processes one tile of queries while the next is copied. `keys` has keys and values. */
template <int WIDTH, typename real, bool DROP, bool WIDE, bool DOCUMENTS, bool MASKED>
static __device__ inline void attention_mma_keys_tile(attention_mma_key_block<WIDTH> *w,
                                                      const uint16_t *keys, uint16_t *stages,
                                                      const cuda_drop *drop,
                                                      const attention_shape *s) {
    const mma_type TYPE = attention_mma_of<real>::type;
    const int COLS = attention_mma_keys_cols(WIDTH, DROP), next = w->query + COLS;
    const int end = DOCUMENTS ? w->end : (int)s->T;
    const int limit[2] = {w->ends[0] - w->query, w->ends[1] - w->query};
    const int size = attention_mma_keys_stage(WIDTH, COLS), pitch = attention_mma_pitch(WIDTH);
    const int ahead = w->query - w->key;
    const uint16_t *q = stages + w->stage, *dy = q + COLS * pitch;
    const float *sums = (const float *)(dy + COLS * pitch);
    uint16_t *other = stages + (size - w->stage);
    uint16_t *room = stages + 2 * size + (int)threadIdx.x / WARP * attention_mma_room(COLS);
    float p[COLS / 8][4] = {}, ds[COLS / 8][4], sum = 0.0f;
    attention_mma_arrive();
    if (next < end) {
        attention_mma_fetch<WIDTH, COLS, WIDE>(other, &w->from, end - next, (int)s->D);
        sum = attention_mma_get_sum(w->sums, next, end);
    }
    attention_mma_product<WIDTH, COLS, TYPE>(p, keys, q);
    attention_mma_begin<COLS, DROP>(ds, sums);
    attention_mma_product<WIDTH, COLS, TYPE>(ds, keys + MMA_TILE * pitch, dy);
    attention_mma_key_pairs<COLS, DROP, DOCUMENTS, MASKED>(p, ds, sums, drop, s, w->head, w->key,
                                                           w->query, limit);
    attention_mma_add<WIDTH, COLS, real, true, DOCUMENTS, MASKED>(w->dv, p, room, dy, ahead, limit);
    attention_mma_add<WIDTH, COLS, real, true, DOCUMENTS, MASKED>(w->dk, ds, room, q, ahead, limit);
    attention_mma_put_sums<COLS>((float *)(other + 2 * COLS * pitch), sum);
    w->query = next, w->stage = size - w->stage;
}

/* Processes the tiles of all queries that attend to the keys of the thread block. */
template <int WIDTH, typename real, bool DROP, bool WIDE, bool DOCUMENTS>
static __device__ inline void attention_mma_keys_tiles(attention_mma_key_block<WIDTH> *w,
                                                       const uint16_t *keys, uint16_t *stages,
                                                       const cuda_drop *drop,
                                                       const attention_shape *s) {
    const int COLS = attention_mma_keys_cols(WIDTH, DROP);
    const int end = DOCUMENTS ? w->end : (int)s->T, all = DOCUMENTS ? w->all : (int)s->T;
    do {
        do
            attention_mma_keys_tile<WIDTH, real, DROP, WIDE, DOCUMENTS, true>(w, keys, stages, drop,
                                                                              s);
        while (w->query < end && w->query < w->key + MMA_TILE);
        while (w->query + COLS <= all)
            attention_mma_keys_tile<WIDTH, real, DROP, WIDE, DOCUMENTS, false>(w, keys, stages,
                                                                               drop, s);
    } while (w->query < end);
}

/* Starts with query head `head`: copies its first tile to the stage that no warp reads any more. */
template <int WIDTH, bool DROP, bool WIDE, bool DOCUMENTS>
static __device__ inline void
attention_mma_keys_head(attention_mma_key_block<WIDTH> *w, const uint16_t *qkv, const uint16_t *dy,
                        const float *own_sums, uint16_t *stages, size_t head,
                        const attention_shape *s) {
    const int COLS = attention_mma_keys_cols(WIDTH, DROP), pitch = attention_mma_pitch(WIDTH);
    const uint32_t stride = w->from.first_stride, HD = w->from.second_stride;
    const size_t key = (size_t)w->key;
    const int end = DOCUMENTS ? w->end : (int)s->T;
    uint16_t *stage = stages + w->stage;
    w->head = head, w->query = w->key;
    w->from.first = qkv + attention_q_at(s, head, key) + attention_mma_own(stride);
    w->from.second = dy + attention_y_at(s, head, key) + attention_mma_own(HD);
    w->sums = own_sums + head * s->T + threadIdx.x % MMA_TILE;
    attention_mma_fetch<WIDTH, COLS, WIDE>(stage, &w->from, end - w->key, (int)s->D);
    attention_mma_put_sums<COLS>((float *)(stage + 2 * COLS * pitch),
                                 attention_mma_get_sum(w->sums, w->key, end));
}

/* Launched with ATTENTION_THREADS threads, attention_mma_keys_shared(WIDTH, DROP) bytes, and a thread block
 * for every 64 keys of each of the `heads` key heads; WIDE as in the forward kernel. */
template <int WIDTH, typename real, bool DROP, bool WIDE, bool DOCUMENTS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, 2)
    attention_mma_keys(real *dqkv, const real *dy, const real *qkv, const float *lse,
                       const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const mma_type TYPE = attention_mma_of<real>::type;
    const int COLS = attention_mma_keys_cols(WIDTH, DROP), pitch = attention_mma_pitch(WIDTH);
    const int T = (int)s.T, D = (int)s.D, key = (int)(blockIdx.x / heads) * MMA_TILE;
    const uint32_t HD = (uint32_t)(s.H * s.D), stride = s.stride;
    const size_t first = blockIdx.x % heads * s.group, KD = s.K * s.D;
    const size_t at = attention_k_at(&s, first, (size_t)key);
    const uint16_t *rows = (const uint16_t *)qkv + at + attention_mma_own(stride);
    const float *sums = (int)threadIdx.x < MMA_TILE ? lse : delta;
    uint16_t *stages = tiles + 2 * MMA_TILE * pitch, *to = (uint16_t *)dqkv + at;
    attention_mma_source own = {rows, rows + KD, stride, stride};
    attention_mma_key_block<WIDTH> w = {
        {}, {}, {NULL, NULL, stride, HD}, NULL, first, key, key, 0, 0, 0, {}};
    attention_mma_keys_bound<WIDTH, DOCUMENTS>(&w, &s);
    attention_mma_clear<WIDTH, WIDE>(tiles, 2 * MMA_TILE, D);
    attention_mma_clear<WIDTH, WIDE>(stages, 2 * COLS, D);
    attention_mma_clear<WIDTH, WIDE>(stages + attention_mma_keys_stage(WIDTH, COLS), 2 * COLS, D);
    attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles, &own, T - key, D);
#pragma unroll 1
    for (size_t head = first; head < first + s.group; head++) {
        attention_mma_keys_head<WIDTH, DROP, WIDE, DOCUMENTS>(&w, (const uint16_t *)qkv, (const uint16_t *)dy,
                                                   sums, stages, head, &s);
        attention_mma_keys_tiles<WIDTH, real, DROP, WIDE, DOCUMENTS>(&w, tiles, stages, &drop, &s);
    }
    attention_mma_store<WIDTH, TYPE, WIDE>(to, stride, w.dk, s.scale, T - key, D);
    attention_mma_store<WIDTH, TYPE, WIDE>(to + KD, stride, w.dv, 1.0f, T - key, D);
}

/* ---- dq: rows are queries, columns are keys ---- */

static inline __host__ __device__ constexpr int attention_mma_queries_shared(int width,
                                                                              bool documents) {
    return attention_mma_shared(width, documents);
}

/* A warp's 16 queries; shift is lse in units of log 2. */
template <int WIDTH> struct attention_mma_query_block {
    uint32_t q[WIDTH / 16][4], dy[WIDTH / 16][4];
    float dq[WIDTH / 8][4], shift[2], delta[2];
};

template <bool DROP, bool DOCUMENTS, bool MASKED>
static __device__ inline void
attention_mma_query_pairs(float scores[8][4], float ds[8][4], const float shift[2],
                          const float delta[2], const cuda_drop *drop, const attention_shape *s,
                          size_t head, int query, int key, int ahead, const int limit[2]) {
    uint64_t sample = 0, first = 0;
    if (DROP) first = attention_drop_at(drop, s, head, (size_t)query, &sample) + (size_t)key;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float factors[4];
        if (DROP) attention_mma_factors(factors, drop, sample, first, (unsigned)n);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (DROP)
                attention_mma_pair_dropped(&scores[n][i], &ds[n][i], s->scale * LOG2_E,
                                           shift[i / 2], delta[i / 2], factors[i]);
            else
                attention_mma_pair(&scores[n][i], &ds[n][i], s->scale * LOG2_E, shift[i / 2]);
            if (MASKED && attention_mma_masks<DOCUMENTS>(n, i, ahead, limit)) ds[n][i] = 0.0f;
        }
    }
}

/* A tile of keys, followed by their values; MASKED as in attention_mma_tile. */
template <int WIDTH, typename real, bool DROP, bool DOCUMENTS, bool MASKED>
static __device__ inline void
attention_mma_dq_tile(attention_mma_query_block<WIDTH> *w, const uint16_t *keys, uint16_t *room,
                      const cuda_drop *drop, const attention_shape *s, size_t head,
                      const attention_mma_loop *l, int key) {
    const mma_type TYPE = attention_mma_of<real>::type;
    float scores[8][4] = {}, ds[8][4];
    int first[2];
    const int ahead = attention_mma_ahead<DOCUMENTS>(l, key, first);
    const int query = l->query + (int)threadIdx.x / WARP * 16;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) ds[n][i] = DROP ? 0.0f : -w->delta[i / 2];
    attention_mma_scores<WIDTH, MMA_TILE, TYPE>(scores, w->q, keys);
    attention_mma_scores<WIDTH, MMA_TILE, TYPE>(ds, w->dy,
                                                keys + MMA_TILE * attention_mma_pitch(WIDTH));
    attention_mma_query_pairs<DROP, DOCUMENTS, MASKED>(scores, ds, w->shift, w->delta, drop, s,
                                                       head, query, key, ahead, first);
    attention_mma_add<WIDTH, MMA_TILE, real, false, DOCUMENTS, MASKED>(w->dq, ds, room, keys, ahead,
                                                                       first);
}

/* lse and delta of this lane's two queries. */
template <int WIDTH>
static __device__ inline void
attention_mma_query_sums(attention_mma_query_block<WIDTH> *w, const float *lse, const float *delta,
                         size_t head, int query, const attention_shape *s) {
    for (int r = 0; r < 2; r++) {
        const size_t t = (size_t)(query + (int)threadIdx.x % WARP / 4 + 8 * r);
        w->shift[r] = t < s->T ? lse[head * s->T + t] * LOG2_E : 0.0f;
        w->delta[r] = t < s->T ? delta[head * s->T + t] : 0.0f;
    }
}

/* The same, with attention_mma_queries_shared(WIDTH, DOCUMENTS) bytes and a thread block for every 64 queries. */
template <int WIDTH, typename real, bool DROP, bool WIDE, bool DOCUMENTS>
static __global__ void __launch_bounds__(ATTENTION_THREADS, WIDTH <= 64 ? 3 : 2)
    attention_mma_dq(real *dqkv, const real *dy, const real *qkv, const float *lse,
                     const float *delta, size_t heads, attention_shape s, cuda_drop drop) {
    SHARED_MEMORY(uint16_t, tiles);
    const int tile = MMA_TILE * attention_mma_pitch(WIDTH), size = 2 * tile; /* of a stage */
    const int T = (int)s.T, D = (int)s.D, warp = (int)threadIdx.x / WARP;
    const uint32_t HD = (uint32_t)(s.H * s.D), stride = s.stride;
    const size_t head = blockIdx.x % heads, part = attention_mma_own(stride);
    const int query = (int)((gridDim.x - 1 - blockIdx.x) / heads) * MMA_TILE;
    const attention_mma_loop l = attention_mma_loop_of<DOCUMENTS>(&s, head, query);
    const size_t at = attention_q_at(&s, head, (size_t)query);
    const uint16_t *dys = (const uint16_t *)dy + attention_y_at(&s, head, (size_t)query);
    const uint16_t *keys =
        (const uint16_t *)qkv + attention_k_at(&s, head, (size_t)l.first) + part;
    attention_mma_source own = {(const uint16_t *)qkv + at + part, dys + attention_mma_own(HD),
                                stride, HD};
    attention_mma_source from = {keys, keys + s.K * s.D, stride, stride};
    attention_mma_query_block<WIDTH> w = {};
    uint16_t *own_room = tiles + 2 * size + warp * attention_mma_room(MMA_TILE);
    int stage = 0;
    attention_mma_clear<WIDTH, WIDE>(tiles, 4 * MMA_TILE, D);
    attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles + size, &own, T - query, D);
    attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles, &from, T - l.first, D);
    attention_mma_query_sums<WIDTH>(&w, lse, delta, head, query + 16 * warp, &s);
    attention_mma_arrive();
    attention_mma_left<WIDTH>(w.q, tiles + size);
    attention_mma_left<WIDTH>(w.dy, tiles + size + tile);
    /* `left` keys follow the tile. */
    for (int left = T - MMA_TILE - l.first; left >= T - query; left -= MMA_TILE) {
        const int key = T - MMA_TILE - left;
        attention_mma_arrive();
        attention_mma_fetch<WIDTH, MMA_TILE, WIDE>(tiles + (size - stage), &from, left, D);
        if (DOCUMENTS && key < l.all)
            attention_mma_dq_tile<WIDTH, real, DROP, DOCUMENTS, true>(
                &w, tiles + stage, own_room, &drop, &s, head, &l, key);
        else
            attention_mma_dq_tile<WIDTH, real, DROP, DOCUMENTS, false>(
                &w, tiles + stage, NULL, &drop, &s, head, &l, key);
        stage = size - stage;
    }
    attention_mma_arrive();
    if (!DOCUMENTS) own_room = tiles + (size - stage) + warp * attention_mma_room(MMA_TILE);
    attention_mma_dq_tile<WIDTH, real, DROP, DOCUMENTS, true>(&w, tiles + stage, own_room, &drop,
                                                              &s, head, &l, query);
    attention_mma_store<WIDTH, attention_mma_of<real>::type, WIDE>(
        (uint16_t *)dqkv + at, stride, w.dq, s.scale, T - query, D);
}

#endif
