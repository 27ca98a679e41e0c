#include "train/warm_up.h"

#include "base/status.h"
#include "device/ops.h"
#include "model/lora.h"

/* The gradients of a value that several layers read. */
static trine_status warm_sum(warm_state *w, const unit_list *l, int value) {
    size_t rows = list_rows(l, value, w->s), n = list_elements(l, value, w->s);
    warm_begin(w);
    void *x = warm_numbers(w, n), *y = warm_numbers(w, n);
    if (!w->base) return TRINE_OK;
    return w->d->ops->bias_residual(w->d, y, NULL, x, rows, n / rows);
}

/* Layers of the same kind and sizes launch the same kernels. */
typedef struct {
    const layer_kind *kind;
    size_t width_in, width;
    bool drops;
    int params; /* more with adapters */
} warmed;

static bool is_new(const warmed *done, int count, const warmed *own) {
    for (int n = 0; n < count; n++)
        if (done[n].kind == own->kind && done[n].width_in == own->width_in &&
            done[n].width == own->width && done[n].drops == own->drops &&
            done[n].params == own->params)
            return false;
    return true;
}

static trine_status warm_layers(warm_state *w) {
    warmed done[UNIT_KINDS * LIST_LAYERS];
    int count = 0;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
        unit_list l;
        TRY(list_resolve(&l, w->s, kind));
        for (int n = 0; n < l.count; n++) {
            const list_layer *at = &l.layers[n];
            warmed own = {at->kind, list_width_in(&l, at), list_width(&l, at), at->row->dropout,
                          layer_params(w->s, at->row)};
            bool new = is_new(done, count, &own);
            if (own.kind->warm && new) TRY(own.kind->warm(w, at->row, own.width_in, own.width));
            if (new) TRY(lora_warm(w, at->row, own.width_in, own.width));
            done[count++] = own;
            for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
                if (at->sums[i].dst.place != GRAD_NOWHERE) TRY(warm_sum(w, &l, at->sums[i].value));
        }
    }
    return TRINE_OK;
}

static trine_status sum_exactly(device *d, int64_t *digits, const void *g, size_t count) {
    const ops_part all = {.at = 0, .n = count};
    device_zero(d, digits, SQUARES_DIGITS * sizeof *digits);
    return d->ops->sum_squares_exact(d, digits, g, &all, 1);
}

/* With few elements: the length does not change the kernel. */
static trine_status update(warm_state *w) {
    enum { SOME = 4096 };
    const adamw_args args = {.step = 1};
    warm_begin(w);
    float *master = warm_floats(w, SOME), *m = warm_floats(w, SOME), *v = warm_floats(w, SOME);
    void *copy = w->d->compute == TRINE_F32 ? NULL : warm_numbers(w, SOME);
    void *g = warm_gradients(w, SOME), *h = warm_gradients(w, SOME);
    double *sum = warm_bytes(w, sizeof *sum);
    int64_t *digits = warm_bytes(w, SQUARES_DIGITS * sizeof *digits);
    if (!w->base) return TRINE_OK;
    TRY(w->d->ops->add(w->d, g, h, SOME));
    TRY(ops_sum_squares(w->d, sum, g, SOME));
    if (w->s->exact) TRY(sum_exactly(w->d, digits, g, SOME));
    TRY(ops_adamw(w->d, master, m, v, copy, g, SOME, &args));
    return TRINE_OK;
}

static trine_status walk(warm_state *w) {
    TRY(warm_layers(w));
    return update(w);
}

trine_status warm_up(device *d, const gpt_shape *s) {
    warm_state w = {.d = d, .s = s};
    if (d->memory->host && !d->exact_threads) return TRINE_OK;
    TRY(walk(&w));
    if (d->memory->host) return TRINE_OK;
    TRY(device_alloc(d, &w.base, w.most));
    trine_status status = walk(&w);
    if (status == TRINE_OK) status = device_wait(d);
    device_free(d, w.base, w.most);
    return status;
}
