/* TEST np=4,6 */
/* --exact inside a layer: the parts of fewer ranks compute the bits of as many ranks, for every function of tp/, in
 * fp32, bf16 and fp16, with and without sequence parallelism; and their sums are those of a tree that is written out
 * here. T is the number of ranks, which also form smaller tp groups side by side: 2 x 2 and 4 x 1, or 2 x 3 and 6 x 1. */
#include "base/half.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/ops.h"
#include "tp/tp.h"

enum { N = 12, W = 24, V = 13, GAP = 8, MOST = 6 };

/* A tp group of this rank in which a rank plays several parts. */
typedef struct {
    trine_mesh *mesh;
    tp_region r;
    size_t element; /* bytes */
} cut;

/* What a cut computes, gathered from all parts: sections, one after the other. */
typedef struct {
    char *bytes;
    size_t used;
    const char *names[32];
    size_t ends[32];
    int count;
} outcome;

static device *dev;
static size_t T;

static void *memory(size_t bytes) {
    void *p = calloc(bytes + 1, 1);
    assert_non_null(p);
    return p;
}

/* n numbers of the compute type, the same on every rank. */
static void *numbers(const char *name, size_t n) {
    float *x = memory(n * sizeof *x);
    rng_normal(x, rng_key(1, name), 0, n, 1.0);
    if (dev->compute == TRINE_F32) return x;
    uint16_t *h = memory(n * sizeof *h);
    for (size_t i = 0; i < n; i++)
        h[i] = dev->compute == TRINE_BF16 ? bf16_store(x[i]) : f16_store(x[i]);
    free(x);
    return h;
}

/* ---- Cuts ------------------------------------------------------------------------------------- */

static cut cut_open(size_t tp, bool sequence) {
    cut c = {.element = trine_dtype_bytes(dev->compute)};
    size_t P = T / tp;
    trine_layout l = {.dp = (int)P, .tp = (int)tp, .pp = 1};
    OK(trine_mesh_create(&c.mesh, harness_world, l, 0));
    c.r = (tp_region){
        .comm = trine_mesh_group(c.mesh, TRINE_TP), .dev = dev, .tree = true, .parts = (int)P};
    if (sequence && tp > 1) c.r.full = memory(N * W * c.element);
    if (P > 1) c.r.addends = memory(P * N * W * c.element);
    if (P > 1 && tp > 1 && dev->compute != TRINE_F32) c.r.wide = memory(N * W * sizeof(float));
    if (c.r.full && !c.r.wide) c.r.sum = memory(N * W * c.element);
    return c;
}

static void cut_close(cut *c) {
    free(c->r.full);
    free(c->r.sum);
    free(c->r.addends);
    free(c->r.wide);
    trine_mesh_destroy(&c->mesh);
}

/* This rank's parts of `all` (T, n), GAP elements apart, which hold NaN: a read there is detected. */
static void *own_parts(const cut *c, const void *all, size_t n) {
    size_t P = (size_t)tp_parts(&c->r), bytes = n * c->element, stride = (n + GAP) * c->element;
    char *own = memory(P * stride);
    memset(own, 0xff, P * stride);
    for (size_t p = 0; p < P; p++)
        memcpy(own + p * stride, (const char *)all + ((size_t)tp_first(&c->r) + p) * bytes, bytes);
    return own;
}

/* This rank's rows of x (N, W). */
static void *own_rows(const cut *c, const void *x) {
    tp_rows rows = tp_rows_of(&c->r, N);
    char *own = memory(rows.count * W * c->element);
    memcpy(own, (const char *)x + rows.first * W * c->element, rows.count * W * c->element);
    return own;
}

/* ---- Outcomes --------------------------------------------------------------------------------- */

static void *room(outcome *o, const char *name, size_t bytes) {
    o->bytes = realloc(o->bytes, o->used + bytes);
    assert_non_null(o->bytes);
    assert_true(o->count < 32);
    o->names[o->count] = name;
    o->ends[o->count++] = o->used += bytes;
    return o->bytes + o->used - bytes;
}

/* Of all parts: n elements of each, `stride` apart. */
static void keep_parts(outcome *o, const cut *c, const char *name, const void *own, size_t n,
                       size_t stride, trine_dtype type) {
    size_t P = (size_t)tp_parts(&c->r), bytes = n * trine_dtype_bytes(type);
    char *packed = memory(P * bytes);
    for (size_t p = 0; p < P; p++)
        memcpy(packed + p * bytes, (const char *)own + p * stride * trine_dtype_bytes(type), bytes);
    OK(trine_all_gather(c->r.comm, room(o, name, T * bytes), packed, T * n, type));
    free(packed);
}

/* Of all rows of the stream. */
static void keep_rows(outcome *o, const cut *c, const char *name, const void *own) {
    void *all = room(o, name, N * W * c->element);
    if (c->r.full)
        OK(trine_all_gather(c->r.comm, all, own, N * W, dev->compute));
    else
        memcpy(all, own, N * W * c->element);
}

static void expect_equal(const outcome *got, const outcome *want, size_t tp) {
    assert_int_equal(got->used, want->used);
    for (int i = 0; i < want->count; i++) {
        size_t from = i ? want->ends[i - 1] : 0;
        if (memcmp(got->bytes + from, want->bytes + from, want->ends[i] - from) != 0)
            fail_msg("%s in type %d: %zu ranks differ from %zu", want->names[i], (int)dev->compute,
                     tp, T);
    }
}

/* ---- Layers ----------------------------------------------------------------------------------- */

/* A weight (T, n) and a gradient to which is added. */
static param param_of(const cut *c, const void *all, size_t n) {
    size_t P = (size_t)tp_parts(&c->r);
    return (param){.w = own_parts(c, all, n),
                   .dw = memory(P * (n + GAP) * sizeof(float)),
                   .w_part = n + GAP,
                   .dw_part = n + GAP,
                   .mode = GRAD_ADD};
}

static void param_close(param *p) {
    free((void *)(uintptr_t)p->w);
    free(p->dw);
}

static void keep_gradient(outcome *o, const cut *c, const char *name, const param *p, size_t n) {
    keep_parts(o, c, name, p->dw, n, n + GAP, TRINE_F32);
}

static void run_layers(outcome *o, const cut *c) {
    size_t own = W / T, P = (size_t)tp_parts(&c->r);
    void *x = numbers("x", N * W), *dy = numbers("dy", N * W), *w1 = numbers("w1", W * W);
    void *w2 = numbers("w2", W * W), *b1 = numbers("b1", W), *b2 = memory(T * W * c->element);
    void *one = numbers("b2", W);
    for (size_t t = 0; t < T; t++) memcpy((char *)b2 + t * W * c->element, one, W * c->element);
    tp_linear column = {param_of(c, w1, own * W), param_of(c, b1, own), NULL};
    tp_linear row = {param_of(c, w2, own * W), param_of(c, b2, W), NULL};
    void *mine = own_rows(c, x), *dmine = own_rows(c, dy), *y = own_rows(c, dy),
         *dx = own_rows(c, dy);
    void *h = memory(P * N * own * c->element), *dh = memory(P * N * own * c->element);
    for (int micro = 0; micro < 2; micro++) {
        OK(tp_column_forward(&c->r, h, &column, mine, N, W, W));
        OK(tp_row_forward(&c->r, y, &row, h, mine, NULL, N, W, W));
        OK(tp_row_backward(&c->r, dh, &row, dmine, h, N, W, W));
        OK(tp_column_backward(&c->r, dx, &column, dh, mine, N, W, W));
    }
    keep_parts(o, c, "column forward", h, N * own, N * own, dev->compute);
    keep_rows(o, c, "row forward", y);
    keep_parts(o, c, "row backward", dh, N * own, N * own, dev->compute);
    keep_rows(o, c, "column backward", dx);
    keep_gradient(o, c, "column weight", &column.weight, own * W);
    keep_gradient(o, c, "column bias", &column.bias, own);
    keep_gradient(o, c, "row weight", &row.weight, own * W);
    keep_gradient(o, c, "row bias", &row.bias, W);
    void *all[] = {x, dy, w1, w2, b1, b2, one, mine, dmine, y, dx, h, dh};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    param_close(&column.weight), param_close(&column.bias);
    param_close(&row.weight), param_close(&row.bias);
}

static void run_embedding(outcome *o, const cut *c, const param *table, size_t rows,
                          const int32_t *tokens) {
    void *dy = numbers("dy", N * W), *dmine = own_rows(c, dy), *x = own_rows(c, dy);
    OK(tp_embedding_forward(&c->r, x, table, tokens, N, W, V));
    OK(tp_embedding_backward(&c->r, table, dmine, tokens, N, W, V));
    keep_rows(o, c, "lookup", x);
    keep_gradient(o, c, "gradient of the lookup", table, rows * W);
    free(dy), free(dmine), free(x);
}

/* The head in two chunks of rows. */
static void run_head(outcome *o, const cut *c, const param *table, size_t rows,
                     const int32_t *targets) {
    enum { K = N / 2 };
    size_t P = (size_t)tp_parts(&c->r);
    void *x = numbers("x", N * W), *mine = own_rows(c, x),
         *logits = memory(P * K * rows * c->element);
    tp_xent xent = {memory(K * sizeof(float)), memory(P * K * 2 * sizeof(float)),
                    memory(P * K * sizeof(float))};
    const void *full;
    double loss = 0;
    OK(tp_gather(&c->r, &full, mine, N, W));
    for (size_t at = 0; at < N; at += K) {
        OK(tp_logits_forward(&c->r, logits, table, tp_full_row(&c->r, mine, at, W), K, W, V));
        keep_parts(o, c, "logits", logits, K * rows, K * rows, dev->compute);
        OK(tp_xent_forward(&c->r, &loss, &xent, logits, targets + at, 0.25, K, V));
        OK(tp_xent_backward(&c->r, logits, &xent, targets + at, 0.25, K, V));
        memcpy(room(o, "maxima", K * sizeof(float)), xent.max, K * sizeof(float));
        memcpy(room(o, "denominators", K * 2 * sizeof(float)), xent.sums, K * 2 * sizeof(float));
        keep_parts(o, c, "gradient of logits", logits, K * rows, K * rows, dev->compute);
        OK(tp_logits_backward(&c->r, mine, at, table, logits, K, W, V));
    }
    OK(tp_sum_ranks(&c->r, mine, N, W));
    memcpy(room(o, "loss", sizeof loss), &loss, sizeof loss);
    keep_rows(o, c, "gradient of the head's input", mine);
    keep_gradient(o, c, "gradient of the table", table, rows * W);
    void *all[] = {x, mine, logits, xent.max, xent.sums, xent.own};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static outcome run_cut(size_t tp, bool sequence) {
    outcome o = {0};
    cut c = cut_open(tp, sequence);
    int32_t tokens[N], targets[N];
    size_t rows = tp_vocab_of(V, (int)T, 0, device_row_multiple(dev)).rows;
    for (int i = 0; i < N; i++) tokens[i] = (3 * i + i * i + 1) % V, targets[i] = (5 * i + 2) % V;
    void *all = numbers("table", T * rows * W);
    param table = param_of(&c, all, rows * W);
    run_layers(&o, &c);
    run_embedding(&o, &c, &table, rows, tokens);
    run_head(&o, &c, &table, rows, targets);
    param_close(&table);
    free(all);
    cut_close(&c);
    return o;
}

static void open_type(trine_dtype type) {
    device_config config = {.kind = DEVICE_REF, .threads = 1, .compute = type, .grads = TRINE_F32};
    T = (size_t)trine_world_size(harness_world);
    OK(device_open_with(&dev, &config));
}

static const trine_dtype types[] = {TRINE_F32, TRINE_BF16, TRINE_F16};

static void parts_compute_the_bits_of_ranks(void **state) {
    (void)state;
    for (int n = 0; n < 6; n++) {
        open_type(types[n / 2]);
        outcome want = run_cut(T, n % 2);
        for (int few = 0; few < 2; few++) {
            size_t tp = few ? T / 2 : 1;
            outcome got = run_cut(tp, n % 2);
            expect_equal(&got, &want, tp);
            free(got.bytes);
        }
        free(want.bytes);
        device_close(&dev);
    }
}

/* ---- The tree --------------------------------------------------------------------------------- */

/* n addends are cut at the largest power of two below n. */
static float tree(const float *x, size_t n) {
    size_t half = 1;
    if (n == 1) return x[0];
    while (2 * half < n) half *= 2;
    return tree(x, half) + tree(x + half, n - half);
}

static float load(const void *x, size_t i) {
    uint16_t h;
    if (dev->compute == TRINE_F32) return ((const float *)x)[i];
    memcpy(&h, (const char *)x + i * sizeof h, sizeof h);
    return dev->compute == TRINE_BF16 ? bf16_load(h) : f16_load(h);
}

static float rounded(float x) {
    if (dev->compute == TRINE_F32) return x;
    return dev->compute == TRINE_BF16 ? bf16_load(bf16_store(x)) : f16_load(f16_store(x));
}

/* The addends of the input's gradient are products of a part; each is rounded once, and their sum once. */
static void expect_tree(size_t tp) {
    cut c = cut_open(tp, false);
    size_t own = W / T, P = (size_t)tp_parts(&c.r);
    char *w = numbers("w1", W * W), *dh = numbers("dh", T * N * own);
    char *addends[MOST], *mine = memory(P * N * own * c.element), *dx = memory(N * W * c.element);
    tp_linear l = {.weight = param_of(&c, w, own * W)};
    memcpy(mine, dh + (size_t)tp_first(&c.r) * N * own * c.element, P * N * own * c.element);
    for (size_t t = 0; t < T; t++) {
        addends[t] = memory(N * W * c.element);
        OK(dev->ops->linear_backward_input(dev, addends[t], w + t * own * W * c.element,
                                           dh + t * N * own * c.element, N, own, W));
    }
    OK(tp_column_backward_input(&c.r, dx, &l, mine, N, W, W));
    for (size_t i = 0; i < N * W; i++) {
        float x[MOST];
        for (size_t t = 0; t < T; t++) x[t] = load(addends[t], i);
        assert_true(load(dx, i) == rounded(tree(x, T)));
    }
    for (size_t t = 0; t < T; t++) free(addends[t]);
    free(w), free(dh), free(mine), free(dx);
    param_close(&l.weight);
    cut_close(&c);
}

static void sums_are_a_tree(void **state) {
    (void)state;
    for (int n = 0; n < 3; n++) {
        open_type(types[n]);
        expect_tree(1);
        expect_tree(T / 2);
        expect_tree(T);
        device_close(&dev);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_compute_the_bits_of_ranks),
        cmocka_unit_test(sums_are_a_tree),
    };
    return HARNESS_RUN(argc, argv, tests);
}
