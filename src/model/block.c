#include "model/block.h"

#include "base/status.h"
#include "model/layer.h"

/* m = x + attention(ln1(x));  y = m + mlp(ln2(m)).
 * x, m, y are (N, C). This rank holds H/tp heads and F/tp hidden columns; who talks to whom is the
 * business of tp_column and tp_row. */
trine_status block_forward(const gpt_run *r, const gpt_block *b, const gpt_block_acts *a, void *y,
                           const void *x) {
    const tp_region *tp = r->tp;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    TRY(norm_forward(r, a->ln1, a->ln1_stat, &b->ln1, x));
    TRY(tp_column_forward(tp, a->qkv, &b->qkv, a->ln1, N, 3 * C, C)); /* (N, 3C/tp) */
    TRY(attention_forward(r, a->att, a->lse, a->qkv));                /* (N, C/tp) */
    TRY(tp_row_forward(tp, a->mid, &b->proj, a->att, x, N, C, C));    /* (N, C), + x */
    TRY(norm_forward(r, a->ln2, a->ln2_stat, &b->ln2, a->mid));
    TRY(tp_column_forward(tp, a->fc, &b->fc, a->ln2, N, F, C)); /* (N, F/tp) */
    TRY(gelu_forward(r, a->gelu, a->fc));
    TRY(tp_row_forward(tp, y, &b->out, a->gelu, a->mid, N, C, F)); /* (N, C), + m */
    return TRINE_OK;
}

/* The same lines from the end. d holds the gradient of y, then of m, then of x: a norm's backward
 * adds its branch to what the residual carries. */
trine_status block_backward(const gpt_run *r, const gpt_block *b, const gpt_block_acts *a, void *d,
                            const void *x) {
    const tp_region *tp = r->tp;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    void *hidden = r->scratch.hidden, *stream = r->scratch.stream;
    TRY(tp_row_backward(tp, hidden, &b->out, d, a->gelu, N, C, F)); /* (N, F/tp) */
    TRY(gelu_backward(r, hidden, a->fc));
    TRY(tp_column_backward(tp, stream, &b->fc, hidden, a->ln2, N, F, C)); /* (N, C) */
    TRY(norm_backward(r, d, &b->ln2, stream, a->mid, a->ln2_stat, GRAD_ADD));
    TRY(tp_row_backward(tp, stream, &b->proj, d, a->att, N, C, C));            /* (N, C/tp) */
    TRY(attention_backward(r, hidden, stream, a->qkv, a->att, a->lse));        /* (N, 3C/tp) */
    TRY(tp_column_backward(tp, stream, &b->qkv, hidden, a->ln1, N, 3 * C, C)); /* (N, C) */
    TRY(norm_backward(r, d, &b->ln1, stream, x, a->ln1_stat, GRAD_ADD));
    return TRINE_OK;
}
