#include "device/ref/ref.h"

/* A sum waits for each of its additions, so up to BLOCK sums are made side by side, each in its own order. */
enum { BLOCK = 8 };

/* Elements of a matrix: i * row + j * column after the first. */
typedef struct {
    const void *elements;
    size_t first, row, column;
} matrix;

/* sums[j] += a[i] * b[i][j], in the order of i = 0 ... rows - 1 */
static inline __attribute__((always_inline)) void
add_columns(trine_dtype type, double *sums, size_t columns, matrix a, matrix b, size_t rows) {
    for (size_t i = 0; i < rows; i++) {
        const double x = ref_load(type, a.elements, a.first + i * a.row);
        for (size_t j = 0; j < columns; j++)
            sums[j] += x * ref_load(type, b.elements, b.first + i * b.row + j * b.column);
    }
}

static inline __attribute__((always_inline)) void
add_typed(trine_dtype type, double *sums, size_t columns, matrix a, matrix b, size_t rows) {
    if (columns == BLOCK)
        add_columns(type, sums, BLOCK, a, b, rows);
    else
        add_columns(type, sums, columns, a, b, rows);
}

/* The compiler makes a loop for each type. */
static void add_products(trine_dtype type, double *sums, size_t columns, matrix a, matrix b,
                         size_t rows) {
    if (type == TRINE_F32)
        add_typed(TRINE_F32, sums, columns, a, b, rows);
    else if (type == TRINE_BF16)
        add_typed(TRINE_BF16, sums, columns, a, b, rows);
    else
        add_typed(TRINE_F16, sums, columns, a, b, rows);
}

static size_t block_at(size_t from, size_t end) {
    return end - from < BLOCK ? end - from : BLOCK;
}

/* y (T, N), w (N, K), bias (N), residual (T, N), x (T, K) */
trine_status ref_linear_residual(device *d, void *y, const void *w, const void *bias,
                                 const void *residual, const void *x, size_t T, size_t N,
                                 size_t K) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++)
        for (size_t n = 0; n < N; n += BLOCK) {
            const size_t columns = block_at(n, N);
            double sums[BLOCK];
            for (size_t j = 0; j < columns; j++) {
                sums[j] = bias ? ref_load(type, bias, n + j) : 0.0;
                if (residual) sums[j] += ref_load(type, residual, t * N + n + j);
            }
            add_products(type, sums, columns, (matrix){x, t * K, 1, 0}, (matrix){w, n * K, 1, K},
                         K);
            for (size_t j = 0; j < columns; j++) ref_store(type, y, t * N + n + j, sums[j]);
        }
    return TRINE_OK;
}

trine_status ref_linear_forward(device *d, void *y, const void *w, const void *bias, const void *x,
                                size_t T, size_t N, size_t K) {
    return ref_linear_residual(d, y, w, bias, NULL, x, T, N, K);
}

/* dx (T, K), w (N, K), dy (T, N) */
trine_status ref_linear_backward_input(device *d, void *dx, const void *w, const void *dy, size_t T,
                                       size_t N, size_t K) {
    const trine_dtype type = d->compute;
    for (size_t t = 0; t < T; t++)
        for (size_t k = 0; k < K; k += BLOCK) {
            const size_t columns = block_at(k, K);
            double sums[BLOCK] = {0};
            add_products(type, sums, columns, (matrix){dy, t * N, 1, 0}, (matrix){w, k, K, 1}, N);
            for (size_t j = 0; j < columns; j++) ref_store(type, dx, t * K + k + j, sums[j]);
        }
    return TRINE_OK;
}

/* dw (N, K), dy (T, N), x (T, K) */
trine_status ref_linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                        const void *x, size_t T, size_t N, size_t K,
                                        grad_mode mode) {
    const trine_dtype type = d->compute;
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k += BLOCK) {
            const size_t columns = block_at(k, K);
            double sums[BLOCK];
            for (size_t j = 0; j < columns; j++)
                sums[j] = ref_old(d->grads, dw, n * K + k + j, mode);
            add_products(type, sums, columns, (matrix){dy, n, N, 0}, (matrix){x, k, K, 1}, T);
            for (size_t j = 0; j < columns; j++) ref_store(d->grads, dw, n * K + k + j, sums[j]);
        }
    return dbias ? ref_bias_backward(d, dbias, dy, T, N, mode) : TRINE_OK;
}
