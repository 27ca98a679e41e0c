/* In double: blocks of SUM_SQUARES_BLOCK, then the sum of the blocks' sums. A thread block takes
 * one such block at a time, all of it in flight at once. */
#include "device/cuda/kernel.cuh"

#define THREADS 128
#define BLOCKS  8                                   /* of a multiprocessor, at once */
#define EACH    (SUM_SQUARES_BLOCK / (4 * THREADS)) /* fours that a thread has of a block */

/* Blocks whose sums the scratch has room for. */
#define ROOM (CUDA_SCRATCH * sizeof(float) / sizeof(double))

/* pieces (count); block p has the elements [p * SUM_SQUARES_BLOCK, ...) of x (n). */
template <bool VECTOR, typename grad>
static __global__ AT_ONCE(THREADS, BLOCKS) void sum_squares_kernel(double *pieces, const grad *x,
                                                                   size_t n, size_t count) {
    __shared__ double area[2][THREADS / WARP];
    int turn = 0;
    for (size_t p = blockIdx.x; p < count; p += gridDim.x, turn = !turn) {
        size_t begin = p * SUM_SQUARES_BLOCK;
        four part[EACH];
        if (VECTOR && begin + SUM_SQUARES_BLOCK <= n)
            for (int k = 0; k < EACH; k++)
                part[k] = load4(x + begin + 4 * (k * THREADS + threadIdx.x));
        else
            for (int k = 0; k < EACH; k++)
                part[k] = load_row<false>(x, begin + 4 * (k * THREADS + threadIdx.x), n);
        double sum = 0.0;
        for (int k = 0; k < EACH; k++)
            for (int j = 0; j < 4; j++) sum += (double)part[k].at[j] * (double)part[k].at[j];
        sum = block_sum(sum, area[turn]);
        if (threadIdx.x == 0) pieces[p] = sum;
    }
}

template <typename grad>
static trine_status sum_squares(device *d, double *sum, const void *x_, size_t n) {
    const grad *x = (const grad *)x_;
    auto kernel =
        cuda_aligned(x) ? sum_squares_kernel<true, grad> : sum_squares_kernel<false, grad>;
    double *pieces = (double *)cuda_of(d)->scratch;
    size_t whole = ROOM * SUM_SQUARES_BLOCK, start = 0;
    do {
        size_t part = n - start < whole ? n - start : whole;
        size_t count = cuda_ceil(part, SUM_SQUARES_BLOCK);
        unsigned grid = cuda_grid(d, count, BLOCKS);
        if (count > 0) LAUNCH(d, kernel, grid, THREADS, 0)(pieces, x + start, part, count);
        TRY(LAUNCHED(sum_squares_kernel));
        TRY(cuda_total(d, sum, pieces, count, 1.0, start ? GRAD_ADD : GRAD_SET));
        start += part;
    } while (start < n);
    return TRINE_OK;
}

CUDA_OF_GRADS(sum_squares);
