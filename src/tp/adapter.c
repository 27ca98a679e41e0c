#include "tp/adapter.h"

#include "base/status.h"
#include "device/ops.h"

/* Matrix n of values (.., N, C). */
static void *matrix(const tp_region *r, const void *values, int n, size_t N, size_t C) {
    return (char *)values + (size_t)n * N * C * trine_dtype_bytes(r->dev->compute);
}

/* *in = the adapter's input: columns [column, column + C) of x, or l->work, where some of them are dropped. */
static trine_status dropped(const tp_region *r, const tp_lora *l, const tp_adapter *a,
                            const void **in, const void *x, size_t N, size_t C, size_t column) {
    dropout_args drop = a->drop;
    *in = x;
    if (drop.p == 0) return TRINE_OK;
    *in = l->work;
    drop.column = column;
    return r->dev->ops->dropout(r->dev, l->work, x, &drop, N, C);
}

/* dx (N, C) += dropout's gradient of v (N, rank) A (rank, C) */
static trine_status add_input(const tp_region *r, const tp_lora *l, const tp_adapter *a, void *dx,
                              int p, const void *v, size_t N, size_t C, size_t column) {
    const ops *o = r->dev->ops;
    const void *rest;
    TRY(o->linear_backward_input(r->dev, l->work, tp_w(r, &a->a, p), v, N, l->rank, C));
    TRY(dropped(r, l, a, &rest, l->work, N, C, column));
    return o->bias_residual(r->dev, dx, NULL, rest, N, C);
}

/* ---- Column-parallel ------------------------------------------------------------------------- */

static void *column_up(const tp_region *r, const tp_lora *l, int p, int n, size_t N) {
    return matrix(r, l->up, p * l->count + n, N, l->rank);
}

trine_status tp_adapt_column(const tp_region *r, void *y, const tp_lora *l, const void *full,
                             size_t N, size_t columns, size_t I) {
    const ops *o = r->dev->ops;
    for (int n = 0; n < l->count; n++) {
        const tp_adapter *a = &l->of[n];
        const void *in;
        void *u = matrix(r, l->down, n, N, l->rank);
        TRY(dropped(r, l, a, &in, full, N, I, 0));
        TRY(o->linear_forward(r->dev, u, tp_w(r, &a->a, 0), NULL, in, N, l->rank, I));
        for (int p = 0; p < tp_parts(r); p++) {
            TRY(o->linear_forward(r->dev, l->work, tp_w(r, &a->b, p), NULL, u, N, a->own, l->rank));
            TRY(o->columns_add(r->dev, matrix(r, y, p, N, columns), l->work, l->scale, N, columns,
                               a->at, a->own));
        }
    }
    return TRINE_OK;
}

/* l->work (N, own) = scale dy of the adapter's columns, of part p */
static trine_status take_column(const tp_region *r, const tp_lora *l, const tp_adapter *a,
                                const void *dy, int p, size_t N, size_t columns) {
    return r->dev->ops->columns_take(r->dev, l->work, matrix(r, dy, p, N, columns), l->scale, N,
                                     columns, a->at, a->own);
}

trine_status tp_adapt_column_input(const tp_region *r, void *dx, const tp_lora *l, const void *dy,
                                   size_t N, size_t columns, size_t I) {
    for (int p = 0; p < tp_parts(r); p++)
        for (int n = 0; n < l->count; n++) {
            const tp_adapter *a = &l->of[n];
            void *v = column_up(r, l, p, n, N);
            TRY(take_column(r, l, a, dy, p, N, columns));
            TRY(r->dev->ops->linear_backward_input(r->dev, v, tp_w(r, &a->b, p), l->work, N, a->own,
                                                   l->rank));
            TRY(add_input(r, l, a, tp_addend(r, dx, p, N, I), p, v, N, I, 0));
        }
    return TRINE_OK;
}

trine_status tp_adapt_column_weight(const tp_region *r, const tp_lora *l, const void *dy,
                                    const void *full, size_t N, size_t columns, size_t I) {
    const ops *o = r->dev->ops;
    for (int n = 0; n < l->count; n++) {
        const tp_adapter *a = &l->of[n];
        const void *in, *u = matrix(r, l->down, n, N, l->rank);
        for (int p = 0; p < tp_parts(r) && a->b.dw; p++) {
            TRY(take_column(r, l, a, dy, p, N, columns));
            TRY(o->linear_backward_weight(r->dev, tp_dw(r, &a->b, p), NULL, l->work, u, N, a->own,
                                          l->rank, a->b.mode));
        }
        if (!a->a.dw) continue;
        TRY(dropped(r, l, a, &in, full, N, I, 0));
        for (int p = 0; p < tp_parts(r); p++)
            TRY(o->linear_backward_weight(r->dev, tp_dw(r, &a->a, p), NULL,
                                          column_up(r, l, p, n, N), in, N, l->rank, I, a->a.mode));
    }
    return TRINE_OK;
}

/* ---- Row-parallel ---------------------------------------------------------------------------- */

/* The first of part p's columns of x. */
static size_t first_column(const tp_region *r, int p, size_t own) {
    return (size_t)(tp_first(r) + p) * own;
}

trine_status tp_adapt_row(const tp_region *r, void *addend, int p, const tp_lora *l, const void *x,
                          size_t N, size_t O, size_t own) {
    const ops *o = r->dev->ops;
    const tp_adapter *a = l->of;
    const void *in;
    void *u = matrix(r, l->down, p, N, l->rank);
    TRY(dropped(r, l, a, &in, matrix(r, x, p, N, own), N, own, first_column(r, p, own)));
    TRY(o->linear_forward(r->dev, u, tp_w(r, &a->a, p), NULL, in, N, l->rank, own));
    TRY(o->linear_forward(r->dev, l->work, tp_w(r, &a->b, p), NULL, u, N, O, l->rank));
    return o->columns_add(r->dev, addend, l->work, l->scale, N, O, 0, O);
}

trine_status tp_adapt_row_input(const tp_region *r, void *dx, const tp_lora *l, const void *full,
                                size_t N, size_t O, size_t own) {
    const ops *o = r->dev->ops;
    const tp_adapter *a = l->of;
    TRY(o->columns_take(r->dev, l->work, full, l->scale, N, O, 0, O));
    TRY(o->linear_backward_input(r->dev, l->up, tp_w(r, &a->b, 0), l->work, N, O, l->rank));
    for (int p = 0; p < tp_parts(r); p++)
        TRY(add_input(r, l, a, matrix(r, dx, p, N, own), p, l->up, N, own,
                      first_column(r, p, own)));
    return TRINE_OK;
}

trine_status tp_adapt_row_weight(const tp_region *r, const tp_lora *l, const void *full,
                                 const void *x, size_t N, size_t O, size_t own) {
    const ops *o = r->dev->ops;
    const tp_adapter *a = l->of;
    if (a->b.dw) TRY(o->columns_take(r->dev, l->work, full, l->scale, N, O, 0, O));
    for (int p = 0; p < tp_parts(r) && a->b.dw; p++)
        TRY(o->linear_backward_weight(r->dev, tp_dw(r, &a->b, p), NULL, l->work,
                                      matrix(r, l->down, p, N, l->rank), N, O, l->rank, a->b.mode));
    for (int p = 0; p < tp_parts(r) && a->a.dw; p++) {
        const void *in;
        TRY(dropped(r, l, a, &in, matrix(r, x, p, N, own), N, own, first_column(r, p, own)));
        TRY(o->linear_backward_weight(r->dev, tp_dw(r, &a->a, p), NULL, l->up, in, N, l->rank, own,
                                      a->a.mode));
    }
    return TRINE_OK;
}
