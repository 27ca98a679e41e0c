/* GPT-2: Radford et al., "Language models are unsupervised multitask learners", 2019, section 2.3. */
#include "trine_model.h"

static const trine_layer embedding[] = {
    {TRINE_LAYER_TOKENS, "wte", .out = "tokens"},
    {TRINE_LAYER_POSITIONS, "wpe", {"tokens"}, .out = "y", .dropout = "wte.dropout"},
    {0},
};

static const trine_layer block[] = {
    {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
    {TRINE_LAYER_COLUMN, "attn.c_attn", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.c_proj", {"att", "x"}, .out = "m", .dropout = "attn.resid_dropout"},
    {TRINE_LAYER_NORM, "ln_2", {"m"}, .out = "b"},
    {TRINE_LAYER_COLUMN, "mlp.c_fc", {"b"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.c_proj", {"gelu", "m"}, .out = "y", .dropout = "mlp.dropout"},
    {0},
};

static const trine_layer head[] = {
    {TRINE_LAYER_NORM, "ln_f", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

const trine_family trine_gpt2 = {.name = "gpt2",
                                 .embedding = embedding,
                                 .block = block,
                                 .head = head,
                                 .transposed = true,
                                 .hugging_face = "gpt2"};
