/* A unit's list of layers, resolved: values by number instead of by name, where each lies, what the backward pass
 * reads, what is made again for it, and where the gradient of each value is. All that a model says of itself is asked of
 * this.
 *
 * A value lies in the unit's input or output, in what a slot keeps between forward and backward, or in a buffer of the
 * scratch. With recomputation what is not kept has room in the scratch (`rebuilt`) and is made again.
 *
 * Gradients are made and used up within one backward pass. That of the stream is worked on in place: "y"'s comes in as d,
 * what a layer adds to its output hands it on, and so it leaves as "x"'s. Those of other values live from the first
 * layer, going back, that writes them to the one that uses them up, in as few buffers as their lives allow, the largest
 * first.
 *
 * Invariant: everything here is a function of the list and of the sizes. Cost: the square of a list's length. */
#ifndef TRINE_MODEL_LIST_H
#define TRINE_MODEL_LIST_H

#include <stdio.h>

#include "model/kind.h"

#define LIST_LAYERS  TRINE_LAYER_ROWS
#define LIST_VALUES  (LIST_LAYERS + 1)
#define LIST_BUFFERS (2 * LIST_VALUES) /* of a kind, at most: a value and its gradient */
#define LIST_TENSORS (FLAT_TENSORS * FLAT_RANGES)

typedef enum {
    VALUE_INPUT,  /* the unit's */
    VALUE_OUTPUT, /* the unit's */
    VALUE_KEPT,   /* in the slot, from forward to backward */
    VALUE_REBUILT, /* in the scratch, made again for the backward pass */
    VALUE_BUFFER, /* in a buffer of the scratch: no backward pass reads it */
    VALUE_ALIAS   /* where the output of its reader lies, which works in place */
} value_place;

typedef struct {
    const char *name;
    value_shape shape;
    size_t width;    /* columns of all tp ranks */
    int parts;       /* stacked in them, each split over tp by itself: 3 of queries, keys and values */
    int writer;      /* a layer; -1: it is the unit's input */
    int last_reader; /* the last layer that reads it in the forward pass; -1: none */
    value_place place;
    int at;          /* of VALUE_REBUILT and VALUE_BUFFER which one; of VALUE_ALIAS the value */
    bool peers;      /* tp ranks read it where it lies */
    bool for_weight; /* VALUE_REBUILT: BACKWARD_INPUT leaves it for BACKWARD_WEIGHT */
    /* VALUE_REBUILT: the layers before whose backward, backward_input and backward_weight it is made again; -1:
     * before none. */
    int rebuild_full, rebuild_input, rebuild_weight;
} list_value;

/* Where a gradient is. */
typedef struct {
    enum { GRAD_NOWHERE, GRAD_STREAM, GRAD_BUFFER } place; /* d; a buffer of the scratch */
    int buffer;
    int keep; /* in a split backward pass: the layer whose keep buffer has it instead; -1: none */
} grad_ref;

/* dst += src, behind a layer's backward pass; GRAD_NOWHERE: nothing. */
typedef struct {
    grad_ref dst, src;
    int value; /* whose gradients they are */
} grad_sum;

typedef struct {
    const trine_layer *row;
    const layer_kind *kind;
    int in[TRINE_LAYER_INPUTS], out; /* values; -1: none */
    int tensor;                      /* its first one among the unit's */
    int aux;                         /* of what it keeps beside its output: which of `rebuilt`; -1: in the slot */
    bool rerun;                      /* with full recomputation */
    grad_ref out_grad, in_grad[TRINE_LAYER_INPUTS];
    grad_mode mode[TRINE_LAYER_INPUTS];
    grad_sum sums[TRINE_LAYER_INPUTS];
} list_layer;

/* A buffer: elements, bytes of aux beside them, and whether tp peers read what lies there. */
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
    bool makes_loss;   /* its forward pass is done in its backward pass */
    list_buffer buffers[LIST_BUFFERS], rebuilt[LIST_BUFFERS];
    int buffer_count, rebuilt_count;
} unit_list;

/* Errors: TRINE_EINVAL says which row breaks which rule of trine_model.h. Pure. */
trine_status list_resolve(unit_list *l, const gpt_shape *s, unit_kind kind);

/* Inputs of layers that are the value. Pure. */
int list_readers(const unit_list *l, int value);
/* The first layer to write where a value lies: of what it lies over, or its own writer. Pure. */
int list_first_writer(const unit_list *l, int value);
/* The output of the only reader of a value, if that works in place of it; else -1. Pure. */
int list_over(const unit_list *l, int value);
/* Columns of all tp ranks of what a layer reads first, and of what it writes. Pure. */
size_t list_width_in(const unit_list *l, const list_layer *at);
size_t list_width(const unit_list *l, const list_layer *at);
/* Rows and elements of a value on this rank. Pure. */
size_t list_rows(const unit_list *l, int value, const gpt_shape *s);
size_t list_elements(const unit_list *l, int value, const gpt_shape *s);
/* Whether a backward pass has two parts for it. */
static inline bool list_splits(const list_layer *at) {
    return at->kind->backward_weight != NULL;
}
/* Elements of a small tensor, of a layer without weights that wait. Pure. */
size_t list_small(const kind_tensor *k, const gpt_shape *s);

#endif
