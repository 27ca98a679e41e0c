/* The layers of a unit that talk to nobody: norm, attention, GELU and dropout on the rows of one
 * micro-batch, with their sizes taken from the run. What talks over tp is in tp/tp.h, and reads the
 * same way, so that a block is one line per layer.
 *
 * Invariant: sizes are this rank's share: H/tp heads, F/tp hidden columns of all N = B T rows inside
 * a tp region, R rows of the residual stream between them. Cost: one operator each. Radford et al.
 * 2019 (GPT-2), section 2.3. */
#ifndef TRINE_MODEL_LAYER_H
#define TRINE_MODEL_LAYER_H

#include "model/gpt.h"

/* y (R, C) = norm of x (R, C); stat (R, 2) is kept. Not collective. */
trine_status norm_forward(const gpt_run *r, void *y, float *stat, const gpt_norm *n, const void *x);
/* dx (R, C) (+)= gradient through the norm of dy (R, C), as `stream` says; dgain, dbias (+)=.
 * Not collective. */
trine_status norm_backward(const gpt_run *r, void *dx, const gpt_norm *n, const void *dy,
                           const void *x, const float *stat, grad_mode stream);

/* att (N, C/tp), lse (B, H/tp, T) = causal attention of qkv (N, 3C/tp). Not collective. */
trine_status attention_forward(const gpt_run *r, void *att, float *lse, const void *qkv,
                               const dropout_args *drop);
/* dqkv (N, 3C/tp) = gradient through the attention of datt (N, C/tp). Not collective. */
trine_status attention_backward(const gpt_run *r, void *dqkv, const void *datt, const void *qkv,
                                const void *att, const float *lse, const dropout_args *drop);

/* y (N, F/tp) = gelu(x). Not collective. */
trine_status gelu_forward(const gpt_run *r, void *y, const void *x);
/* d (N, F/tp) turns from dy into dx. Not collective. */
trine_status gelu_backward(const gpt_run *r, void *d, const void *x);

/* Where a model drops; each is keyed by the name of its place: "wte.dropout", "h.3.attn.dropout"
 * (probabilities), "h.3.attn.resid_dropout", "h.3.mlp.dropout". */
typedef enum { DROP_EMBEDDING, DROP_ATTENTION, DROP_RESIDUAL, DROP_MLP } dropout_place;

/* Fills *out for this rank's rows, or heads, of the micro-batch, and returns it; NULL if nothing is
 * dropped. Pure. */
const dropout_args *dropout_of(const gpt_run *r, dropout_place place, int unit,
                               const gpt_batch *batch, dropout_args *out);
/* *dx (R, C) = dy (R, C) through the dropout, which is dy itself if nothing is dropped. Uses
 * scratch.dropped. Not collective. */
trine_status dropout_backward(const gpt_run *r, const void **dx, const void *dy,
                              dropout_place place, int unit, const gpt_batch *batch);

#endif
