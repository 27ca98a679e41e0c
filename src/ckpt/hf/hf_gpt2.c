/* config.json of a GPT-2: github.com/huggingface/transformers, models/gpt2/configuration_gpt2.py. */
#include <limits.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/hf/entries.h"
#include "ckpt/hf/hf_family.h"
#include "trine.h"

/* ---- Reading ---- */

static trine_status read_sizes(trine_model *m, const cJSON *config, const char *path) {
    TRY(hf_demand_size(config, "n_layer", "num_hidden_layers", &m->num_layers, path));
    TRY(hf_demand_size(config, "n_embd", "hidden_size", &m->hidden_size, path));
    TRY(hf_demand_size(config, "n_head", "num_attention_heads", &m->num_attention_heads, path));
    TRY(hf_demand_size(config, "n_positions", "max_position_embeddings", &m->seq_length, path));
    TRY(hf_demand_size(config, "vocab_size", NULL, &m->vocab_size, path));
    CHECK(m->hidden_size % m->num_attention_heads == 0, TRINE_EDATA,
          "%s: n_embd %d is not a multiple of n_head %d", path, m->hidden_size,
          m->num_attention_heads);
    const cJSON *inner = hf_entry_of(config, "n_inner");
    if (inner) return hf_read_size(inner, "n_inner", &m->ffn_hidden_size, path);
    CHECK(m->hidden_size <= INT_MAX / 4, TRINE_EDATA, "%s: n_embd %d is too large", path,
          m->hidden_size);
    m->ffn_hidden_size = 4 * m->hidden_size;
    return TRINE_OK;
}

static const char *const models[] = {"GPT2LMHeadModel", "GPT2Model", NULL};

/* Switches that change the forward pass. reorder_and_upcast_attn is not one of them: it asks for scores and softmax
 * in fp32, which they always are here. */
static const hf_switch switches[] = {{"scale_attn_weights", true},
                                     {"scale_attn_by_inverse_layer_idx", false},
                                     {"add_cross_attention", false},
                                     {"is_encoder_decoder", false}};

static trine_status expect_arithmetic(const cJSON *config, const char *path) {
    static const char *const gelus[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    TRY(hf_expect_text(hf_entry_of(config, "activation_function"), "activation_function", gelus,
                       path));
    const cJSON *epsilon = hf_entry_of(config, "layer_norm_epsilon");
    CHECK(!epsilon || cJSON_IsNumber(epsilon), TRINE_EINVAL,
          "%s: layer_norm_epsilon is not a number", path);
    CHECK(!epsilon || epsilon->valuedouble == 1e-5, TRINE_EINVAL,
          "%s: layer_norm_epsilon is %g; supported: 1e-05", path, epsilon->valuedouble);
    TRY(hf_expect_switches(config, switches, sizeof switches / sizeof *switches, path));
    return hf_expect_absent(config, path);
}

static trine_status parse(trine_model *m, const cJSON *config, const char *path) {
    TRY(hf_expect_architectures(config, models, path));
    TRY(expect_arithmetic(config, path));
    TRY(read_sizes(m, config, path));
    bool tied = true;
    TRY(hf_read_switch(config, "tie_word_embeddings", true, &tied, path));
    m->untied = !tied;
    return TRINE_OK;
}

/* ---- Writing ---- */

static bool add_sizes(cJSON *o, const trine_model *m) {
    int inner = m->ffn_hidden_size ? m->ffn_hidden_size : 4 * m->hidden_size;
    return cJSON_AddNumberToObject(o, "n_layer", m->num_layers) &&
           cJSON_AddNumberToObject(o, "n_embd", m->hidden_size) &&
           cJSON_AddNumberToObject(o, "n_head", m->num_attention_heads) &&
           cJSON_AddNumberToObject(o, "n_inner", inner) &&
           cJSON_AddNumberToObject(o, "n_positions", m->seq_length) &&
           cJSON_AddNumberToObject(o, "n_ctx", m->seq_length) &&
           cJSON_AddNumberToObject(o, "vocab_size", m->vocab_size);
}

static bool add_arithmetic(cJSON *o, const trine_model *m) {
    return cJSON_AddStringToObject(o, "activation_function", "gelu_new") &&
           cJSON_AddRawToObject(o, "layer_norm_epsilon", "1e-05") &&
           cJSON_AddBoolToObject(o, "scale_attn_weights", true) &&
           cJSON_AddBoolToObject(o, "scale_attn_by_inverse_layer_idx", false) &&
           cJSON_AddBoolToObject(o, "reorder_and_upcast_attn", false) &&
           cJSON_AddBoolToObject(o, "add_cross_attention", false) &&
           cJSON_AddBoolToObject(o, "tie_word_embeddings", !m->untied);
}

/* transformers' default is a dropout of 0.1 everywhere; Trine's is none. */
static bool add_training(cJSON *o) {
    return cJSON_AddRawToObject(o, "embd_pdrop", "0.0") &&
           cJSON_AddRawToObject(o, "resid_pdrop", "0.0") &&
           cJSON_AddRawToObject(o, "attn_pdrop", "0.0") &&
           cJSON_AddNumberToObject(o, "initializer_range", 0.02);
}

static bool print(cJSON *o, const trine_model *m) {
    return add_sizes(o, m) && add_arithmetic(o, m) && add_training(o);
}

/* <|endoftext|> is 50256, transformers' default. */
const hf_family hf_gpt2 = {.family = &trine_gpt2,
                           .model = "GPT2LMHeadModel",
                           .own_end = 50256,
                           .parse = parse,
                           .print = print};
