/* A unit's list of layers after resolving: values by number instead of by name, the memory of each value, what the
 * backward pass reads, what is recomputed for it, and the memory of the gradient of each value. All properties of a
 * model are derived from this.
 *
 * A value is stored in the unit's input or output, in the slot (kept from forward to backward), or in a scratch
 * buffer. With recomputation, values that are not kept have scratch memory (`rebuilt`) and are recomputed.
 *
 * Gradients exist within one backward pass. The gradient of the stream is updated in place in the activation-gradient
 * buffer d: it enters as the gradient of "y", passes unchanged to whatever a layer adds to its output, and leaves as
 * the gradient of "x". The gradient of any other value lives from the first layer in backward order that writes it to
 * the layer that consumes it. These gradients share as few buffers as their lifetimes allow, the largest first.
 *
 * Invariant: everything here is a function of the list and the sizes. Cost: quadratic in the length of the list. */
#ifndef TRINE_MODEL_LIST_H
#define TRINE_MODEL_LIST_H

#include <stdio.h>

#include "model/kind.h"

#define LIST_LAYERS  TRINE_LAYER_ROWS
#define LIST_VALUES  (LIST_LAYERS + 1)
#define LIST_BUFFERS (2 * LIST_VALUES) /* most buffers of a kind of unit: each value and its gradient */
#define LIST_TENSORS (FLAT_TENSORS * FLAT_RANGES)

typedef enum {
    VALUE_INPUT,  /* the unit's input */
    VALUE_OUTPUT, /* the unit's output */
    VALUE_KEPT,   /* in the slot, from forward to backward */
    VALUE_REBUILT, /* in scratch, recomputed for the backward pass */
    VALUE_BUFFER, /* in a scratch buffer: no backward pass reads it */
    VALUE_ALIAS   /* in the memory of the output of its reader, which works in place */
} value_place;

typedef struct {
    const char *name;
    value_shape shape;
    size_t width;    /* columns over all tp ranks */
    int parts;       /* stacked matrices in them, each split over tp by itself: 3 for queries, keys and values */
    int writer;      /* the layer that writes it; -1: it is the unit's input */
    int last_reader; /* the last layer that reads it in the forward pass; -1: none */
    value_place place;
    int at;          /* VALUE_REBUILT, VALUE_BUFFER: index of the buffer; VALUE_ALIAS: the other value */
    bool peers;      /* other tp ranks read it in place */
    bool for_weight; /* VALUE_REBUILT: BACKWARD_INPUT leaves it for BACKWARD_WEIGHT */
    /* VALUE_REBUILT: the layers before whose backward, backward_input and backward_weight it is recomputed; -1:
     * none. */
    int rebuild_full, rebuild_input, rebuild_weight;
} list_value;

/* The place of a gradient. */
typedef struct {
    enum { GRAD_NOWHERE, GRAD_STREAM, GRAD_BUFFER } place; /* none; d; a scratch buffer */
    int buffer;
    int keep; /* in a split backward pass: the layer whose keep buffer holds it instead; -1: none */
} grad_ref;

/* dst += src after a layer's backward pass; GRAD_NOWHERE: nothing. */
typedef struct {
    grad_ref dst, src;
    int value; /* the value whose gradients they are */
} grad_sum;

typedef struct {
    const trine_layer *row;
    const layer_kind *kind;
    int in[TRINE_LAYER_INPUTS], out; /* values; -1: none */
    int tensor;                      /* index of its first tensor in the unit */
    int aux;                         /* which of `rebuilt` holds its aux; -1: the slot */
    bool rerun;                      /* full recomputation runs its forward pass again */
    grad_ref out_grad, in_grad[TRINE_LAYER_INPUTS];
    grad_mode mode[TRINE_LAYER_INPUTS];
    grad_sum sums[TRINE_LAYER_INPUTS];
} list_layer;

/* A buffer: elements, additional bytes for aux, and whether tp peers read it. */
typedef struct {
    size_t elements, aux;
    bool peers;
} list_buffer;

typedef struct unit_list {
    list_layer layers[LIST_LAYERS];
    int count;
    list_value values[LIST_VALUES];
    int value_count;
    int input, output; /* values; -1: an embedding has no input, a head no output */
    grad_ref input_grad;
    bool makes_loss;   /* its forward pass runs within its backward pass */
    list_buffer buffers[LIST_BUFFERS], rebuilt[LIST_BUFFERS];
    int buffer_count, rebuilt_count;
} unit_list;

/* Errors: TRINE_EINVAL with the row that breaks a rule of trine_model.h. Pure. */
trine_status list_resolve(unit_list *l, const gpt_shape *s, unit_kind kind);

/* The same for a list that gpt_check_family has accepted. */
void list_resolve_valid(unit_list *l, const gpt_shape *s, unit_kind kind);

/* The number of layer inputs that read the value. Pure. */
int list_readers(const unit_list *l, int value);
/* The first layer that writes the memory of a value: the writer of the value that it overwrites, or its own. Pure. */
int list_first_writer(const unit_list *l, int value);
/* The output of the only reader of a value, if the reader overwrites the value; else -1. Pure. */
int list_over(const unit_list *l, int value);
/* Columns over all tp ranks of a layer's in[0], and of its output. Pure. */
size_t list_width_in(const unit_list *l, const list_layer *at);
size_t list_width(const unit_list *l, const list_layer *at);
/* Rows of a value, and its elements on this rank, in all parts. Pure. */
size_t list_rows(const unit_list *l, int value, const gpt_shape *s);
size_t list_elements(const unit_list *l, int value, const gpt_shape *s);
/* Bytes of workspace that its calls use. Pure. */
size_t list_workspace(const device *d, const gpt_shape *s, const unit_list *l, const list_layer *at);
/* Whether its backward pass has two parts. */
static inline bool list_splits(const list_layer *at) {
    return at->kind->backward_weight != NULL;
}
/* Elements of a small tensor, one of a layer whose backward pass is not split. Pure. */
size_t list_small(const kind_tensor *k, const gpt_shape *s);

#endif
