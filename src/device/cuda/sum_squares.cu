/* Sums in double: runs of SUM_SQUARES_BLOCK elements, then the sums of these, for all parts of a call in
 * two launches. A thread block loads one run at a time, all of it at once. */
#include "device/cuda/kernel.cuh"

#define THREADS 128
#define BLOCKS  8                                   /* of a multiprocessor, at once */
#define EACH    (SUM_SQUARES_BLOCK / (4 * THREADS)) /* fours that a thread has of a block */

/* The number of sums that fit into the scratch. */
#define ROOM (CUDA_SCRATCH * sizeof(float) / sizeof(double))

/* Parts of x whose runs are summed by one launch and totalled by the next: part i has the runs
 * [first[i], first[i + 1]) of SUM_SQUARES_BLOCK elements each, from at[i] on. */
typedef struct {
    size_t at[OPS_PARTS], n[OPS_PARTS], first[OPS_PARTS + 1];
    double *out[OPS_PARTS];
    int count;
    bool add; /* to what is in out[0], which is then the only one */
} batch;

static inline __device__ int part_of(const batch *b, size_t partial) {
    int i = 0;
    while (partial >= b->first[i + 1]) i++;
    return i;
}

/* VECTOR: every part starts at a multiple of four elements. */
template <bool VECTOR, typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void sum_squares_kernel(double *partials, const grad *x,
                                                                   batch b) {
    __shared__ double area[2][THREADS / WARP];
    size_t count = b.first[b.count];
    int turn = 0;
    for (size_t p = blockIdx.x; p < count; p += gridDim.x, turn = !turn) {
        int i = part_of(&b, p);
        const grad *own = x + b.at[i];
        size_t n = b.n[i], begin = (p - b.first[i]) * SUM_SQUARES_BLOCK;
        four part[EACH];
        if (VECTOR && begin + SUM_SQUARES_BLOCK <= n)
            for (int k = 0; k < EACH; k++)
                part[k] = load4(own + begin + 4 * (k * THREADS + threadIdx.x));
        else
            for (int k = 0; k < EACH; k++)
                part[k] = load_row<false>(own, begin + 4 * (k * THREADS + threadIdx.x), n);
        double sum = 0.0;
        for (int k = 0; k < EACH; k++)
            for (int j = 0; j < 4; j++) sum += (double)part[k].at[j] * (double)part[k].at[j];
        sum = block_sum(sum, area[turn]);
        if (threadIdx.x == 0) partials[p] = sum;
    }
}

/* One thread block per part, in the order of cuda_total. */
static __global__ AT_ONCE(CUDA_TOTAL_THREADS, 1) void sum_totals_kernel(const double *partials,
                                                                        batch b) {
    int i = (int)blockIdx.x;
    double sum = cuda_total_of(partials + b.first[i], b.first[i + 1] - b.first[i]);
    if (threadIdx.x == 0) *b.out[i] = b.add ? *b.out[i] + sum : sum;
}

template <typename grad> static trine_status run(device *d, const grad *x, const batch *b) {
    double *partials = (double *)cuda_of(d)->scratch;
    bool aligned = true;
    if (b->count == 0) return TRINE_OK;
    for (int i = 0; i < b->count; i++) aligned = aligned && cuda_aligned(x + b->at[i]);
    auto kernel = aligned ? sum_squares_kernel<true, grad> : sum_squares_kernel<false, grad>;
    size_t count = b->first[b->count];
    unsigned grid = cuda_grid(d, count, BLOCKS);
    if (count > 0) LAUNCH(d, kernel, grid, THREADS, 0)(partials, x, *b);
    TRY(LAUNCHED(sum_squares_kernel));
    LAUNCH(d, sum_totals_kernel, (unsigned)b->count, CUDA_TOTAL_THREADS, 0)(partials, *b);
    return LAUNCHED(sum_totals_kernel);
}

static void put(batch *b, double *out, size_t at, size_t n) {
    b->at[b->count] = at, b->n[b->count] = n, b->out[b->count] = out;
    b->first[b->count + 1] = b->first[b->count] + cuda_ceil(n, SUM_SQUARES_BLOCK);
    b->count++;
}

/* A part with more runs than fit into the scratch is summed in several launches. */
template <typename grad>
static trine_status sum_long(device *d, double *out, const grad *x, const ops_part *part) {
    const size_t whole = ROOM * SUM_SQUARES_BLOCK;
    for (size_t start = 0; start < part->n; start += whole) {
        batch b = {};
        put(&b, out, part->at + start, part->n - start < whole ? part->n - start : whole);
        b.add = start > 0;
        TRY(run(d, x, &b));
    }
    return TRINE_OK;
}

template <typename grad>
static trine_status sum_squares(device *d, double *sums, const void *x_, const ops_part *parts,
                                int count) {
    const grad *x = (const grad *)x_;
    batch b = {};
    for (int i = 0; i < count; i++) {
        size_t partials = cuda_ceil(parts[i].n, SUM_SQUARES_BLOCK);
        if (partials > ROOM) {
            TRY(sum_long(d, sums + i, x, &parts[i]));
            continue;
        }
        if (b.first[b.count] + partials > ROOM || b.count == OPS_PARTS) {
            TRY(run(d, x, &b));
            b = {};
        }
        put(&b, sums + i, parts[i].at, parts[i].n);
    }
    return run(d, x, &b);
}

CUDA_OF_GRADS(sum_squares);
