#include "cost/count_device.h"

#include <stdlib.h>

#include "base/grow.h"
#include "base/status.h"
#include "device/work.h"

typedef enum { WORK_FLOPS, WORK_BYTES } work_unit;

const char *count_text(counted what) {
    static const char *const texts[COUNTED] = {
#define TEXT(name, ...) [COUNT_##name] = #name,
        OPS_LIST(TEXT, TEXT) TEXT(copy) TEXT(zero) TEXT(collective)
#undef TEXT
    };
    return texts[what];
}

/* ---- The trace ------------------------------------------------------------------------------- */

static trine_status append(count_trace *t, count_event event) {
    count_event *more = grow(t->at, t->count, &t->capacity, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory to count %d operators", t->count + 1);
    t->at = more;
    t->at[t->count++] = event;
    return TRINE_OK;
}

void count_trace_destroy(count_trace *t) {
    free(t->at);
    *t = (count_trace){0};
}

#define SUM(member)                                                                                \
    double count_##member(const count_trace *t) {                                                  \
        double sum = 0;                                                                            \
        for (int n = 0; n < t->count; n++) sum += t->at[n].member;                                 \
        return sum;                                                                                \
    }

SUM(flops)
SUM(bytes)
SUM(sent)

trine_status count_collective(void *context, trine_tally_kind kind, size_t count, trine_dtype type,
                              bool started) {
    count_trace *t = context;
    if (t->tp == 1) return TRINE_OK;
    return append(t, (count_event){.what = COUNT_collective,
                                   .kind = kind,
                                   .sent = (double)comm_bytes(kind, count, type, t->tp, 0, 0),
                                   .moved = (double)(count * trine_dtype_bytes(type)),
                                   .started = started});
}

/* ---- Operators ------------------------------------------------------------------------------- */

static trine_status note(const device *d, counted what, work_unit unit, uint64_t work, ...) {
    count_event event = {.what = what};
    if (unit == WORK_FLOPS)
        event.flops = (double)work;
    else
        event.bytes = (double)work;
    return append(((const count_device *)d->state)->trace, event);
}

#define COUNT(op, unit, work, takes, names)                                                        \
    static trine_status plain_##op(device *d, OPS_PLAIN takes) {                                   \
        return note(d, COUNT_##op, WORK_##unit, (uint64_t)(work), OPS_PLAIN names);                \
    }

OPS_LIST(COUNT, COUNT)

static count_event *last(const device *d) {
    count_trace *t = ((const count_device *)d->state)->trace;
    return &t->at[t->count - 1];
}

/* The operators whose time depends on more than their work. */

static trine_status note_linear_forward(device *d, void *y, const void *w, const void *bias,
                                        const void *x, size_t T, size_t N, size_t K) {
    TRY(plain_linear_forward(d, y, w, bias, x, T, N, K));
    last(d)->product = (count_product){1, T, N, K};
    return TRINE_OK;
}

static trine_status note_linear_residual(device *d, void *y, const void *w, const void *bias,
                                         const void *residual, const void *x, size_t T, size_t N,
                                         size_t K) {
    TRY(plain_linear_residual(d, y, w, bias, residual, x, T, N, K));
    last(d)->product = (count_product){1, T, N, K};
    return TRINE_OK;
}

static trine_status note_linear_backward_input(device *d, void *dx, const void *w, const void *dy,
                                               size_t T, size_t N, size_t K) {
    TRY(plain_linear_backward_input(d, dx, w, dy, T, N, K));
    last(d)->product = (count_product){1, T, K, N};
    return TRINE_OK;
}

static trine_status note_linear_backward_weight(device *d, void *dw, void *dbias, const void *dy,
                                                const void *x, size_t T, size_t N, size_t K,
                                                grad_mode mode) {
    TRY(plain_linear_backward_weight(d, dw, dbias, dy, x, T, N, K, mode));
    last(d)->product = (count_product){1, N, K, T};
    last(d)->adds = mode == GRAD_ADD;
    last(d)->biased = dbias != NULL;
    return TRINE_OK;
}

static trine_status note_attention_forward(device *d, void *y, float *lse, const void *qkv,
                                           const int32_t *starts, void *work,
                                           const dropout_args *drop, size_t B, size_t T, size_t H,
                                           size_t K, size_t D) {
    TRY(plain_attention_forward(d, y, lse, qkv, starts, work, drop, B, T, H, K, D));
    last(d)->product = (count_product){B * H, T, T, D};
    return TRINE_OK;
}

static trine_status note_attention_backward(device *d, void *dqkv, const void *dy, const void *qkv,
                                            const void *y, const float *lse, const int32_t *starts,
                                            void *work, const dropout_args *drop, size_t B,
                                            size_t T, size_t H, size_t K, size_t D) {
    TRY(plain_attention_backward(d, dqkv, dy, qkv, y, lse, starts, work, drop, B, T, H, K, D));
    last(d)->product = (count_product){B * H, T, T, D};
    return TRINE_OK;
}

/* Operators missing in the inner device are missing here. */
static ops table_of(const ops *inner) {
#define ROW(op, ...)  .op = plain_##op,
#define LACK(op, ...) .op = inner->op ? note_##op : NULL,
    ops table = {OPS_LIST(ROW, LACK).attention_workspace = inner->attention_workspace};
#undef ROW
#undef LACK
    table.linear_forward = note_linear_forward;
    table.linear_backward_input = note_linear_backward_input;
    table.linear_backward_weight = note_linear_backward_weight;
    table.attention_forward = note_attention_forward;
    table.attention_backward = note_attention_backward;
    return table;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A lack of memory is met again by the next operator. */
static void count_copy(device *d, void *dst, const void *src, size_t bytes) {
    (void)note(d, COUNT_copy, WORK_BYTES, 2 * bytes, dst, src);
}

static void count_zero(device *d, void *dst, size_t bytes) {
    (void)note(d, COUNT_zero, WORK_BYTES, bytes, dst);
}

void count_device_init(count_device *d, const device *inner, count_trace *trace) {
    *d = (count_device){.device = *inner, .table = table_of(inner->ops), .trace = trace};
    d->memory =
        (device_memory){.host = inner->memory->host, .copy = count_copy, .zero = count_zero};
    d->device.ops = &d->table;
    d->device.memory = &d->memory;
    d->device.state = d;
}
