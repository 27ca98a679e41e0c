#include "device/documents.h"
#include "device/ref/ref.h"

/* x (rows, C), table (T, C) */
trine_status ref_position_forward(device *d, void *x, const void *table, const int32_t *starts,
                                  size_t first, size_t rows, size_t T, size_t C) {
    for (size_t i = 0; i < rows; i++) {
        const size_t t = document_position(starts, first + i, T);
        for (size_t c = 0; c < C; c++)
            ref_store(d->compute, x, i * C + c,
                      ref_load(d->compute, x, i * C + c) + ref_load(d->compute, table, t * C + c));
    }
    return TRINE_OK;
}

/* dtable (T, C), dx (rows, C) */
trine_status ref_position_backward(device *d, void *dtable, const void *dx, const int32_t *starts,
                                   size_t first, size_t rows, size_t T, size_t C, grad_mode mode) {
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < C; c++) {
            float sum = (float)ref_old(d->grads, dtable, t * C + c, mode);
            for (size_t i = 0; i < rows; i++)
                if (document_position(starts, first + i, T) == t)
                    sum += (float)ref_load(d->compute, dx, i * C + c);
            ref_store(d->grads, dtable, t * C + c, (double)sum);
        }
    return TRINE_OK;
}
