/* Rows of a table by token, and their gradients.
 *
 * The backward pass adds in ascending t without atomics and without an index in memory. Each thread
 * block owns the rows v of the table with v mod tiles = blockIdx.x (frequent tokens have low numbers and
 * are so distributed over thread blocks). It scans all tokens in ascending t and lists its own in shared
 * memory. When the list is nearly full or all tokens have been scanned, its warps add: a warp has 128
 * columns of one row at a time, finds the row's tokens in the list, and keeps the sum in registers.
 * Every element of the table is owned by one thread at a time. Cost: every thread block reads all
 * tokens, from the L2 cache (at most 1024 thread blocks, 4 T bytes each); dx is read once; a row is
 * written once, and also read if it is added to. For a token that occurs n times one warp does n loads,
 * AHEAD at a time: some n / AHEAD memory latencies, which is noticeable if a token makes up more than
 * some 5% of 32768. Scratch: 16 KiB of shared memory for each thread block. A row is rounded once: if
 * it has 16 bits and the list is too short for the tokens of a thread block, its warps scan all tokens
 * for each of its rows instead, T / 32 steps per row and 128 columns. That requires more than 1024 tokens
 * in 1/1024 of the vocabulary. */
#include "device/cuda/kernel.cuh"

/* ---- Forward --------------------------------------------------------------------------------- */

/* Rows that a thread has in flight. */
#define ROWS   4
#define BLOCKS 6 /* of a multiprocessor, at once */

template <bool VECTOR, typename real>
static __global__ AT_ONCE(PLANE, BLOCKS) void embedding_forward_kernel(real *x, const real *table,
                                                                       const int32_t *tokens,
                                                                       int32_t first, size_t T,
                                                                       size_t C, size_t V) {
    size_t c = 4 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x);
    for (size_t t0 = (size_t)blockIdx.y * ROWS; t0 < T; t0 += (size_t)gridDim.y * ROWS) {
        int64_t row[ROWS];
        four out[ROWS];
        for (int u = 0; u < ROWS; u++) row[u] = t0 + u < T ? (int64_t)tokens[t0 + u] - first : -1;
        for (int u = 0; u < ROWS; u++) {
            bool inside = row[u] >= 0 && row[u] < (int64_t)V;
            out[u] = load_row<VECTOR>(table + (inside ? row[u] : 0) * C, c, inside ? C : 0);
        }
        for (int u = 0; u < ROWS; u++)
            store_row<VECTOR>(x + (t0 + u) * C, c, t0 + u < T ? C : 0, out[u]);
    }
}

template <typename real>
static trine_status embedding_forward(device *d, void *x_, const void *table_,
                                      const int32_t *tokens, int32_t first, size_t T, size_t C,
                                      size_t V) {
    real *x = (real *)x_;
    const real *table = (const real *)table_;
    if (T == 0 || C == 0) return TRINE_OK;
    cuda_plane p = cuda_plane_of(d, cuda_ceil(T, ROWS), C, BLOCKS);
    bool vector = C % 4 == 0 && cuda_aligned(x) && cuda_aligned(table);
    auto kernel =
        vector ? embedding_forward_kernel<true, real> : embedding_forward_kernel<false, real>;
    LAUNCH(d, kernel, p.grid, p.block, 0)(x, table, tokens, first, T, C, V);
    return LAUNCHED(embedding_forward_kernel);
}

CUDA_OF_COMPUTE(embedding_forward);

/* ---- Backward -------------------------------------------------------------------------------- */

#define THREADS   256
#define WARPS     (THREADS / WARP)
#define TILE_BITS 10 /* of at most 1024 tiles */
#define LOOKS     4  /* tokens that a thread looks at in one go */
#define LOOK      (THREADS * LOOKS)
#define LIST      (2 * LOOK)
#define AHEAD     8          /* rows of dx that a lane has in flight */
#define COLUMNS   (4 * WARP) /* of a warp */

/* The table, and the rows of a thread block: row r is v = r * tiles + blockIdx.x. */
typedef struct {
    const int32_t *tokens;
    int32_t first;
    unsigned tile_bits;
    size_t T, C, V;
} places;

template <typename real, typename grad> struct problem : places {
    grad *dtable;
    const real *dx;
};

/* The tokens of a thread block, ascending in t; `row` is the row number r within the thread block. */
typedef struct {
    unsigned t[LIST], row[LIST], found[WARPS];
} list;

/* The row r of token t if this thread block owns it, otherwise -1. */
static inline __device__ int64_t own_row(const places *p, size_t t) {
    int64_t v = t < p->T ? (int64_t)p->tokens[t] - p->first : -1;
    if (v < 0 || v >= (int64_t)p->V) return -1;
    return (v & ((1 << p->tile_bits) - 1)) == blockIdx.x ? v >> p->tile_bits : -1;
}

/* Appends this thread block's tokens among the tokens scanned from t0 on; returns the new count, the same
 * in all threads. Order: by warp, by scan step, by lane, which is ascending t. */
static inline __device__ unsigned look(const places *p, list *l, size_t t0, unsigned count) {
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, mine[LOOKS], found = 0;
    size_t begin = t0 + warp * (WARP * LOOKS) + lane;
    int64_t row[LOOKS];
    for (int j = 0; j < LOOKS; j++) row[j] = own_row(p, begin + j * WARP);
    for (int j = 0; j < LOOKS; j++) {
        unsigned hits = __ballot_sync(ALL_LANES, row[j] >= 0);
        mine[j] = found + __popc(hits & ((1u << lane) - 1));
        found += __popc(hits);
    }
    if (lane == 0) l->found[warp] = found;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++) count += l->found[w];
    for (int j = 0; j < LOOKS; j++)
        if (row[j] >= 0) {
            l->t[count + mine[j]] = (unsigned)(begin + j * WARP);
            l->row[count + mine[j]] = (unsigned)row[j];
        }
    for (unsigned w = warp; w < WARPS; w++) count += l->found[w];
    __syncthreads();
    return count;
}

/* sum += the rows of dx for the lanes in `hits`, in ascending order; lane i holds the t of its entry. */
template <bool VECTOR, typename real, typename grad>
static inline __device__ four add_hits(four sum, const problem<real, grad> *p, unsigned hits,
                                       unsigned t, size_t c) {
    while (hits) {
        four x[AHEAD];
        for (int u = 0; u < AHEAD; u++) {
            unsigned at = __shfl_sync(ALL_LANES, t, (__ffs(hits) - 1) & (WARP - 1));
            x[u] = load_row<VECTOR>(p->dx + at * p->C, c, hits ? p->C : 0);
            hits &= hits - 1;
        }
        for (int u = 0; u < AHEAD; u++)
            for (int j = 0; j < 4; j++) sum.at[j] += x[u].at[j];
    }
    return sum;
}

/* Whether entry number `entry`, of the list or, without a list, of all tokens, belongs to row r of the thread
 * block, and which token it is. */
template <bool LISTED>
static inline __device__ bool is_of_row(const places *p, const list *l, unsigned count,
                                        unsigned entry, unsigned r, unsigned *t) {
    *t = LISTED ? (entry < count ? l->t[entry] : 0) : entry;
    return LISTED ? entry < count && l->row[entry] == r : own_row(p, entry) == (int64_t)r;
}

/* Columns [c, c + 4) of row r of the thread block, from the list or from all tokens. All lanes of the warp
 * must call. */
template <bool VECTOR, bool LISTED, typename real, typename grad>
static inline __device__ void add_row(const problem<real, grad> *p, const list *l, unsigned count,
                                      unsigned r, size_t c, bool set) {
    grad *out = p->dtable + (((size_t)r << p->tile_bits) + blockIdx.x) * p->C;
    four sum = {};
    bool touched = set;
    for (unsigned e = 0; e < count; e += WARP) {
        unsigned entry = e + threadIdx.x % WARP, t;
        bool hit = is_of_row<LISTED>(p, l, count, entry, r, &t);
        unsigned hits = __ballot_sync(ALL_LANES, hit);
        if (hits && !touched) sum = load_row<VECTOR>(out, c, p->C);
        touched = touched || hits;
        sum = add_hits<VECTOR>(sum, p, hits, t, c);
    }
    if (touched) store_row<VECTOR>(out, c, p->C, sum);
}

template <bool VECTOR, bool LISTED, typename real, typename grad>
static inline __device__ void add_rows(const problem<real, grad> *p, const list *l, unsigned count,
                                       bool set) {
    unsigned across = (unsigned)((p->C + COLUMNS - 1) / COLUMNS);
    unsigned rows = (unsigned)((p->V - blockIdx.x + (1 << p->tile_bits) - 1) >> p->tile_bits);
    for (unsigned item = threadIdx.x / WARP; item < rows * across; item += WARPS)
        add_row<VECTOR, LISTED>(p, l, count, item / across,
                                (size_t)(item % across) * COLUMNS + 4 * (threadIdx.x % WARP), set);
}

template <bool VECTOR, typename real, typename grad>
static __global__ AT_ONCE(THREADS, 4) void embedding_backward_kernel(problem<real, grad> p,
                                                                     bool set) {
    __shared__ list l;
    unsigned count = 0;
    for (size_t t0 = 0; t0 < p.T; t0 += LOOK) {
        count = look(&p, &l, t0, count);
        if (count <= LIST - LOOK) continue;
        if (sizeof(grad) < sizeof(float)) {
            add_rows<VECTOR, false>(&p, &l, (unsigned)p.T, set);
            return;
        }
        /* Nobody writes to the list before all have come to the next look's first barrier. */
        add_rows<VECTOR, true>(&p, &l, count, set);
        count = 0;
        set = false;
    }
    if (count > 0 || set) add_rows<VECTOR, true>(&p, &l, count, set);
}

template <typename real, typename grad>
static trine_status embedding_backward(device *d, void *dtable, const void *dx,
                                       const int32_t *tokens, int32_t first, size_t T, size_t C,
                                       size_t V, grad_mode mode) {
    if (V == 0 || C == 0) return TRINE_OK;
    CHECK(T <= UINT32_MAX, TRINE_EUNSUPPORTED,
          "embedding_backward: %zu tokens in one call; the cuda device supports up to 4294967295",
          T);
    problem<real, grad> p = {{tokens, first, 0, T, C, V}, (grad *)dtable, (const real *)dx};
    while (p.tile_bits < TILE_BITS && (size_t)2 << p.tile_bits <= V) p.tile_bits++;
    unsigned tiles = 1u << p.tile_bits;
    bool vector = C % 4 == 0 && cuda_aligned(p.dtable) && cuda_aligned(p.dx);
    auto kernel = vector ? embedding_backward_kernel<true, real, grad>
                         : embedding_backward_kernel<false, real, grad>;
    LAUNCH(d, kernel, tiles, THREADS, 0)(p, mode == GRAD_SET);
    return LAUNCHED(embedding_backward_kernel);
}

CUDA_OF_BOTH(embedding_backward);
