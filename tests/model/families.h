/* Families for tests of layer lists, with properties that GPT-2's list lacks. */
#ifndef TRINE_TESTS_MODEL_FAMILIES_H
#define TRINE_TESTS_MODEL_FAMILIES_H

#include "trine_model.h"

static const trine_layer learned_positions[] = {
    {TRINE_LAYER_TOKENS, "wte", .out = "tokens"},
    {TRINE_LAYER_POSITIONS, "wpe", {"tokens"}, .out = "y", .dropout = "wte.dropout"},
    {0},
};

static const trine_layer normed_head[] = {
    {TRINE_LAYER_NORM, "ln_f", {"x"}, .out = "n"},
    {TRINE_LAYER_LOSS, "lm_head", .in = {"n"}},
    {0},
};

/* One norm for both branches (GPT-J, Wang and Komatsuzaki 2021): two layers read one value, whose gradients are
 * added, and "m" is not kept. */
static const trine_layer parallel_block[] = {
    {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
    {TRINE_LAYER_COLUMN, "attn.qkv", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.out", {"att", "x"}, .out = "m", .dropout = "attn.out_dropout"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"a"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu", "m"}, .out = "y", .dropout = "mlp.dropout"},
    {0},
};

/* A norm for each branch (GPT-NeoX, Black et al. 2022), in an order in which the second one reads "x" while the
 * gradient stream belongs to "m". */
static const trine_layer two_norms_block[] = {
    {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
    {TRINE_LAYER_COLUMN, "attn.qkv", {"a"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.out", {"att", "x"}, .out = "m", .dropout = "attn.out_dropout"},
    {TRINE_LAYER_NORM, "ln_2", {"x"}, .out = "b"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"b"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu", "m"}, .out = "y", .dropout = "mlp.dropout"},
    {0},
};

/* Norms after the sums (Vaswani et al. 2017): matmuls read "x" itself, a norm writes "y", and no matmul keeps the
 * input of a norm. */
static const trine_layer post_norm_block[] = {
    {TRINE_LAYER_COLUMN, "attn.qkv", {"x"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.out", {"att", "x"}, .out = "m", .dropout = "attn.out_dropout"},
    {TRINE_LAYER_NORM, "ln_1", {"m"}, .out = "a"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"a"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu", "a"}, .out = "s", .dropout = "mlp.dropout"},
    {TRINE_LAYER_NORM, "ln_2", {"s"}, .out = "y"},
    {0},
};

/* Two branches of "x" and a norm after both: no backward pass reads "m", and full recomputation recomputes it because
 * other values depend on it. */
static const trine_layer late_norm_block[] = {
    {TRINE_LAYER_COLUMN, "attn.qkv", {"x"}, .out = "qkv", .width = {TRINE_HIDDEN, 3}},
    {TRINE_LAYER_ATTENTION, "attn", {"qkv"}, .out = "att", .dropout = "attn.dropout"},
    {TRINE_LAYER_ROW, "attn.out", {"att", "x"}, .out = "m", .dropout = "attn.out_dropout"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"x"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu", "m"}, .out = "s", .dropout = "mlp.dropout"},
    {TRINE_LAYER_NORM, "ln_1", {"s"}, .out = "y"},
    {0},
};

/* Chains of recomputed values: a norm of a norm, GELU of GELU. */
static const trine_layer chains_block[] = {
    {TRINE_LAYER_NORM, "ln_1", {"x"}, .out = "a"},
    {TRINE_LAYER_NORM, "ln_2", {"a"}, .out = "b"},
    {TRINE_LAYER_COLUMN, "mlp.fc_in", {"b"}, .out = "fc", .width = {TRINE_FFN, 1}},
    {TRINE_LAYER_GELU, "mlp.gelu", {"fc"}, .out = "gelu"},
    {TRINE_LAYER_GELU, "mlp.gelu_2", {"gelu"}, .out = "gelu_2"},
    {TRINE_LAYER_ROW, "mlp.fc_out", {"gelu_2", "x"}, .out = "y", .dropout = "mlp.dropout"},
    {0},
};

static const trine_family parallel_family = {
    .name = "parallel", .embedding = learned_positions, .block = parallel_block, .head = normed_head};
static const trine_family two_norms_family = {
    .name = "two-norms", .embedding = learned_positions, .block = two_norms_block, .head = normed_head};
static const trine_family post_norm_family = {
    .name = "post-norm", .embedding = learned_positions, .block = post_norm_block, .head = normed_head};
static const trine_family late_norm_family = {.name = "late-norm",
                                              .embedding = learned_positions,
                                              .block = late_norm_block,
                                              .head = normed_head};

static const trine_family chains_family = {.name = "chains",
                                           .embedding = learned_positions,
                                           .block = chains_block,
                                           .head = normed_head};

static const trine_family *const test_families[] = {&trine_gpt2,       &parallel_family,
                                                    &two_norms_family, &post_norm_family,
                                                    &late_norm_family, &chains_family,
                                                    &trine_llama,      &trine_qwen2,
                                                    &trine_qwen3};
#define TEST_FAMILIES ((int)(sizeof test_families / sizeof *test_families))

/* Whether its blocks have separate heads of keys and values: then tests give it fewer of them, and heads whose width
 * is not C / H. */
static inline bool groups_queries(const trine_family *f) {
    return f == &trine_llama || f == &trine_qwen2 || f == &trine_qwen3;
}

#endif
