/* The model: GPT-2 as units (embedding, blocks, head), their tensors, and forward and backward of
 * each. Unit 0 is the embedding, units 1..L are blocks, unit L+1 is the head.
 *
 * The model knows no communicator, no rank and no ZeRO stage: who talks to whom inside a layer is
 * the business of tp/, and whoever runs a unit has pointed its parameters and gradients at memory
 * before the call (gpt_bind_params, gpt_bind_grads). Nor does it know the element type: activations
 * and parameters are `void *` in the device's compute type.
 *
 * Outside of the tp regions an activation has R rows: the micro-batch's N = B T, or with sequence
 * parallelism this tp rank's share of them (tp/tp.h). The head computes its loss where its gradient is
 * made, a chunk of rows at a time, so that no more than a chunk of logits ever exists, and none
 * outlives the call.
 *
 * Invariant: backward sets parameter gradients or adds to them, as they were bound, and turns the
 * gradient of the residual stream in place from dy into dx. Recomputation changes no bit: what is
 * rebuilt is made by the same calls from the same numbers. Cost: 2 flops a parameter and token
 * forward, 4 backward, plus attention; recomputation full: the forward pass of the blocks again, but
 * for the last product of each. Radford et al. 2019 (GPT-2); Shoeybi et al., "Megatron-LM", 2019,
 * section 3; Korthikanti et al., "Reducing activation recomputation in large transformer models",
 * MLSys 2023. */
#ifndef TRINE_MODEL_GPT_H
#define TRINE_MODEL_GPT_H

#include "base/arena.h"
#include "core/flat.h"
#include "device/device.h"
#include "state/step.h"
#include "tp/tp.h"

/* Sizes, as one tp rank sees them. */
typedef struct {
    size_t B, T, C, H, F, L; /* micro-batch, sequence, hidden, heads, MLP width, layers: global */
    size_t V;                /* vocabulary, without padding */
    size_t row_multiple;     /* of its rows on a tp rank: the device's; 0: 1 */
    bool untied;
    int tp, tp_rank;
    trine_dtype compute, grads; /* of bound parameters and their gradients: the device's */
    bool sequence; /* parallelism: between the tp regions a rank has its share of the rows */
    trine_recompute recompute;
    size_t loss_rows; /* rows whose logits exist at one time, 1 .. B T; 0: all */
    double hidden_dropout, attention_dropout;
} gpt_shape;

/* K: rows of a chunk of logits. Pure. */
size_t gpt_loss_rows(const gpt_shape *s);
/* Its rows of the vocabulary. Pure. */
tp_vocab gpt_vocab(const gpt_shape *s);
/* The rows that this tp rank has between the tp regions: R of them. Pure. */
tp_rows gpt_rows(const gpt_shape *s);

typedef enum { UNIT_EMBEDDING, UNIT_BLOCK, UNIT_HEAD } unit_kind;

int gpt_unit_count(const gpt_shape *s); /* L + 2 */
/* What a unit is to the passes, by the spec's number of units and `tied`. Pure. */
unit_facts gpt_facts(const program_spec *s, int unit);
/* Sets what a spec has from the model: units, facts, tied. Pure. */
void gpt_spec(const trine_model *m, program_spec *spec);
/* Forward flops a token of a unit, with causal attention over sequences of T tokens; of the embedding, which
 * multiplies nothing, what it moves. Pure. */
double gpt_unit_cost(const trine_model *m, int T, int unit);
/* Flops of a training step a token: 6 per matmul weight, 6 L C T for causal attention
 * (Narayanan et al. 2021, appendix, without recomputation). Pure. */
double gpt_flops_per_token(const trine_model *m);
unit_kind gpt_unit_kind(const gpt_shape *s, int unit);

/* The tensors of a unit and their places, for `dp` slices. Embedding: ranges {wte}, {wpe}. Block:
 * one range. Head: ranges {wte if tied, lm_head if untied}, {ln_f}. Names are GPT-2's:
 * "wte.weight", "h.3.attn.c_attn.weight", "ln_f.bias", "lm_head.weight"; matrices are (out, in).
 * Pure. */
void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out);

typedef struct {
    param gain, bias;
} gpt_norm;

typedef struct {
    param token, position; /* (Vp/tp, C), (T, C); Vp = V rounded up to tp times row_multiple */
} gpt_embedding;

typedef struct {
    gpt_norm ln1;
    tp_linear qkv, proj; /* (3C/tp, C), (C, C/tp) */
    gpt_norm ln2;
    tp_linear fc, out; /* (F/tp, C), (C, F/tp) */
} gpt_block;

typedef struct {
    param token; /* (Vp/tp, C) */
    gpt_norm norm;
} gpt_head;

/* A unit with its tensors bound to memory. */
typedef struct {
    unit_kind kind;
    int index;
    union {
        gpt_embedding embedding;
        gpt_block block;
        gpt_head head;
    };
} gpt_unit;

/* Points the unit's weights (gradients) at ranges that start at base[i]; the other half of every
 * parameter stays as it is. With GRAD_SET the next backward pass writes every element of every
 * tensor, but nothing of a vocabulary's padding rows or between tensors. Not collective. */
void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]);
void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode);

/* What one block's forward pass keeps for its backward pass, for one micro-batch; N = B T rows, of
 * which R are this rank's outside of the tp regions. */
typedef struct {
    void *ln1;       /* (R, C) */
    float *ln1_stat; /* (R, 2) */
    void *qkv;       /* (N, 3C/tp) */
    void *att;       /* (N, C/tp) */
    float *lse;      /* (B, H/tp, T) */
    void *mid;       /* (R, C) */
    void *ln2;       /* (R, C) */
    float *ln2_stat; /* (R, 2) */
    void *fc, *gelu; /* (N, F/tp) */
} gpt_block_acts;

/* The head's, of a chunk of K = loss_rows rows but for the first; nothing is kept between passes. */
typedef struct {
    float *stat;  /* (R, 2) */
    void *logits; /* (K, Vp/tp) */
    tp_xent xent; /* (K), (K, 2), (K) */
} gpt_head_acts;

/* What a block's BACKWARD_INPUT leaves for its BACKWARD_WEIGHT, which needs no parameters. */
typedef struct {
    void *out;   /* (R, C): gradient of the MLP's output, behind its dropout */
    void *fc;    /* (N, F/tp): gradient of what the GELU was given */
    void *proj;  /* (R, C): gradient of the attention's output, behind its dropout */
    void *qkv;   /* (N, 3C/tp): gradient of queries, keys and values */
    void *norms; /* (4, C) gradients of gains and biases; NULL where they accumulate at rest */
    gpt_block_acts rebuilt; /* with recomputation: ln1, ln2; in full att and fc, too; else NULLs */
} gpt_keep;

/* Buffers that one call uses and none needs afterwards, shared by all units of a rank. */
typedef struct {
    void *hidden;    /* (N, max(3C, F)/tp): gradients inside a half-block */
    void *stream;    /* (R, C): a norm's output or its gradient; (N, C/tp): the attention's gradient */
    void *whole;     /* (N, C): tp_region's; NULL without sequence parallelism */
    void *dropped;   /* (R, C): a gradient behind a dropout; NULL without */
    void *attention; /* ops->attention_workspace bytes */
    gpt_block_acts block; /* what recomputation rebuilds, one block's; NULL what is kept */
    gpt_head_acts head;   /* NULLs where the rank has no head */
} gpt_scratch;

/* Declares or takes the scratch of a rank that holds units [first, last] (MEM_WORKSPACE). */
void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, int first, int last,
                      gpt_scratch *out);

/* Declares or takes what the unit keeps of one micro-batch (MEM_ACTIVATIONS): of a block what is not
 * in scratch->block, whose pointers complete *out; nothing of embedding and head. */
void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit,
                   const gpt_scratch *scratch, gpt_block_acts *out);

/* Declares or takes a keep buffer (MEM_ACTIVATIONS); norms: they do not accumulate at rest. */
void gpt_keep_take(arena *a, const gpt_shape *s, const device *d, bool norms, gpt_keep *out);

/* One micro-batch. */
typedef struct {
    const int32_t *tokens, *targets; /* (B, T); only the embedding reads tokens, the head targets */
    uint64_t sample;   /* number of its first sample in the whole run: what dropout is keyed by */
    double scale;      /* of the loss: 1 / tokens in the global batch */
    double grad_scale; /* of its gradient: the same times the loss scale */
    double *loss; /* += this micro-batch's share of the mean loss; the same on every tp rank */
} gpt_batch;

/* What a unit runs on; everything in it is borrowed. */
typedef struct {
    device *dev;
    const tp_region *tp;
    const gpt_shape *shape;
    gpt_scratch scratch;
    uint64_t seed; /* of dropout */
    bool training; /* with dropout; the head's loss comes with its gradient */
} gpt_run;

/* y (R, C) = unit(x (R, C)). The embedding ignores x. The head ignores y: it adds to *batch->loss in
 * an evaluation, and does nothing in training, where gpt_backward will. a: a block's. Collective
 * over: tp. */
trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *y,
                         const void *x, const gpt_batch *batch);

/* d (R, C) is dy on entry and dx on return (the head only sets it, the embedding uses it up);
 * parameter gradients (+)=. x is the forward pass's input. The head adds to *batch->loss.
 * Collective over: tp. */
trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *d,
                          const void *x, const gpt_batch *batch);

/* ---- As a state and its instructions have it -------------------------------------------------- */

/* `s` must outlive it. Pure. */
state_model gpt_state_model(const gpt_shape *s);

/* FORWARD, BACKWARD, BACKWARD_INPUT and BACKWARD_WEIGHT. Errors: the operators' and the transport's own.
 * Collective over: tp. */
trine_status gpt_run_instr(step_run *r, const instr *i);
/* Bytes that they hand to the tp group. Pure. */
uint64_t gpt_instr_bytes(const rank_state *s, const program *p, const instr *i);

#endif
