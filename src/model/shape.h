/* The sizes of a model on one tp rank, and its units: an embedding, L blocks, a head. */
#ifndef TRINE_MODEL_SHAPE_H
#define TRINE_MODEL_SHAPE_H

#include "device/device.h"
#include "tp/tp.h"
#include "trine_model.h"

typedef struct {
    size_t B, T, C, H, F, L; /* micro-batch, sequence, hidden, heads, MLP width, layers: global */
    size_t V;                /* vocabulary, without padding */
    size_t row_multiple;     /* its rows on a tp rank are a multiple of this, which the device sets; 0 means 1 */
    bool untied;
    int tp, tp_rank;
    trine_dtype compute, grads; /* of bound parameters and their gradients: the device's */
    bool sequence; /* sequence parallelism: outside tp regions a rank has its share of the rows */
    trine_recompute recompute;
    size_t loss_rows; /* rows whose logits exist at the same time, 1 .. B T; 0: all */
    double hidden_dropout, attention_dropout;
    const trine_family *family; /* NULL: trine_gpt2 */
} gpt_shape;

/* K: rows per row chunk of logits. Pure. */
size_t gpt_loss_rows(const gpt_shape *s);
/* This tp rank's rows of the vocabulary. Pure. */
tp_vocab gpt_vocab(const gpt_shape *s);
/* The R rows that this tp rank has outside tp regions. Pure. */
tp_rows gpt_rows(const gpt_shape *s);
/* Whether these are a share of the rows, so that gradients made from them are partial over tp. Pure. */
bool gpt_tp_partial(const gpt_shape *s);

typedef enum { UNIT_EMBEDDING, UNIT_BLOCK, UNIT_HEAD, UNIT_KINDS } unit_kind;

int gpt_unit_count(const gpt_shape *s); /* L + 2 */
unit_kind gpt_unit_kind(const gpt_shape *s, int unit);
const trine_family *gpt_family(const gpt_shape *s); /* never NULL */
/* The rows of the family's list. Never NULL. Pure. */
const trine_layer *gpt_unit_rows(const gpt_shape *s, unit_kind kind);

/* The unsharded model with a micro-batch of one sequence. Pure. */
gpt_shape gpt_unsharded_shape(const trine_model *m);

#endif
