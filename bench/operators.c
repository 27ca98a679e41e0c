#include "operators.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu.h"
#include "device/ops.h"

#define LR      1e-4f
#define DROPPED 0.1f
#define EPS     1e-5f
#define TEXTS   32 /* sets of tokens, so that calls read different rows of the table */

/* ---- The operators: one call on the operands at element `at` of the pools ---- */

#define POOL(i)  ((void *)((char *)p->pool[i] + at * p->element))
#define FLOAT(i) (p->pool[i] + at)
#define OPS      p->dev->ops

static trine_status norm_forward(place *p, size_t at) {
    return OPS->norm_forward(p->dev, POOL(1), p->stat, p->pool[3], p->pool[4], POOL(2), p->rows,
                             p->C);
}

static trine_status norm_backward(place *p, size_t at) {
    return OPS->norm_backward(p->dev, POOL(1), p->pool[4], p->pool[4] + p->C, POOL(2), p->pool[0],
                              POOL(3), p->stat, p->rows, p->C, GRAD_ADD, GRAD_ADD);
}

static trine_status rms_norm_forward(place *p, size_t at) {
    return OPS->rms_norm_forward(p->dev, POOL(1), p->stat, p->pool[3], POOL(2), EPS, p->rows, p->C);
}

static trine_status rms_norm_backward(place *p, size_t at) {
    return OPS->rms_norm_backward(p->dev, POOL(1), p->pool[4], POOL(2), p->pool[0], POOL(3),
                                  p->stat, p->rows, p->C, GRAD_ADD, GRAD_ADD);
}

static trine_status qk_norm_forward(place *p, size_t at) {
    return OPS->qk_norm_forward(p->dev, POOL(1), p->norms, p->pool[3], p->pool[4], POOL(2), EPS,
                                p->rows, p->H, p->H, p->C / p->H);
}

static trine_status qk_norm_backward(place *p, size_t at) {
    return OPS->qk_norm_backward(p->dev, POOL(1), p->pool[4], p->pool[4] + p->C, POOL(1),
                                 p->pool[0], p->pool[0], POOL(2), p->norms, p->rows, p->H, p->H,
                                 p->C / p->H, GRAD_ADD);
}

static trine_status rope(place *p, size_t at) {
    return OPS->rope(p->dev, POOL(1), p->angles, NULL, false, 0, p->rows, p->T, 3 * p->H, 2 * p->H,
                     p->C / p->H);
}

static trine_status swiglu_forward(place *p, size_t at) {
    return OPS->swiglu_forward(p->dev, POOL(1), POOL(2), p->rows, p->F);
}

static trine_status swiglu_backward(place *p, size_t at) {
    return OPS->swiglu_backward(p->dev, POOL(1), POOL(3), POOL(2), p->rows, p->F);
}

static trine_status gelu_forward(place *p, size_t at) {
    return OPS->gelu_forward(p->dev, POOL(1), POOL(2), p->rows * p->F);
}

static trine_status gelu_backward(place *p, size_t at) {
    return OPS->gelu_backward(p->dev, POOL(1), POOL(1), POOL(2), p->rows * p->F);
}

static trine_status bias_residual(place *p, size_t at) {
    return OPS->bias_residual(p->dev, POOL(1), p->pool[3], POOL(2), p->rows, p->C);
}

static trine_status bias_backward(place *p, size_t at) {
    return OPS->bias_backward(p->dev, p->pool[3], POOL(1), p->rows, p->F, GRAD_ADD);
}

static trine_status xent_forward(place *p, size_t at) {
    return OPS->xent_forward(p->dev, p->max, p->sums, POOL(0), p->tokens, 0, p->rows, p->V, p->V);
}

static trine_status xent_backward(place *p, size_t at) {
    return OPS->xent_backward(p->dev, POOL(0), p->max, p->sums, p->tokens, 0, 1.0f, p->rows, p->V,
                              p->V);
}

static const int32_t *tokens_at(const place *p, size_t at) {
    return p->tokens + at / (p->rows * p->C) % TEXTS * p->rows;
}

static trine_status embedding_forward(place *p, size_t at) {
    return OPS->embedding_forward(p->dev, POOL(1), p->pool[0], tokens_at(p, at), 0, p->rows, p->C,
                                  p->V);
}

static trine_status embedding_backward(place *p, size_t at) {
    return OPS->embedding_backward(p->dev, p->pool[0], POOL(1), tokens_at(p, at), 0, p->rows, p->C,
                                   p->V, GRAD_ADD);
}

static trine_status position_forward(place *p, size_t at) {
    return OPS->position_forward(p->dev, POOL(1), p->pool[2], NULL, 0, p->B * p->T, p->T, p->C);
}

static trine_status position_backward(place *p, size_t at) {
    return OPS->position_backward(p->dev, p->pool[2], POOL(1), NULL, 0, p->B * p->T, p->T, p->C,
                                  GRAD_ADD);
}

static trine_status zero(place *p, size_t at) {
    device_zero(p->dev, FLOAT(0), p->block * sizeof(float));
    return TRINE_OK;
}

static trine_status add(place *p, size_t at) {
    return OPS->add(p->dev, FLOAT(1), FLOAT(2), p->block);
}

static trine_status sum_squares(place *p, size_t at) {
    return ops_sum_squares(p->dev, p->sum, FLOAT(1), p->block);
}

static trine_status sum_squares_exact(place *p, size_t at) {
    const ops_part all = {.n = p->block};
    return OPS->sum_squares_exact(p->dev, p->digits, FLOAT(1), &all, 1);
}

static trine_status sum_parts(place *p, size_t at) {
    const size_t n = p->rows * p->C;
    return OPS->sum_parts(p->dev, POOL(1), false, POOL(2), false, 2, n, n);
}

static trine_status adamw(place *p, size_t at) {
    const adamw_args args = {LR, 0.9f, 0.95f, 1e-8f, 0.1f, 1.0f, 10};
    void *copy = p->dev->compute == TRINE_F32 ? NULL : POOL(0);
    return ops_adamw(p->dev, FLOAT(1), FLOAT(2), FLOAT(3), copy, FLOAT(4), p->block, &args);
}

static trine_status forward(place *p, size_t at, const int32_t *starts, const dropout_args *drop) {
    return OPS->attention_forward(p->dev, POOL(1), p->lse, POOL(2), starts, p->work, drop, p->B,
                                  p->T, p->H, p->H, p->C / p->H);
}

static trine_status backward(place *p, size_t at, const int32_t *starts, const dropout_args *drop) {
    return OPS->attention_backward(p->dev, POOL(1), POOL(2), POOL(3), POOL(4), p->lse, starts,
                                   p->work, drop, p->B, p->T, p->H, p->H, p->C / p->H);
}

trine_status operators_attention_forward(place *p, size_t at) {
    return forward(p, at, NULL, NULL);
}

trine_status operators_attention_backward(place *p, size_t at) {
    return backward(p, at, NULL, NULL);
}

trine_status operators_attention_forward_dropout(place *p, size_t at) {
    return forward(p, at, NULL, &(dropout_args){.p = DROPPED, .key = 1});
}

trine_status operators_attention_backward_dropout(place *p, size_t at) {
    return backward(p, at, NULL, &(dropout_args){.p = DROPPED, .key = 1});
}

trine_status operators_attention_forward_documents(place *p, size_t at) {
    return forward(p, at, p->starts, NULL);
}

trine_status operators_attention_backward_documents(place *p, size_t at) {
    return backward(p, at, p->starts, NULL);
}

/* Elements: read (what is updated in place too), written, and of these the fresh ones, which were
 * not read. */
typedef struct {
    double read, written, fresh;
} moved;

/* Memory's part of it: where a line is read before it is written (write-allocate), all that is
 * fresh counts twice. GPUs write without reading. */
static double touched(const place *p, moved m) {
    return m.read + m.written + (p->dev->memory->host ? m.fresh : 0);
}

#define NONE                                                                                       \
    { 0, 0, 0 }

void operators_list(const place *p, kernel list[OPERATORS]) {
    double L = (double)p->L, N = (double)p->rows, C = (double)p->C, V = (double)p->V;
    double NC = N * C, NF = N * (double)p->F, NV = N * V, TC = (double)p->T * C;
    double H = (double)p->H, NH = 2 * N * H,
           N3 = 3 * NC; /* normalised heads of all rows; their columns */
    double block = (double)p->block, token = V * C;
    double all = (L * block + token + TC + 2 * C) / block;
    double copied = p->dev->compute == TRINE_F32 ? 0 : block;
    size_t nc = p->rows * p->C, nf = p->rows * p->F, nv = p->rows * p->V;
    size_t n3 = 3 * nc, f2 = 2 * nf;
    const struct {
        const char *name, *shape;
        run_kernel *run;
        size_t stride;
        moved m, f; /* of the device's type; of 4 bytes */
        double times;
    } rows[OPERATORS] = {
        {"norm_forward", "N x C", norm_forward, nc, {NC, NC, NC}, {0, 2 * N, 2 * N}, 2 * L + 1},
        {"norm_backward", "N x C", norm_backward, nc, {3 * NC, NC, 0}, {2 * N, 0, 0}, 2 * L + 1},
        {"gelu_forward", "N x F", gelu_forward, nf, {NF, NF, NF}, NONE, L},
        {"gelu_backward", "N x F", gelu_backward, nf, {2 * NF, NF, 0}, NONE, L},
        {"rms_norm_forward", "N x C", rms_norm_forward, nc, {NC, NC, NC}, {0, N, N}, 0},
        {"rms_norm_backward", "N x C", rms_norm_backward, nc, {3 * NC, NC, 0}, {N, 0, 0}, 0},
        {"qk_norm_forward", "N x 3C", qk_norm_forward, n3, {N3, N3, N3}, {0, NH, NH}, 0},
        {"qk_norm_backward", "N x 2C", qk_norm_backward, n3, {4 * NC, 2 * NC, 0}, {NH, 0, 0}, 0},
        {"rope", "N x 2C", rope, n3, {2 * NC, 2 * NC, 0}, {TC / H, 0, 0}, 0},
        {"swiglu_forward", "N x F", swiglu_forward, f2, {2 * NF, NF, NF}, NONE, 0},
        {"swiglu_backward", "N x F", swiglu_backward, f2, {3 * NF, 2 * NF, 2 * NF}, NONE, 0},
        {"bias_residual", "N x C", bias_residual, nc, {2 * NC, NC, 0}, NONE, 2 * L},
        {"bias_backward",
         "N x F",
         bias_backward,
         nf,
         {NF, 0, 0},
         NONE,
         L * (5 * C / (double)p->F + 1)},
        {"xent_forward", "N x V", xent_forward, nv, {NV, 0, 0}, NONE, 1},
        {"xent_backward", "N x V", xent_backward, nv, {NV, NV, 0}, NONE, 1},
        {"embedding_forward", "N x C", embedding_forward, nc, {NC, NC, NC}, {N, 0, 0}, 1},
        {"embedding_backward", "N x C", embedding_backward, nc, {NC, 0, 0}, {NC + N, NC, 0}, 1},
        {"position_forward", "N x C", position_forward, nc, {NC + TC, NC, 0}, NONE, 1},
        {"position_backward", "N x C", position_backward, nc, {NC, 0, 0}, {TC, TC, 0}, 1},
        {"zero (memset)", "a block", zero, p->block, NONE, {0, block, block}, token / block},
        {"add", "a block", add, p->block, NONE, {2 * block, block, 0}, token / block},
        {"sum_squares", "a block", sum_squares, p->block, NONE, {block, 0, 0}, all},
        {"sum_squares_exact", "a block", sum_squares_exact, p->block, NONE, {block, 0, 0}, 0},
        {"sum_parts", "2 N x C", sum_parts, 2 * nc, {2 * NC, NC, NC}, NONE, 0},
        {"adamw", "a block", adamw, p->block, {0, copied, copied}, {4 * block, 3 * block, 0}, all},
    };
    for (int i = 0; i < OPERATORS; i++)
        list[i] = (kernel){.name = rows[i].name,
                           .shape = rows[i].shape,
                           .run = rows[i].run,
                           .stride = rows[i].stride,
                           .touched = (double)p->element * touched(p, rows[i].m) +
                                      (double)sizeof(float) * touched(p, rows[i].f),
                           .times = rows[i].times};
}

/* ---- Memory ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void set_sizes(place *p, const bench_options *k, size_t T) {
    const trine_model *m = &k->model;
    p->B = (size_t)k->batch, p->T = T, p->C = (size_t)m->hidden_size;
    p->H = (size_t)m->num_attention_heads, p->F = (size_t)m->ffn_hidden_size;
    p->V = (size_t)m->vocab_size, p->L = (size_t)m->num_layers;
    p->rows = p->B * T;
    p->block = 4 * p->C * p->C + 2 * p->C * p->F + 9 * p->C + p->F;
    p->element = trine_dtype_bytes(p->dev->compute);
    size_t most = 4 * bench_gpu_cache(p->dev) / p->element;
    most = larger(most, larger(p->block, p->rows * larger(2 * p->F, 3 * p->C)));
    for (int i = 0; i < POOLS; i++) p->count[i] = most;
    p->count[0] = larger(most, larger(p->rows, p->C) * p->V);
}

/* From 0.5 to 1.5: repeated operations do not make them denormal or negative. */
static float number(size_t i) {
    uint32_t hash = (uint32_t)i * 2654435761u;
    return 0.5f + (float)(hash >> 8) * 0x1p-24f;
}

static trine_status take(place *p, float **to, size_t count) {
    void *memory;
    TRY(device_alloc(p->dev, &memory, count * sizeof(float)));
    *to = memory;
    return TRINE_OK;
}

/* *to (count) = what `value` gives, in the device's memory. */
static trine_status take_numbers(place *p, int32_t **to, size_t count,
                                 int32_t value(const place *p, size_t i)) {
    const size_t bytes = count * sizeof(int32_t);
    void *memory;
    TRY(device_alloc(p->dev, &memory, bytes));
    *to = memory;
    int32_t *numbers = malloc(bytes);
    CHECK(numbers, TRINE_ENOMEM, "no memory for %zu numbers", count);
    for (size_t i = 0; i < count; i++) numbers[i] = value(p, i);
    trine_status status = device_write(p->dev, *to, numbers, bytes);
    free(numbers);
    return status;
}

static int32_t token_at(const place *p, size_t i) {
    return (int32_t)((uint32_t)i * 2654435761u % (uint32_t)p->V);
}

static int32_t start_at(const place *p, size_t i) {
    const size_t length = larger(p->T / OPERATORS_DOCUMENTS, 1), t = i % p->T;
    return (int32_t)(t / length * length);
}

/* Of head width C / H: position t's pair i turns by t / 10000^(2 i / width). */
static trine_status take_angles(place *p) {
    const size_t width = p->C / p->H, bytes = p->T * width * sizeof(float);
    TRY(take(p, &p->angles, p->T * width));
    float *angles = malloc(bytes);
    CHECK(angles, TRINE_ENOMEM, "no memory for %zu angles", p->T * width);
    for (size_t i = 0; i < p->T * width; i++) {
        size_t pair = i % width % (width / 2);
        double angle = (double)(i / width) * pow(10000.0, -2.0 * (double)pair / (double)width);
        angles[i] = (float)(i % width < width / 2 ? cos(angle) : sin(angle));
    }
    trine_status status = device_write(p->dev, p->angles, angles, bytes);
    free(angles);
    return status;
}

static trine_status take_small(place *p) {
    void *memory;
    TRY(take_numbers(p, &p->tokens, TEXTS * p->rows, token_at));
    TRY(take_numbers(p, &p->starts, p->rows, start_at));
    TRY(take_angles(p));
    TRY(device_alloc(p->dev, &memory, sizeof *p->sum));
    p->sum = memory;
    TRY(device_alloc(p->dev, &memory, SQUARES_DIGITS * sizeof *p->digits));
    p->digits = memory;
    TRY(take(p, &p->max, p->rows));
    TRY(take(p, &p->sums, 2 * p->rows));
    TRY(take(p, &p->stat, 2 * p->rows));
    TRY(take(p, &p->norms, 2 * p->rows * p->H));
    return take(p, &p->lse, p->rows * p->H);
}

static trine_status fill(place *p, const bench_options *k, size_t T) {
    TRY(status_user(device_open_with(&p->dev, &k->device)));
    set_sizes(p, k, T);
    for (int i = 0; i < POOLS; i++) {
        TRY(take(p, &p->pool[i], p->count[i]));
        TRY(bench_gpu_fill(p->dev, p->pool[i], p->count[i], number));
    }
    p->work_bytes = OPS->attention_workspace(p->dev, p->B, p->T, p->H, p->H, p->C / p->H);
    TRY(device_alloc(p->dev, &p->work, p->work_bytes));
    return take_small(p);
}

trine_status operators_open(place *p, const bench_options *k, size_t T) {
    *p = (place){0};
    trine_status status = fill(p, k, T);
    if (status != TRINE_OK) operators_close(p);
    return status;
}

void operators_close(place *p) {
    if (!p->dev) return;
    for (int i = 0; i < POOLS; i++) device_free(p->dev, p->pool[i], p->count[i] * sizeof(float));
    device_free(p->dev, p->work, p->work_bytes);
    device_free(p->dev, p->tokens, TEXTS * p->rows * sizeof *p->tokens);
    device_free(p->dev, p->starts, p->rows * sizeof *p->starts);
    device_free(p->dev, p->sum, sizeof *p->sum);
    device_free(p->dev, p->digits, SQUARES_DIGITS * sizeof *p->digits);
    device_free(p->dev, p->max, p->rows * sizeof(float));
    device_free(p->dev, p->sums, 2 * p->rows * sizeof(float));
    device_free(p->dev, p->stat, 2 * p->rows * sizeof(float));
    device_free(p->dev, p->norms, 2 * p->rows * p->H * sizeof(float));
    device_free(p->dev, p->angles, p->T * (p->C / p->H) * sizeof(float));
    device_free(p->dev, p->lse, p->rows * p->H * sizeof(float));
    device_close(&p->dev);
}
