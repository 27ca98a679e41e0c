#include <string.h>

#include "device/cpu/element/element.h"

#define WIDTH 16  /* partial sums within a block, for every vector width */
#define BATCH 256 /* blocks between two serial additions */

/* Half of them: the largest conversion to double that compilers vectorise. */
#define HALF (WIDTH / 2)
typedef double half64 __attribute__((vector_size(HALF * sizeof(double))));
typedef float half32
    __attribute__((vector_size(HALF * sizeof(float)), aligned(sizeof(float)), may_alias));

static void add_squares(half64 *sums, const float *x) {
    half64 wide = __builtin_convertvector(*(const half32 *)x, half64);
    *sums += wide * wide;
}

static double block_sum(const grad *x, size_t n) {
    half64 low = {0}, high = {0};
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        float part[WIDTH];
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++) part[j] = grad_get(x[i + j]);
        add_squares(&low, part);
        add_squares(&high, part + HALF);
    }
    double sums[WIDTH], sum = 0.0;
    memcpy(sums, &low, sizeof low);
    memcpy(sums + HALF, &high, sizeof high);
    for (size_t j = 0; i + j < n; j++) {
        double last = (double)grad_get(x[i + j]);
        sums[j] += last * last;
    }
    for (size_t j = 0; j < WIDTH; j++) sum += sums[j];
    return sum;
}

/* Blocks are summed in parallel, and their sums are added in ascending order. */
static double sum_all(const device *d, const grad *x, size_t n) {
    size_t blocks = (n + SUM_SQUARES_BLOCK - 1) / SUM_SQUARES_BLOCK;
    double sum = 0.0;
    for (size_t start = 0; start < blocks; start += BATCH) {
        size_t count = blocks - start < BATCH ? blocks - start : BATCH;
        double sums[BATCH];
#pragma omp parallel for num_threads(d->threads) schedule(static)
        for (size_t i = 0; i < count; i++) {
            size_t at = (start + i) * SUM_SQUARES_BLOCK;
            sums[i] = block_sum(x + at, n - at < SUM_SQUARES_BLOCK ? n - at : SUM_SQUARES_BLOCK);
        }
        for (size_t i = 0; i < count; i++) sum += sums[i];
    }
    return sum;
}

trine_status CPU(sum_squares)(device *d, double *sums, const void *x_, const ops_part *parts,
                              int count) {
    const grad *x = x_;
    for (int p = 0; p < count; p++) sums[p] = sum_all(d, x + parts[p].at, parts[p].n);
    return TRINE_OK;
}
