/* A task is one (batch, head) pair. It packs its keys and values, whose rows lie 3 H D apart, then
 * walks its queries in blocks of ATTENTION_ROWS. Blocks of one task run in order on one thread, so
 * the sums over queries (dk, dv) have one order too. */
#include "device/cpu/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/exp.h"
#include "device/cpu/lanes.h"

#define R ATTENTION_ROWS

/* A thread's scratch; `wide` = D padded, `tall` = T padded. */
typedef struct {
    float *k_transposed, *v_transposed; /* (D, tall) */
    float *k, *v;                       /* (T, wide) */
    float *dk, *dv;                     /* (T, wide) */
    float *p, *ds;                      /* (R, tall) */
    float *q, *dy, *out;                /* (R, wide) */
} scratch;

typedef struct {
    size_t T, D, tall, wide;
    size_t qkv_stride, y_stride; /* from one row of a head to its next */
    float scale;
} shape;

static shape shape_of(size_t T, size_t H, size_t D) {
    return (shape){T,         D,     attention_padded(T),   attention_padded(D),
                   3 * H * D, H * D, 1.0f / sqrtf((float)D)};
}

/* Floats of one thread's scratch. */
static size_t scratch_count(const shape *s) {
    return 2 * s->D * s->tall + 4 * s->T * s->wide + 2 * R * s->tall + 3 * R * s->wide;
}

static float *take(float **from, size_t count) {
    float *piece = *from;
    *from += count;
    return piece;
}

static scratch scratch_of(void *work, const shape *s) {
    float *at = (float *)work + (size_t)omp_get_thread_num() * scratch_count(s);
    scratch f;
    f.k_transposed = take(&at, s->D * s->tall);
    f.v_transposed = take(&at, s->D * s->tall);
    f.k = take(&at, s->T * s->wide);
    f.v = take(&at, s->T * s->wide);
    f.dk = take(&at, s->T * s->wide);
    f.dv = take(&at, s->T * s->wide);
    f.p = take(&at, R * s->tall);
    f.ds = take(&at, R * s->tall);
    f.q = take(&at, R * s->wide);
    f.dy = take(&at, R * s->wide);
    f.out = take(&at, R * s->wide);
    return f;
}

size_t cpu_attention_workspace(const device *d, size_t B, size_t T, size_t H, size_t D) {
    (void)B;
    shape s = shape_of(T, H, D);
    return (size_t)d->threads * scratch_count(&s) * sizeof(float);
}

/* out (rows, wide) = in (rows, D), padded with zeros. */
static void pack(float *out, const float *in, size_t stride, size_t rows, const shape *s) {
    for (size_t t = 0; t < rows; t++) {
        memcpy(out + t * s->wide, in + t * stride, s->D * sizeof(float));
        memset(out + t * s->wide + s->D, 0, (s->wide - s->D) * sizeof(float));
    }
}

/* out (D, tall) = in (T, D) transposed, padded with zeros. */
static void pack_transposed(float *out, const float *in, size_t stride, const shape *s) {
    for (size_t i = 0; i < s->D; i++) {
        float *row = out + i * s->tall;
        for (size_t t = 0; t < s->T; t++) row[t] = in[t * stride + i];
        memset(row + s->T, 0, (s->tall - s->T) * sizeof(float));
    }
}

static void unpack(float *out, size_t stride, const float *in, float factor, size_t rows,
                   const shape *s) {
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < s->D; i++) out[t * stride + i] = factor * in[t * s->wide + i];
}

/* p (n) = exp(scale * p - max), where *max is the maximum of scale * p; returns their sum. */
static float row_exponentials(float *p, float *max, size_t n, float scale) {
    float most = scale * lanes_max(p, n);
#pragma omp simd
    for (size_t s = 0; s < n; s++) p[s] = exp_fast(scale * p[s] - most);
    *max = most;
    return lanes_sum(p, n);
}

/* Queries t .. t + rows of one head. */
static void block_forward(float *y, float *lse, const float *q, const scratch *f, size_t t,
                          size_t rows, const shape *s) {
    float sums[R];
    attention_scores(f->p, q + t * s->qkv_stride, s->qkv_stride, f->k_transposed, rows, t + rows,
                     s->D, s->tall);
    for (size_t r = 0; r < rows; r++) {
        float max;
        sums[r] = row_exponentials(f->p + r * s->tall, &max, t + r + 1, s->scale);
        lse[t + r] = max + logf(sums[r]);
    }
    attention_combine(f->out, f->p, s->tall, f->v, rows, t, s->wide);
    for (size_t r = 0; r < rows; r++)
        unpack(y + (t + r) * s->y_stride, 0, f->out + r * s->wide, 1.0f / sums[r], 1, s);
}

trine_status cpu_attention_forward(device *d, void *y_, float *lse, const void *qkv_, void *work,
                                   size_t B, size_t T, size_t H, size_t D) {
    float *y = y_;           /* (B, T, H, D) */
    const float *qkv = qkv_; /* (B, T, 3, H, D) */
    const shape s = shape_of(T, H, D);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t task = 0; task < B * H; task++) {
        size_t b = task / H, h = task % H;
        const float *q = qkv + b * T * s.qkv_stride + h * D, *k = q + H * D, *v = k + H * D;
        const scratch f = scratch_of(work, &s);
        pack_transposed(f.k_transposed, k, s.qkv_stride, &s);
        pack(f.v, v, s.qkv_stride, T, &s);
        for (size_t t = 0; t < T; t += R)
            block_forward(y + b * T * s.y_stride + h * D, lse + task * T, q, &f, t,
                          T - t < R ? T - t : R, &s);
    }
    return TRINE_OK;
}

static float row_dot(const float *a, const float *b, size_t n) {
    lanes sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += *lanes_load(a + i) * *lanes_load(b + i);
    for (size_t j = 0; i + j < n; j++) sums[j] += a[i + j] * b[i + j];
    return lanes_total(&sums);
}

/* p (n) holds q k, ds (n) holds dy v: they become the probabilities and the scores' gradients. */
static void row_gradients(float *p, float *ds, float lse, float dy_y, size_t n, float scale) {
#pragma omp simd
    for (size_t s = 0; s < n; s++) {
        p[s] = exp_fast(p[s] * scale - lse);
        ds[s] = p[s] * (ds[s] - dy_y) * scale;
    }
}

static void block_backward(float *dq, const float *dy, const float *q, const float *y,
                           const float *lse, const scratch *f, size_t t, size_t rows,
                           const shape *s) {
    pack(f->q, q + t * s->qkv_stride, s->qkv_stride, rows, s);
    pack(f->dy, dy + t * s->y_stride, s->y_stride, rows, s);
    attention_scores(f->p, f->q, s->wide, f->k_transposed, rows, t + rows, s->D, s->tall);
    attention_scores(f->ds, f->dy, s->wide, f->v_transposed, rows, t + rows, s->D, s->tall);
    for (size_t r = 0; r < rows; r++) {
        size_t row = (t + r) * s->y_stride;
        row_gradients(f->p + r * s->tall, f->ds + r * s->tall, lse[t + r],
                      row_dot(dy + row, y + row, s->D), t + r + 1, s->scale);
    }
    attention_combine(f->out, f->ds, s->tall, f->k, rows, t, s->wide);
    unpack(dq + t * s->qkv_stride, s->qkv_stride, f->out, 1.0f, rows, s);
    attention_spread(f->dk, f->ds, s->tall, f->q, rows, t, s->wide);
    attention_spread(f->dv, f->p, s->tall, f->dy, rows, t, s->wide);
}

static void head_backward(float *dq, const float *dy, const float *q, const float *y,
                          const float *lse, void *work, size_t H, const shape *s) {
    const float *k = q + H * s->D, *v = k + H * s->D;
    const scratch f = scratch_of(work, s);
    pack_transposed(f.k_transposed, k, s->qkv_stride, s);
    pack_transposed(f.v_transposed, v, s->qkv_stride, s);
    pack(f.k, k, s->qkv_stride, s->T, s);
    memset(f.dk, 0, s->T * s->wide * sizeof(float));
    memset(f.dv, 0, s->T * s->wide * sizeof(float));
    for (size_t t = 0; t < s->T; t += R)
        block_backward(dq, dy, q, y, lse, &f, t, s->T - t < R ? s->T - t : R, s);
    unpack(dq + H * s->D, s->qkv_stride, f.dk, 1.0f, s->T, s);
    unpack(dq + 2 * H * s->D, s->qkv_stride, f.dv, 1.0f, s->T, s);
}

trine_status cpu_attention_backward(device *d, void *dqkv_, const void *dy_, const void *qkv_,
                                    const void *y_, const float *lse, void *work, size_t B,
                                    size_t T, size_t H, size_t D) {
    float *dqkv = dqkv_;                         /* (B, T, 3, H, D) */
    const float *dy = dy_, *qkv = qkv_, *y = y_; /* (B, T, H, D), as dqkv, as dy */
    const shape s = shape_of(T, H, D);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t task = 0; task < B * H; task++) {
        size_t in = task / H * T * s.qkv_stride + task % H * D;
        size_t out = task / H * T * s.y_stride + task % H * D;
        head_backward(dqkv + in, dy + out, qkv + in, y + out, lse + task * T, work, H, &s);
    }
    return TRINE_OK;
}
