/* Llama: Touvron et al., "Llama 2", 2023, section 2.2; Grattafiori et al., "The Llama 3 herd of models", 2024, section
 * 3.2. Mistral 7B (Jiang et al., 2023) has the same layers; its sliding window is not implemented. */
#include "trine_model.h"

static const trine_layer embedding[] = {
    {TRINE_LAYER_TOKENS, "embed_tokens", .out = "y"},
    {0},
};

static const trine_layer block[] = {
    {TRINE_LAYER_RMS_NORM, "input_layernorm", {"x"}, .out = "a"},
    {TRINE_LAYER_COLUMN,
     "self_attn",
     {"a"},
     .out = "qkv",
     .width = {TRINE_QKV, 1},
     .no_bias = true,
     .tensors = {"q_proj", "k_proj", "v_proj"}},
    {TRINE_LAYER_ROPE, "self_attn.rope", {"qkv"}, .out = "rot"},
    {TRINE_LAYER_ATTENTION, "self_attn", {"rot"}, .out = "att", .dropout = "self_attn.dropout"},
    {TRINE_LAYER_ROW, "self_attn.o_proj", {"att", "x"}, .out = "m", .no_bias = true},
    {TRINE_LAYER_RMS_NORM, "post_attention_layernorm", {"m"}, .out = "b"},
    {TRINE_LAYER_COLUMN,
     "mlp",
     {"b"},
     .out = "gu",
     .width = {TRINE_FFN, 2},
     .no_bias = true,
     .tensors = {"gate_proj", "up_proj"}},
    {TRINE_LAYER_SWIGLU, "mlp.act", {"gu"}, .out = "s"},
    {TRINE_LAYER_ROW, "mlp.down_proj", {"s", "m"}, .out = "y", .no_bias = true},
    {0},
};

static const trine_layer head[] = {
    {TRINE_LAYER_RMS_NORM, "norm", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

const trine_family trine_llama = {.name = "llama",
                                  .embedding = embedding,
                                  .block = block,
                                  .head = head,
                                  .blocks = "layers",
                                  .prefix = "model.",
                                  .hugging_face = "llama"};

const trine_family trine_mistral = {.name = "mistral",
                                    .embedding = embedding,
                                    .block = block,
                                    .head = head,
                                    .blocks = "layers",
                                    .prefix = "model.",
                                    .hugging_face = "mistral"};
