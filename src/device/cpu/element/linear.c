#include <string.h>

#include "base/status.h"
#include "device/cpu/element/lanes.h"

/* ---- One row ----------------------------------------------------------------------------------- */

/* The product of one row, when text is generated, reads every weight once and is bound by memory. Threads
 * take runs of consecutive rows of w, each a long stream: on the processors measured, several
 * streams of neighbouring rows are a third slower. */

/* Vectors of partial sums: more than two lines at a time are slower by up to a tenth. */
#define SUMS 2

/* The sum of w (K) x (K): vector i goes to partial sum i % SUMS. */
static float dot(const element *w, const element *x, size_t K) {
    lanes sums[SUMS] = {{0}, {0}}, a, b;
    size_t k = 0;
    for (; k + SUMS * LANES <= K; k += SUMS * LANES)
        for (size_t i = 0; i < SUMS; i++) {
            element_lanes(&a, w + k + i * LANES);
            element_lanes(&b, x + k + i * LANES);
            sums[i] += a * b;
        }
    if (k + LANES <= K) {
        element_lanes(&a, w + k);
        element_lanes(&b, x + k);
        sums[0] += a * b;
        k += LANES;
    }
    for (size_t j = 0; k + j < K; j++)
        sums[SUMS - 1][j] += element_get(w[k + j]) * element_get(x[k + j]);
    lanes total = sums[0] + sums[1];
    return lanes_total(&total);
}

/* y (N) = w (N, K) x (K) + bias (N). Memory does not serve all threads alike: a thread that is ahead takes more of the
 * rest. */
static void one_row(const device *d, element *y, const element *w, const element *bias,
                    const element *x, size_t N, size_t K) {
#pragma omp parallel for num_threads(d->threads) schedule(guided, 8)
    for (size_t n = 0; n < N; n++)
        y[n] = element_put(dot(w + n * K, x, K) + (bias ? element_get(bias[n]) : 0.0f));
}

/* ---- The operators ----------------------------------------------------------------------------- */

/* Empty matrices are handled here, because the library does not accept all of them. */

trine_status CPU(linear_forward)(device *d, void *y, const void *w, const void *bias, const void *x,
                                 size_t T, size_t N, size_t K) {
    if (T == 0 || N == 0) return TRINE_OK;
    if (T == 1) return one_row(d, y, w, bias, x, N, K), TRINE_OK;
    if (K > 0) return cpu_matmul(d, MATMUL_Y, y, x, w, bias, T, N, K);
    memset(y, 0, T * N * sizeof(element));
    return bias ? CPU(bias_residual)(d, y, bias, NULL, T, N) : TRINE_OK;
}

trine_status CPU(linear_backward_input)(device *d, void *dx, const void *w, const void *dy,
                                        size_t T, size_t N, size_t K) {
    if (T == 0 || K == 0) return TRINE_OK;
    if (N > 0) return cpu_matmul(d, MATMUL_DX, dx, dy, w, NULL, T, N, K);
    memset(dx, 0, T * K * sizeof(element));
    return TRINE_OK;
}

trine_status CPU(linear_backward_weight)(device *d, void *dw, void *dbias, const void *dy,
                                         const void *x, size_t T, size_t N, size_t K,
                                         grad_mode mode) {
    matmul_kind kind = mode == GRAD_SET ? MATMUL_DW : MATMUL_DW_ADD;
    if (T > 0 && N > 0 && K > 0) TRY(cpu_matmul(d, kind, dw, dy, x, NULL, T, N, K));
    if (T == 0 && mode == GRAD_SET) memset(dw, 0, N * K * sizeof(grad));
    return dbias ? CPU(bias_backward)(d, dbias, dy, T, N, mode) : TRINE_OK;
}
