/* A task is one (batch, head) pair. It processes its queries in tiles ("blocks") of ATTENTION_QUERIES;
 * a tile attends to the keys up to its own end. The tiles of a task run in order on one thread, so the
 * order of the sums over queries (dk, dv) is fixed, too. */
#include "device/cpu/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/element/element.h"
#include "device/cpu/exp.h"
#include "device/cpu/fused.h"
#include "device/cpu/element/lanes.h"

#define Q    ATTENTION_QUERIES
#define STEP 8 /* rows that share the terms below the diagonal; the others are added row by row */

/* A thread's scratch; `wide` = D padded. */
typedef struct {
    float *k, *v;                  /* (T, wide) */
    float *dk, *dv;                /* (T, wide) */
    float *p, *ds;                 /* (T, Q): a row per key */
    float *q_columns, *dy_columns; /* (D, Q) */
    float *q, *dy, *out;           /* (Q, wide) */
} scratch;

typedef struct {
    size_t T, D, wide;
    size_t qkv_stride, y_stride; /* from one row of a head to the next */
    float scale;
} shape;

/* Queries [t, t + rows) of one head and the keys [0, t + rows) that they attend to. */
typedef struct {
    size_t t, rows, keys;
    attention_mask mask;
} block;

/* The dropout factors of four keys; callers ask for keys in ascending order. */
typedef struct {
    float row[4][Q];
} factors;

static shape shape_of(size_t T, size_t H, size_t D) {
    return (shape){T, D, attention_padded(D), 3 * H * D, H * D, 1.0f / sqrtf((float)D)};
}

/* Floats of one thread's scratch. */
static size_t scratch_count(const shape *s) {
    return 4 * s->T * s->wide + 2 * s->T * Q + 2 * s->D * Q + 3 * Q * s->wide;
}

static float *take(float **from, size_t count) {
    float *taken = *from;
    *from += count;
    return taken;
}

static scratch scratch_of(void *work, const shape *s) {
    float *at = (float *)work + (size_t)omp_get_thread_num() * scratch_count(s);
    scratch f;
    f.k = take(&at, s->T * s->wide);
    f.v = take(&at, s->T * s->wide);
    f.dk = take(&at, s->T * s->wide);
    f.dv = take(&at, s->T * s->wide);
    f.p = take(&at, s->T * Q);
    f.ds = take(&at, s->T * Q);
    f.q_columns = take(&at, s->D * Q);
    f.dy_columns = take(&at, s->D * Q);
    f.q = take(&at, Q * s->wide);
    f.dy = take(&at, Q * s->wide);
    f.out = take(&at, Q * s->wide);
    return f;
}

size_t CPU(attention_workspace)(const device *d, size_t B, size_t T, size_t H, size_t D) {
    (void)B;
    shape s = shape_of(T, H, D);
    return (size_t)d->threads * scratch_count(&s) * sizeof(float);
}

/* out (rows, wide) = in (rows, D), padded with zeros. */
static void pack(float *out, const element *in, size_t stride, size_t rows, const shape *s) {
    for (size_t t = 0; t < rows; t++) {
        float *row = out + t * s->wide;
        for (size_t i = 0; i < s->D; i++) row[i] = element_get(in[t * stride + i]);
        memset(row + s->D, 0, (s->wide - s->D) * sizeof(float));
    }
}

/* out (D, Q) = in (rows, wide) transposed, padded with zeros. */
static void pack_columns(float *out, const float *in, size_t rows, const shape *s) {
    for (size_t i = 0; i < s->D; i++) {
        float *row = out + i * Q;
        for (size_t r = 0; r < rows; r++) row[r] = in[r * s->wide + i];
        for (size_t r = rows; r < Q; r++) row[r] = 0.0f;
    }
}

static void unpack(element *out, size_t stride, const float *in, float factor, size_t rows,
                   const shape *s) {
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < s->D; i++)
            out[t * stride + i] = element_put(factor * in[t * s->wide + i]);
}

/* ---- The triangle: row r of a tile attends to the keys s <= t + r ---- */

/* Packed keys or values (keys, wide) as the left factor of a product. */
static attention_left packed(const float *rows, const shape *s) {
    return (attention_left){rows, s->wide, 1};
}

/* out (keys, Q) = rows of a head (keys, D) times columns (D, Q). */
static void scores(float *out, attention_left rows, const float *columns, const block *b,
                   const shape *s) {
    attention_set(out, Q, rows, columns, Q, b->keys, s->D, Q);
}

/* out (rows, wide) = p^T a over the keys that each row attends to. Keys above the diagonal are not
 * read, because 0 times a NaN is a NaN. */
static void over_keys(float *out, const float *p, const float *a, const block *b, const shape *s) {
    for (size_t r = 0; r < b->rows; r += STEP) {
        size_t rows = b->rows - r < STEP ? b->rows - r : STEP, shared = b->t + r + 1;
        attention_set(out + r * s->wide, s->wide, (attention_left){p + r, 1, Q}, a, s->wide, rows,
                      shared, s->wide);
        for (size_t n = 1; n < rows; n++)
            attention_add(out + (r + n) * s->wide, s->wide,
                          (attention_left){p + shared * Q + r + n, 1, Q}, a + shared * s->wide,
                          s->wide, 1, n, s->wide);
    }
}

/* out (keys, wide) += p a over the rows that attend to each key. */
static void over_rows(float *out, const float *p, const float *a, const block *b, const shape *s) {
    attention_add(out, s->wide, (attention_left){p, Q, 1}, a, s->wide, b->t, b->rows, s->wide);
    for (size_t r = 0; r < b->rows; r += STEP) {
        size_t keys = b->rows - r < STEP ? b->rows - r : STEP, last = r + keys - 1;
        float *to = out + (b->t + r) * s->wide;
        const float *from = p + (b->t + r) * Q;
        for (size_t n = 0; n + 1 < keys; n++)
            attention_add(to + n * s->wide, s->wide, (attention_left){from + n * Q + r + n, Q, 1},
                          a + (r + n) * s->wide, s->wide, 1, last - r - n, s->wide);
        attention_add(to, s->wide, (attention_left){from + last, Q, 1}, a + last * s->wide, s->wide,
                      keys, b->rows - last, s->wide);
    }
}

/* ---- Forward ---- */

/* max (Q) = the maxima of the columns over the keys that each row attends to; a NaN appears in the sums. */
static void column_maxima(float *max, const float *p, const block *b) {
    for (size_t r = 0; r < Q; r++) max[r] = -INFINITY;
    for (size_t n = 0; n < b->keys; n++) {
        size_t first = n > b->t ? n - b->t : 0;
#pragma omp simd
        for (size_t r = 0; r < Q; r++) {
            float next = r < first ? -INFINITY : p[n * Q + r];
            max[r] = next > max[r] ? next : max[r];
        }
    }
}

static void factors_set(factors *f) {
    for (size_t r = 0; r < 4 * Q; r++) f->row[r / Q][r % Q] = 1.0f;
}

static const float *factors_at(factors *f, const block *b, size_t key) {
    if (b->mask.drop && key % 4 == 0) attention_factors(f->row, &b->mask, key);
    return f->row[key % 4];
}

/* p (keys, Q) = exp(scale * p - max), sums (Q) = their sums over the keys that each row attends to; then
 * p is multiplied by the dropout factors. */
static void column_exponentials(float *p, float *sums, const float *max, const block *b,
                                float scale) {
    factors f;
    factors_set(&f);
    for (size_t r = 0; r < Q; r++) sums[r] = 0.0f;
    for (size_t n = 0; n < b->keys; n++) {
        size_t first = n > b->t ? n - b->t : 0;
        const float *kept = factors_at(&f, b, n);
#pragma omp simd
        for (size_t r = 0; r < Q; r++) {
            float e = exp_fast(scale * p[n * Q + r] - scale * max[r]);
            p[n * Q + r] = e * kept[r];
            sums[r] += r < first ? 0.0f : e;
        }
    }
}

/* q and y start at the first row of the tile, keys and v (keys, wide) at position 0. Sets the maxima and
 * denominators of the rows. */
static void block_forward(element *y, float max[Q], float sums[Q], const element *q,
                          attention_left keys, const float *v, const scratch *f, const block *b,
                          const shape *s) {
    pack(f->q, q, s->qkv_stride, b->rows, s);
    pack_columns(f->q_columns, f->q, b->rows, s);
    scores(f->p, keys, f->q_columns, b, s);
    column_maxima(max, f->p, b);
    column_exponentials(f->p, sums, max, b, s->scale);
    over_keys(f->out, f->p, v, b, s);
    for (size_t r = 0; r < b->rows; r++)
        unpack(y + r * s->y_stride, 0, f->out + r * s->wide, 1.0f / sums[r], 1, s);
}

/* ---- Tasks ---- */

/* One head of one sample: its offsets, and the dropout of its first query. */
typedef struct {
    size_t qkv, y, lse; /* of row 0 in (B, T, 3, H, D), (B, T, H, D) and (B, H, T) */
    attention_mask mask;
} head;

static head head_at(size_t task, const dropout_args *drop, size_t H, const shape *s) {
    size_t b = task / H, h = task % H;
    head at = {.qkv = b * s->T * s->qkv_stride + h * s->D,
               .y = b * s->T * s->y_stride + h * s->D,
               .lse = task * s->T};
    if (drop)
        at.mask = (attention_mask){drop, drop->sample + b,
                                   ((uint64_t)drop->first + h) * s->T * s->T, s->T};
    return at;
}

static block block_at(size_t t, const head *h, const shape *s) {
    size_t rows = s->T - t < Q ? s->T - t : Q;
    block b = {t, rows, t + rows, h->mask};
    b.mask.element += (uint64_t)t * s->T;
    return b;
}

trine_status CPU(attention_forward)(device *d, void *y_, float *lse, const void *qkv_, void *work,
                                    const dropout_args *drop, size_t B, size_t T, size_t H,
                                    size_t D) {
    element *y = y_;           /* (B, T, H, D) */
    const element *qkv = qkv_; /* (B, T, 3, H, D) */
    const shape s = shape_of(T, H, D);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t task = 0; task < B * H; task++) {
        const head h = head_at(task, drop, H, &s);
        const element *q = qkv + h.qkv;
        const scratch f = scratch_of(work, &s);
        pack(f.k, q + H * D, s.qkv_stride, T, &s);
        pack(f.v, q + 2 * H * D, s.qkv_stride, T, &s);
        for (size_t t = 0; t < T; t += Q) {
            float max[Q], sums[Q];
            const block b = block_at(t, &h, &s);
            block_forward(y + h.y + t * s.y_stride, max, sums, q + t * s.qkv_stride,
                          packed(f.k, &s), f.v, &f, &b, &s);
            for (size_t r = 0; r < b.rows; r++)
                lse[h.lse + t + r] = s.scale * max[r] + logf(sums[r]);
        }
    }
    return TRINE_OK;
}

/* ---- Backward ---- */

static float row_dot(const float *a, const float *b, size_t n) {
    lanes sums = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) sums += *lanes_load(a + i) * *lanes_load(b + i);
    for (size_t j = 0; i + j < n; j++) sums[j] += a[i + j] * b[i + j];
    return lanes_total(&sums);
}

/* Replaces k q in p (keys, Q) by the probabilities, after dropout, and v dy in ds by the gradients of the
 * scores. Elements above the diagonal are meaningless. */
static void column_gradients(float *p, float *ds, const float *lse, const float *dy_y,
                             const block *b, float scale) {
    factors f;
    factors_set(&f);
    for (size_t n = 0; n < b->keys; n++) {
        const float *kept = factors_at(&f, b, n);
#pragma omp simd
        for (size_t r = 0; r < Q; r++) {
            float e = exp_fast(p[n * Q + r] * scale - lse[r]);
            p[n * Q + r] = e * kept[r];
            ds[n * Q + r] = e * (ds[n * Q + r] * kept[r] - dy_y[r]) * scale;
        }
    }
}

static void block_backward(element *dq, const element *dy, const element *q, const element *y,
                           const float *lse, const scratch *f, const block *b, const shape *s) {
    float log_sums[Q] = {0}, dy_y[Q] = {0};
    size_t qkv_at = b->t * s->qkv_stride, y_at = b->t * s->y_stride;
    pack(f->q, q + qkv_at, s->qkv_stride, b->rows, s);
    pack(f->dy, dy + y_at, s->y_stride, b->rows, s);
    pack(f->out, y + y_at, s->y_stride, b->rows, s);
    for (size_t r = 0; r < b->rows; r++) {
        log_sums[r] = lse[b->t + r];
        dy_y[r] = row_dot(f->dy + r * s->wide, f->out + r * s->wide, s->D);
    }
    pack_columns(f->q_columns, f->q, b->rows, s);
    pack_columns(f->dy_columns, f->dy, b->rows, s);
    scores(f->p, packed(f->k, s), f->q_columns, b, s);
    scores(f->ds, packed(f->v, s), f->dy_columns, b, s);
    column_gradients(f->p, f->ds, log_sums, dy_y, b, s->scale);
    over_keys(f->out, f->ds, f->k, b, s);
    unpack(dq + qkv_at, s->qkv_stride, f->out, 1.0f, b->rows, s);
    over_rows(f->dk, f->ds, f->q, b, s);
    over_rows(f->dv, f->p, f->dy, b, s);
}

static void head_backward(element *dq, const element *dy, const element *q, const element *y,
                          const float *lse, const scratch *f, const head *h, size_t H,
                          const shape *s) {
    pack(f->k, q + H * s->D, s->qkv_stride, s->T, s);
    pack(f->v, q + 2 * H * s->D, s->qkv_stride, s->T, s);
    memset(f->dk, 0, s->T * s->wide * sizeof(float));
    memset(f->dv, 0, s->T * s->wide * sizeof(float));
    for (size_t t = 0; t < s->T; t += Q) {
        const block b = block_at(t, h, s);
        block_backward(dq, dy, q, y, lse, f, &b, s);
    }
    unpack(dq + H * s->D, s->qkv_stride, f->dk, 1.0f, s->T, s);
    unpack(dq + 2 * H * s->D, s->qkv_stride, f->dv, 1.0f, s->T, s);
}

trine_status CPU(attention_backward)(device *d, void *dqkv_, const void *dy_, const void *qkv_,
                                     const void *y_, const float *lse, void *work,
                                     const dropout_args *drop, size_t B, size_t T, size_t H,
                                     size_t D) {
    element *dqkv = dqkv_;                         /* (B, T, 3, H, D) */
    const element *dy = dy_, *qkv = qkv_, *y = y_; /* (B, T, H, D), as dqkv, as dy */
    const shape s = shape_of(T, H, D);
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t task = 0; task < B * H; task++) {
        const head h = head_at(task, drop, H, &s);
        const scratch f = scratch_of(work, &s);
        head_backward(dqkv + h.qkv, dy + h.y, qkv + h.qkv, y + h.y, lse + h.lse, &f, &h, H, &s);
    }
    return TRINE_OK;
}

/* ---- Forward with a cache: the sums above, in the same order ---- */

#define FEW 8 /* below this, rows are computed one by one: a tile would be mostly padding */

/* The cache of one head in fp32: keys (D, key_step), values (M, wide). It is the cache itself if that
 * is fp32 and needs no padding, else a copy in the thread's scratch. */
typedef struct {
    const float *keys, *values;
    size_t key_step;
} kept_head;

static const float *as_floats(const element *x) {
    return (const float *)(const void *)x;
}

/* Positions [0, end). */
static kept_head kept_at(const element *keys, const element *values, size_t end, const scratch *f,
                         const shape *s) {
    const bool fp32 = sizeof(element) == sizeof(float);
    kept_head kept = {as_floats(keys), as_floats(values), s->T};
    for (size_t i = 0; !fp32 && i < s->D; i++)
        for (size_t n = 0; n < end; n++) f->k[i * s->T + n] = element_get(keys[i * s->T + n]);
    if (!fp32) kept.keys = f->k;
    if (fp32 && s->wide == s->D) return kept;
    pack(f->v, values, s->D, end, s);
    kept.values = f->v;
    return kept;
}

/* p (keys) = keys (D, step) times q (D), in ascending order. */
static void row_scores(float *p, const float *q, const kept_head *kept, size_t keys,
                       const shape *s) {
    size_t n = 0;
    for (; n + 2 * VEC <= keys; n += 2 * VEC) {
        vec sums[2] = {{0}, {0}};
        for (size_t i = 0; i < s->D; i++) {
            const float *k = kept->keys + i * kept->key_step + n;
            vec a = vec_of(q[i]);
            sums[0] = fused_vec(*(const vec_at *)k, a, sums[0]);
            sums[1] = fused_vec(*(const vec_at *)(k + VEC), a, sums[1]);
        }
        *(vec_at *)(p + n) = sums[0];
        *(vec_at *)(p + n + VEC) = sums[1];
    }
    for (; n < keys; n++) {
        p[n] = 0.0f;
        for (size_t i = 0; i < s->D; i++)
            p[n] = fused(kept->keys[i * kept->key_step + n], q[i], p[n]);
    }
}

static void row_forward(element *y, const element *q, const kept_head *kept, const scratch *f,
                        size_t keys, const shape *s) {
    float *p = f->p, max = -INFINITY, sum = 0.0f;
    pack(f->q, q, 0, 1, s);
    row_scores(p, f->q, kept, keys, s);
    for (size_t n = 0; n < keys; n++) max = p[n] > max ? p[n] : max;
#pragma omp simd
    for (size_t n = 0; n < keys; n++) p[n] = exp_fast(s->scale * p[n] - s->scale * max);
    for (size_t n = 0; n < keys; n++) sum += p[n];
    attention_set(f->out, s->wide, (attention_left){p, 0, 1}, kept->values, s->wide, 1, keys,
                  s->wide);
    unpack(y, 0, f->out, 1.0f / sum, 1, s);
}

/* Row r of `rows` is at position t + r. */
static void rows_forward(element *y, const element *q, const kept_head *kept, const scratch *f,
                         size_t t, size_t rows, const shape *s) {
    float max[Q], sums[Q];
    const block b = {.t = t, .rows = rows, .keys = t + rows};
    for (size_t r = 0; rows < FEW && r < rows; r++)
        row_forward(y + r * s->y_stride, q + r * s->qkv_stride, kept, f, t + r + 1, s);
    if (rows >= FEW)
        block_forward(y, max, sums, q, (attention_left){kept->keys, 1, kept->key_step},
                      kept->values, f, &b, s);
}

/* Stores k and v of the new rows, which follow q, in the cache. */
static void keep(element *keys, element *values, const element *q, size_t past, size_t n, size_t H,
                 const shape *s) {
    for (size_t r = 0; r < n; r++) {
        const element *k = q + r * s->qkv_stride + H * s->D, *v = k + H * s->D;
        for (size_t i = 0; i < s->D; i++) keys[i * s->T + past + r] = k[i];
        memcpy(values + (past + r) * s->D, v, s->D * sizeof *v);
    }
}

trine_status CPU(attention_cached)(device *d, void *y_, void *keys_, void *values_,
                                   const void *qkv_, void *work, size_t past, size_t n, size_t M,
                                   size_t H, size_t D) {
    element *y = y_, *keys = keys_, *values = values_; /* (n, H, D), (H, D, M), (H, M, D) */
    const element *qkv = qkv_;                         /* (n, 3, H, D) */
    const shape s = shape_of(M, H, D);
    if (n == 0 || D == 0) return TRINE_OK;
#pragma omp parallel for num_threads(d->threads) schedule(static)
    for (size_t h = 0; h < H; h++) {
        const scratch f = scratch_of(work, &s);
        const element *q = qkv + h * D;
        element *k = keys + h * D * M, *v = values + h * D * M;
        keep(k, v, q, past, n, H, &s);
        const kept_head kept = kept_at(k, v, past + n, &f, &s);
        for (size_t r = 0; r < n; r += Q)
            rows_forward(y + r * s.y_stride + h * D, q + r * s.qkv_stride, &kept, &f, past + r,
                         n - r < Q ? n - r : Q, &s);
    }
    return TRINE_OK;
}
