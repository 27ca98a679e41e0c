/* The public linear layers of trine_linear.h: each owns its memory and calls the operators. Inside a model the
 * tp_column_* and tp_row_* of sharded_linear.c are used, which keep activations unsharded and send less. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/live.h"
#include "base/status.h"
#include "core/flat.h"
#include "device/ops.h"
#include "tp/tp.h"
#include "trine_linear.h"

struct trine_linear {
    tp_region tp;
    trine_linear_config config;
    size_t P, rank;
    trine_linear_shard local;
    tp_linear params; /* the same memory, in the form that the operators take */
    float *x;         /* (max_rows, I) or (max_rows, I/P): the input kept for backward, then dx */
    float *packed;    /* (P, max_rows, width/P): all columns of the split dimension, rank by rank */
    size_t rows;      /* of the kept input; 0: none */
    void *memory;
    size_t bytes;
};

/* Keeps the size of a matrix in bytes within 64 bits. */
#define MOST_ELEMENTS ((size_t)1 << 50)
#define MOST_THREADS  4096 /* as --threads of a trainer */

/* ---- Creation -------------------------------------------------------------------------------- */

static trine_status check_config(const trine_linear_config *c, int P) {
    CHECK(c->split == TRINE_COLUMN || c->split == TRINE_ROW, TRINE_EINVAL,
          "invalid split %d (valid: TRINE_COLUMN, TRINE_ROW)", (int)c->split);
    CHECK(c->in > 0 && c->out > 0 && c->max_rows > 0, TRINE_EINVAL,
          "in (%zu), out (%zu) and max_rows (%zu) must be at least 1", c->in, c->out, c->max_rows);
    size_t widest = c->in > c->out ? c->in : c->out;
    CHECK(c->in <= MOST_ELEMENTS / c->out && c->max_rows <= MOST_ELEMENTS / widest, TRINE_EINVAL,
          "in (%zu), out (%zu) and max_rows (%zu) make a matrix of more than 2^50 elements", c->in,
          c->out, c->max_rows);
    CHECK(c->split != TRINE_COLUMN || c->out % (size_t)P == 0, TRINE_EINVAL,
          "out (%zu) must be a multiple of tp (%d) in a column-parallel linear layer", c->out, P);
    CHECK(c->split != TRINE_ROW || c->in % (size_t)P == 0, TRINE_EINVAL,
          "in (%zu) must be a multiple of tp (%d) in a row-parallel linear layer", c->in, P);
    CHECK(c->name && strlen(c->name) <= 24, TRINE_EINVAL,
          "invalid layer name \"%s\"; use at most 24 bytes", c->name ? c->name : "(null)");
    CHECK(c->threads >= 0 && c->threads <= MOST_THREADS, TRINE_EINVAL,
          "threads (%d) must be between 0 and %d (0: 1)", c->threads, MOST_THREADS);
    return TRINE_OK;
}

static tensor weight_tensor(const trine_linear *l) {
    const trine_linear_config *c = &l->config;
    tensor t = {.parts = 1, .init = INIT_NORMAL, .std = 0.02, .matrix = true};
    t.rows = t.global_rows = c->out;
    t.cols = t.global_cols = c->in;
    if (c->split == TRINE_COLUMN) {
        t.split = SPLIT_ROWS;
        t.rows = c->out / l->P;
        t.first_row = l->rank * t.rows;
    } else {
        t.split = SPLIT_COLS;
        t.cols = c->in / l->P;
        t.first_col = l->rank * t.cols;
    }
    strcpy(t.name, c->name); /* its length was checked */
    return t;
}

static void take_memory(trine_linear *l, arena *a) {
    const trine_linear_config *c = &l->config;
    trine_linear_shard *s = &l->local;
    s->weight = arena_take(a, MEM_PARAMS, s->rows * s->cols * sizeof(float));
    s->bias = arena_take(a, MEM_PARAMS, s->rows * sizeof(float));
    s->weight_grad = arena_take(a, MEM_GRADS, s->rows * s->cols * sizeof(float));
    s->bias_grad = arena_take(a, MEM_GRADS, s->rows * sizeof(float));
    size_t width = c->split == TRINE_COLUMN ? c->out : c->in;
    l->x = arena_take(a, MEM_ACTIVATIONS, c->max_rows * s->cols * sizeof(float));
    l->packed = arena_take(a, MEM_WORKSPACE, c->max_rows * width * sizeof(float));
}

static trine_status set_up(trine_linear *l) {
    device_kind kind;
    TRY(device_find(&kind, l->config.device));
    CHECK(kind < DEVICE_HOST_KINDS, TRINE_EUNSUPPORTED,
          "a linear layer does not support device %s; use device cpu or ref", l->config.device);
    TRY(device_open(&l->tp.dev, kind, l->config.threads ? l->config.threads : 1));
    tensor t = weight_tensor(l);
    l->local.rows = t.rows;
    l->local.cols = t.cols;
    l->local.first_row = t.first_row;
    l->local.first_col = t.first_col;
    arena a;
    arena_init(&a, NULL, 0);
    take_memory(l, &a);
    l->bytes = a.used;
    TRY(device_alloc(l->tp.dev, &l->memory, l->bytes));
    arena_init(&a, l->memory, l->bytes);
    take_memory(l, &a);
    flat_range range = {0};
    flat_add(&range, &t);
    flat_init(&range, 0, l->config.seed, 0, range.used, l->local.weight);
    l->params = (tp_linear){.weight = {.w = l->local.weight, .dw = l->local.weight_grad},
                            .bias = {.w = l->local.bias, .dw = l->local.bias_grad}};
    return TRINE_OK;
}

trine_status trine_linear_create(trine_linear **linear, trine_comm *tp,
                                 const trine_linear_config *config) {
    CHECK_GIVEN(linear, "linear");
    CHECK_GIVEN(config, "config");
    CHECK_LIVE(tp, "tp", LIVE_COMM);
    *linear = NULL;
    TRY(check_config(config, trine_comm_size(tp)));
    trine_linear *l = calloc(1, sizeof *l);
    CHECK(l, TRINE_ENOMEM, "no memory for a linear layer");
    trine_status known = live_add(l, LIVE_LINEAR, tp);
    if (known != TRINE_OK) free(l);
    TRY(known);
    l->config = *config;
    l->tp.comm = tp;
    l->P = (size_t)trine_comm_size(tp);
    l->rank = (size_t)trine_comm_rank(tp);
    trine_status status = set_up(l);
    if (status != TRINE_OK) trine_linear_destroy(&l);
    TRY(status);
    *linear = l;
    return TRINE_OK;
}

void trine_linear_destroy(trine_linear **linear) {
    trine_linear *l = linear ? *linear : NULL;
    if (!live_ends(l, LIVE_LINEAR, __func__, "linear")) return;
    if (l->memory) device_free(l->tp.dev, l->memory, l->bytes);
    device_close(&l->tp.dev);
    live_remove(l);
    free(l);
    *linear = NULL;
}

trine_linear_shard trine_linear_local(const trine_linear *linear) {
    return IS_LIVE(linear, "linear", LIVE_LINEAR) ? linear->local : (trine_linear_shard){0};
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* In a row-major matrix the columns of the ranks lie side by side, but messages are contiguous. */
static void copy_columns(const trine_linear *l, float *dst, size_t dst_width, const float *src,
                         size_t src_width, size_t rows, size_t width) {
    for (size_t i = 0; i < rows; i++)
        device_copy(l->tp.dev, dst + i * dst_width, src + i * src_width, width * sizeof(float));
}

/* packed (P, rows, width/P) = x (rows, width) */
static void pack(const trine_linear *l, const float *x, size_t rows, size_t width) {
    size_t part = width / l->P;
    for (size_t p = 0; p < l->P; p++)
        copy_columns(l, l->packed + p * rows * part, part, x + p * part, width, rows, part);
}

/* y (rows, width) = packed (P, rows, width/P) */
static void unpack(const trine_linear *l, float *y, size_t rows, size_t width) {
    size_t part = width / l->P;
    for (size_t p = 0; p < l->P; p++)
        copy_columns(l, y + p * part, width, l->packed + p * rows * part, part, rows, part);
}

/* ---- Forward and backward -------------------------------------------------------------------- */

static trine_status column_forward(trine_linear *l, float *y, const float *x, size_t rows) {
    size_t I = l->config.in, O = l->config.out;
    float *own = l->packed + l->rank * rows * (O / l->P); /* (rows, O/P) */
    if (l->rank == 0) device_copy(l->tp.dev, l->x, x, rows * I * sizeof(float));
    TRY(trine_broadcast(l->tp.comm, l->x, rows * I, TRINE_F32, 0));
    TRY(tp_column_forward(&l->tp, own, &l->params, l->x, rows, O, I));
    TRY(trine_all_gather(l->tp.comm, l->packed, own, rows * O, TRINE_F32));
    unpack(l, y, rows, O);
    return TRINE_OK;
}

static trine_status column_backward(trine_linear *l, float *dx, const float *dy, size_t rows) {
    device *d = l->tp.dev;
    size_t I = l->config.in, O = l->config.out, own = O / l->P;
    float *dy_own = l->packed; /* (rows, O/P) */
    copy_columns(l, dy_own, own, dy + l->rank * own, O, rows, own);
    TRY(d->ops->linear_backward_weight(d, l->params.weight.dw, l->params.bias.dw, dy_own, l->x,
                                       rows, own, I, GRAD_ADD));
    float *dx_part = l->x; /* the kept input is no longer needed */
    TRY(d->ops->linear_backward_input(d, dx_part, l->params.weight.w, dy_own, rows, own, I));
    TRY(trine_reduce(l->tp.comm, dx, dx_part, rows * I, TRINE_F32, TRINE_SUM, 0));
    return TRINE_OK;
}

static trine_status row_forward(trine_linear *l, float *y, const float *x, size_t rows) {
    size_t I = l->config.in, O = l->config.out;
    if (l->rank == 0) pack(l, x, rows, I);
    TRY(trine_scatter(l->tp.comm, l->x, l->packed, rows * I, TRINE_F32, 0));
    TRY(tp_row_forward(&l->tp, y, &l->params, l->x, NULL, NULL, rows, O, I));
    return TRINE_OK;
}

static trine_status row_backward(trine_linear *l, float *dx, const float *dy, size_t rows) {
    size_t I = l->config.in, O = l->config.out;
    float *own = l->packed + l->rank * rows * (I / l->P); /* (rows, I/P) */
    TRY(tp_row_backward(&l->tp, own, &l->params, dy, l->x, rows, O, I));
    TRY(trine_gather(l->tp.comm, l->packed, own, rows * I, TRINE_F32, 0));
    if (l->rank == 0) unpack(l, dx, rows, I);
    return TRINE_OK;
}

trine_status trine_linear_forward(trine_linear *linear, float *y, const float *x, size_t rows) {
    CHECK_GIVEN(y, "y");
    CHECK_LIVE(linear, "linear", LIVE_LINEAR);
    trine_linear *l = linear;
    CHECK(rows >= 1 && rows <= l->config.max_rows, TRINE_EINVAL,
          "%zu rows are out of range; this linear layer accepts 1 to %zu", rows,
          l->config.max_rows);
    if (l->rank == 0) CHECK_GIVEN(x, "x");
    l->rows = 0;
    if (l->config.split == TRINE_COLUMN) TRY(column_forward(l, y, x, rows));
    if (l->config.split == TRINE_ROW) TRY(row_forward(l, y, x, rows));
    l->rows = rows;
    return TRINE_OK;
}

trine_status trine_linear_backward(trine_linear *linear, float *dx, const float *dy, size_t rows) {
    CHECK_GIVEN(dy, "dy");
    CHECK_LIVE(linear, "linear", LIVE_LINEAR);
    trine_linear *l = linear;
    CHECK(rows >= 1 && rows == l->rows, TRINE_EINVAL,
          "backward of %zu rows does not match the preceding forward call, which kept %zu", rows,
          l->rows);
    if (l->rank == 0) CHECK_GIVEN(dx, "dx");
    l->rows = 0;
    if (l->config.split == TRINE_COLUMN) TRY(column_backward(l, dx, dy, rows));
    if (l->config.split == TRINE_ROW) TRY(row_backward(l, dx, dy, rows));
    return TRINE_OK;
}
