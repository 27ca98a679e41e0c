/* Llama: Touvron et al., "Llama 2", 2023, section 2.2; Grattafiori et al., "The Llama 3 herd of models", 2024, section
 * 3.2. Mistral 7B (Jiang et al., 2023) has the same layers; its sliding window is not implemented.
 *
 * Qwen2: Yang et al., "Qwen2 technical report", 2024, section 2.2: Llama's layers, with biases of queries, keys and
 * values. Qwen3: Yang et al., "Qwen3 technical report", 2025, section 2: a norm of each query and key head instead. */
#include "trine_model.h"

static const trine_layer embedding[] = {
    {TRINE_LAYER_TOKENS, "embed_tokens", .out = "y"},
    {0},
};

/* The rows up to "qkv", and those from "rot" on. */
#define QKV(biased)                                                                                \
    {TRINE_LAYER_RMS_NORM, "input_layernorm", {"x"}, .out = "a"}, {                                \
        TRINE_LAYER_COLUMN, "self_attn", {"a"}, .out = "qkv", .width = {TRINE_QKV, 1},             \
                                                .no_bias = !(biased), .tensors = {                 \
                                                    "q_proj",                                      \
                                                    "k_proj",                                      \
                                                    "v_proj"                                       \
                                                }                                                  \
    }

#define REST                                                                                       \
    {TRINE_LAYER_ATTENTION, "self_attn", {"rot"}, .out = "att", .dropout = "self_attn.dropout"},   \
        {TRINE_LAYER_ROW, "self_attn.o_proj", {"att", "x"}, .out = "m", .no_bias = true},          \
        {TRINE_LAYER_RMS_NORM, "post_attention_layernorm", {"m"}, .out = "b"},                     \
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

static const trine_layer llama[] = {
    QKV(false),
    {TRINE_LAYER_ROPE, "self_attn.rope", {"qkv"}, .out = "rot"},
    REST,
    {0},
};

static const trine_layer qwen2[] = {
    QKV(true),
    {TRINE_LAYER_ROPE, "self_attn.rope", {"qkv"}, .out = "rot"},
    REST,
    {0},
};

static const trine_layer qwen3[] = {
    QKV(false),
    {TRINE_LAYER_QK_NORM, "self_attn", {"qkv"}, .out = "n"},
    {TRINE_LAYER_ROPE, "self_attn.rope", {"n"}, .out = "rot"},
    REST,
    {0},
};

static const trine_layer head[] = {
    {TRINE_LAYER_RMS_NORM, "norm", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

#define FAMILY(text, rows)                                                                         \
    {                                                                                              \
        .name = text, .embedding = embedding, .block = rows, .head = head, .blocks = "layers",     \
        .prefix = "model.", .hugging_face = text                                                   \
    }
const trine_family trine_llama = FAMILY("llama", llama);
const trine_family trine_mistral = FAMILY("mistral", llama);
const trine_family trine_qwen2 = FAMILY("qwen2", qwen2);
const trine_family trine_qwen3 = FAMILY("qwen3", qwen3);
