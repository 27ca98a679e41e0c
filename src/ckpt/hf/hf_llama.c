/* config.json of Llama, Mistral, Qwen2 and Qwen3: github.com/huggingface/transformers,
 * models/{llama,mistral,qwen2,qwen3}/configuration_*.py and modeling_rope_utils.py. Absent entries have the defaults of
 * the family's class there. */
#include <limits.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/hf/entries.h"
#include "ckpt/hf/hf_family.h"

/* ---- Reading ---- */

static trine_status read_heads(trine_model *m, const cJSON *config, const char *path) {
    TRY(hf_demand_size(config, "num_attention_heads", NULL, &m->num_attention_heads, path));
    const cJSON *groups = hf_entry_of(config, "num_key_value_heads");
    const cJSON *width = hf_entry_of(config, "head_dim");
    if (groups) TRY(hf_read_size(groups, "num_key_value_heads", &m->num_query_groups, path));
    if (width) TRY(hf_read_size(width, "head_dim", &m->kv_channels, path));
    CHECK(
        width || m->hidden_size % m->num_attention_heads == 0, TRINE_EDATA,
        "%s: hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim",
        path, m->hidden_size, m->num_attention_heads);
    int D = width ? m->kv_channels : m->hidden_size / m->num_attention_heads;
    CHECK(D % 2 == 0, TRINE_EINVAL, "%s: head_dim %d is odd; rotary positions need pairs", path, D);
    CHECK(!groups || m->num_attention_heads % m->num_query_groups == 0, TRINE_EDATA,
          "%s: num_attention_heads %d is not a multiple of num_key_value_heads %d", path,
          m->num_attention_heads, m->num_query_groups);
    return TRINE_OK;
}

static trine_status read_sizes(trine_model *m, const cJSON *config, const char *path) {
    TRY(hf_demand_size(config, "num_hidden_layers", NULL, &m->num_layers, path));
    TRY(hf_demand_size(config, "hidden_size", NULL, &m->hidden_size, path));
    TRY(hf_demand_size(config, "intermediate_size", NULL, &m->ffn_hidden_size, path));
    TRY(hf_demand_size(config, "max_position_embeddings", NULL, &m->seq_length, path));
    TRY(hf_demand_size(config, "vocab_size", NULL, &m->vocab_size, path));
    TRY(read_heads(m, config, path));
    TRY(hf_read_number(config, "rms_norm_eps", 1e-6, &m->norm_epsilon, path));
    return TRINE_OK;
}

static const char *const rope_texts[] = {
#define ROPE_TEXT(id, text) text,
    TRINE_ROPE_LIST(ROPE_TEXT) NULL
#undef ROPE_TEXT
};

static trine_status read_scaling(trine_rope_scaling *s, const cJSON *rope, const char *path) {
    const cJSON *type = hf_entry_of(rope, "rope_type");
    if (!type) type = hf_entry_of(rope, "type"); /* its name before transformers 4.43 */
    const char *text = type ? cJSON_GetStringValue(type) : rope_texts[TRINE_ROPE_DEFAULT];
    int kind = 0;
    while (text && rope_texts[kind] && strcmp(rope_texts[kind], text)) kind++;
    CHECK(text && rope_texts[kind], TRINE_EINVAL,
          "%s: rope_type is %.60s; supported: default, linear, llama3", path,
          text ? text : "not a string");
    s->kind = (trine_rope_kind)kind;
    if (s->kind == TRINE_ROPE_DEFAULT) return TRINE_OK;
    CHECK(hf_entry_of(rope, "factor"), TRINE_EDATA, "%s: factor of the rope scaling is missing",
          path);
    TRY(hf_read_number(rope, "factor", 1, &s->factor, path));
    if (s->kind == TRINE_ROPE_LINEAR) return TRINE_OK;
    TRY(hf_demand_size(rope, "original_max_position_embeddings", NULL, &s->original_length, path));
    TRY(hf_read_number(rope, "low_freq_factor", 1, &s->low_freq_factor, path));
    TRY(hf_read_number(rope, "high_freq_factor", 4, &s->high_freq_factor, path));
    CHECK(s->high_freq_factor > s->low_freq_factor, TRINE_EDATA,
          "%s: high_freq_factor %g must be greater than low_freq_factor %g", path,
          s->high_freq_factor, s->low_freq_factor);
    return TRINE_OK;
}

/* rope_parameters of transformers 5, or rope_theta and rope_scaling of older ones. If both are there, rope_scaling
 * counts alone, also in transformers 5. */
static trine_status read_rope(trine_model *m, const cJSON *config, const char *path) {
    const cJSON *rope = hf_entry_of(config, "rope_scaling"), *part;
    if (!rope || (cJSON_IsObject(rope) && !rope->child))
        rope = hf_entry_of(config, "rope_parameters");
    CHECK(!rope || cJSON_IsObject(rope), TRINE_EINVAL, "%s: the rope scaling is not an object",
          path);
    const cJSON *theta = hf_entry_of(rope, "rope_theta") ? rope : config;
    TRY(hf_read_number(theta, "rope_theta", 10000, &m->rotary_base, path));
    for (int n = 0; n < 2; n++) {
        part = hf_entry_of(n ? rope : config, "partial_rotary_factor");
        CHECK(!part || (cJSON_IsNumber(part) && part->valuedouble == 1), TRINE_EINVAL,
              "%s: partial_rotary_factor: only full rotation (1) is supported", path);
    }
    if (rope) TRY(read_scaling(&m->rope_scaling, rope, path));
    const cJSON *beside = hf_entry_of(config, "original_max_position_embeddings");
    CHECK(!beside || m->rope_scaling.kind != TRINE_ROPE_LLAMA3 ||
              beside->valuedouble == m->rope_scaling.original_length,
          TRINE_EINVAL,
          "%s: original_max_position_embeddings is another in the rope scaling than beside it; "
          "remove one",
          path);
    return TRINE_OK;
}

/* A window of fewer positions than the model has limits the sequence: within it, a sliding window sees all. */
static trine_status read_window(trine_model *m, const cJSON *config, int normal, const char *path) {
    const cJSON *entry = hf_member_of(config, "sliding_window");
    int window = normal;
    if (entry && !cJSON_IsNull(entry)) TRY(hf_read_size(entry, "sliding_window", &window, path));
    if (cJSON_IsNull(entry)) window = 0;
    if (window && window < m->seq_length) m->seq_length = window;
    return TRINE_OK;
}

static const hf_switch no_biases[] = {{"attention_bias", false}, {"mlp_bias", false}};

static trine_status parse_common(trine_model *m, const cJSON *config, const char *const *models,
                                 const char *path) {
    static const char *const silu[] = {"silu", "swish", NULL};
    bool tied = false;
    TRY(hf_expect_architectures(config, models, path));
    TRY(hf_expect_text(hf_entry_of(config, "hidden_act"), "hidden_act", silu, path));
    TRY(hf_expect_absent(config, path));
    TRY(hf_expect_switches(config, no_biases, sizeof no_biases / sizeof *no_biases, path));
    TRY(read_sizes(m, config, path));
    TRY(read_rope(m, config, path));
    TRY(hf_read_switch(config, "tie_word_embeddings", false, &tied, path));
    m->untied = !tied;
    return TRINE_OK;
}

static trine_status parse_llama(trine_model *m, const cJSON *config, const char *path) {
    static const char *const models[] = {"LlamaForCausalLM", "LlamaModel", NULL};
    return parse_common(m, config, models, path);
}

static trine_status parse_mistral(trine_model *m, const cJSON *config, const char *path) {
    static const char *const models[] = {"MistralForCausalLM", "MistralModel", NULL};
    TRY(parse_common(m, config, models, path));
    return read_window(m, config, 4096, path);
}

static trine_status parse_qwen(trine_model *m, const cJSON *config, const char *const *models,
                               const char *path) {
    bool windows = false;
    TRY(parse_common(m, config, models, path));
    TRY(hf_read_switch(config, "use_sliding_window", false, &windows, path));
    return windows ? read_window(m, config, 4096, path) : TRINE_OK;
}

static trine_status parse_qwen2(trine_model *m, const cJSON *config, const char *path) {
    static const char *const models[] = {"Qwen2ForCausalLM", "Qwen2Model", NULL};
    return parse_qwen(m, config, models, path);
}

/* Qwen3Config: head_dim is 128 unless it is given. */
static trine_status parse_qwen3(trine_model *m, const cJSON *config, const char *path) {
    static const char *const models[] = {"Qwen3ForCausalLM", "Qwen3Model", NULL};
    TRY(parse_qwen(m, config, models, path));
    if (!hf_member_of(config, "head_dim")) m->kv_channels = 128;
    return TRINE_OK;
}

/* ---- Writing ---- */

static double or_else(double value, double normal) {
    return value > 0 ? value : normal;
}

static bool add_number(cJSON *o, const char *key, double value) {
    char text[JSON_NUMBER];
    return cJSON_AddRawToObject(o, key, json_number(text, value)) != NULL;
}

static bool add_scaling(cJSON *o, const trine_rope_scaling *s) {
    if (s->kind == TRINE_ROPE_DEFAULT) return cJSON_AddNullToObject(o, "rope_scaling") != NULL;
    cJSON *rope = cJSON_AddObjectToObject(o, "rope_scaling");
    if (!rope || !cJSON_AddStringToObject(rope, "rope_type", rope_texts[s->kind]) ||
        !add_number(rope, "factor", s->factor))
        return false;
    return s->kind != TRINE_ROPE_LLAMA3 ||
           (add_number(rope, "low_freq_factor", s->low_freq_factor) &&
            add_number(rope, "high_freq_factor", s->high_freq_factor) &&
            cJSON_AddNumberToObject(rope, "original_max_position_embeddings", s->original_length));
}

static bool print(cJSON *o, const trine_model *m) {
    int groups = m->num_query_groups ? m->num_query_groups : m->num_attention_heads;
    int D = m->kv_channels ? m->kv_channels : m->hidden_size / m->num_attention_heads;
    return cJSON_AddNumberToObject(o, "num_hidden_layers", m->num_layers) &&
           cJSON_AddNumberToObject(o, "hidden_size", m->hidden_size) &&
           cJSON_AddNumberToObject(o, "intermediate_size", m->ffn_hidden_size) &&
           cJSON_AddNumberToObject(o, "num_attention_heads", m->num_attention_heads) &&
           cJSON_AddNumberToObject(o, "num_key_value_heads", groups) &&
           cJSON_AddNumberToObject(o, "head_dim", D) &&
           cJSON_AddNumberToObject(o, "max_position_embeddings", m->seq_length) &&
           cJSON_AddNumberToObject(o, "vocab_size", m->vocab_size) &&
           cJSON_AddStringToObject(o, "hidden_act", "silu") &&
           add_number(o, "rms_norm_eps", or_else(m->norm_epsilon, 1e-5)) &&
           add_number(o, "rope_theta", or_else(m->rotary_base, 10000)) &&
           add_scaling(o, &m->rope_scaling) &&
           cJSON_AddBoolToObject(o, "tie_word_embeddings", !m->untied) &&
           cJSON_AddRawToObject(o, "attention_dropout", "0.0") &&
           cJSON_AddNumberToObject(o, "initializer_range", 0.02) &&
           cJSON_AddNullToObject(o, "bos_token_id") && cJSON_AddNullToObject(o, "eos_token_id");
}

static bool print_mistral(cJSON *o, const trine_model *m) {
    return print(o, m) && cJSON_AddNullToObject(o, "sliding_window");
}

const hf_family hf_llama = {
    .family = &trine_llama, .model = "LlamaForCausalLM", .parse = parse_llama, .print = print};
const hf_family hf_mistral = {.family = &trine_mistral,
                              .model = "MistralForCausalLM",
                              .parse = parse_mistral,
                              .print = print_mistral};
const hf_family hf_qwen2 = {
    .family = &trine_qwen2, .model = "Qwen2ForCausalLM", .parse = parse_qwen2, .print = print};
const hf_family hf_qwen3 = {
    .family = &trine_qwen3, .model = "Qwen3ForCausalLM", .parse = parse_qwen3, .print = print};
