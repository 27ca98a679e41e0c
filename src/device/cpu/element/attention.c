/* A task is one (batch, query head) pair. It processes its queries in tiles ("blocks") of ATTENTION_QUERIES;
 * a tile attends to the keys from the start of its first query's document up to its own end. A tile of several
 * documents costs less than one of a single document: scores are products of all its keys with all its queries, and
 * sums run over spans (attention_scores.h). The tiles of a task run in order on one thread, so the
 * order of the sums over queries (dk, dv) is fixed, too. With fewer key and value heads than query heads, the
 * query heads that read one of them (its "group") stay separate tasks, so that a single key and value head
 * keeps all threads busy, too; their dk and dv are then added in ascending order (group_sums). */
#include "device/cpu/element/attention_scores.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/status.h"
#include "device/cpu/exp.h"
#include "device/documents.h"
#include "device/cpu/fused.h"
#include "device/cpu/element/lanes.h"

/* A thread's scratch; `wide` = D padded. */
typedef struct {
    float *k, *v;                  /* (T, wide) */
    float *dk, *dv;                /* (T, wide) */
    float *p, *ds;                 /* (T, Q): a row per key */
    float *q_columns, *dy_columns; /* (D, Q) */
    float *q, *dy, *out;           /* (Q, wide) */
} scratch;

/* The dropout factors of keys 4 block to 4 block + 3. */
typedef struct {
    float row[4][Q];
    size_t block;
} factors;

/* Floats of one thread's scratch. */
static size_t scratch_count(const shape *s) {
    return 4 * s->T * s->wide + 2 * s->T * Q + 2 * s->D * Q + 3 * Q * s->wide;
}

static float *take(float **from, size_t count) {
    float *taken = *from;
    *from += count;
    return taken;
}

static scratch scratch_of(void *work, size_t thread, const shape *s) {
    float *at = (float *)work + thread * scratch_count(s);
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

static scratch own_scratch(void *work, const shape *s) {
    return scratch_of(work, (size_t)omp_get_thread_num(), s);
}

/* Floats of the sums of a group that has not ended: dk and dv. */
static size_t open_count(const shape *s) {
    return s->group > 1 ? 2 * s->T * s->wide : 0;
}

size_t CPU(attention_workspace)(const device *d, size_t B, size_t T, size_t H, size_t K, size_t D) {
    (void)B;
    shape s = shape_of(T, H, K, D);
    return ((size_t)d->threads * scratch_count(&s) + open_count(&s)) * sizeof(float);
}

static void unpack(element *out, size_t stride, const float *in, float factor, size_t rows,
                   const shape *s) {
    for (size_t t = 0; t < rows; t++, out += stride, in += s->wide) {
        size_t i = 0;
        for (; i + LANES <= s->D; i += LANES) {
            const lanes x = factor * *lanes_load(in + i);
            element_store_lanes(out + i, &x);
        }
        for (; i < s->D; i++) out[i] = element_put(factor * in[i]);
    }
}

/* ---- Forward ---- */

/* max (Q) = the maxima of the columns over the keys that each row attends to; a NaN appears in the sums. */
static void column_maxima(float *max, const float *p, const block *b) {
    for
        EACH_SPAN(g, b) {
            size_t n = g->first;
            for (size_t r = g->row; r < Q; r++)
                max[r] = -INFINITY; /* nothing of earlier documents */
            for (; n < g->end && n <= b->t; n++)
#pragma omp simd
                for (size_t r = 0; r < Q; r++)
                    max[r] = p[n * Q + r] > max[r] ? p[n * Q + r] : max[r];
            for (; n < g->end; n++) {
                size_t first = n - b->t;
#pragma omp simd
                for (size_t r = 0; r < Q; r++) {
                    float next = r < first ? -INFINITY : p[n * Q + r];
                    max[r] = next > max[r] ? next : max[r];
                }
            }
        }
}

static void factors_set(factors *f) {
    for (size_t r = 0; r < 4 * Q; r++) f->row[r / Q][r % Q] = 1.0f;
    f->block = SIZE_MAX;
}

static const float *factors_at(factors *f, const block *b, size_t key) {
    if (b->mask.drop && f->block != key / 4) {
        f->block = key / 4;
        attention_factors(f->row, &b->mask, key / 4 * 4);
    }
    return f->row[key % 4];
}

/* Replaces k q in p (keys, Q) by exp(scale * p - max) times the dropout factors, for over_keys; sums (Q) = the sums of
 * the exponentials over the keys that each row attends to. */
static void column_exponentials(float *p, float *sums, const float *max, const block *b,
                                const shape *s) {
    factors f;
    factors_set(&f);
    for
        EACH_SPAN(g, b) {
            for (size_t r = g->row; r < Q; r++) sums[r] = 0.0f; /* as in column_maxima */
            for (size_t n = g->first; n < g->end; n++) {
                const float *kept = factors_at(&f, b, n);
                float e[Q];
                for (size_t r = 0; r < Q; r += VEC) {
                    vec x =
                        exp_vec(s->scale * vec_load(p + n * Q + r) - s->scale * vec_load(max + r));
                    vec_store(e + r, x);
                    put_over_keys(p + g->first * Q, n - g->first, r, x * vec_load(kept + r), s);
                }
                size_t first = n > b->t ? n - b->t : 0;
#pragma omp simd
                for (size_t r = 0; r < Q; r++) sums[r] += r < first ? 0.0f : e[r];
            }
        }
}

/* q and y start at the first row of the tile, keys and v (of pack_right) at its first key. Sets the maxima and
 * denominators of the rows. */
static void block_forward(element *y, float max[Q], float sums[Q], const element *q,
                          const left_rows *keys, float *v, const scratch *f, const block *b,
                          const shape *s) {
    columns_of(f->q_columns, f->q, q, s->qkv_stride, b->rows, s);
    scores(f->p, keys, f->q_columns, 0, b->keys, s);
    column_maxima(max, f->p, b);
    column_exponentials(f->p, sums, max, b, s);
    over_keys(f->out, f->p, v, b, s);
    for (size_t r = 0; r < b->rows; r++)
        unpack(y + r * s->y_stride, 0, f->out + r * s->wide, 1.0f / sums[r], 1, s);
}

/* ---- Tasks ---- */

/* One query head of one sample: its offsets, and the dropout of its first query. */
typedef struct {
    size_t q, k, v;        /* of row 0 in (B, T, H + 2 K, D) */
    size_t y, lse;         /* in (B, T, H, D) and (B, H, T) */
    const int32_t *starts; /* (T), of the sample's documents; NULL: one */
    attention_mask mask;
} head;

static head head_at(size_t task, const int32_t *starts, const dropout_args *drop, const shape *s) {
    size_t b = task / s->H, h = task % s->H, row = b * s->T * s->qkv_stride;
    size_t k = row + (s->H + h / s->group) * s->D;
    head at = {.q = row + h * s->D,
               .k = k,
               .v = k + s->K * s->D,
               .y = b * s->T * s->y_stride + h * s->D,
               .lse = task * s->T,
               .starts = documents_of(starts, b, s->T)};
    if (drop)
        at.mask = (attention_mask){drop, drop->sample + b,
                                   ((uint64_t)drop->first + h) * s->T * s->T, s->T};
    return at;
}

/* A tile's keys begin at a multiple of this: of attention_factors's 4, and of the rows of a product. */
#define FIRST_KEYS 8

static void block_at(block *b, size_t t, const head *h, const shape *s) {
    const size_t end = s->T - t < Q ? s->T : t + Q;
    b->from = document_start(h->starts, t) / FIRST_KEYS * FIRST_KEYS;
    b->t = t - b->from, b->rows = end - t, b->keys = end - b->from;
    b->mask = h->mask;
    b->mask.element += (uint64_t)t * s->T + b->from;
    b->count = 0;
    for (size_t at = t, next; at < end; at = next) {
        next = document_end(h->starts, at, end);
        const size_t first = document_start(h->starts, at) - b->from;
        b->spans[b->count++] = (span){at - t, next - at, first, next - b->from};
    }
}

/* Keys or values of a head: (T, wide), document by document. */
static void pack_documents(float *out, const element *in, const head *h, const shape *s) {
    for (size_t t = 0, end; t < s->T; t = end) {
        end = document_end(h->starts, t, s->T);
        pack_right(out + t * s->wide, in + t * s->qkv_stride, s->qkv_stride, end - t, s);
    }
}

/* Packs keys and values, those that are wanted, unless the thread's scratch still has them from a head of the same
 * group; `last` is the h->k of what it has. */
static void pack_once(size_t *last, const element *qkv, const scratch *f, const head *h, bool keys,
                      bool values, const shape *s) {
    if (*last == h->k) return;
    if (keys) pack_documents(f->k, qkv + h->k, h, s);
    if (values) pack_documents(f->v, qkv + h->v, h, s);
    *last = h->k;
}

/* From key `from` on. */
static left_rows left_of(const element *rows, const float *packed, size_t from, const shape *s) {
    return (left_rows){
        rows + from * s->qkv_stride, s->qkv_stride, {packed + from * s->wide, s->wide, 1}};
}

static void head_forward(element *y, float *lse, const element *qkv, const scratch *f,
                         const head *h, const shape *s) {
    const element *q = qkv + h->q;
    for (size_t t = 0; t < s->T; t += Q) {
        float max[Q], sums[Q];
        block b;
        block_at(&b, t, h, s);
        const left_rows keys = left_of(qkv + h->k, f->k, b.from, s);
        block_forward(y + t * s->y_stride, max, sums, q + t * s->qkv_stride, &keys,
                      f->v + b.from * s->wide, f, &b, s);
        for (size_t r = 0; r < b.rows; r++) lse[t + r] = s->scale * max[r] + logf(sums[r]);
    }
}

/* Consecutive tasks of a thread. A sample of one long document costs more than one of many short ones, so if there are
 * documents and enough groups, they come to the threads in turns. */
static size_t tasks_at_once(const device *d, const int32_t *starts, size_t B, const shape *s) {
    const size_t threads = (size_t)d->threads, tasks = B * s->H;
    if (starts && B * s->K >= 4 * threads) return s->group;
    return tasks < threads ? 1 : (tasks + threads - 1) / threads;
}

trine_status CPU(attention_forward)(device *d, void *y_, float *lse, const void *qkv_,
                                    const int32_t *starts, void *work, const dropout_args *drop,
                                    size_t B, size_t T, size_t H, size_t K, size_t D) {
    element *y = y_;           /* (B, T, H, D) */
    const element *qkv = qkv_; /* (B, T, H + 2 K, D) */
    const shape s = shape_of(T, H, K, D);
    const size_t at_once = tasks_at_once(d, starts, B, &s);
#pragma omp parallel num_threads(d->threads)
    {
        const scratch f = own_scratch(work, &s);
        size_t last = SIZE_MAX;
#pragma omp for schedule(static, at_once)
        for (size_t task = 0; task < B * H; task++) {
            const head h = head_at(task, starts, drop, &s);
            pack_once(&last, qkv, &f, &h, !in_pairs(&s), true, &s);
            head_forward(y + h.y, lse + h.lse, qkv, &f, &h, &s);
        }
    }
    return TRINE_OK;
}

/* ---- Backward ---- */

/* Keys whose rows of p and ds fit into the L1 cache. */
#define FEW_KEYS 32

static float row_dot(const element *a, const element *b, size_t n) {
    lanes sums = {0}, x, y;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        element_lanes(&x, a + i);
        element_lanes(&y, b + i);
        sums += x * y;
    }
    for (size_t j = 0; i + j < n; j++) sums[j] += element_get(a[i + j]) * element_get(b[i + j]);
    return lanes_total(&sums);
}

/* Replaces rows [first, end) of k q in p (keys, Q) by the probabilities, after dropout, and of v dy in ds by the
 * gradients of the scores, for over_rows and over_keys. Elements above the diagonal are meaningless. */
static void column_gradients(float *p, float *ds, factors *f, const float *lse, const float *dy_y,
                             size_t first, size_t end, const block *b, const shape *s) {
    for
        EACH_SPAN(g, b) {
            const size_t base = g->first * Q, last = end < g->end ? end : g->end;
            for (size_t n = first > g->first ? first : g->first; n < last; n++) {
                const float *kept = factors_at(f, b, n);
                vec probability[Q / VEC], slope[Q / VEC];
                for (size_t c = 0, at = n * Q; c < Q / VEC; c++, at += VEC) {
                    const size_t r = c * VEC;
                    const vec e = exp_vec(vec_load(p + at) * s->scale - vec_load(lse + r));
                    const vec factor = vec_load(kept + r);
                    slope[c] = e * (vec_load(ds + at) * factor - vec_load(dy_y + r)) * s->scale;
                    probability[c] = e * factor;
                }
                put_gradients(p + base, ds + base, n - g->first, probability, slope, s);
            }
        }
}

static void block_backward(element *dq, const element *dy, const element *qkv, const element *y,
                           const float *lse, const scratch *f, const head *h, const block *b,
                           const shape *s) {
    const left_rows k = left_of(qkv + h->k, f->k, b->from, s);
    const left_rows v = left_of(qkv + h->v, f->v, b->from, s);
    const element *q = qkv + h->q;
    float log_sums[Q] = {0}, dy_y[Q] = {0};
    const size_t t = b->from + b->t, keys_at = b->from * s->wide;
    const size_t qkv_at = t * s->qkv_stride, y_at = t * s->y_stride;
    for (size_t r = 0; r < b->rows; r++) {
        log_sums[r] = lse[t + r];
        dy_y[r] = row_dot(dy + y_at + r * s->y_stride, y + y_at + r * s->y_stride, s->D);
    }
    columns_of(f->q_columns, f->q, q + qkv_at, s->qkv_stride, b->rows, s);
    columns_of(f->dy_columns, f->dy, dy + y_at, s->y_stride, b->rows, s);
    factors kept;
    factors_set(&kept);
    for (size_t n = 0; n < b->keys; n += FEW_KEYS) {
        const size_t end = b->keys - n < FEW_KEYS ? b->keys : n + FEW_KEYS;
        scores(f->p, &k, f->q_columns, n, end, s);
        scores(f->ds, &v, f->dy_columns, n, end, s);
        column_gradients(f->p, f->ds, &kept, log_sums, dy_y, n, end, b, s);
    }
    over_keys(f->out, f->ds, f->k + keys_at, b, s);
    unpack(dq + qkv_at, s->qkv_stride, f->out, 1.0f, b->rows, s);
    pack_spans(f->q, q + qkv_at, s->qkv_stride, b, s);
    pack_spans(f->dy, dy + y_at, s->y_stride, b, s);
    over_rows(f->dk + keys_at, f->ds, as_halves(f->p) + Q, f->q, b, s);
    over_rows(f->dv + keys_at, f->p, as_halves(f->p), f->dy, b, s);
}

/* Sets dq, and dk and dv of the scratch to this head's part. */
static void head_backward(element *dq, const element *dy, const element *qkv, const element *y,
                          const float *lse, const scratch *f, const head *h, const shape *s) {
    memset(f->dk, 0, s->T * s->wide * sizeof(float));
    memset(f->dv, 0, s->T * s->wide * sizeof(float));
    for (size_t t = 0; t < s->T; t += Q) {
        block b;
        block_at(&b, t, h, s);
        block_backward(dq, dy, qkv, y, lse, f, h, &b, s);
    }
}

/* The operands of a backward pass, and the sums of the group that has not ended (2, T, wide): dk, dv. */
typedef struct {
    element *dqkv;               /* (B, T, H + 2 K, D) */
    const element *dy, *qkv, *y; /* (B, T, H, D), as dqkv, as dy */
    const float *lse;            /* (B, H, T) */
    const int32_t *starts;       /* (B, T), or NULL */
    const dropout_args *drop;
    void *work;
    float *open;
} gradients;

static void task_backward(const gradients *g, size_t task, size_t *last, const scratch *f,
                          const shape *s) {
    const head h = head_at(task, g->starts, g->drop, s);
    pack_once(last, g->qkv, f, &h, true, !in_pairs(s), s);
    head_backward(g->dqkv + h.q, g->dy + h.y, g->qkv, g->y + h.y, g->lse + h.lse, f, &h, s);
    if (s->group > 1) return;
    unpack(g->dqkv + h.k, s->qkv_stride, f->dk, 1.0f, s->T, s);
    unpack(g->dqkv + h.v, s->qkv_stride, f->dv, 1.0f, s->T, s);
}

/* sum (wide) += part (wide), or `=` for the first part of a sum; stored in out (D) with the last one. */
static void add_part(element *out, float *sum, const float *part, size_t which, const shape *s) {
    if (which == 0)
        memcpy(sum, part, s->wide * sizeof *sum);
    else
        for (size_t i = 0; i < s->wide; i++) sum[i] += part[i];
    if (which + 1 == s->group) unpack(out, 0, sum, 1.0f, 1, s);
}

/* Adds dk and dv of tasks [first, end), thread i's being that of task first + i, to the sums of their groups.
 * A thread adds all tasks of its rows, in ascending order. */
static void group_sums(const gradients *g, size_t first, size_t end, const shape *s) {
#pragma omp barrier
#pragma omp for schedule(static)
    for (size_t t = 0; t < s->T; t++)
        for (size_t task = first; task < end; task++) {
            const head h = head_at(task, NULL, NULL, s);
            const scratch f = scratch_of(g->work, task - first, s);
            const size_t at = t * s->wide, which = task % s->group;
            float *dk = g->open + at, *dv = dk + s->T * s->wide;
            element *row = g->dqkv + t * s->qkv_stride;
            add_part(row + h.k, dk, f.dk + at, which, s);
            add_part(row + h.v, dv, f.dv + at, which, s);
        }
}

/* Threads process as many consecutive tasks as there are threads, one each; then the next ones. */
static void threads_backward(const gradients *g, size_t tasks, const shape *s) {
    const size_t team = (size_t)omp_get_num_threads(), me = (size_t)omp_get_thread_num();
    const scratch f = own_scratch(g->work, s);
    size_t last = SIZE_MAX;
    for (size_t first = 0; first < tasks; first += team) {
        const size_t end = tasks - first < team ? tasks : first + team;
        if (first + me < end) task_backward(g, first + me, &last, &f, s);
        if (s->group > 1) group_sums(g, first, end, s);
    }
}

trine_status CPU(attention_backward)(device *d, void *dqkv, const void *dy, const void *qkv,
                                     const void *y, const float *lse, const int32_t *starts,
                                     void *work, const dropout_args *drop, size_t B, size_t T,
                                     size_t H, size_t K, size_t D) {
    const shape s = shape_of(T, H, K, D);
    float *open = (float *)work + (size_t)d->threads * scratch_count(&s);
    const gradients g = {dqkv, dy, qkv, y, lse, starts, drop, work, open};
#pragma omp parallel num_threads(d->threads)
    threads_backward(&g, B * H, &s);
    return TRINE_OK;
}

/* ---- Forward with a cache: the sums above, in the same order ---- */

#define FEW 8 /* below this, rows are computed one by one: a tile would be mostly padding */

/* The cache of one head. In floats: keys (D, key_step), values (M, wide); they are the cache itself if that is fp32 and
 * needs no padding, else a copy in the thread's scratch. In pairs a single row reads the cache; for blocks `rows` are the
 * keys transposed (M, D), and `values` are of pack_right. */
typedef struct {
    const element *cache_keys, *cache_values; /* (D, M), (M, D) */
    float *keys, *values;
    size_t key_step;
    const element *rows;
} kept_head;

/* Positions [0, end) for `rows` new rows. */
static kept_head kept_at(element *keys, element *values, size_t end, size_t rows, const scratch *f,
                         const shape *s) {
    const bool fp32 = sizeof(element) == sizeof(float);
    element *transposed = (element *)(void *)f->k;
    kept_head kept = {keys, values, f->k, f->v, s->T, transposed};
    if (in_pairs(s)) {
        if (rows < FEW) return kept;
        for (size_t n = 0; n < end; n++)
            for (size_t i = 0; i < s->D; i++) transposed[n * s->D + i] = keys[i * s->T + n];
        pack_right(f->v, values, s->D, end, s);
        return kept;
    }
    if (fp32) kept.keys = (float *)(void *)keys;
    for (size_t i = 0; !fp32 && i < s->D; i++)
        for (size_t n = 0; n < end; n++) f->k[i * s->T + n] = element_get(keys[i * s->T + n]);
    if (fp32 && s->wide == s->D)
        kept.values = (float *)(void *)values;
    else
        pack_right(f->v, values, s->D, end, s);
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
    if (in_pairs(s)) {
        attention_pairs_row(p, as_bits(q), as_bits(kept->cache_keys), s->T, s->D, keys);
    } else {
        pack(f->q, q, 0, 1, s);
        row_scores(p, f->q, kept, keys, s);
    }
    for (size_t n = 0; n < keys; n++) max = p[n] > max ? p[n] : max;
    const size_t padded = (keys + Q - 1) / Q * Q; /* within the scratch */
    for (size_t n = keys; n < padded; n++) p[n] = max;
    for (size_t n = 0; n < padded; n += VEC)
        vec_store(p + n, exp_vec(s->scale * vec_load(p + n) - s->scale * vec_of(max)));
    for (size_t n = 0; n < keys; n++) sum += p[n];
    if (in_pairs(s)) {
        for (size_t n = 0; n < padded; n += VEC)
            attention_pairs_round(as_halves(p) + n, vec_load(p + n));
        attention_pairs_row(f->out, as_halves(p), as_bits(kept->cache_values), s->D, keys, s->D);
    } else {
        attention_set(f->out, s->wide, (attention_left){p, 0, 1}, kept->values, s->wide, 1, keys,
                      s->wide);
    }
    unpack(y, 0, f->out, 1.0f / sum, 1, s);
}

/* Row r of `rows` is at position t + r. */
static void rows_forward(element *y, const element *q, const kept_head *kept, const scratch *f,
                         size_t t, size_t rows, const shape *s) {
    for (size_t r = 0; rows < FEW && r < rows; r++)
        row_forward(y + r * s->y_stride, q + r * s->qkv_stride, kept, f, t + r + 1, s);
    if (rows < FEW) return;
    float max[Q], sums[Q];
    const left_rows rows_of = {kept->rows, s->D, {kept->keys, 1, kept->key_step}};
    const block b = {
        .t = t, .rows = rows, .keys = t + rows, .count = 1, .spans = {{0, rows, 0, t + rows}}};
    block_forward(y, max, sums, q, &rows_of, kept->values, f, &b, s);
}

/* Stores k and v of the new rows in the cache. */
static void keep(element *keys, element *values, const element *k, size_t past, size_t n,
                 const shape *s) {
    for (size_t r = 0; r < n; r++, k += s->qkv_stride) {
        const element *v = k + s->K * s->D;
        for (size_t i = 0; i < s->D; i++) keys[i * s->T + past + r] = k[i];
        memcpy(values + (past + r) * s->D, v, s->D * sizeof *v);
    }
}

typedef struct {
    element *y, *keys, *values; /* (n, H, D), (K, D, M), (K, M, D) */
    const element *qkv;         /* (n, H + 2 K, D) */
    size_t past, n;
} cached;

/* With K = H a thread reads the heads that it has stored, because both loops are cut in the same way. */
static void keep_new(const cached *c, const shape *s) {
    const size_t size = s->D * s->T;
#pragma omp for schedule(static) nowait
    for (size_t kv = 0; kv < s->K; kv++)
        keep(c->keys + kv * size, c->values + kv * size, c->qkv + (s->H + kv) * s->D, c->past, c->n,
             s);
    if (s->group > 1) {
#pragma omp barrier
    }
}

static void threads_cached(const cached *c, const scratch *f, const shape *s) {
    const size_t size = s->D * s->T;
    kept_head kept = {0};
    size_t last = SIZE_MAX; /* the key and value head in `kept` */
    keep_new(c, s);
#pragma omp for schedule(static)
    for (size_t h = 0; h < s->H; h++) {
        const size_t kv = h / s->group;
        if (kv != last)
            kept = kept_at(c->keys + kv * size, c->values + kv * size, c->past + c->n, c->n, f, s);
        last = kv;
        for (size_t r = 0; r < c->n; r += Q)
            rows_forward(c->y + r * s->y_stride + h * s->D, c->qkv + r * s->qkv_stride + h * s->D,
                         &kept, f, c->past + r, c->n - r < Q ? c->n - r : Q, s);
    }
}

trine_status CPU(attention_cached)(device *d, void *y, void *keys, void *values, const void *qkv,
                                   void *work, size_t past, size_t n, size_t M, size_t H, size_t K,
                                   size_t D) {
    const shape s = shape_of(M, H, K, D);
    const cached c = {y, keys, values, qkv, past, n};
    if (n == 0 || D == 0) return TRINE_OK;
#pragma omp parallel num_threads(d->threads)
    {
        const scratch f = own_scratch(work, &s);
        threads_cached(&c, &f, &s);
    }
    return TRINE_OK;
}
