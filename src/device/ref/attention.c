#include <math.h>
#include <string.h>

#include "device/documents.h"
#include "device/dropout.h"
#include "device/ref/ref.h"

/* One query head of one sample, with its key and value head. Row t of q, k, v is t * stride elements after
 * row 0; row t of y and dy is t * H * D elements after row 0. */
typedef struct {
    trine_dtype type;
    const void *qkv; /* (B, T, H + 2 K, D) */
    size_t q, k, v;  /* row 0 of each, in qkv */
    size_t y;        /* in y and dy (B, T, H, D) */
    size_t stride, width, D;
    const int32_t *starts;    /* (T), of the documents; NULL: one */
    const dropout_args *drop; /* NULL: none */
    uint64_t sample, element; /* of the dropout, for the score of row 0 and key 0 */
} head;

static head head_at(const device *d, const void *qkv, const int32_t *starts,
                    const dropout_args *drop, size_t b, size_t h, size_t T, size_t H, size_t K,
                    size_t D) {
    size_t stride = (H + 2 * K) * D, row = b * T * stride, kv = H + h / (H / K);
    return (head){.type = d->compute,
                  .qkv = qkv,
                  .q = row + h * D,
                  .k = row + kv * D,
                  .v = row + (kv + K) * D,
                  .y = b * T * H * D + h * D,
                  .stride = stride,
                  .width = H * D,
                  .D = D,
                  .starts = documents_of(starts, b, T),
                  .drop = drop,
                  .sample = drop ? drop->sample + b : 0,
                  .element = drop ? (drop->first + h) * T * T : 0};
}

/* The dot product of D elements, from a[i] and from b[j] on. */
static double dot(const head *x, const void *a, size_t i, const void *b, size_t j) {
    double sum = 0.0;
    for (size_t n = 0; n < x->D; n++)
        sum += ref_load(x->type, a, i + n) * ref_load(x->type, b, j + n);
    return sum;
}

static double factor(const head *x, size_t t, size_t s, size_t T) {
    return x->drop ? (double)dropout_factor(x->drop, x->sample, x->element + t * T + s) : 1.0;
}

/* Row t: p [first, t] = scores, then their exponentials, then the exponentials after dropout; y = sum of
 * p v / sum of exponentials. Returns the log of the denominator. */
static double row_forward(const head *x, void *y, double *p, size_t t, size_t T) {
    const size_t first = document_start(x->starts, t);
    double max = -INFINITY, sum = 0.0;
    for (size_t s = first; s <= t; s++) {
        p[s] =
            dot(x, x->qkv, x->q + t * x->stride, x->qkv, x->k + s * x->stride) / sqrt((double)x->D);
        if (p[s] > max) max = p[s];
    }
    for (size_t s = first; s <= t; s++) sum += p[s] = exp(p[s] - max);
    for (size_t s = first; s <= t; s++) p[s] *= factor(x, t, s, T);
    for (size_t i = 0; i < x->D; i++) {
        double out = 0.0;
        for (size_t s = first; s <= t; s++)
            out += p[s] * ref_load(x->type, x->qkv, x->v + s * x->stride + i);
        ref_store(x->type, y, x->y + t * x->width + i, out / sum);
    }
    return max + log(sum);
}

trine_status ref_attention_forward(device *d, void *y, float *lse, const void *qkv,
                                   const int32_t *starts, void *work, const dropout_args *drop,
                                   size_t B, size_t T, size_t H, size_t K, size_t D) {
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            const head x = head_at(d, qkv, starts, drop, b, h, T, H, K, D);
            for (size_t t = 0; t < T; t++)
                lse[(b * H + h) * T + t] = (float)row_forward(&x, y, work, t, T);
        }
    return TRINE_OK;
}

/* Adds the terms of row t to the gradients of its head, dk and dv (T, D): with p = exp(q k / sqrt(D) - lse), f the dropout
 * factor of p (y is the sum of f p v) and ds = p * (f dy v - dy y) / sqrt(D):
 * dq += ds k,  dk += ds q,  dv += f p dy. */
static void row_backward(const head *x, double *dq, double *dk, double *dv, const void *dy,
                         const void *y, double lse, size_t t, size_t T) {
    const size_t q = x->q + t * x->stride, out = x->y + t * x->width;
    double scale = 1.0 / sqrt((double)x->D), dy_y = dot(x, dy, out, y, out);
    for (size_t s = document_start(x->starts, t); s <= t; s++) {
        const size_t k = x->k + s * x->stride, v = x->v + s * x->stride;
        double p = exp(dot(x, x->qkv, q, x->qkv, k) * scale - lse), f = factor(x, t, s, T);
        double ds = p * (f * dot(x, dy, out, x->qkv, v) - dy_y) * scale;
        for (size_t i = 0; i < x->D; i++) {
            dq[i] += ds * ref_load(x->type, x->qkv, k + i);
            dk[s * x->D + i] += ds * ref_load(x->type, x->qkv, q + i);
            dv[s * x->D + i] += f * p * ref_load(x->type, dy, out + i);
        }
    }
}

static void store(const head *x, void *dqkv, size_t at, const double *rows, size_t T) {
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < x->D; i++)
            ref_store(x->type, dqkv, at + t * x->stride + i, rows[t * x->D + i]);
}

trine_status ref_attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                    const void *y, const float *lse, const int32_t *starts,
                                    void *work, const dropout_args *drop, size_t B, size_t T,
                                    size_t H, size_t K, size_t D) {
    double *dq = work, *dk = dq + T * D, *dv = dk + T * D; /* (T, D) each, of one head */
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++) {
            const head x = head_at(d, qkv, starts, drop, b, h, T, H, K, D);
            const bool first = h % (H / K) == 0, last = (h + 1) % (H / K) == 0; /* of its group */
            memset(work, 0, (first ? 3 : 1) * T * D * sizeof(double));
            for (size_t t = 0; t < T; t++)
                row_backward(&x, dq + t * D, dk, dv, dy, y, (double)lse[(b * H + h) * T + t], t, T);
            store(&x, dqkv, x.q, dq, T);
            if (!last) continue;
            store(&x, dqkv, x.k, dk, T);
            store(&x, dqkv, x.v, dv, T);
        }
    return TRINE_OK;
}

/* The forward pass needs a row of T scores, the backward pass three (T, D) gradients of one head. */
size_t ref_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D) {
    (void)d, (void)B, (void)H, (void)K;
    return (D ? 3 * D : 1) * T * sizeof(double);
}

/* ---- With a cache ---- */

/* Sizes and operands of attention_cached. */
typedef struct {
    trine_dtype type;
    void *keys, *values; /* (K, D, M), (K, M, D) */
    const void *qkv;     /* (n, H + 2 K, D) */
    size_t past, M, H, K, D;
} cached;

static size_t key_at(const cached *c, size_t kv, size_t s, size_t i) {
    return (kv * c->D + i) * c->M + s;
}

static size_t value_at(const cached *c, size_t kv, size_t s, size_t i) {
    return (kv * c->M + s) * c->D + i;
}

/* Element i of head `which` of H + 2 K of new row r. */
static double new_row(const cached *c, size_t r, size_t which, size_t i) {
    return ref_load(c->type, c->qkv, (r * (c->H + 2 * c->K) + which) * c->D + i);
}

static void keep(const cached *c, size_t r, size_t kv) {
    const size_t k = c->H + kv, v = k + c->K;
    for (size_t i = 0; i < c->D; i++) {
        ref_store(c->type, c->keys, key_at(c, kv, c->past + r, i), new_row(c, r, k, i));
        ref_store(c->type, c->values, value_at(c, kv, c->past + r, i), new_row(c, r, v, i));
    }
}

static void cached_row(const cached *c, void *y, double *p, size_t r, size_t h) {
    size_t end = c->past + r + 1, kv = h / (c->H / c->K);
    double max = -INFINITY, sum = 0.0;
    for (size_t s = 0; s < end; s++) {
        p[s] = 0.0;
        for (size_t i = 0; i < c->D; i++)
            p[s] += new_row(c, r, h, i) * ref_load(c->type, c->keys, key_at(c, kv, s, i));
        p[s] /= sqrt((double)c->D);
        if (p[s] > max) max = p[s];
    }
    for (size_t s = 0; s < end; s++) sum += p[s] = exp(p[s] - max);
    for (size_t i = 0; i < c->D; i++) {
        double out = 0.0;
        for (size_t s = 0; s < end; s++)
            out += p[s] * ref_load(c->type, c->values, value_at(c, kv, s, i));
        ref_store(c->type, y, (r * c->H + h) * c->D + i, out / sum);
    }
}

trine_status ref_attention_cached(device *d, void *y, void *keys, void *values, const void *qkv,
                                  void *work, size_t past, size_t n, size_t M, size_t H, size_t K,
                                  size_t D) {
    const cached c = {d->compute, keys, values, qkv, past, M, H, K, D};
    for (size_t r = 0; r < n; r++) {
        for (size_t kv = 0; kv < K; kv++) keep(&c, r, kv);
        for (size_t h = 0; h < H; h++) cached_row(&c, y, work, r, h);
    }
    return TRINE_OK;
}
