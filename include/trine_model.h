/* Models as lists of layers. A unit of a model (its embedding, a block, its head) is a list of rows. A row names
 * a kind of layer, the values that the layer reads and the value that it writes. Everything else follows from the
 * lists: tensors and their names in files, the memory plan, tensor-parallel communication, flops, decoding with a
 * cache, recomputation, and the split of a backward pass. The lists of GPT-2 are in src/model/gpt2.c:
 *
 *     {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
 *     {TRINE_LAYER_COLUMN, "attn.c_attn", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
 *     {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att"},
 *     {TRINE_LAYER_ROW, "attn.c_proj", {"att", "x"}, .out = "m"},
 *     ...
 *
 * Rules, which trine_config_check checks:
 *
 *   - A value is written once, before it is read, and every value except "y" is read. "x" is the unit's input. The
 *     last row writes "y", the unit's output. An embedding has no "x", a head has no "y".
 *   - Values have one of two shapes. The residual stream is (rows, hidden); between tensor-parallel regions every
 *     rank has all rows of it, or with sequence parallelism its share of the rows. The output of a COLUMN layer is
 *     (rows, width / tp), this rank's columns; a ROW layer returns to the stream. "x" and "y" are in the stream.
 *   - `.width = {TRINE_FFN, 2}` is two stacked matrices, each split over tp by itself. ATTENTION reads queries, keys
 *     and values, in this order: {TRINE_QKV, 1}, or {TRINE_HIDDEN, 3} where that is as wide. SWIGLU reads the output
 *     of two equal matrices, ROW of one: {TRINE_FFN, 1}.
 *   - A layer that stacks matrices has one tensor for all of them, or one for each: then `.tensors` names them.
 *   - An embedding consists of TOKENS, first, and POSITIONS. A head ends in LOSS. POSITIONS and LOSS overwrite their
 *     input, which no other row may read.
 *   - Layers with tensors have different names within a unit, and in embedding and head. Dropouts have different
 *     names, too, because the name keys the mask. In files ".weight" or ".bias" is appended to a layer's name; the
 *     family's `blocks` and the number are prepended in a block ("h.3." in block 3 of GPT-2), and the family's
 *     `prefix` ("transformer.") to all but the matrix of an untied head.
 *
 * There is no autograd: every kind of layer has its own backward pass, and a list is run in order and in reverse. */
#ifndef TRINE_MODEL_H
#define TRINE_MODEL_H

#include "trine_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, name). in[] are the values that the layer reads, in this order.
 *
 *   TOKENS      rows of the token matrix for the tokens of the micro-batch (no input)
 *   POSITIONS   in[0] + learned rows for the positions
 *   NORM        layer norm of in[0], with gain and bias
 *   RMS_NORM    root mean square norm of in[0], with gain
 *   COLUMN      in[0] W^T + b, the outputs split over tp
 *   QK_NORM     in[0] = queries, keys and values, with a root mean square norm of each query and key head
 *   ROPE        in[0] = queries, keys and values, with query and key heads rotated by their position
 *   ATTENTION   causal attention of in[0] = queries, keys and values of this rank's heads
 *   GELU        of in[0], its tanh form
 *   SWIGLU      silu(gate) times up, of in[0] = gate and up
 *   ROW         in[0] W^T + b, the inputs split over tp, then summed; then dropout; then + in[1], if given
 *   LOSS        the cross-entropy of in[0] times the token matrix, one row chunk at a time; writes no value */
#define TRINE_LAYER_LIST(X)                                                                        \
    X(TOKENS, tokens)                                                                              \
    X(POSITIONS, positions)                                                                        \
    X(NORM, norm)                                                                                  \
    X(RMS_NORM, rms_norm)                                                                          \
    X(COLUMN, column)                                                                              \
    X(QK_NORM, qk_norm)                                                                            \
    X(ROPE, rope)                                                                                  \
    X(ATTENTION, attention)                                                                        \
    X(GELU, gelu)                                                                                  \
    X(SWIGLU, swiglu)                                                                              \
    X(ROW, row)                                                                                    \
    X(LOSS, loss)

typedef enum {
    TRINE_LAYER_END, /* after the last row of a list */
#define TRINE_LAYER_ENUM(NAME, name) TRINE_LAYER_##NAME,
    TRINE_LAYER_LIST(TRINE_LAYER_ENUM)
#undef TRINE_LAYER_ENUM
    TRINE_LAYER_KINDS
} trine_layer_kind;

/* The sizes of a trine_model that a width may use. TRINE_QKV is three stacked matrices: the query heads, the key
 * heads and the value heads (num_attention_heads and twice num_query_groups times the head's width). */
typedef enum { TRINE_HIDDEN, TRINE_FFN, TRINE_QKV } trine_dim;

/* `times` times the size; 0 means 1. TRINE_QKV is taken once. */
typedef struct {
    trine_dim dim;
    int times;
} trine_width;

#define TRINE_LAYER_INPUTS 3
#define TRINE_LAYER_ROWS   24 /* most rows of a list; with at most 32 tensors (a norm or linear layer has two) */
#define TRINE_LAYER_TIMES  64 /* most `times` of a width */
#define TRINE_LAYER_NAME   48 /* bytes of a dropout's name with its terminating zero, and of a layer's or tensor's
                                 name with "layers.31999." and ".weight": at most 27 characters */
#define TRINE_LAYER_TENSORS 3 /* most matrices of a layer that are tensors of their own */

typedef struct {
    trine_layer_kind kind;
    const char *name; /* of its tensors: name + ".weight", ".bias"; in block 3 after "h.3." */
    const char *in[TRINE_LAYER_INPUTS];
    const char *out;
    trine_width width;   /* COLUMN: width of the output */
    const char *dropout; /* name, which keys the mask, of the dropout on the output of ROW or POSITIONS, or on
                            the probabilities of ATTENTION; NULL: no dropout */
    bool no_bias;        /* COLUMN, ROW: y = in[0] W^T */
    const char *tensors[TRINE_LAYER_TENSORS]; /* COLUMN: names of its stacked matrices, each a tensor of its own (and
                            a bias); QK_NORM: those of the two gains. NULL: one tensor, with the layer's name */
} trine_layer;

/* A family of models. Lists end with a row of zeros. Everything is borrowed and must outlive its users. */
struct trine_family {
    const char *name;
    const trine_layer *embedding, *block, *head;
    bool transposed;          /* files store the matrices of blocks as (in, out), like GPT-2's "Conv1D" */
    const char *blocks;       /* what a block is called in names of tensors; NULL: "h" */
    const char *prefix;       /* of names in files; NULL: "transformer." */
    const char *hugging_face; /* model_type for config.json; NULL: transformers has no such model, and
                                 checkpoints have no config.json */
};

/* Radford et al. 2019. The default family of a trine_model. */
extern const trine_family trine_gpt2;
/* Llama 2 and 3, SmolLM2; Mistral 7B; Qwen2 and 2.5; Qwen3 (dense). */
extern const trine_family trine_llama, trine_mistral, trine_qwen2, trine_qwen3;

/* Registers a family under its name for everything that reads checkpoints: --load, generators, exports. At most
 * TRINE_FAMILIES can be registered. A repeated call with the same pointer does nothing. Errors: TRINE_EINVAL if the
 * name is invalid or used by another family, or if there are too many families. Not collective. */
#define TRINE_FAMILIES 16
trine_status trine_family_add(const trine_family *family);

#ifdef __cplusplus
}
#endif

#endif
