/* The sizes of a model on one tp rank, and its units: an embedding, L blocks, a head. */
#ifndef TRINE_MODEL_SHAPE_H
#define TRINE_MODEL_SHAPE_H

#include "device/device.h"
#include "tp/tp.h"
#include "trine_model.h"

#define LORA_ALPHA 8 /* trine_lora.alpha, where none is given: PEFT's */

typedef struct {
    size_t B, T, C, H, F, L; /* micro-batch, sequence, hidden, heads, MLP width, layers: global */
    size_t K, D;             /* heads of keys and values, 0: H; width of a head, 0: C / H */
    double epsilon;          /* of RMS norms; 0: 1e-5 */
    double rotary_base;      /* 0: 10000 */
    trine_rope_scaling rope_scaling;
    size_t V;                /* vocabulary, without padding */
    size_t row_multiple;     /* its rows on a tp rank are a multiple of this, which the device sets; 0 means 1 */
    bool untied;
    int tp, tp_rank; /* parts over all tp ranks, and this rank's first; without parallel.exact a rank is one part */
    int parts;       /* of this rank; 0: 1 */
    bool exact;      /* gradients of norms and positions part by part, with all rows on a rank too */
    trine_dtype compute, grads; /* of bound parameters and their gradients: the device's */
    bool sequence; /* sequence parallelism: outside tp regions a rank has its share of the rows */
    trine_recompute recompute;
    size_t loss_rows; /* rows whose logits exist at the same time, 1 .. B T; 0: all */
    double hidden_dropout, attention_dropout;
    bool reset_attention, reset_positions; /* they begin anew in each document */
    trine_lora lora;
    const trine_family *family; /* NULL: trine_gpt2 */
    const char *trained; /* patterns (frozen.h), or NULL. Borrowed from the model */
    bool freezes;        /* some tensors may be frozen */
} gpt_shape;

/* The parts of this rank, and the tp ranks. Pure. */
int gpt_parts(const gpt_shape *s);
int gpt_tp_ranks(const gpt_shape *s);
/* Heads of a part: of queries, and of keys and values. If tp ranks are more than there are heads of keys and
 * values, neighbours have the same one: gpt_kv_copies of them, else 1. Pure. */
size_t gpt_heads(const gpt_shape *s);
size_t gpt_kv_heads(const gpt_shape *s);
int gpt_kv_copies(const gpt_shape *s);
/* Width of a head; all heads of keys and values. Pure. */
size_t gpt_head_width(const gpt_shape *s);
size_t gpt_query_groups(const gpt_shape *s);
/* Of RMS norms. Pure. */
float gpt_epsilon(const gpt_shape *s);
/* Columns of queries, keys and values over all tp ranks, copies included. Pure. */
size_t gpt_qkv(const gpt_shape *s);
/* Sets the sizes of a shape that are the model's. Pure. */
void gpt_set_sizes(gpt_shape *s, const trine_model *m);

/* K: rows per row chunk of logits. Pure. */
size_t gpt_loss_rows(const gpt_shape *s);
/* The first part's rows of the vocabulary. Pure. */
tp_vocab gpt_vocab(const gpt_shape *s);
/* The R rows that this tp rank has outside tp regions. Pure. */
tp_rows gpt_rows(const gpt_shape *s);
/* Whether these are a share of the rows. Pure. */
bool gpt_splits_rows(const gpt_shape *s);
/* Rows of the micro-batch from which part p of this rank computes the gradients of norms and positions: all, or its
 * share, where these gradients are partial over tp. Pure. */
bool gpt_shares_rows(const gpt_shape *s);
tp_rows gpt_part_rows(const gpt_shape *s, int p);

typedef enum { UNIT_EMBEDDING, UNIT_BLOCK, UNIT_HEAD, UNIT_KINDS } unit_kind;

int gpt_unit_count(const gpt_shape *s); /* L + 2 */
unit_kind gpt_unit_kind(const gpt_shape *s, int unit);
const trine_family *gpt_family(const gpt_shape *s); /* never NULL */
/* What the family calls a block in names: "h". Pure. */
const char *gpt_block_name(const gpt_shape *s);
/* The rows of the family's list. Never NULL. Pure. */
const trine_layer *gpt_unit_rows(const gpt_shape *s, unit_kind kind);

/* Replaces sizes of a model that are their default by 0, so that equal models compare equal. Pure. */
void gpt_canonical(trine_model *m);
/* A size of the model, before gpt_canonical, that no layer of its family reads, as the text of an error; NULL: there
 * is none. Pure. */
const char *gpt_unread(const trine_model *m);
/* Whether a dropout of the family is that of attention probabilities, or one of hidden states. Pure. */
bool gpt_has_dropout(const trine_model *m, bool of_attention);
/* Whether positions are rotary: then no tensor depends on the length of the sequence. Pure. */
bool gpt_has_rope(const trine_model *m);

/* How many times slower than without rope_scaling pair i of a head's numbers turns, i < gpt_head_width / 2. Pure. */
double rope_slowing(const gpt_shape *s, size_t i);

/* The number of positions: seq_length, or with rotary positions max_positions if that is more. Pure. */
int gpt_positions(const trine_model *m);
/* The unsharded model with a micro-batch of one sequence. Pure. */
gpt_shape gpt_unsharded_shape(const trine_model *m);

#endif
