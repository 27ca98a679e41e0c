/* The model: its units (embedding, blocks, head), each a list of layers (list.h), their tensors, and the forward and
 * backward pass of each unit. Unit 0 is the embedding, units 1..L are blocks, unit L+1 is the head.
 *
 * This module uses no communicator, rank or ZeRO stage. Communication inside a layer is in src/tp, and the caller
 * binds parameters and gradients to memory before it runs a unit (gpt_bind_params, gpt_bind_grads). Nor does it
 * depend on the element type: activations and parameters are `void *` in the device's compute type.
 *
 * Outside tp regions an activation has R rows: the N = B T rows of the micro-batch, or with sequence parallelism
 * this tp rank's share of them (tp/tp.h). The head computes its loss together with the gradient, one row chunk at a
 * time.
 *
 * Invariant: backward sets parameter gradients or adds to them, as they were bound, and replaces the gradient of the
 * residual stream dy by dx in place. Recomputation changes no bit: values are recomputed by the same calls from the
 * same inputs. Cost: 2 flops per parameter and token forward, 4 backward, plus attention; full recomputation: the
 * forward pass of the blocks again, except the last matmul of each. Shoeybi et al., "Megatron-LM", 2019, section 3;
 * Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023. */
#ifndef TRINE_MODEL_GPT_H
#define TRINE_MODEL_GPT_H

#include "base/arena.h"
#include "core/flat.h"
#include "model/list.h"
#include "state/step.h"

/* The facts about a unit that the passes need, from the number of units, `tied` and `starts` of the spec. Pure. */
unit_facts gpt_facts(const program_spec *s, int unit);
/* Sets the members of a spec that depend on the model: units, facts, tied; no unit reads starts. Pure. */
void gpt_spec(const trine_model *m, program_spec *spec);
/* Sets those that depend on tp: tp_partial, tp_part. The family's lists must be valid. Pure. */
void gpt_spec_tp(const trine_model *m, int tp, bool sequence, program_spec *spec);
/* Sets the units that read where documents start, if attention, if positions begin anew in each. Pure. */
void gpt_spec_starts(const trine_model *m, bool attention, bool positions, program_spec *spec);
/* Forward flops per token of a unit, with causal attention over sequences of T tokens. For the embedding, which has
 * no matmul, the elements that it moves. The family's lists must be valid. Pure. */
double gpt_unit_cost(const trine_model *m, int T, int unit);
/* Flops per token of a training step: 6 per matmul weight, 6 L C T for causal attention
 * (Narayanan et al. 2021, appendix, without recomputation); 4 per weight that is frozen, and forward ones alone below
 * the lowest unit with something trained. Pure. */
double gpt_flops_per_token(const trine_model *m);
/* Number of parameters; a tied matrix counts once. Pure. */
double gpt_parameters(const trine_model *m);
/* Those of its low-rank adapters among them. Pure. */
double gpt_adapter_parameters(const trine_model *m);

/* Checks the rules of trine_model.h. Errors: TRINE_EINVAL. Pure. */
trine_status gpt_check_family(const trine_model *m);
/* Checks trine_model.trained: each pattern matches a tensor, some tensor is trained, and matrices that a layer reads
 * as one, such as queries, keys and values, are trained together. The sizes are valid. Errors: TRINE_EINVAL names the
 * pattern or the tensors. Pure. */
trine_status gpt_check_trained(const trine_model *m);
/* Whether one of the patterns that train, or that freeze, changes nothing; `text` says which, as an error. The model
 * passes gpt_check_trained. Pure. */
bool gpt_idle_pattern(const trine_model *m, bool trains, char *text, size_t size);
/* Checks that tp ranks can share the heads and the MLP; the sizes are valid. Errors: TRINE_EINVAL with the option
 * that says how many. Pure. */
trine_status gpt_check_tp(const trine_model *m, const char *option, int tp);
/* Prints the lists with the shapes, tensors and communication of one tp rank. Errors: TRINE_EINVAL. Not collective.
 */
trine_status gpt_print_lists(const gpt_shape *s, FILE *out);

/* The tensors of a unit and their offsets, for `dp` slices. The token matrix is range 0 by itself; the other tensors
 * of an embedding or head are range 1, or 2 if they are frozen; those of a block are range 0, or 1. Names are those
 * of the lists, in block 3 with "h.3." before them; the matrix of a tied head has the embedding's name. Matrices are
 * (out, in). Pure. */
void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out);

/* The unsharded tensors of a model as stored in files: the embedding's, the head's, the blocks'. A tied matrix is
 * stored once. Accepts any sizes, also those of untrusted files. Pure. */
size_t gpt_tensor_count(const trine_model *m);
tensor gpt_tensor(const trine_model *m, size_t index);

/* A unit with its tensors bound to memory, in list order. */
typedef struct {
    int index;
    param params[LIST_TENSORS];
    const char *small; /* gpt_keep.small of the last BACKWARD_INPUT whose BACKWARD_WEIGHT has not run; NULL: none */
} gpt_unit;

/* Binds the unit's weights (gradients) to ranges that start at base[i]; the gradient (weight) pointers
 * are left unchanged. Of a frozen tensor the gradient is NULL. With GRAD_SET the next backward pass writes every
 * element of every other tensor, but neither the padding rows of the vocabulary nor the gaps between tensors. Not
 * collective. */
void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]);
void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode);
/* Which of the unit's parameters are trained, as they are numbered in gpt_unit. Pure. */
void gpt_trained_params(const gpt_shape *s, int unit, const flat_unit *layout, bool trained[LIST_TENSORS]);

/* The memory of a unit's values for one micro-batch, and the aux of its layers. NULL for the unit's input and output,
 * and for values and aux that do not exist. */
typedef struct {
    void *value[LIST_VALUES];
    void *aux[LIST_LAYERS];
} gpt_acts;

/* The data that BACKWARD_INPUT of a block leaves for its BACKWARD_WEIGHT, which reads no parameters. */
typedef struct {
    void *grad[LIST_LAYERS];  /* gradients of the outputs of layers that have weights */
    void *value[LIST_VALUES]; /* with recomputation the inputs of these layers; else NULLs */
    void *up[LIST_LAYERS]; /* tp_lora.up of layers with adapters */
    void *small; /* gradients of the other tensors; NULL if they accumulate at rest */
} gpt_keep;

/* The lists and scratch buffers of a rank; but for `rope` the contents of a buffer are not used after the call. */
typedef struct {
    unit_list lists[UNIT_KINDS];
    void *buffers[LIST_BUFFERS]; /* gradients inside a unit, and values that no backward pass reads */
    void *full, *sum;           /* (N, C): tp_region's; NULL without sequence parallelism */
    void *addends;              /* (P, N, C): tp_region's, as `wide`; NULL without parts */
    float *wide;                /* (N, C) */
    void *dropped;               /* (R, C): a gradient after a dropout; NULL without dropout */
    void *workspace;             /* the largest that any kind of layer requires */
    void *rebuilt[UNIT_KINDS][LIST_BUFFERS]; /* recomputed values of one unit; NULLs if the rank has no
                                                such unit */
    void *aux[UNIT_KINDS][LIST_BUFFERS];
    gpt_loss_scratch loss; /* NULLs if the rank has no head */
    float *rope;           /* rotary positions, written once (rope_write); NULL: no layer reads them */
} gpt_scratch;

/* Declares or takes the scratch of a rank that has units of these kinds (MEM_WORKSPACE). The family's lists must be
 * valid. */
void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, const bool has[UNIT_KINDS],
                      gpt_scratch *out);

/* Declares or takes the kept values of one micro-batch of a unit (MEM_ACTIVATIONS); the other pointers
 * of *out are set to the scratch. */
void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit,
                   const gpt_scratch *scratch, gpt_acts *out);

/* Declares or takes a keep buffer (MEM_ACTIVATIONS); small: gradients of small tensors do not accumulate at rest. */
void gpt_keep_take(arena *a, const gpt_shape *s, const device *d, bool small, gpt_keep *out);

/* The arguments of every unit; everything in it is borrowed. */
typedef struct {
    device *dev;
    const tp_region *tp;
    const gpt_shape *shape;
    const gpt_scratch *scratch;
    uint64_t seed; /* of dropout */
    bool training; /* with dropout; the loss is computed together with its gradient */
} gpt_run;

/* y (R, C) = unit(x (R, C)). The embedding ignores x. The head ignores y: it adds to *batch->loss in an
 * evaluation and does nothing in training, where gpt_backward computes the loss. Collective over: tp. */
trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *y, void *x,
                         const gpt_batch *batch);

/* d (R, C) is dy on entry and dx on return (the head only sets it, the embedding only reads it and
 * may overwrite it); parameter gradients (+)=. x is the input of the forward pass. The head adds to *batch->loss.
 * Collective over: tp. */
trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *d, void *x,
                          const gpt_batch *batch);

/* The two parts of a block's backward pass. The first replaces dy by dx in d and computes the gradients of small
 * tensors; the second computes those of matrices and their biases. Collective over: tp. */
trine_status gpt_backward_input(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                const gpt_keep *keep, void *d, void *x, const gpt_batch *batch);
trine_status gpt_backward_weight(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                 const gpt_keep *keep, void *x, const gpt_batch *batch);

/* ---- Interface to rank state ------------------------------------------------------------------ */

/* `s` must outlive it. Pure. */
state_model gpt_state_model(const gpt_shape *s);

#endif
