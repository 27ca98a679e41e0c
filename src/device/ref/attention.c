#include <math.h>
#include <string.h>

#include "device/dropout.h"
#include "device/ref/ref.h"

/* One head's rows inside the (T, 3, H, D) and (T, H, D) layouts: row t of q, k, v starts at
 * t * 3 * H * D, row t of y at t * H * D. */

static double dot(const float *a, const float *b, size_t D) {
    double sum = 0.0;
    for (size_t i = 0; i < D; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The scores of row t of a head: what its dropout's elements are counted from; drop NULL: none. */
typedef struct {
    const dropout_args *drop;
    uint64_t sample, first;
} dropped_row;

static dropped_row row_at(const dropout_args *drop, size_t b, size_t h, size_t t, size_t T) {
    if (!drop) return (dropped_row){0};
    return (dropped_row){drop, drop->sample + b, ((drop->first + h) * T + t) * T};
}

static double factor(const dropped_row *row, size_t s) {
    return row->drop ? (double)dropout_factor(row->drop, row->sample, row->first + s) : 1.0;
}

/* Row t of one head: p (t + 1) = scores, then their exponentials, then those that are kept;
 * y = sum of p v / sum of exponentials. Returns the log of the denominator. */
static double row_forward(float *y, double *p, const float *q, const float *k, const float *v,
                          const dropped_row *row, size_t t, size_t stride, size_t D) {
    double max = -INFINITY, sum = 0.0;
    for (size_t s = 0; s <= t; s++) {
        p[s] = dot(q, k + s * stride, D) / sqrt((double)D);
        if (p[s] > max) max = p[s];
    }
    for (size_t s = 0; s <= t; s++) sum += p[s] = exp(p[s] - max);
    for (size_t s = 0; s <= t; s++) p[s] *= factor(row, s);
    for (size_t i = 0; i < D; i++) {
        double out = 0.0;
        for (size_t s = 0; s <= t; s++) out += p[s] * (double)v[s * stride + i];
        y[i] = (float)(out / sum);
    }
    return max + log(sum);
}

trine_status ref_attention_forward(device *d, void *y_, float *lse, const void *qkv_, void *work,
                                   const dropout_args *drop, size_t B, size_t T, size_t H,
                                   size_t D) {
    (void)d;
    float *y = y_;           /* (B, T, H, D) */
    const float *qkv = qkv_; /* (B, T, 3, H, D) */
    size_t stride = 3 * H * D;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t t = 0; t < T; t++) {
                const float *q = qkv + b * T * stride + h * D, *k = q + H * D, *v = k + H * D;
                const dropped_row row = row_at(drop, b, h, t, T);
                double log_sum = row_forward(y + ((b * T + t) * H + h) * D, work, q + t * stride, k,
                                             v, &row, t, stride, D);
                lse[(b * H + h) * T + t] = (float)log_sum;
            }
    return TRINE_OK;
}

/* What row t adds to its head's gradients: with p = exp(q k / sqrt(D) - lse), f what the dropout
 * multiplies p by (y is the sum of f p v) and ds = p * (f dy v - dy y) / sqrt(D):
 * dq += ds k,  dk += ds q,  dv += f p dy. */
static void row_backward(double *dq, double *dk, double *dv, const float *dy, const float *y,
                         double lse, const float *q, const float *k, const float *v,
                         const dropped_row *row, size_t t, size_t stride, size_t D) {
    double scale = 1.0 / sqrt((double)D), dy_y = dot(dy, y, D);
    for (size_t s = 0; s <= t; s++, k += stride, v += stride, dk += D, dv += D) {
        double p = exp(dot(q, k, D) * scale - lse), f = factor(row, s);
        double ds = p * (f * dot(dy, v, D) - dy_y) * scale;
        for (size_t i = 0; i < D; i++) {
            dq[i] += ds * (double)k[i];
            dk[i] += ds * (double)q[i];
            dv[i] += f * p * (double)dy[i];
        }
    }
}

static void store(float *out, const double *rows, size_t T, size_t stride, size_t D) {
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < D; i++) out[t * stride + i] = (float)rows[t * D + i];
}

trine_status ref_attention_backward(device *d, void *dqkv_, const void *dy_, const void *qkv_,
                                    const void *y_, const float *lse, void *work,
                                    const dropout_args *drop, size_t B, size_t T, size_t H,
                                    size_t D) {
    (void)d;
    float *dqkv = dqkv_; /* (B, T, 3, H, D) */
    const float *dy = dy_, *qkv = qkv_, *y = y_;
    double *dq = work, *dk = dq + T * D, *dv = dk + T * D; /* (T, D) each, of one head */
    size_t stride = 3 * H * D;
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            size_t at = b * T * stride + h * D;
            const float *q = qkv + at, *k = q + H * D, *v = k + H * D;
            memset(work, 0, 3 * T * D * sizeof(double));
            for (size_t t = 0; t < T; t++) {
                const dropped_row row = row_at(drop, b, h, t, T);
                size_t out = ((b * T + t) * H + h) * D;
                row_backward(dq + t * D, dk, dv, dy + out, y + out,
                             (double)lse[(b * H + h) * T + t], q + t * stride, k, v, &row, t,
                             stride, D);
            }
            store(dqkv + at, dq, T, stride, D);
            store(dqkv + at + H * D, dk, T, stride, D);
            store(dqkv + at + 2 * H * D, dv, T, stride, D);
        }
    return TRINE_OK;
}

/* Forward needs a row of T scores, backward three (T, D) gradients of one head. */
size_t ref_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t D) {
    (void)d, (void)B, (void)H;
    return (D ? 3 * D : 1) * T * sizeof(double);
}
