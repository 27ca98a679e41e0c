/* The layers of a unit that talk to nobody: norm, attention and GELU on the rows of one
 * micro-batch, with their sizes taken from the run. What talks over tp is in tp/tp.h, and reads the
 * same way, so that a block is one line per layer.
 *
 * Invariant: sizes are this rank's share (H/tp heads, F/tp hidden columns); the residual stream is
 * whole, (N, C), N = B*T. Cost: one operator each. Radford et al. 2019 (GPT-2), section 2.3. */
#ifndef TRINE_MODEL_LAYER_H
#define TRINE_MODEL_LAYER_H

#include "model/gpt.h"

/* y (N, C) = norm of x (N, C); stat (N, 2) is kept. Not collective. */
trine_status norm_forward(const gpt_run *r, void *y, float *stat, const gpt_norm *n, const void *x);
/* dx (N, C) (+)= gradient through the norm of dy (N, C), as `stream` says; dgain, dbias (+)=.
 * Not collective. */
trine_status norm_backward(const gpt_run *r, void *dx, const gpt_norm *n, const void *dy,
                           const void *x, const float *stat, grad_mode stream);

/* att (N, C/tp), lse (B, H/tp, T) = causal attention of qkv (N, 3C/tp). Not collective. */
trine_status attention_forward(const gpt_run *r, void *att, float *lse, const void *qkv);
/* dqkv (N, 3C/tp) = gradient through the attention of datt (N, C/tp). Not collective. */
trine_status attention_backward(const gpt_run *r, void *dqkv, const void *datt, const void *qkv,
                                const void *att, const float *lse);

/* y (N, F/tp) = gelu(x). Not collective. */
trine_status gelu_forward(const gpt_run *r, void *y, const void *x);
/* d (N, F/tp) turns from dy into dx. Not collective. */
trine_status gelu_backward(const gpt_run *r, void *d, const void *x);

#endif
