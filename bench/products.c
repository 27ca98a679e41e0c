#include "products.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu.h"
#include "device/ops.h"
#include "model/list.h"
#include "tp/tp.h"

enum { LEFT, RIGHT, OUT, POOLS };

#define CHOICES      8 /* implementations, at most */
#define HOST_CHOICES 3

/* One of a product's implementations: oneDNN's or cuBLASLt's. */
typedef struct {
    product *host;
    cuda_product *gpu;
    char name[24];
} implementation;

struct products {
    device *dev; /* its memory is the trainer's kind of memory */
    onednn *library;
    layer_shape layers[LAYERS];
    int count;
    size_t copies[LAYERS];
    const cuda_measure *measure; /* NULL: the CPU */
    bench_gpu_watch watch;
    implementation product[LAYERS][PRODUCT_KINDS][CHOICES]; /* empty after the library's last one */
    bench_samples samples[LAYERS][PRODUCT_KINDS][CHOICES];
    bench_samples own[LAYERS][PRODUCT_KINDS]; /* of the device's operators */
    char *pool[POOLS], *bias; /* each pool holds the operands of one product, all copies */
    size_t bytes[POOLS], bias_bytes;
};

static bool is_linear(const list_layer *at) {
    return at->row->kind == TRINE_LAYER_COLUMN || at->row->kind == TRINE_LAYER_ROW;
}

/* A ROW layer adds its bias with the residual. The head has the columns that it has on the device, with padding. */
static trine_status set_layers(products *p, const trine_model *m, size_t rows) {
    gpt_shape s = gpt_unsharded_shape(m);
    unit_list block;
    TRY(list_resolve(&block, &s, UNIT_BLOCK));
    for (int n = 0; n < block.count; n++) {
        const list_layer *at = &block.layers[n];
        if (!is_linear(at)) continue;
        ASSERT(p->count < LAYERS - 1);
        bool biased = at->row->kind == TRINE_LAYER_COLUMN && !at->row->no_bias;
        p->layers[p->count++] = (layer_shape){
            at->row->name, rows,         list_width(&block, at), list_width_in(&block, at),
            biased,        m->num_layers};
    }
    size_t V = tp_vocab_of((size_t)m->vocab_size, 1, 0, device_row_multiple(p->dev)).rows;
    p->layers[p->count++] = (layer_shape){"logits", rows, V, (size_t)m->hidden_size, false, 1};
    return TRINE_OK;
}

/* Bytes from one copy of an operand to the next; copies start at multiples of 256, as in the model. */
static size_t padded(size_t count, size_t element) {
    return (count * element + 255) / 256 * 256;
}

static void operand_bytes(const products *p, int l, product_kind kind, size_t bytes[POOLS]) {
    const layer_shape *s = &p->layers[l];
    size_t x = s->T * s->K, w = s->N * s->K, y = s->T * s->N;
    size_t element = trine_dtype_bytes(p->dev->compute);
    bool forward = kind == PRODUCT_Y, back = kind == PRODUCT_DX;
    bytes[LEFT] = padded(forward ? x : y, element);
    bytes[RIGHT] = padded(forward || back ? w : x, element);
    bytes[OUT] = padded(forward ? y : back ? x : w, forward || back ? element : sizeof(float));
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void set_copies(products *p) {
    size_t element = trine_dtype_bytes(p->dev->compute),
           enough = 4 * bench_gpu_cache(p->dev) / element;
    for (int l = 0; l < p->count; l++) {
        const layer_shape *s = &p->layers[l];
        size_t one = s->T * s->K + s->N * s->K + s->T * s->N;
        size_t copies = (enough + one - 1) / one, most = (size_t)s->times;
        p->copies[l] = copies < most ? copies : most;
        p->bias_bytes = larger(p->bias_bytes, padded(s->N, element));
        for (int k = 0; k < PRODUCT_KINDS; k++) {
            size_t bytes[POOLS];
            operand_bytes(p, l, (product_kind)k, bytes);
            for (int i = 0; i < POOLS; i++)
                p->bytes[i] = larger(p->bytes[i], bytes[i] * p->copies[l]);
        }
    }
}

/* A hash of the index: random enough for a multiplication. */
static float number(size_t i) {
    uint32_t state = ((uint32_t)i + 12345u) * 2654435761u;
    state ^= state >> 15;
    return (float)(int32_t)(state * 2246822519u) * 0x1p-31f;
}

static trine_status take(products *p, char **to, size_t bytes) {
    void *memory;
    TRY(device_alloc(p->dev, &memory, bytes));
    *to = memory;
    return bench_gpu_fill(p->dev, memory, bytes / sizeof(float), number);
}

static bool there(const implementation *i) {
    return i->host || i->gpu;
}

static bool has_bias(const layer_shape *s, product_kind kind) {
    return s->biased && kind == PRODUCT_Y;
}

static trine_status make_gpu(products *p, implementation *i, product_kind kind,
                             const layer_shape *s, int choice) {
    static const cuda_product_kind kinds[PRODUCT_KINDS] = {
        [PRODUCT_Y] = CUDA_PRODUCT_Y,
        [PRODUCT_DX] = CUDA_PRODUCT_DX,
        [PRODUCT_DW_ADD] = CUDA_PRODUCT_DW_ADD,
        [PRODUCT_DW_SET] = CUDA_PRODUCT_DW_SET,
    };
    const cuda_product_config config = {.kind = kinds[kind],
                                        .biased = has_bias(s, kind),
                                        .T = s->T,
                                        .N = s->N,
                                        .K = s->K,
                                        .choice = choice};
    snprintf(i->name, sizeof i->name, "cuBLASLt %d", choice);
    return p->measure->product_create(p->dev, &i->gpu, &config);
}

static trine_status make(products *p, int l, product_kind kind, int choice) {
    const layer_shape *s = &p->layers[l];
    implementation *i = &p->product[l][kind][choice];
    if (p->measure) return make_gpu(p, i, kind, s, choice);
    if (choice >= HOST_CHOICES) return TRINE_OK;
    const product_config config = {kind, p->dev->compute, has_bias(s, kind), s->T, s->N, s->K};
    return product_create(&i->host, p->library, &config, choice);
}

static trine_status fill(products *p, const trine_model *model, size_t rows,
                         const device_config *config) {
    TRY(device_open_with(&p->dev, config));
    TRY(set_layers(p, model, rows));
    TRY(bench_gpu_watch_open(&p->watch, p->dev));
    p->measure = cuda_measures(p->dev);
    if (!p->measure) TRY(onednn_open(&p->library));
    set_copies(p);
    for (int i = 0; i < POOLS; i++) TRY(take(p, &p->pool[i], p->bytes[i]));
    TRY(take(p, &p->bias, p->bias_bytes));
    for (int l = 0; l < p->count; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++)
            for (int c = 0; c < CHOICES; c++) TRY(make(p, l, (product_kind)k, c));
    return TRINE_OK;
}

trine_status products_create(products **out, const trine_model *model, size_t rows,
                             const device_config *config) {
    products *p = *out = calloc(1, sizeof *p);
    CHECK(p, TRINE_ENOMEM, "no memory for the matmuls of a step");
    trine_status status = fill(p, model, rows, config);
    if (status != TRINE_OK) products_destroy(out);
    return status;
}

uint64_t products_bytes(const products *p) {
    size_t bytes = p->bias_bytes;
    for (int i = 0; i < POOLS; i++) bytes += p->bytes[i];
    return bytes;
}

static void drop(const products *p, implementation *i) {
    if (i->gpu) p->measure->product_destroy(&i->gpu);
    product_destroy(&i->host);
}

void products_destroy(products **out) {
    products *p = *out;
    if (!p) return;
    for (int l = 0; l < p->count; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++)
            for (int c = 0; c < CHOICES; c++) drop(p, &p->product[l][k][c]);
    onednn_close(&p->library);
    bench_gpu_watch_close(&p->watch);
    for (int i = 0; p->dev && i < POOLS; i++) device_free(p->dev, p->pool[i], p->bytes[i]);
    if (p->dev) device_free(p->dev, p->bias, p->bias_bytes);
    if (p->dev) device_close(&p->dev);
    free(p);
    *out = NULL;
}

/* ---- Running ---- */

typedef struct {
    void *out;
    const void *left, *right, *bias;
} operands;

static operands operands_of(const products *p, int l, product_kind kind, size_t copy) {
    size_t bytes[POOLS];
    operand_bytes(p, l, kind, bytes);
    return (operands){.out = p->pool[OUT] + copy * bytes[OUT],
                      .left = p->pool[LEFT] + copy * bytes[LEFT],
                      .right = p->pool[RIGHT] + copy * bytes[RIGHT],
                      .bias = has_bias(&p->layers[l], kind) ? p->bias : NULL};
}

static trine_status run_library(products *p, int l, product_kind kind, int choice, size_t copy) {
    const implementation *i = &p->product[l][kind][choice];
    operands o = operands_of(p, l, kind, copy);
    return i->gpu ? p->measure->product_run(i->gpu, o.out, o.left, o.right, o.bias)
                  : product_run(i->host, o.out, o.left, o.right, o.bias);
}

/* As the model calls it. */
static trine_status run_device(products *p, int l, product_kind kind, size_t copy) {
    const layer_shape *s = &p->layers[l];
    const struct ops *table = p->dev->ops;
    operands o = operands_of(p, l, kind, copy);
    switch (kind) {
    case PRODUCT_Y:
        return table->linear_forward(p->dev, o.out, o.right, o.bias, o.left, s->T, s->N, s->K);
    case PRODUCT_DX:
        return table->linear_backward_input(p->dev, o.out, o.right, o.left, s->T, s->N, s->K);
    case PRODUCT_DW_ADD:
    case PRODUCT_DW_SET: break;
    case PRODUCT_KINDS: return TRINE_OK;
    }
    return table->linear_backward_weight(p->dev, o.out, NULL, o.left, o.right, s->T, s->N, s->K,
                                         kind == PRODUCT_DW_ADD ? GRAD_ADD : GRAD_SET);
}

#define OWN (-1) /* as a choice: the device's own operator */

/* Runs all copies; on a GPU with one call in front, so that the host is ahead of the queue. */
static trine_status run_copies(products *p, int l, product_kind kind, int choice, double *seconds) {
    size_t first = p->measure ? p->copies[l] - 1 : p->copies[l];
    if (p->measure && choice == OWN) TRY(run_device(p, l, kind, first));
    if (p->measure && choice != OWN) TRY(run_library(p, l, kind, choice, first));
    TRY(bench_gpu_watch_start(&p->watch));
    for (size_t c = 0; c < p->copies[l]; c++)
        TRY(choice == OWN ? run_device(p, l, kind, c) : run_library(p, l, kind, choice, c));
    TRY(bench_gpu_watch_stop(&p->watch, seconds));
    *seconds /= (double)p->copies[l];
    return TRINE_OK;
}

static trine_status run_product(products *p, int l, product_kind kind, products_pass_kind pass) {
    double seconds;
    for (int c = 0; c < CHOICES && there(&p->product[l][kind][c]); c++) {
        TRY(run_copies(p, l, kind, c, &seconds));
        if (pass == PASS_KEEP) bench_add(&p->samples[l][kind][c], seconds);
    }
    if (!p->measure) return TRINE_OK;
    TRY(run_copies(p, l, kind, OWN, &seconds));
    if (pass == PASS_KEEP) bench_add(&p->own[l][kind], seconds);
    return TRINE_OK;
}

trine_status products_pass(products *p, products_pass_kind pass) {
    for (int l = 0; l < p->count; l++)
        for (int k = 0; k < PRODUCT_KINDS; k++) TRY(run_product(p, l, (product_kind)k, pass));
    return TRINE_OK;
}

static int fastest(const products *p, int l, product_kind kind) {
    int best = 0;
    for (int c = 1; c < CHOICES && there(&p->product[l][kind][c]); c++)
        if (bench_min(&p->samples[l][kind][c]) < bench_min(&p->samples[l][kind][best])) best = c;
    return best;
}

/* ---- Sums ---- */

int products_layers(const products *p) {
    return p->count;
}

const layer_shape *products_layer(const products *p, int l) {
    return &p->layers[l];
}

const bench_samples *products_samples(const products *p, int l, product_kind kind) {
    return &p->samples[l][kind][fastest(p, l, kind)];
}

const char *products_implementation(const products *p, int l, product_kind kind) {
    const implementation *i = &p->product[l][kind][fastest(p, l, kind)];
    return i->gpu ? i->name : product_implementation(i->host);
}

const bench_samples *products_own(const products *p, int l, product_kind kind) {
    return &p->own[l][kind];
}

double products_flops(const products *p, int l) {
    const layer_shape *s = &p->layers[l];
    return 2.0 * (double)s->T * (double)s->N * (double)s->K;
}

static double sum(const products *p, product_kind dw, double (*of)(const bench_samples *)) {
    double seconds = 0;
    for (int l = 0; l < p->count; l++)
        seconds += p->layers[l].times *
                   (of(products_samples(p, l, PRODUCT_Y)) + of(products_samples(p, l, PRODUCT_DX)) +
                    of(products_samples(p, l, dw)));
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
    for (int l = 0; l < p->count; l++) flops += 3 * p->layers[l].times * products_flops(p, l);
    return flops;
}
