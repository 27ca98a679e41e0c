/* A thread keeps four cosines and four sines of a row and rotates their pairs in every few heads, so that
 * the table is read from memory once and from the caches a few times. */
#include "device/cuda/kernel.cuh"

#define BLOCKS 8 /* of a multiprocessor, at once */

/* Rows [0, rows) of x (rows, heads, D); thread blocks are (fours of D / 2, heads, rows). `sign` is that of
 * the angles. */
template <bool VECTOR, typename real>
static __global__
AT_ONCE(PLANE, BLOCKS) void rope_kernel(real *x, const float *table, const int32_t *starts,
                                        float sign, size_t first, size_t rows, size_t T,
                                        size_t heads, unsigned rotated, unsigned half) {
    for (unsigned i = blockIdx.x * blockDim.z + threadIdx.z; i < (unsigned)rows;
         i += gridDim.x * blockDim.z) {
        const float *angles = table + document_position(starts, first + i, T) * 2 * half;
        for (unsigned c = 4 * threadIdx.x; c < half; c += 4 * blockDim.x) {
            four cosine = load_row<VECTOR>(angles, c, half);
            four sine = load_row<VECTOR>(angles + half, c, half);
            for (int j = 0; j < 4; j++) sine.at[j] *= sign;
            for (unsigned h = threadIdx.y; h < rotated; h += blockDim.y) {
                real *low = x + ((size_t)i * heads + h) * 2 * half, *high = low + half;
                four a = load_row<VECTOR>(low, c, half), b = load_row<VECTOR>(high, c, half);
                four to_low, to_high;
                for (int j = 0; j < 4; j++) {
                    to_low.at[j] = a.at[j] * cosine.at[j] - b.at[j] * sine.at[j];
                    to_high.at[j] = b.at[j] * cosine.at[j] + a.at[j] * sine.at[j];
                }
                store_row<VECTOR>(low, c, half, to_low);
                store_row<VECTOR>(high, c, half, to_high);
            }
        }
    }
}

static unsigned least(size_t a, size_t b) {
    return (unsigned)(a < b ? a : b);
}

template <typename real>
static trine_status rope(device *d, void *x_, const float *table, const int32_t *starts,
                         bool inverse, size_t first, size_t rows, size_t T, size_t heads,
                         size_t rotated, size_t D) {
    real *x = (real *)x_;
    const size_t half = D / 2;
    if (rows == 0 || T == 0 || rotated == 0 || half == 0) return TRINE_OK;
    unsigned across = least(cuda_ceil(half, 4), PLANE), down = least(rotated, PLANE / across);
    unsigned deep = least(PLANE / (across * down), least(rows, 64)); /* CUDA's limit */
    bool vector = half % 4 == 0 && cuda_aligned(x) && cuda_aligned(table);
    auto kernel = vector ? rope_kernel<true, real> : rope_kernel<false, real>;
    LAUNCH(d, kernel, cuda_grid(d, cuda_ceil(rows, deep), BLOCKS), dim3(across, down, deep), 0)
    (x, table, starts, inverse ? -1.0f : 1.0f, first, rows, T, heads, (unsigned)rotated,
     (unsigned)half);
    return LAUNCHED(rope_kernel);
}

CUDA_OF_COMPUTE(rope);
