/* Shared by the attention kernels: tiles of a head's rows in shared memory, and the two products of
 * attention. The (T, T) matrix is never written: a tile of scores is kept in registers and passes
 * through shared memory once (Dao et al., "FlashAttention", 2022, algorithm 1 and appendix B; Dao,
 * "FlashAttention-2", 2023, section 3: the inner loop runs over keys). Tiles above the diagonal are
 * skipped.
 *
 * A thread block of 128 threads is 16 groups (ty) of 8 threads (tx). Tiles have ROWS * 16 rows and
 * COLS * 8 columns. A thread has rows ty + 16 i and columns tx + 8 j of the scores, so that a warp
 * reads 8 rows of one tile and 4 of the other at once, and columns 4 tx + 32 g to 4 tx + 32 g + 3 of an
 * output. Rows of tiles are WIDTH + 4 floats apart, an odd number of 16-byte units, so that the 8 rows
 * are in 8 different groups of banks. WIDTH is D, padded with zeros to a multiple of 32.
 *
 * Performance limit: fp32 multiply-adds without tensor cores, 128 per clock and multiprocessor
 * (67 TFLOP/s on an H200). With 4 x 8 scores per thread, 12 loads of 16 bytes feed 128 fused
 * multiply-adds; a warp's load takes one pass over the 32 banks, so shared memory is busy for 12 of 32
 * clocks. Of the instructions issued for a tile at D 64 (counted in the machine code for sm_90) 72% are
 * multiply-adds in the forward kernel and 77% in the backward kernels, which is the largest fraction of
 * 67 TFLOP/s that they can reach. Global memory matters little: a tile of keys and values at D 64
 * (32 KiB, mostly from L2) serves 64 queries, a million flop.
 *
 * Tiles are fp32 for every type of the tensors; only loads and stores use `real`. With DROP the
 * probabilities are multiplied by dropout factors, whose words a group of four threads computes together.
 *
 * With DOCUMENTS a query attends to the keys of its document only: a loop over keys starts with the tile in
 * which the document of the thread block's first query begins, one over queries ends with the document of its
 * last key, and tiles that some of the rows do not see completely are masked. Without it the kernels have
 * nothing of that.
 *
 * Invariants: the shape and the documents determine the order of every sum, so two runs give equal bits; a
 * score above the diagonal or of another document enters no sum, not even multiplied by zero (0 times a NaN
 * is a NaN). */
#ifndef TRINE_DEVICE_CUDA_ATTENTION_CUH
#define TRINE_DEVICE_CUDA_ATTENTION_CUH

#include <math.h>

#include "device/cuda/dropout.cuh"

#define ATTENTION_TX      8
#define ATTENTION_TY      16
#define ATTENTION_THREADS (ATTENTION_TX * ATTENTION_TY)

#define LOG2_E 1.44269504f
#define LN_2   0.693147181f

/* Offsets of row t of query head h of sample b, in qkv (B, T, H + 2 K, D): q at (b T + t) (H + 2 K) D + h D;
 * k and v of its key and value head kv = h / group at (b T + t) (H + 2 K) D + (H + kv) D and K D after
 * that. In y: ((b T + t) H + h) D. */
typedef struct {
    size_t T, H, K, D;
    size_t group;    /* query heads of a key and value head: H / K */
    uint32_t stride; /* from one row of qkv to the next: (H + 2 K) D */
    float scale;     /* 1 / sqrt(D) */
    int wide;        /* rows may be read and written `lanes` elements at a time */
    const int32_t *starts; /* (B, T), read by kernels with DOCUMENTS */
} attention_shape;

/* The shape for a kernel that reads `lanes` elements at once if the alignment allows it. */
static inline attention_shape attention_shape_of(size_t T, size_t H, size_t K, size_t D,
                                                 size_t lanes, const int32_t *starts) {
    return {T,      H, K, D, H / K, (uint32_t)((H + 2 * K) * D), 1.0f / sqrtf((float)D), D % lanes == 0,
            starts};
}

/* Call for every tensor of the kernel. */
template <typename real>
static inline void attention_look(attention_shape *s, const real *tensor, size_t lanes) {
    if ((uintptr_t)tensor % (lanes * sizeof *tensor) != 0) s->wide = 0;
}

/* Of query head `head`, counted over the samples of the call: its query, key (the value is K D after it) and
 * output in row t of its sample. */
static inline __host__ __device__ size_t attention_q_at(const attention_shape *s, size_t head,
                                                        size_t t) {
    return (head / s->H * s->T + t) * s->stride + head % s->H * s->D;
}

static inline __host__ __device__ size_t attention_k_at(const attention_shape *s, size_t head,
                                                        size_t t) {
    return (head / s->H * s->T + t) * s->stride + (s->H + head % s->H / s->group) * s->D;
}

static inline __host__ __device__ size_t attention_y_at(const attention_shape *s, size_t head,
                                                        size_t t) {
    return ((head / s->H * s->T + t) * s->H + head % s->H) * s->D;
}

/* ---- Documents: positions in the sample of `head`, which is counted over the samples of the call. Rows
 * past the last one of the sample have some value. ---- */

/* Where the document of row t begins. */
static __device__ inline int attention_start(const attention_shape *s, size_t head, size_t t) {
    return s->starts[head / s->H * s->T + (t < s->T ? t : s->T - 1)];
}

/* The first row behind the document of row t: the next one whose document begins behind t. */
static __device__ inline int attention_end(const attention_shape *s, size_t head, size_t t) {
    const int32_t *starts = s->starts + head / s->H * s->T;
    size_t low = t + 1, high = s->T;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((size_t)starts[middle] <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return (int)(low < s->T ? low : s->T);
}

/* Floats of a tile. */
static inline __host__ __device__ constexpr int attention_tile(int rows, int width) {
    return rows * (width + 4);
}

static inline __host__ __device__ constexpr int attention_larger(int a, int b) {
    return a > b ? a : b;
}

static __device__ inline int attention_tx(void) {
    return (int)threadIdx.x % ATTENTION_TX;
}

static __device__ inline int attention_ty(void) {
    return (int)threadIdx.x / ATTENTION_TX;
}

/* ---- Global memory ---- */

static __device__ inline float4 attention_read4(const float *p) {
    return *(const float4 *)p;
}

template <typename real> static __device__ inline float4 attention_read4(const real *p) {
    four x = load4(p);
    return make_float4(x.at[0], x.at[1], x.at[2], x.at[3]);
}

/* Elements c to c + 3 of a row, zero from D on. */
template <typename real>
static __device__ inline float4 attention_read(const real *row, size_t c,
                                               const attention_shape *s) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (c < s->D) x.x = load(row + c);
    if (c + 1 < s->D) x.y = load(row + c + 1);
    if (c + 2 < s->D) x.z = load(row + c + 2);
    if (c + 3 < s->D) x.w = load(row + c + 3);
    return x;
}

template <typename real>
static __device__ inline void attention_write(real *row, size_t c, const float x[4], float factor,
                                              const attention_shape *s) {
    if (s->wide && c < s->D) {
        store4(row + c, {{x[0] * factor, x[1] * factor, x[2] * factor, x[3] * factor}});
        return;
    }
    for (int i = 0; i < 4; i++)
        if (c + (size_t)i < s->D) store(row + c + (size_t)i, x[i] * factor);
}

/* Threads that share a row of a tile when it is loaded, four elements each: a power of two. */
static inline __host__ __device__ constexpr int attention_sharers(int width) {
    return width <= 32 ? 8 : width <= 64 ? 16 : width <= 128 ? 32 : 64;
}

/* tile (ROWS, WIDTH) = rows of `from`, zeros from row `left` on. All loads of a thread are issued before
 * the first one is used. */
template <int ROWS, int WIDTH, typename real>
static __device__ inline void attention_load(float *tile, const real *from, size_t stride,
                                             size_t left, const attention_shape *s) {
    const int sharers = attention_sharers(WIDTH), step = ATTENTION_THREADS / sharers;
    const int first = (int)threadIdx.x / sharers, c = (int)threadIdx.x % sharers * 4;
    const int end = left < ROWS ? (int)left : ROWS;
    if (c >= WIDTH) return;
    const real *row = from + (size_t)first * stride;
    float *to = tile + first * (WIDTH + 4) + c;
    if (s->wide) {
        const bool inside = (size_t)c < s->D;
#pragma unroll 4
        for (int n = 0; n < ROWS; n += step) {
            float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (inside && first + n < end) x = attention_read4(row + c);
            *(float4 *)(to + n * (WIDTH + 4)) = x;
            row += (size_t)step * stride;
        }
        return;
    }
#pragma unroll 1
    for (int n = 0; n < ROWS; n += step) {
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + n < end) x = attention_read(row, (size_t)c, s);
        *(float4 *)(to + n * (WIDTH + 4)) = x;
        row += (size_t)step * stride;
    }
}

/* Stores a thread's part of row `row`, times `factor`. */
template <int WIDTH, typename real>
static __device__ inline void attention_store(real *row, const float out[WIDTH / 8], float factor,
                                              const attention_shape *s) {
#pragma unroll
    for (int g = 0; g < WIDTH / 32; g++)
        attention_write(row, (size_t)(4 * attention_tx() + 32 * g), out + 4 * g, factor, s);
}

/* ---- The two products ---- */

/* scores = a b^T over the first D columns, in ascending order: a (16 ROWS, WIDTH), b (8 COLS,
 * WIDTH). */
template <int WIDTH, int ROWS, int COLS>
static __device__ inline void attention_scores(float scores[ROWS][COLS], const float *a,
                                               const float *b, int D) {
    a += attention_ty() * (WIDTH + 4);
    b += attention_tx() * (WIDTH + 4);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLS; j++) scores[i][j] = 0.0f;
#pragma unroll 2
    for (int c = 0; c < D; c += 4) {
        float4 left[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            left[i] = *(const float4 *)(a + i * ATTENTION_TY * (WIDTH + 4) + c);
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            float4 right = *(const float4 *)(b + j * ATTENTION_TX * (WIDTH + 4) + c);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                float sum = scores[i][j];
                sum = fmaf(left[i].x, right.x, sum);
                sum = fmaf(left[i].y, right.y, sum);
                sum = fmaf(left[i].z, right.z, sum);
                scores[i][j] = fmaf(left[i].w, right.w, sum);
            }
        }
    }
}

/* Stores a thread's scores to shared memory, (16 ROWS, 8 COLS). */
template <int ROWS, int COLS>
static __device__ inline void attention_share(float *to, const float scores[ROWS][COLS]) {
    to += attention_ty() * (8 * COLS + 4) + attention_tx();
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLS; j++)
            to[i * ATTENTION_TY * (8 * COLS + 4) + j * ATTENTION_TX] = scores[i][j];
}

/* Row i of a thread takes terms [first[i], end[i]). */
template <int ROWS> struct attention_terms { int first[ROWS], end[ROWS]; };

/* Each query attends to the keys from the start of its document up to itself; `query` and `key` are the
 * first ones of the tile. */
template <int ROWS, bool DOCUMENTS>
static __device__ inline attention_terms<ROWS> attention_up_to_itself(const int start[ROWS],
                                                                      size_t query, size_t key) {
    const int ahead = (int)query - (int)key;
    attention_terms<ROWS> terms;
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        terms.first[i] = DOCUMENTS ? start[i] - (int)key : 0;
        terms.end[i] = ahead + attention_ty() + ATTENTION_TY * i + 1;
    }
    return terms;
}

/* A loop over keys, for a tile of `rows` queries from `query` on. */
template <int ROWS> struct attention_keys_seen {
    int start[ROWS]; /* of the documents of this thread's queries */
    size_t first;    /* key of the first tile */
    size_t all;      /* all queries attend to the keys from here on, up to themselves */
};

template <int ROWS, bool DOCUMENTS>
static __device__ inline attention_keys_seen<ROWS>
attention_seen(const attention_shape *s, size_t head, size_t query, size_t keys) {
    attention_keys_seen<ROWS> seen = {};
    if constexpr (DOCUMENTS) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            seen.start[i] =
                attention_start(s, head, query + (size_t)(attention_ty() + ATTENTION_TY * i));
        seen.first = (size_t)attention_start(s, head, query) / keys * keys;
        seen.all = (size_t)attention_start(s, head, query + ATTENTION_TY * ROWS - 1);
    }
    return seen;
}

/* out += p v: p (16 ROWS, TERMS), v (TERMS, WIDTH). SEEN: each row uses its own `terms` only. */
template <int WIDTH, int ROWS, int TERMS, bool SEEN>
static __device__ inline void attention_values(float out[ROWS][WIDTH / 8], const float *p,
                                               const float *v, const attention_terms<ROWS> &terms) {
    p += attention_ty() * (TERMS + 4);
    v += 4 * attention_tx();
#pragma unroll 1
    for (int n = 0; n < TERMS; n += 4) {
        float4 left[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            left[i] = *(const float4 *)(p + i * ATTENTION_TY * (TERMS + 4) + n);
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int g = 0; g < WIDTH / 32; g++) {
                float4 right = *(const float4 *)(v + (n + m) * (WIDTH + 4) + 32 * g);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    if (SEEN && (n + m < terms.first[i] || n + m >= terms.end[i])) continue;
                    float x = m == 0   ? left[i].x
                              : m == 1 ? left[i].y
                              : m == 2 ? left[i].z
                                       : left[i].w;
                    float *sum = out[i] + 4 * g;
                    sum[0] = fmaf(x, right.x, sum[0]);
                    sum[1] = fmaf(x, right.y, sum[1]);
                    sum[2] = fmaf(x, right.z, sum[2]);
                    sum[3] = fmaf(x, right.w, sum[3]);
                }
            }
    }
}

/* The sum over the 8 threads of a row, in a fixed order; all threads get it. */
static __device__ inline float attention_row_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    x += __shfl_xor_sync(ALL_LANES, x, 2);
    return x + __shfl_xor_sync(ALL_LANES, x, 4);
}

static __device__ inline float attention_row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 4));
}

/* ---- Dropout ---- */

/* Transposes words among four threads, lanes STRIDE apart: thread m of the four has one Philox block of four
 * words on entry and word m of each of the four blocks on return. In round r a thread exchanges a word with
 * the thread whose number differs in the bits of r. All lanes of the warp must call. */
template <int STRIDE>
static __device__ inline cuda_words attention_trade(cuda_words own, unsigned m) {
    cuda_words out = {};
#pragma unroll
    for (unsigned r = 0; r < 4; r++) {
        uint32_t word = own.at[0];
#pragma unroll
        for (unsigned i = 1; i < 4; i++)
            if ((m ^ r) == i) word = own.at[i];
        word = __shfl_xor_sync(ALL_LANES, word, (int)r * STRIDE);
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            if ((m ^ r) == i) out.at[i] = word;
    }
    return out;
}

/* factors[j] = the dropout factor of element base + j step + m of `sample`, j < COLS, where this thread is
 * number m of a group of four, lanes STRIDE apart, which have four neighbouring elements for each j. If these
 * start at a multiple of four, each thread computes the words of every fourth j, and the threads
 * exchange them. All lanes of the warp must call. */
template <int COLS, int STRIDE>
static __device__ inline void attention_factors(float factors[COLS], const cuda_drop *drop,
                                                uint64_t sample, uint64_t base, uint64_t step,
                                                unsigned m) {
    if constexpr (COLS % 4 == 0)
        if (drop->T % 4 == 0) {
#pragma unroll
            for (unsigned j = 0; j < COLS; j += 4) {
                cuda_words own = cuda_dropout_block(drop->key, sample, (base + (j + m) * step) / 4);
                own = attention_trade<STRIDE>(own, m);
#pragma unroll
                for (unsigned i = 0; i < 4; i++)
                    factors[j + i] = cuda_drop_factor(drop, own.at[i]);
            }
            return;
        }
    for (unsigned j = 0; j < COLS; j++)
        factors[j] = cuda_drop_one(drop, sample, base + j * step + m);
}

/* The kernels' arguments; T is that of the complete sample, `first` is the first head. */
static inline cuda_drop attention_drop_of(const dropout_args *args, size_t T) {
    if (!args) return {};
    cuda_drop drop = cuda_drop_of(args);
    drop.T = T;
    return drop;
}

/* The first element of query t of `head` (counted over the samples of the call), and its sample. */
static __device__ inline uint64_t attention_drop_at(const cuda_drop *drop,
                                                    const attention_shape *s, size_t head, size_t t,
                                                    uint64_t *sample) {
    *sample = drop->sample + head / s->H;
    return ((drop->first + head % s->H) * s->T + t) * s->T;
}

/* ---- Choosing a kernel ---- */

/* The largest shared memory of a thread block, in bytes. */
static inline trine_status attention_room(const device *d, size_t *bytes) {
    int most = 0;
    TRY_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                    cuda_of(d)->ordinal));
    *bytes = (size_t)most;
    return TRINE_OK;
}

/* Thread blocks of a launch: one for every tile of `rows` rows of every head. */
static inline trine_status attention_blocks(unsigned *blocks, size_t B, size_t T, size_t H,
                                            size_t rows) {
    size_t tiles = (T + rows - 1) / rows;
    CHECK(T < 0x7fffff00, TRINE_EMATH, "attention: sequence length %zu is too large", T);
    CHECK(H < 0x10000, TRINE_EMATH, "attention: %zu heads; at most 65535 are supported", H);
    CHECK(B * H <= 0x7fffffff / tiles, TRINE_EMATH,
          "attention: B %zu, T %zu, H %zu need more thread blocks than a CUDA grid can have", B, T,
          H);
    *blocks = (unsigned)(tiles * B * H);
    return TRINE_OK;
}

#endif
