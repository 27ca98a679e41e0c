#include "model/warm.h"

#include "base/status.h"
#include "device/ops.h"

void warm_begin(warm_state *w) {
    arena_init(&w->a, w->base, w->most);
}

void *warm_bytes(warm_state *w, size_t n) {
    void *p = arena_take(&w->a, MEM_WORKSPACE, n);
    if (w->a.used > w->most) w->most = w->a.used;
    return p;
}

void *warm_numbers(warm_state *w, size_t n) {
    return warm_bytes(w, n * trine_dtype_bytes(w->d->compute));
}

void *warm_gradients(warm_state *w, size_t n) {
    return warm_bytes(w, n * trine_dtype_bytes(w->d->grads));
}

float *warm_floats(warm_state *w, size_t n) {
    return warm_bytes(w, n * sizeof(float));
}

/* Zeroed, because leftovers of the previous operator are not valid tokens. */
int32_t *warm_tokens_of(warm_state *w, size_t n) {
    int32_t *t = warm_bytes(w, n * sizeof *t);
    if (t) device_zero(w->d, t, n * sizeof *t);
    return t;
}

const int32_t *warm_starts(warm_state *w, bool resets, size_t n) {
    return resets ? warm_tokens_of(w, n) : NULL;
}

size_t warm_rows(const warm_state *w) {
    return w->s->B * w->s->T;
}

trine_status warm_product(warm_state *w, warm_bias kind, size_t T, size_t N, size_t K) {
    const ops *o = w->d->ops;
    bool row = kind == WARM_ROW || kind == WARM_ROW_NO_BIAS;
    bool residual = row && w->s->tp == 1 && o->linear_residual;
    bool biased = kind == WARM_COLUMN || kind == WARM_ROW;
    warm_begin(w);
    void *x = warm_numbers(w, T * K), *y = warm_numbers(w, T * N);
    void *stream = residual ? warm_numbers(w, T * N) : NULL;
    void *weight = warm_numbers(w, N * K), *bias = warm_numbers(w, N);
    void *dw = warm_gradients(w, N * K), *dbias = warm_gradients(w, N);
    if (!w->base) return device_prepare_linear(w->d, kind == WARM_COLUMN, T, N, K);
    TRY(o->linear_forward(w->d, y, weight, kind == WARM_COLUMN ? bias : NULL, x, T, N, K));
    if (residual)
        TRY(o->linear_residual(w->d, y, weight, biased ? bias : NULL, stream, x, T, N, K));
    for (grad_mode mode = GRAD_ADD; mode <= GRAD_SET; mode++)
        TRY(o->linear_backward_weight(w->d, dw, biased ? dbias : NULL, y, x, T, N, K, mode));
    return o->linear_backward_input(w->d, x, weight, y, T, N, K);
}
