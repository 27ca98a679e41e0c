/* Qwen2: Yang et al., "Qwen2 technical report", 2024, section 2.2: Llama's layers, with biases of queries, keys and
 * values. Qwen3: Yang et al., "Qwen3 technical report", 2025, section 2: a norm of each query and key head instead. */
#include "trine_model.h"

static const trine_layer embedding[] = {
    {TRINE_LAYER_TOKENS, "embed_tokens", .out = "y"},
    {0},
};

#define QKV(bias)                                                                                  \
    {                                                                                              \
        TRINE_LAYER_COLUMN, "self_attn", {"a"}, .out = "qkv", .width = {TRINE_QKV, 1},             \
                                                .no_bias = !(bias), .tensors = {                   \
                                                    "q_proj",                                      \
                                                    "k_proj",                                      \
                                                    "v_proj"                                       \
                                                }                                                  \
    }

#define MLP                                                                                        \
    {TRINE_LAYER_RMS_NORM, "post_attention_layernorm", {"m"}, .out = "b"},                         \
        {TRINE_LAYER_COLUMN,                                                                       \
         "mlp",                                                                                    \
         {"b"},                                                                                    \
         .out = "gu",                                                                              \
         .width = {TRINE_FFN, 2},                                                                  \
         .no_bias = true,                                                                          \
         .tensors = {"gate_proj", "up_proj"}},                                                     \
        {TRINE_LAYER_SWIGLU, "mlp.act", {"gu"}, .out = "s"}, {                                     \
        TRINE_LAYER_ROW, "mlp.down_proj", {"s", "m"}, .out = "y", .no_bias = true                  \
    }

static const trine_layer qwen2_block[] = {
    {TRINE_LAYER_RMS_NORM, "input_layernorm", {"x"}, .out = "a"},
    QKV(true),
    {TRINE_LAYER_ROPE, "self_attn.rope", {"qkv"}, .out = "rot"},
    {TRINE_LAYER_ATTENTION, "self_attn", {"rot"}, .out = "att", .dropout = "self_attn.dropout"},
    {TRINE_LAYER_ROW, "self_attn.o_proj", {"att", "x"}, .out = "m", .no_bias = true},
    MLP,
    {0},
};

static const trine_layer qwen3_block[] = {
    {TRINE_LAYER_RMS_NORM, "input_layernorm", {"x"}, .out = "a"},
    QKV(false),
    {TRINE_LAYER_QK_NORM, "self_attn", {"qkv"}, .out = "n"},
    {TRINE_LAYER_ROPE, "self_attn.rope", {"n"}, .out = "rot"},
    {TRINE_LAYER_ATTENTION, "self_attn", {"rot"}, .out = "att", .dropout = "self_attn.dropout"},
    {TRINE_LAYER_ROW, "self_attn.o_proj", {"att", "x"}, .out = "m", .no_bias = true},
    MLP,
    {0},
};

static const trine_layer head[] = {
    {TRINE_LAYER_RMS_NORM, "norm", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

const trine_family trine_qwen2 = {.name = "qwen2",
                                  .embedding = embedding,
                                  .block = qwen2_block,
                                  .head = head,
                                  .blocks = "layers",
                                  .prefix = "model.",
                                  .hugging_face = "qwen2"};

const trine_family trine_qwen3 = {.name = "qwen3",
                                  .embedding = embedding,
                                  .block = qwen3_block,
                                  .head = head,
                                  .blocks = "layers",
                                  .prefix = "model.",
                                  .hugging_face = "qwen3"};
