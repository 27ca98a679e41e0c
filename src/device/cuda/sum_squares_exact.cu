/* Exact sums of squares: a team of EXACT_LANES threads has a block of EXACT_BLOCK elements at a time, a lane each, and
 * adds the block's sum to digits of its own in shared memory. Then each thread block adds those of its teams, and a
 * second kernel those of all thread blocks: integers, so the order does not matter. */
#include "device/cuda/kernel.cuh"

#define THREADS 128
#define BLOCKS  8 /* of a multiprocessor, at once */
#define TEAMS   (THREADS / EXACT_LANES)
#define EACH    (EXACT_BLOCK / EXACT_LANES) /* elements of a block in a lane */

/* Part i has the blocks [first[i], first[i + 1]), with x's elements [from[i], to[i]); block first[i] starts at the
 * multiple of EXACT_BLOCK that is not above from[i]. */
typedef struct {
    size_t from[OPS_PARTS], to[OPS_PARTS], first[OPS_PARTS + 1];
    int count;
} batch;

/* A lane of block `block`. */
template <typename grad>
static inline __device__ double lane_of(const grad *x, const batch *b, size_t block) {
    int i = 0;
    double sum = 0.0;
    if (block >= b->first[b->count]) return sum;
    while (block >= b->first[i + 1]) i++;
    size_t at = b->from[i] / EXACT_BLOCK * EXACT_BLOCK + (block - b->first[i]) * EXACT_BLOCK;
    at += threadIdx.x % EXACT_LANES;
    float part[EACH];
    for (int k = 0; k < EACH; k++, at += EXACT_LANES)
        part[k] = at >= b->from[i] && at < b->to[i] ? load(x + at) : 0.0f;
    for (int k = 0; k < EACH; k++) sum += (double)part[k] * (double)part[k];
    return sum;
}

/* partials (gridDim.x, EXACT_WORDS). */
template <typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void squares_kernel(int64_t *partials, const grad *x,
                                                               batch b) {
    __shared__ int64_t sums[TEAMS][EXACT_WORDS];
    const unsigned team = threadIdx.x / EXACT_LANES;
    for (unsigned i = threadIdx.x; i < TEAMS * EXACT_WORDS; i += THREADS)
        sums[i / EXACT_WORDS][i % EXACT_WORDS] = 0;
    __syncthreads();
    for (size_t p = blockIdx.x; p * TEAMS < b.first[b.count]; p += gridDim.x) {
        double sum = lane_of(x, &b, p * TEAMS + team);
        for (int k = EXACT_LANES / 2; k > 0; k /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, k);
        if (threadIdx.x % EXACT_LANES == 0) exact_add(sums[team], sum);
    }
    __syncthreads();
    if (threadIdx.x >= EXACT_WORDS) return;
    int64_t word = 0;
    for (int t = 0; t < TEAMS; t++) word += sums[t][threadIdx.x];
    partials[blockIdx.x * EXACT_WORDS + threadIdx.x] = word;
}

/* digits += the partials (count, EXACT_WORDS), and carries. A thread block of WARP words and WARP warps, which share
 * the partials. */
static __global__ AT_ONCE(WARP *WARP, 1) void digits_kernel(int64_t *digits,
                                                            const int64_t *partials,
                                                            unsigned count) {
    __shared__ int64_t words[WARP][WARP];
    const unsigned word = threadIdx.x;
    int64_t sum = 0;
    if (word < EXACT_WORDS)
        for (unsigned p = threadIdx.y; p < count; p += WARP)
            sum += partials[p * EXACT_WORDS + word];
    words[threadIdx.y][word] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || word > 0) return;
    for (int i = 0; i < EXACT_WORDS; i++)
        for (int w = 0; w < WARP; w++) digits[i] += words[w][i];
    exact_carry(digits);
}

template <typename grad>
static trine_status run(device *d, int64_t *digits, const grad *x, const batch *b) {
    int64_t *partials = (int64_t *)cuda_of(d)->scratch;
    const size_t blocks = b->first[b->count];
    if (blocks == 0) return TRINE_OK;
    unsigned grid = cuda_grid(d, cuda_ceil(blocks, TEAMS), BLOCKS);
    LAUNCH(d, squares_kernel<grad>, grid, THREADS, 0)(partials, x, *b);
    TRY(LAUNCHED(squares_kernel));
    LAUNCH(d, digits_kernel, 1, dim3(WARP, WARP), 0)(digits, partials, grid);
    return LAUNCHED(digits_kernel);
}

template <typename grad>
static trine_status sum_squares_exact(device *d, int64_t *digits, const void *x_,
                                      const ops_part *parts, int count) {
    const grad *x = (const grad *)x_;
    batch b = {};
    for (int i = 0; i < count; i++) {
        if (parts[i].n == 0) continue;
        if (b.count == OPS_PARTS) {
            TRY(run(d, digits, x, &b));
            b = {};
        }
        size_t from = parts[i].at, to = from + parts[i].n;
        b.from[b.count] = from, b.to[b.count] = to;
        b.first[b.count + 1] = b.first[b.count] + cuda_ceil(to, EXACT_BLOCK) - from / EXACT_BLOCK;
        b.count++;
    }
    return run(d, digits, x, &b);
}

CUDA_OF_GRADS(sum_squares_exact);
