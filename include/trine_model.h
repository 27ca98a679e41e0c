/* Models as lists of layers. A unit of a model (its embedding, a block, its head) is a list of rows; a row names
 * a kind of layer, the values that it reads and the one that it writes. What there is to know of a model follows
 * from its lists: tensors and their names in files, the memory plan, what tensor-parallel ranks send, flops,
 * decoding with a cache, recomputation, and how a backward pass is split. GPT-2's are in src/model/gpt2.c:
 *
 *     {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
 *     {TRINE_LAYER_COLUMN, "attn.c_attn", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
 *     {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att"},
 *     {TRINE_LAYER_ROW, "attn.c_proj", {"att", "x"}, .out = "m"},
 *     ...
 *
 * Rules, which trine_config_check holds a family to:
 *
 *   - A value is written once, before it is read, and every value but "y" is read. "x" is the unit's input; the last
 *     row writes "y", which the unit hands on. An embedding has no "x", a head no "y".
 *   - Values are of two shapes. The residual stream is (rows, hidden), and between tensor-parallel regions every
 *     rank has all of it, or with sequence parallelism its rows; what a COLUMN layer makes is (rows, width / tp),
 *     this rank's columns, until a ROW layer brings it back into the stream. "x" and "y" are in the stream.
 *   - `.width = {TRINE_FFN, 2}` is two matrices, one on top of the other, each split over tp by itself. ATTENTION reads
 *     {TRINE_HIDDEN, 3}: queries, keys, values, in this order. ROW reads what is one matrix's: {TRINE_FFN, 1}.
 *   - An embedding has TOKENS first and POSITIONS only, a head LOSS last; what these two read they use up.
 *   - Names of layers with tensors differ within a unit, and between embedding and head; so do those of dropouts, which
 *     key the mask. In files a name has ".weight" or ".bias" behind it, of block 3 "h.3." before it, and "transformer."
 *     before all but an untied head's matrix.
 *
 * No autograd: every kind of layer has its backward pass beside it, and a list is run in order, and reversed. */
#ifndef TRINE_MODEL_H
#define TRINE_MODEL_H

#include "trine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, name). In: the values that it reads, in this order.
 *
 *   TOKENS      rows of the token matrix for the micro-batch's tokens (no input)
 *   POSITIONS   in[0] + learned rows for the positions
 *   NORM        layer norm of in[0], with gain and bias
 *   COLUMN      in[0] W^T + b, the outputs split over tp
 *   ATTENTION   causal attention of in[0] = queries, keys and values of this rank's heads
 *   GELU        of in[0], its tanh form
 *   ROW         in[0] W^T + b, the inputs split over tp, then summed; through a dropout; + in[1], if there is one
 *   LOSS        the cross-entropy of in[0] times the token matrix, a chunk of rows at a time; writes no value */
#define TRINE_LAYER_LIST(X)                                                                        \
    X(TOKENS, tokens)                                                                              \
    X(POSITIONS, positions)                                                                        \
    X(NORM, norm)                                                                                  \
    X(COLUMN, column)                                                                              \
    X(ATTENTION, attention)                                                                        \
    X(GELU, gelu)                                                                                  \
    X(ROW, row)                                                                                    \
    X(LOSS, loss)

typedef enum {
    TRINE_LAYER_END, /* behind the last row of a list */
#define TRINE_LAYER_ENUM(NAME, name) TRINE_LAYER_##NAME,
    TRINE_LAYER_LIST(TRINE_LAYER_ENUM)
#undef TRINE_LAYER_ENUM
    TRINE_LAYER_KINDS
} trine_layer_kind;

/* Sizes of a trine_model. */
typedef enum { TRINE_HIDDEN, TRINE_FFN } trine_dim;

/* `times` times a size; 0: 1. */
typedef struct {
    trine_dim dim;
    int times;
} trine_width;

#define TRINE_LAYER_INPUTS 3
#define TRINE_LAYER_ROWS   24 /* of a list, at most, with at most 12 tensors (a norm or linear layer has two) */
#define TRINE_LAYER_TIMES  64 /* of a width, at most */
#define TRINE_LAYER_NAME   32 /* bytes of a dropout's name with its end; with "h.999." and ".weight" of a layer's */

typedef struct {
    trine_layer_kind kind;
    const char *name; /* of its tensors: name + ".weight", ".bias"; of a block behind "h.3." */
    const char *in[TRINE_LAYER_INPUTS];
    const char *out;
    trine_width width;   /* COLUMN: of what it makes */
    const char *dropout; /* its name, which keys it: of what a ROW layer or POSITIONS makes, of ATTENTION's
                            probabilities; NULL: none */
} trine_layer;

/* A family of models. Lists end with a row of zeros. Everything is borrowed and must outlive what uses it. */
struct trine_family {
    const char *name;
    const trine_layer *embedding, *block, *head;
    bool transposed;          /* files have the blocks' matrices as (in, out), as GPT-2's "Conv1D" */
    const char *hugging_face; /* model_type of a config.json; NULL: transformers has no such model, and
                                 checkpoints have no config.json */
};

/* Radford et al. 2019: a trine_model's family where it names none. */
extern const trine_family trine_gpt2;

/* Makes a family known by its name to everything that reads a checkpoint: --load, generators, exports. For
 * TRINE_FAMILIES of one's own; again with the same pointer: nothing. Errors: TRINE_EINVAL for a name that another
 * family has, and for more families. Not collective. */
#define TRINE_FAMILIES 16
trine_status trine_family_add(const trine_family *family);

#ifdef __cplusplus
}
#endif

#endif
