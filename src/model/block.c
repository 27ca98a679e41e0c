#include "model/block.h"

#include "base/status.h"
#include "model/layer.h"

/* m = x + drop(attention(ln1(x)));  y = m + drop(mlp(ln2(m))).
 * x, m, y are (R, C). This rank holds H/tp heads and F/tp hidden columns; who talks to whom is the
 * business of tp_column and tp_row. */

/* All but the last product: what backward reads. */
static trine_status forward_inside(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a,
                                   const void *x, const gpt_batch *batch) {
    const tp_region *tp = r->tp;
    const gpt_block *b = &u->block;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    dropout_args kept, drop;
    TRY(norm_forward(r, a->ln1, a->ln1_stat, &b->ln1, x));
    TRY(tp_column_forward(tp, a->qkv, &b->qkv, a->ln1, N, 3 * C, C)); /* (N, 3C/tp) */
    TRY(attention_forward(r, a->att, a->lse, a->qkv,
                          dropout_of(r, DROP_ATTENTION, u->index, batch, &kept))); /* (N, C/tp) */
    TRY(tp_row_forward(tp, a->mid, &b->proj, a->att, x,
                       dropout_of(r, DROP_RESIDUAL, u->index, batch, &drop), N, C, C)); /* + x */
    TRY(norm_forward(r, a->ln2, a->ln2_stat, &b->ln2, a->mid));
    TRY(tp_column_forward(tp, a->fc, &b->fc, a->ln2, N, F, C)); /* (N, F/tp) */
    return TRINE_OK;
}

trine_status block_forward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *y,
                           const void *x, const gpt_batch *batch) {
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    dropout_args drop;
    TRY(forward_inside(r, u, a, x, batch));
    TRY(gelu_forward(r, a->gelu, a->fc));
    TRY(tp_row_forward(r->tp, y, &u->block.out, a->gelu, a->mid,
                       dropout_of(r, DROP_MLP, u->index, batch, &drop), N, C, F)); /* + m */
    return TRINE_OK;
}

/* What was not kept is made again just before it is read. */
static trine_status rebuild_norm(const gpt_run *r, void *y, float *stat, const gpt_norm *n,
                                 const void *x) {
    if (r->shape->recompute != TRINE_RECOMPUTE_SELECTIVE) return TRINE_OK;
    return norm_forward(r, y, stat, n, x);
}

static trine_status rebuild_gelu(const gpt_run *r, const gpt_block_acts *a) {
    if (r->shape->recompute == TRINE_RECOMPUTE_NONE) return TRINE_OK;
    return gelu_forward(r, a->gelu, a->fc);
}

/* The lines of block_forward from the end. d holds the gradient of y, then of m, then of x: a norm's
 * backward adds its branch to what the residual carries. */
trine_status block_backward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *d,
                            const void *x, const gpt_batch *batch) {
    const tp_region *tp = r->tp;
    const gpt_block *b = &u->block;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    void *hidden = r->scratch.hidden, *stream = r->scratch.stream;
    const void *dropped; /* d through the dropout */
    dropout_args kept;
    if (r->shape->recompute == TRINE_RECOMPUTE_FULL) TRY(forward_inside(r, u, a, x, batch));
    TRY(rebuild_gelu(r, a));
    TRY(dropout_backward(r, &dropped, d, DROP_MLP, u->index, batch));
    TRY(tp_row_backward(tp, hidden, &b->out, dropped, a->gelu, N, C, F)); /* (N, F/tp) */
    TRY(gelu_backward(r, hidden, a->fc));
    TRY(rebuild_norm(r, a->ln2, a->ln2_stat, &b->ln2, a->mid));
    TRY(tp_column_backward(tp, stream, &b->fc, hidden, a->ln2, N, F, C)); /* (R, C) */
    TRY(norm_backward(r, d, &b->ln2, stream, a->mid, a->ln2_stat, GRAD_ADD));
    TRY(dropout_backward(r, &dropped, d, DROP_RESIDUAL, u->index, batch));
    TRY(tp_row_backward(tp, stream, &b->proj, dropped, a->att, N, C, C)); /* (N, C/tp) */
    TRY(attention_backward(r, hidden, stream, a->qkv, a->att, a->lse,
                           dropout_of(r, DROP_ATTENTION, u->index, batch, &kept))); /* (N, 3C/tp) */
    TRY(rebuild_norm(r, a->ln1, a->ln1_stat, &b->ln1, x));
    TRY(tp_column_backward(tp, stream, &b->qkv, hidden, a->ln1, N, 3 * C, C)); /* (R, C) */
    TRY(norm_backward(r, d, &b->ln1, stream, x, a->ln1_stat, GRAD_ADD));
    return TRINE_OK;
}

/* ---- In two parts ----------------------------------------------------------------------------- */

/* What recomputation makes is kept for the second part. */
static gpt_block_acts kept_acts(const gpt_block_acts *a, const gpt_keep *keep) {
    gpt_block_acts own = *a;
    if (keep->rebuilt.ln1) own.ln1 = keep->rebuilt.ln1, own.ln2 = keep->rebuilt.ln2;
    if (keep->rebuilt.att) own.att = keep->rebuilt.att, own.fc = keep->rebuilt.fc;
    return own;
}

/* d behind a dropout, for the second part; d itself goes on. */
static trine_status keep_dropped(const gpt_run *r, void *kept, const void *d, dropout_place place,
                                 const gpt_unit *u, const gpt_batch *batch) {
    const void *dropped;
    size_t elements = gpt_rows(r->shape).count * r->shape->C;
    TRY(dropout_backward(r, &dropped, d, place, u->index, batch));
    device_copy(r->dev, kept, dropped, elements * trine_dtype_bytes(r->dev->compute));
    return TRINE_OK;
}

trine_status block_backward_input(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *acts,
                                  const gpt_keep *keep, void *d, const void *x,
                                  const gpt_batch *batch) {
    const tp_region *tp = r->tp;
    const gpt_block *b = &u->block;
    const gpt_block_acts own = kept_acts(acts, keep), *a = &own;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    void *stream = r->scratch.stream;
    dropout_args drop;
    if (r->shape->recompute == TRINE_RECOMPUTE_FULL) TRY(forward_inside(r, u, a, x, batch));
    TRY(keep_dropped(r, keep->out, d, DROP_MLP, u, batch));
    TRY(tp_row_backward_input(tp, keep->fc, &b->out, keep->out, N, C, F)); /* (N, F/tp) */
    TRY(gelu_backward(r, keep->fc, a->fc));
    TRY(rebuild_norm(r, a->ln2, a->ln2_stat, &b->ln2, a->mid));
    TRY(tp_column_backward_input(tp, stream, &b->fc, keep->fc, N, F, C)); /* (R, C) */
    TRY(norm_backward(r, d, &b->ln2, stream, a->mid, a->ln2_stat, GRAD_ADD));
    TRY(keep_dropped(r, keep->proj, d, DROP_RESIDUAL, u, batch));
    TRY(tp_row_backward_input(tp, stream, &b->proj, keep->proj, N, C, C)); /* (N, C/tp) */
    TRY(attention_backward(r, keep->qkv, stream, a->qkv, a->att, a->lse,
                           dropout_of(r, DROP_ATTENTION, u->index, batch, &drop)));
    TRY(rebuild_norm(r, a->ln1, a->ln1_stat, &b->ln1, x));
    TRY(tp_column_backward_input(tp, stream, &b->qkv, keep->qkv, N, 3 * C, C)); /* (R, C) */
    TRY(norm_backward(r, d, &b->ln1, stream, x, a->ln1_stat, GRAD_ADD));
    return TRINE_OK;
}

trine_status block_backward_weight(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *acts,
                                   const gpt_keep *keep) {
    const tp_region *tp = r->tp;
    const gpt_block *b = &u->block;
    const gpt_block_acts own = kept_acts(acts, keep), *a = &own;
    size_t N = r->shape->B * r->shape->T, C = r->shape->C, F = r->shape->F;
    TRY(rebuild_gelu(r, a));
    TRY(tp_row_backward_weight(tp, &b->out, keep->out, a->gelu, N, C, F));
    TRY(tp_column_backward_weight(tp, &b->fc, keep->fc, a->ln2, N, F, C));
    TRY(tp_row_backward_weight(tp, &b->proj, keep->proj, a->att, N, C, C));
    TRY(tp_column_backward_weight(tp, &b->qkv, keep->qkv, a->ln1, N, 3 * C, C));
    return TRINE_OK;
}
