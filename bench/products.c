#include "products.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"
#include "machine.h"

enum { LEFT, RIGHT, OUT, POOLS };

#define CHOICES 3 /* implementations, at most */

struct products {
    device *dev; /* its memory is the trainer's kind of memory */
    onednn *library;
    layer_shape layers[LAYERS];
    size_t copies[LAYERS];
    product *product[LAYERS][PRODUCT_KINDS][CHOICES]; /* NULL behind the library's last */
    bench_samples samples[LAYERS][PRODUCT_KINDS][CHOICES];
    float *pool[POOLS], *bias; /* each pool holds the operands of one product, all copies */
    size_t count[POOLS], bias_count;
};

static void set_layers(products *p, const trine_model *m, size_t rows) {
    size_t C = (size_t)m->hidden_size, F = (size_t)m->ffn_hidden_size, V = (size_t)m->vocab_size;
    int L = m->num_layers;
    const layer_shape shapes[LAYERS] = {
        [LAYER_QKV] = {"qkv", rows, 3 * C, C, true, L},
        [LAYER_PROJ] = {"proj", rows, C, C, false, L},
        [LAYER_FC] = {"fc", rows, F, C, true, L},
        [LAYER_OUT] = {"out", rows, C, F, false, L},
        [LAYER_LOGITS] = {"logits", rows, V, C, false, 1},
    };
    for (int l = 0; l < LAYERS; l++) p->layers[l] = shapes[l];
}

/* Elements of the operands of one product. */
static void operand_counts(const layer_shape *s, product_kind kind, size_t count[POOLS]) {
    size_t x = s->T * s->K, w = s->N * s->K, y = s->T * s->N;
    bool forward = kind == PRODUCT_Y, back = kind == PRODUCT_DX;
    count[LEFT] = forward ? x : y;
    count[RIGHT] = forward || back ? w : x;
    count[OUT] = forward ? y : back ? x : w;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void set_copies(products *p) {
    size_t enough = 4 * machine_of()->cache / sizeof(float);
    for (int l = 0; l < LAYERS; l++) {
        const layer_shape *s = &p->layers[l];
        size_t one = s->T * s->K + s->N * s->K + s->T * s->N;
        size_t copies = (enough + one - 1) / one, most = (size_t)s->times;
        p->copies[l] = copies < most ? copies : most;
        if (s->N > p->bias_count) p->bias_count = s->N;
        for (int k = 0; k < PRODUCT_KINDS; k++) {
            size_t count[POOLS];
            operand_counts(s, (product_kind)k, count);
            for (int i = 0; i < POOLS; i++)
                p->count[i] = larger(p->count[i], count[i] * p->copies[l]);
        }
    }
}

/* A few bits of a linear congruence are random enough for a multiplication. */
static void randomise(float *x, size_t n) {
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
}

static trine_status take(products *p, float **to, size_t count) {
    void *memory;
    TRY(device_alloc(p->dev, &memory, count * sizeof(float)));
    *to = memory;
    randomise(*to, count);
    return TRINE_OK;
}

static trine_status fill(products *p, int threads) {
    TRY(device_open(&p->dev, DEVICE_CPU, threads));
    TRY(onednn_open(&p->library));
    for (int i = 0; i < POOLS; i++) TRY(take(p, &p->pool[i], p->count[i]));
    TRY(take(p, &p->bias, p->bias_count));
    for (int l = 0; l < LAYERS; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++) {
            const layer_shape *s = &p->layers[l];
            for (int c = 0; c < CHOICES; c++)
                TRY(product_create(&p->product[l][k][c], p->library, (product_kind)k,
                                   s->biased && k == PRODUCT_Y, s->T, s->N, s->K, c));
        }
    return TRINE_OK;
}

trine_status products_create(products **out, const trine_model *model, size_t rows, int threads) {
    products *p = *out = calloc(1, sizeof *p);
    CHECK(p, TRINE_ENOMEM, "no memory for the matmuls of a step");
    set_layers(p, model, rows);
    set_copies(p);
    trine_status status = fill(p, threads);
    if (status != TRINE_OK) products_destroy(out);
    return status;
}

void products_destroy(products **out) {
    products *p = *out;
    if (!p) return;
    for (int l = 0; l < LAYERS; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++)
            for (int c = 0; c < CHOICES; c++) product_destroy(&p->product[l][k][c]);
    onednn_close(&p->library);
    for (int i = 0; p->dev && i < POOLS; i++)
        device_free(p->dev, p->pool[i], p->count[i] * sizeof(float));
    if (p->dev) device_free(p->dev, p->bias, p->bias_count * sizeof(float));
    device_close(&p->dev);
    free(p);
    *out = NULL;
}

/* ---- Running ---- */

static trine_status run_copies(products *p, layer l, product_kind kind, int choice) {
    const layer_shape *s = &p->layers[l];
    size_t count[POOLS];
    operand_counts(s, kind, count);
    for (size_t c = 0; c < p->copies[l]; c++)
        TRY(product_run(p->product[l][kind][choice], p->pool[OUT] + c * count[OUT],
                        p->pool[LEFT] + c * count[LEFT], p->pool[RIGHT] + c * count[RIGHT],
                        s->biased && kind == PRODUCT_Y ? p->bias : NULL));
    return TRINE_OK;
}

static trine_status run_product(products *p, layer l, product_kind kind, products_pass_kind pass) {
    for (int c = 0; c < CHOICES && p->product[l][kind][c]; c++) {
        double start = bench_now();
        TRY(run_copies(p, l, kind, c));
        double seconds = (bench_now() - start) / (double)p->copies[l];
        if (pass == PASS_KEEP) bench_add(&p->samples[l][kind][c], seconds);
    }
    return TRINE_OK;
}

trine_status products_pass(products *p, products_pass_kind pass) {
    for (int l = 0; l < LAYERS; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++)
            TRY(run_product(p, (layer)l, (product_kind)k, pass));
    return TRINE_OK;
}

static int fastest(const products *p, layer l, product_kind kind) {
    int best = 0;
    for (int c = 1; c < CHOICES && p->product[l][kind][c]; c++)
        if (bench_min(&p->samples[l][kind][c]) < bench_min(&p->samples[l][kind][best])) best = c;
    return best;
}

/* ---- Sums ---- */

const layer_shape *products_layer(const products *p, layer l) {
    return &p->layers[l];
}

const bench_samples *products_samples(const products *p, layer l, product_kind kind) {
    return &p->samples[l][kind][fastest(p, l, kind)];
}

const char *products_implementation(const products *p, layer l, product_kind kind) {
    return product_implementation(p->product[l][kind][fastest(p, l, kind)]);
}

double products_flops(const products *p, layer l) {
    const layer_shape *s = &p->layers[l];
    return 2.0 * (double)s->T * (double)s->N * (double)s->K;
}

static double sum(const products *p, product_kind dw, double (*of)(const bench_samples *)) {
    double seconds = 0;
    for (int l = 0; l < LAYERS; l++)
        seconds += p->layers[l].times * (of(products_samples(p, (layer)l, PRODUCT_Y)) +
                                         of(products_samples(p, (layer)l, PRODUCT_DX)) +
                                         of(products_samples(p, (layer)l, dw)));
    return seconds;
}

double products_median(const products *p, product_kind dw) {
    return sum(p, dw, bench_median);
}

double products_best(const products *p, product_kind dw) {
    return sum(p, dw, bench_min);
}

double products_limit(const products *p, double (*seconds)(const products *, product_kind)) {
    return fmin(seconds(p, PRODUCT_DW_ADD), seconds(p, PRODUCT_DW_SET));
}

double products_step_flops(const products *p) {
    double flops = 0;
    for (int l = 0; l < LAYERS; l++) flops += 3 * p->layers[l].times * products_flops(p, (layer)l);
    return flops;
}
