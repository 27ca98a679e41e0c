/* What a kind of layer is: a row of one table (kind.c), with its functions in a file of the kind's own,
 * kind_<name>.c. A kind knows sizes from the run, its tensors by number, and values as pointers; which layer reads
 * whose value stands in the list (list.h).
 *
 * A new kind: a row of TRINE_LAYER_LIST and its file; where no operator does the arithmetic, a row of OPS_LIST, too. */
#ifndef TRINE_MODEL_KIND_H
#define TRINE_MODEL_KIND_H

#include "model/shape.h"
#include "model/warm.h"
#include "state/state.h"

/* Of values: the residual stream (R, C), or what lies between the ends of a tp region (N, width / tp). */
typedef enum { SHAPE_NONE, SHAPE_STREAM, SHAPE_INSIDE } value_shape;

/* How a value that is not kept is made again for the backward pass. */
typedef enum {
    REBUILD_PRODUCT, /* by a product: with full recomputation only, all of the list at once */
    REBUILD_ROWS,    /* from what is kept, just before it is read; with full recomputation with the rest */
    REBUILD_ELEMENTS /* the same, always just before it is read */
} rebuild_kind;

/* A tensor of a layer. SIDE_ROWS, SIDE_COLUMNS: a matrix (out, in), split over tp along that side. */
typedef struct {
    const char *suffix; /* "weight" */
    enum { SIDE_ROWS, SIDE_COLUMNS, SIDE_WIDTH, SIDE_HIDDEN, SIDE_POSITIONS, SIDE_VOCABULARY } side;
    enum { START_ZERO, START_ONE, START_NORMAL, START_RESIDUAL, START_POSITION } start;
    bool tp_partial; /* its gradient comes from the rows that a tp rank has between the regions */
} kind_tensor;

/* Activations (N, C) that enter or leave a tp region: summed; where rows are split gathered, or summed to rows. */
typedef struct {
    int sums, gathers;
} tp_crossings;

/* One micro-batch. */
typedef struct {
    const int32_t *tokens, *targets; /* (B, T); only the embedding reads tokens, the head targets */
    uint64_t sample;   /* number of its first sample in the whole run: what dropout is keyed by */
    double scale;      /* of the loss: 1 / tokens in the global batch */
    double grad_scale; /* of its gradient: the same times the loss scale */
    double *loss; /* += this micro-batch's share of the mean loss; the same on every tp rank */
} gpt_batch;

/* LOSS's, of a chunk of K = loss_rows rows; nothing is kept between passes. */
typedef struct {
    void *logits; /* (K, Vp/tp) */
    tp_xent xent; /* (K), (K, 2), (K) */
} gpt_loss_scratch;

/* What all layers of a unit run on; everything in it is borrowed. */
typedef struct {
    device *dev;
    const tp_region *tp;
    const gpt_shape *shape;
    size_t rows;     /* N: all of the micro-batch, or those that are decoded */
    tp_rows own;     /* R of them, this rank's between the regions; decoding: from its position on */
    void *dropped;   /* (R, C): a gradient behind a dropout; NULL without */
    void *workspace; /* for one call: the largest that a kind asks for */
    const gpt_loss_scratch *loss; /* where there is a LOSS */
    const gpt_batch *batch;
    uint64_t seed; /* of dropout */
    int unit;
    bool training; /* with dropout */
} unit_run;

/* Fills *out for this rank's rows, or heads, of the micro-batch, and returns it; NULL if nothing is dropped. The
 * key is of the layer's `dropout`, in a block behind "h.3.". Pure. */
const dropout_args *run_dropout(const unit_run *r, const trine_layer *row, bool heads, dropout_args *out);

/* A layer's call. Pointers are of the compute type. */
typedef struct {
    const unit_run *r;
    const trine_layer *row;
    size_t width_in, width; /* columns of in[0] and of the output, of all tp ranks */
    const param *params;    /* in the order of the kind's tensors */
    void *in[TRINE_LAYER_INPUTS], *out, *aux;
} layer_call;

/* The tensors of a COLUMN or a ROW. */
static inline tp_linear linear_of(const layer_call *c) {
    return (tp_linear){c->params[0], c->params[1]};
}

/* Gradients: of the output, which a backward pass may use up; of the inputs, which it sets, or adds to if the kind
 * `adds`. That of an addend is the output's, and nothing is to be done for it. */
typedef struct {
    void *out, *in[TRINE_LAYER_INPUTS];
    grad_mode mode[TRINE_LAYER_INPUTS];
    void *keep; /* in a split backward pass: the gradient of the output that its weights wait for; of a kind that
                   `copies` a buffer (R, C) that backward_input fills, else where `out` is */
} layer_grads;

/* What decoding has beside: a cache of the layer's, and where the head leaves its logits. */
typedef struct {
    size_t past; /* rows before these */
    void *cache[2], *logits, *all;
} layer_decode;

/* What must hold of a kind:
 *
 *   - backward is all of it. With backward_input and backward_weight, bits are those of backward in any order;
 *     backward_weight reads in[0], the gradient of the output and no parameter. Without them its tensors are small
 *     (SIDE_HIDDEN, SIDE_POSITIONS), or the unit is an embedding or a head.
 *   - tp_partial marks a tensor whose gradient is made from this rank's rows: of what works on the stream, but for a ROW's
 *     bias, whose gradient is summed over gathered rows.
 *   - `rebuild` is how its output is made again: PRODUCT, the dearest, unless said otherwise.
 *   - forward makes the same bits each time that it is called. */
typedef struct {
    const char *text;
    int inputs; /* that must be there */
    bool in_embedding; /* its backward pass reads no parameter: of an embedding it runs without them */
    bool takes_width, takes_dropout; /* else its row may not have one */
    int parts_in;   /* of in[0], that it wants; 0: any */
    bool parts_out; /* its output has the parts of in[0], else those of its own width */
    value_shape in[TRINE_LAYER_INPUTS], out;
    kind_tensor tensors[2];
    int tensor_count;
    bool reads_in[TRINE_LAYER_INPUTS], reads_out; /* which inputs, and whether the output, its backward pass reads */
    bool addend;     /* in[1] is added to the output: its gradient is that of the output */
    bool over_in;    /* its output may lie where in[0] lay, if nobody else reads that */
    bool over_tokens; /* and must: in[0] is what TOKENS has written */
    bool in_place;   /* its backward pass turns the gradient of its output into that of in[0], where it is */
    bool gradient_in_place;   /* its backward pass turns in[0] itself into its gradient */
    bool adds;       /* its backward pass can add to the gradient of in[0] */
    bool copies;     /* backward_input copies the gradient of the output for backward_weight; else that stays */
    rebuild_kind rebuild;
    trine_status (*forward)(const layer_call *c);
    trine_status (*backward)(const layer_call *c, const layer_grads *g);
    /* The two parts; NULL: it has no weights that may wait, and backward is all of it. */
    trine_status (*backward_input)(const layer_call *c, const layer_grads *g);
    trine_status (*backward_weight)(const layer_call *c, const layer_grads *g);
    trine_status (*decode)(const layer_call *c, const layer_decode *d); /* NULL: forward */
    /* What each of these sends over tp. */
    tp_crossings sends, sends_backward, sends_input, sends_weight;
    /* Bytes that it hands to the tp group beside these, in the pass that has the loss. NULL: none. */
    uint64_t (*sends_more)(const rank_state *s);
    size_t (*width)(const gpt_shape *s, const trine_layer *row, size_t width_in); /* NULL: hidden */
    size_t (*width_in)(const gpt_shape *s); /* that in[0] must have; NULL: any */
    size_t (*aux)(const gpt_shape *s); /* bytes that it keeps beside its output; NULL: none */
    size_t (*workspace)(const device *d, const gpt_shape *s); /* bytes, during a call; NULL: none */
    size_t (*cache)(const gpt_shape *s); /* elements of each half of a cache; NULL: it has none */
    /* Forward flops of a row. NULL: not counted. */
    double (*flops)(const gpt_shape *s, double width_in, double width);
    /* Runs its operators once, forwards and backwards, in these sizes. NULL: none of its own. */
    trine_status (*warm)(warm_state *w, const trine_layer *row, size_t width_in, size_t width);
} layer_kind;

#define KIND_EXTERN(NAME, name) extern const layer_kind kind_##name;
TRINE_LAYER_LIST(KIND_EXTERN)
#undef KIND_EXTERN

/* Never NULL for a kind but TRINE_LAYER_END. Pure. */
const layer_kind *layer_kind_of(trine_layer_kind kind);

#endif
