/* Kinds of layers. A kind is a layer_kind, defined with its functions in kind_<name>.c. It receives sizes through the
 * run, its tensors by number, and values as pointers; the list (list.h) says which layer reads which value.
 *
 * To add a kind: a row in TRINE_LAYER_LIST and its file; if no operator computes it, also a row in OPS_LIST. */
#ifndef TRINE_MODEL_KIND_H
#define TRINE_MODEL_KIND_H

#include "model/shape.h"
#include "model/warm.h"
#include "state/state.h"

/* Shape of a value: in the residual stream (R, C), or inside a tp region (N, width / tp), for each part of this
 * rank. */
typedef enum { SHAPE_NONE, SHAPE_STREAM, SHAPE_INSIDE } value_shape;

/* For what a kind reads where documents start: with gpt_shape.reset_attention, with reset_positions. */
typedef enum { STARTS_UNREAD, STARTS_ATTENTION, STARTS_POSITIONS } starts_use;

/* How a value that is not kept is recomputed for the backward pass. */
typedef enum {
    REBUILD_PRODUCT, /* by a matmul: only with full recomputation, together with the rest of the list */
    REBUILD_ROWS,    /* from kept values, just before it is read; with full recomputation together with the rest */
    REBUILD_ELEMENTS /* from kept values, always just before it is read */
} rebuild_kind;

/* A tensor of a layer. SIDE_ROWS, SIDE_COLUMNS: a matrix (out, in), split over tp along that side. SIDE_DOWN (rank,
 * in) and SIDE_UP (out, rank), of an adapter: split along the side along which the layer's matrix is. */
typedef struct {
    const char *suffix; /* "weight" */
    enum { SIDE_ROWS, SIDE_COLUMNS, SIDE_WIDTH, SIDE_HIDDEN, SIDE_HEAD, SIDE_POSITIONS, SIDE_VOCABULARY,
           SIDE_DOWN, SIDE_UP } side;
    enum { START_ZERO, START_ONE, START_NORMAL, START_RESIDUAL, START_POSITION, START_UNIFORM } start;
    /* From what its gradient is computed: all rows, this tp rank's rows of the stream, or, unless it is split, this
     * tp rank's heads or columns. */
    enum { FROM_ALL, FROM_ROWS, FROM_HEADS } from;
    bool optional; /* a bias, which the row may omit (no_bias) */
} kind_tensor;

/* A tensor of a row. The matrices that a COLUMN stacks are one tensor, or one each: then they are adjacent in memory
 * and together have the memory of one. */
typedef struct {
    const kind_tensor *kind;
    int of;             /* its number among the row's parameters */
    int matrix;         /* which of the stacked matrices it is; -1: all of them */
    const char *matrix_name; /* NULL: none */
    bool joined;        /* follows the tensor before without padding */
} layer_tensor;
#define LAYER_TENSORS (4 * TRINE_LAYER_TENSORS)

/* The tensors of a row in the order of their memory, those of adapters last; returns their number. Pure. */
int layer_tensors(const gpt_shape *s, const trine_layer *row, layer_tensor out[LAYER_TENSORS]);
/* Its parameters: the kind's tensors, then A and B of each adapter. Pure. */
int layer_params(const gpt_shape *s, const trine_layer *row);
/* The number of matrices that a row stacks, and the unsharded columns of matrix m. Pure. */
int layer_matrices(const trine_layer *row);
size_t layer_matrix(const gpt_shape *s, const trine_layer *row, int m);
/* "c_attn.weight": the name of a tensor within its unit. */
const char *layer_tensor_name(const trine_layer *row, const layer_tensor *t, char text[TRINE_LAYER_NAME]);

/* How many activations (N, C) are summed over tp when they enter or leave a tp region, and how many are gathered.
 * Without sequence parallelism a sum is an all-reduce, and nothing is gathered; with it a sum is a reduce-scatter. */
typedef struct {
    int sums, gathers;
    bool together; /* a sum and a gather are in progress at the same time, beside products */
} tp_crossings;

/* One micro-batch. */
typedef struct {
    const int32_t *tokens, *targets; /* (B, T); only the embedding reads tokens, the head targets */
    const int32_t *starts; /* (B, T), as the operators take them (device/ops.h); NULL: no layer reads it */
    uint64_t sample;   /* number of its first sample in the whole run; keys dropout */
    double scale;      /* of the loss: 1 / supervised tokens in the global batch */
    double grad_scale; /* of the loss's gradient: scale times the loss scale */
    double *loss; /* += this micro-batch's share of the mean loss; the same on every tp rank */
} gpt_batch;

/* Scratch of LOSS for a chunk of K = loss_rows rows; nothing is kept between passes. */
typedef struct {
    void *logits; /* (K, Vp/tp) */
    tp_xent xent; /* (K), (K, 2), (K) */
} gpt_loss_scratch;

/* Arguments that all layers of a unit share; everything in it is borrowed. */
typedef struct {
    device *dev;
    const tp_region *tp;
    const gpt_shape *shape;
    size_t rows;     /* N: rows of the micro-batch, or rows that are decoded */
    tp_rows own;     /* this rank's R rows of the stream; in decoding they start at the current position */
    void *dropped;   /* (R, C): a gradient after a dropout; NULL without dropout */
    void *workspace; /* used within one call; the largest that any kind requires */
    const gpt_loss_scratch *loss; /* if the unit has a LOSS */
    const gpt_batch *batch;
    const float *rope; /* (T, D): cosines and sines of each position; NULL: no layer rotates */
    uint64_t seed; /* of dropout */
    int unit;
    bool training; /* with dropout */
} unit_run;

/* Fills *out for this rank's rows of the micro-batch, or for the heads of a part, and returns it; returns NULL if
 * nothing is dropped. The key is made from the layer's `dropout`, in block 3 with "h.3." before it. Pure. */
const dropout_args *run_dropout(const unit_run *r, const trine_layer *row, dropout_args *out);
const dropout_args *run_dropout_of_heads(const unit_run *r, const trine_layer *row, int part, dropout_args *out);

/* The key of the dropout of that name in the unit. Pure. */
uint64_t run_dropout_key(const unit_run *r, const char *name);

/* (B, T): where documents start, for a layer of this kind; NULL: every sample is one document. In decoding and where
 * this use is not reset it is NULL. Pure. */
const int32_t *run_starts(const unit_run *r, starts_use use);

/* Rows [at, at + n) of this rank's rows of the stream, and the part of this rank that computes the gradients of norms
 * and positions from them; -1: they are another rank's. run_share walks over all of a rank's rows: *share is {0}
 * before the first; false: there are no more. Pure. */
typedef struct {
    size_t at, n;
    int part;
} row_share;
bool run_next_share(const unit_run *r, row_share *share);

/* A call of one layer. Pointers are to the compute type. */
typedef struct {
    const unit_run *r;
    const trine_layer *row;
    size_t width_in, width; /* columns of in[0] and of the output, over all tp ranks */
    const param *params;    /* in the order of layer_params, of the first part */
    void *in[TRINE_LAYER_INPUTS], *out, *aux;
} layer_call;

/* Columns of in[0] and of the output of a part; the rows of the parts' blocks together, for what works row by row. */
static inline size_t call_columns_in(const layer_call *c) {
    return c->width_in / (size_t)c->r->shape->tp;
}
static inline size_t call_columns(const layer_call *c) {
    return c->width / (size_t)c->r->shape->tp;
}
static inline size_t call_rows(const layer_call *c) {
    return c->r->rows * (size_t)gpt_parts(c->r->shape);
}

/* Row `at` of values (R, columns). */
static inline void *call_row(const layer_call *c, const void *values, size_t at, size_t columns) {
    return (char *)values + at * columns * trine_dtype_bytes(c->r->dev->compute);
}
/* The gradient of tensor n, of at most C elements, for the part that has the rows: its own; of another rank's rows,
 * and of a frozen tensor, nobody reads it, and it goes to the workspace (gpt_discard). */
void *call_small(const layer_call *c, int n, int part);
grad_mode call_small_mode(const layer_call *c, int n, int part);
/* Bytes of workspace for the gradients of other ranks' rows, of tensors (C), or of frozen ones: 0 where a rank has
 * its parts' rows only, and all tensors are trained. Pure. */
size_t gpt_discard(const device *d, const gpt_shape *s);

/* Gradients of a layer. The backward pass may overwrite `out`. It sets the gradients of the inputs, or adds to them
 * if the kind `adds`. The gradient of an addend is that of the output and needs no work. */
typedef struct {
    void *out, *in[TRINE_LAYER_INPUTS];
    grad_mode mode[TRINE_LAYER_INPUTS];
    void *keep; /* in a split backward pass: the gradient of the output that backward_weight reads; for a kind that
                   `copies` a buffer (R, C) that backward_input fills, else the memory of `out` */
    void *up; /* the same for adapters (tp_lora.up) */
} layer_grads;

/* Additional arguments in decoding: the layer's cache, and where the head writes its logits. */
typedef struct {
    size_t past; /* number of rows before these */
    void *cache[2], *logits, *all;
} layer_decode;

/* What the bits of a layer's results depend on besides the bits of its inputs, as an order of additions: into how
 * many parts tp splits its sums; the rows of a micro-batch; the rows of a chunk of logits; how a library multiplies,
 * which may be by threads. */
typedef enum { BITS_TP = 1, BITS_ROWS = 2, BITS_CHUNK = 4, BITS_PRODUCT = 8 } kind_bits;

/* Requirements on a kind:
 *
 *   - backward computes all gradients, except those of parameters whose dw is NULL: they are frozen, and where the
 *     operator computes them all the same, call_small has memory for them. backward_input and backward_weight, if
 *     present, compute the same bits in any order; backward_weight reads in[0] and the gradient of the output, but no
 *     parameter. A kind without them has small tensors (SIDE_HIDDEN, SIDE_HEAD, SIDE_POSITIONS) only, or is used only
 *     in an embedding or a head.
 *   - FROM_ROWS marks a tensor whose gradient is computed from this rank's rows: those of layers that work on the
 *     stream, except the bias of a ROW, whose gradient is summed over gathered rows. FROM_HEADS marks one that all
 *     heads share.
 *   - `rebuild` says how the output is recomputed; the default, PRODUCT, is the most expensive.
 *   - forward computes the same bits in every call. */
typedef struct {
    int inputs; /* number of required inputs */
    bool in_embedding; /* allowed in an embedding, whose backward pass runs without parameters */
    bool takes_width, takes_dropout; /* whether its row may have a width and stacked matrices, a dropout */
    int parts_in;   /* required number of parts of in[0]; 0: any */
    bool keeps_columns; /* its output has the columns of in[0], with their parts; else those of its own width */
    value_shape in[TRINE_LAYER_INPUTS], out;
    kind_tensor tensors[2];
    int tensor_count;
    bool reads_in[TRINE_LAYER_INPUTS], reads_out; /* which inputs, and whether the output, its backward pass reads */
    unsigned bits;      /* kind_bits of its output and of the gradients of its inputs and matrices. The gradients of
                           small tensors are sums over the rows of a micro-batch, of those that FROM says. 0: each
                           element is computed by itself, or from the elements of its row */
    bool addend;     /* in[1] is added to the output: its gradient is that of the output */
    bool over_in;    /* its output may overwrite in[0] if no other layer reads that */
    bool only_over_in; /* its forward pass works in place only: no other layer may read in[0] */
    bool reads_rope;  /* unit_run.rope */
    starts_use starts; /* run_starts */
    bool over_tokens; /* its output must overwrite in[0], which is the output of TOKENS */
    bool in_place;   /* its backward pass replaces the gradient of its output by that of in[0], in the same memory */
    bool gradient_in_place;   /* its backward pass replaces in[0] by its gradient, in the same memory */
    bool adds;       /* its backward pass can add to the gradient of in[0] */
    bool copies;     /* backward_input copies the gradient of the output for backward_weight; else it stays */
    rebuild_kind rebuild;
    trine_status (*forward)(const layer_call *c);
    trine_status (*backward)(const layer_call *c, const layer_grads *g);
    /* The two parts of backward; NULL: the backward pass of this kind is not split. */
    trine_status (*backward_input)(const layer_call *c, const layer_grads *g);
    trine_status (*backward_weight)(const layer_call *c, const layer_grads *g);
    trine_status (*decode)(const layer_call *c, const layer_decode *d); /* NULL: forward */
    /* Communication over tp of forward, backward, backward_input and backward_weight. */
    tp_crossings sends, sends_backward, sends_input, sends_weight;
    bool gathers_for_weight; /* what sends_backward gathers, only the product for tensor 0 reads */
    /* Additional bytes sent over tp in the pass that computes the loss. NULL: none. */
    uint64_t (*sends_more)(const rank_state *s);
    size_t (*width)(const gpt_shape *s, const trine_layer *row, size_t width_in); /* NULL: hidden */
    size_t (*width_in)(const gpt_shape *s); /* required width of in[0]; NULL: any */
    size_t (*aux)(const gpt_shape *s); /* bytes kept in addition to the output; NULL: none */
    size_t (*workspace)(const device *d, const gpt_shape *s); /* bytes used during a call; NULL: none */
    size_t (*cache)(const gpt_shape *s); /* elements of each half of the cache; NULL: no cache */
    /* Forward flops per row. NULL: not counted. */
    double (*flops)(const gpt_shape *s, double width_in, double width);
    /* Runs its operators once, forward and backward, in these sizes. NULL: no operators of its own. */
    trine_status (*warm)(warm_state *w, const trine_layer *row, size_t width_in, size_t width);
} layer_kind;

#define KIND_EXTERN(NAME, name) extern const layer_kind kind_##name;
TRINE_LAYER_LIST(KIND_EXTERN)
#undef KIND_EXTERN

/* The table of rotary positions (T, D): of each position the cosines of D/2 angles, then their sines. Declares or
 * takes it (MEM_WORKSPACE), NULL if no layer of a block reads it; writes it, unless it is NULL, to device memory.
 * Errors: TRINE_ENOMEM, the device's. Not collective. */
float *rope_take(arena *a, const gpt_shape *s);
trine_status rope_write(device *d, const gpt_shape *s, float *table);

/* Never NULL for any kind but TRINE_LAYER_END. Pure. */
const layer_kind *layer_kind_of(trine_layer_kind kind);

#endif
