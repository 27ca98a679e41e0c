#include <string.h>

#include "base/status.h"
#include "device/cpu/element/element.h"

/* Empty matrices are handled here, because the library does not accept all of them. */

trine_status CPU(linear_forward)(device *d, void *y, const void *w, const void *bias, const void *x,
                                 size_t T, size_t N, size_t K) {
    if (T == 0 || N == 0) return TRINE_OK;
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
