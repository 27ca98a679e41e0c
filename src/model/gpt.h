/* The model: units (embedding, blocks, head), each a list of layers (list.h), their tensors, and forward and backward
 * of each. Unit 0 is the embedding, units 1..L are blocks, unit L+1 is the head.
 *
 * The model knows no communicator, no rank and no ZeRO stage: who talks to whom inside a layer is the business of tp/,
 * and whoever runs a unit has pointed its parameters and gradients at memory before the call (gpt_bind_params,
 * gpt_bind_grads). Nor does it know the element type: activations and parameters are `void *` in the device's compute
 * type.
 *
 * Outside of the tp regions an activation has R rows: the micro-batch's N = B T, or with sequence parallelism this tp
 * rank's share of them (tp/tp.h). The head computes its loss where its gradient is made, a chunk of rows at a time.
 *
 * Invariant: backward sets parameter gradients or adds to them, as they were bound, and turns the gradient of the
 * residual stream in place from dy into dx. Recomputation changes no bit: what is rebuilt is made by the same calls from
 * the same numbers. Cost: 2 flops a parameter and token forward, 4 backward, plus attention; recomputation full: the
 * forward pass of the blocks again, but for the last product of each. Shoeybi et al., "Megatron-LM", 2019, section 3;
 * Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023. */
#ifndef TRINE_MODEL_GPT_H
#define TRINE_MODEL_GPT_H

#include "base/arena.h"
#include "core/flat.h"
#include "model/list.h"
#include "state/step.h"

/* What a unit is to the passes, by the spec's number of units and `tied`. Pure. */
unit_facts gpt_facts(const program_spec *s, int unit);
/* Sets what a spec has from the model: units, facts, tied. Pure. */
void gpt_spec(const trine_model *m, program_spec *spec);
/* Forward flops a token of a unit, with causal attention over sequences of T tokens; of the embedding, which
 * multiplies nothing, what it moves. The family's lists are valid. Pure. */
double gpt_unit_cost(const trine_model *m, int T, int unit);
/* Flops of a training step a token: 6 per matmul weight, 6 L C T for causal attention
 * (Narayanan et al. 2021, appendix, without recomputation). Pure. */
double gpt_flops_per_token(const trine_model *m);
/* Parameters, a tied matrix once. Pure. */
double gpt_parameters(const trine_model *m);

/* The rules of trine_model.h. Errors: TRINE_EINVAL. Pure. */
trine_status gpt_check_family(const trine_model *m);
/* The lists with shapes, tensors, and what is sent, as one rank of tp sees them. Errors: TRINE_EINVAL. Not
 * collective. */
trine_status gpt_print_lists(const gpt_shape *s, FILE *out);

/* The tensors of a unit and their places, for `dp` slices. The token matrix is a range of its own, 0; what an
 * embedding or a head has beside it is range 1; a block is one range. Names are those of the lists, a block's behind
 * "h.3."; a tied head's matrix has the embedding's. Matrices are (out, in). Pure. */
void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out);

/* The range of a tensor. Pure. */
int gpt_range_of(unit_kind kind, const kind_tensor *k);

/* The tensors of a model as files have them, whole: the embedding's, the head's, the blocks'. A tied matrix is
 * there once. For any sizes, also of files that are not trusted. Pure. */
size_t gpt_tensor_count(const trine_model *m);
tensor gpt_tensor(const trine_model *m, size_t index);

/* A unit with its tensors bound to memory, in the order of its list. */
typedef struct {
    int index;
    param params[LIST_TENSORS];
} gpt_unit;

/* Points the unit's weights (gradients) at ranges that start at base[i]; the other half of every
 * parameter stays as it is. With GRAD_SET the next backward pass writes every element of every
 * tensor, but nothing of a vocabulary's padding rows or between tensors. Not collective. */
void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]);
void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode);

/* Where the values of a unit lie, of one micro-batch, and what layers keep beside their outputs. NULL: the unit's
 * input and output, and what is not there. */
typedef struct {
    void *value[LIST_VALUES];
    void *aux[LIST_LAYERS];
} gpt_acts;

/* What a block's BACKWARD_INPUT leaves for its BACKWARD_WEIGHT, which needs no parameters. */
typedef struct {
    void *grad[LIST_LAYERS];  /* the gradients of the outputs of layers that have weights */
    void *value[LIST_VALUES]; /* with recomputation what weights are multiplied with; else NULLs */
    void *small; /* gradients of the other tensors; NULL where they accumulate at rest */
} gpt_keep;

/* What a rank runs its units on: the lists, and buffers that one call uses and none needs afterwards. */
typedef struct {
    unit_list lists[UNIT_KINDS];
    void *buffers[LIST_BUFFERS]; /* gradients inside a unit, and values that no backward pass reads */
    void *whole;                 /* (N, C): tp_region's; NULL without sequence parallelism */
    void *dropped;               /* (R, C): a gradient behind a dropout; NULL without */
    void *workspace;             /* the largest that a kind of layer asks for */
    void *rebuilt[UNIT_KINDS][LIST_BUFFERS]; /* what recomputation rebuilds, one unit's; NULLs where the
                                                rank has no such unit */
    void *aux[UNIT_KINDS][LIST_BUFFERS];
    gpt_loss_scratch loss; /* NULLs where the rank has no head */
} gpt_scratch;

/* Declares or takes the scratch of a rank that holds units [first, last] (MEM_WORKSPACE). The family's lists are
 * valid. */
void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, int first, int last,
                      gpt_scratch *out);

/* Declares or takes what the unit keeps of one micro-batch (MEM_ACTIVATIONS); the scratch's pointers
 * complete *out. */
void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit,
                   const gpt_scratch *scratch, gpt_acts *out);

/* Declares or takes a keep buffer (MEM_ACTIVATIONS); small: those gradients do not accumulate at rest. */
void gpt_keep_take(arena *a, const gpt_shape *s, const device *d, bool small, gpt_keep *out);

/* What a unit runs on; everything in it is borrowed. */
typedef struct {
    device *dev;
    const tp_region *tp;
    const gpt_shape *shape;
    const gpt_scratch *scratch;
    uint64_t seed; /* of dropout */
    bool training; /* with dropout; the head's loss comes with its gradient */
} gpt_run;

/* y (R, C) = unit(x (R, C)). The embedding ignores x. The head ignores y: it adds to *batch->loss in
 * an evaluation, and does nothing in training, where gpt_backward will. Collective over: tp. */
trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *y, void *x,
                         const gpt_batch *batch);

/* d (R, C) is dy on entry and dx on return (the head only sets it, the embedding uses it up);
 * parameter gradients (+)=. x is the forward pass's input. The head adds to *batch->loss.
 * Collective over: tp. */
trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *d, void *x,
                          const gpt_batch *batch);

/* The two parts of a block's: d turns from dy into dx, and gradients of small tensors are made; then those of
 * matrices and their biases. Collective over: tp. */
trine_status gpt_backward_input(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                const gpt_keep *keep, void *d, void *x, const gpt_batch *batch);
trine_status gpt_backward_weight(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                 const gpt_keep *keep, void *x, const gpt_batch *batch);

/* ---- As a state and its instructions have it -------------------------------------------------- */

/* `s` must outlive it. Pure. */
state_model gpt_state_model(const gpt_shape *s);

/* FORWARD, BACKWARD, BACKWARD_INPUT and BACKWARD_WEIGHT. Errors: the operators' and the transport's own.
 * Collective over: tp. */
trine_status gpt_run_instr(step_run *r, const instr *i);
/* Bytes that they hand to the tp group. Pure. */
uint64_t gpt_instr_bytes(const rank_state *s, const program *p, const instr *i);

#endif
