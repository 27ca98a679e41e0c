/* config.json of Llama, Mistral, Qwen2 and Qwen3: github.com/huggingface/transformers, version 5.23,
 * models/{llama,mistral,qwen2,qwen3}/configuration_*.py and modeling_rope_utils.py. Absent entries have the defaults of
 * the family's class there, except for sizes that the weights must have: those are demanded. null is refused where
 * transformers refuses it. */
#include <limits.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/hf/entries.h"
#include "ckpt/hf/hf_family.h"
#include "model/shape.h"
#include "trine.h"

/* ---- Reading ---- */

/* A size that may be absent. Where it is 0, and where null is accepted, other sizes give it. */
typedef struct {
    int absent;
    bool takes_null;
} default_size;

/* The family's class in transformers. */
typedef struct {
    const char *models[3];      /* `architectures` */
    default_size groups, width; /* num_key_value_heads, head_dim */
    int positions;              /* max_position_embeddings */
    hf_switch biases[2];        /* which the class reads; others it ignores */
    int bias_count;
} hf_class;

static const hf_class llama_class = {.models = {"LlamaForCausalLM", "LlamaModel"},
                                     .groups = {0, true},
                                     .width = {0, true},
                                     .positions = 2048,
                                     .biases = {{"attention_bias", false}, {"mlp_bias", false}},
                                     .bias_count = 2};
static const hf_class mistral_class = {.models = {"MistralForCausalLM", "MistralModel"},
                                       .groups = {8, false},
                                       .width = {0, true},
                                       .positions = 131072};
static const hf_class qwen2_class = {.models = {"Qwen2ForCausalLM", "Qwen2Model"},
                                     .groups = {32, true},
                                     .width = {0, false},
                                     .positions = 32768};
static const hf_class qwen3_class = {.models = {"Qwen3ForCausalLM", "Qwen3Model"},
                                     .groups = {32, true},
                                     .width = {128, false},
                                     .positions = 32768,
                                     .biases = {{"attention_bias", false}},
                                     .bias_count = 1};

static trine_status read_size_or(const cJSON *config, const char *key, default_size normal,
                                 int *size, const char *path) {
    const cJSON *entry = hf_member_of(config, key);
    *size = entry ? 0 : normal.absent;
    if (!entry || (cJSON_IsNull(entry) && normal.takes_null)) return TRINE_OK;
    return hf_read_size(entry, key, size, path);
}

static trine_status read_heads(trine_model *m, const hf_class *class, const cJSON *config,
                               const char *path) {
    TRY(hf_demand_size(config, "num_attention_heads", NULL, &m->num_attention_heads, path));
    int heads = m->num_attention_heads;
    TRY(read_size_or(config, "num_key_value_heads", class->groups, &m->num_query_groups, path));
    TRY(read_size_or(config, "head_dim", class->width, &m->kv_channels, path));
    CHECK(
        m->kv_channels || m->hidden_size % heads == 0, TRINE_EDATA,
        "%s: hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim",
        path, m->hidden_size, heads);
    int D = m->kv_channels ? m->kv_channels : m->hidden_size / heads;
    CHECK(D % 2 == 0, TRINE_EINVAL, "%s: head_dim %d is odd; rotary positions need pairs", path, D);
    CHECK(!m->num_query_groups || heads % m->num_query_groups == 0, TRINE_EDATA,
          "%s: num_attention_heads %d is not a multiple of num_key_value_heads %d%s", path, heads,
          m->num_query_groups,
          hf_member_of(config, "num_key_value_heads") ? "" : ", the default of its class");
    return TRINE_OK;
}

static trine_status read_sizes(trine_model *m, const hf_class *class, const cJSON *config,
                               const char *path) {
    TRY(hf_demand_size(config, "num_hidden_layers", NULL, &m->num_layers, path));
    TRY(hf_demand_size(config, "hidden_size", NULL, &m->hidden_size, path));
    TRY(hf_demand_size(config, "intermediate_size", NULL, &m->ffn_hidden_size, path));
    TRY(hf_demand_size(config, "vocab_size", NULL, &m->vocab_size, path));
    TRY(read_size_or(config, "max_position_embeddings", (default_size){class->positions, false},
                     &m->seq_length, path));
    TRY(read_heads(m, class, config, path));
    TRY(hf_read_number(config, "rms_norm_eps", 1e-6, &m->norm_epsilon, path));
    return TRINE_OK;
}

static const char *const rope_texts[] = {
#define ROPE_TEXT(id, text) text,
    TRINE_ROPE_LIST(ROPE_TEXT) NULL
#undef ROPE_TEXT
};

static trine_status demand_number(const cJSON *config, const char *key, double *value,
                                  const char *path) {
    CHECK(hf_entry_of(config, key), TRINE_EDATA, "%s: %s of the rope scaling is missing", path,
          key);
    return hf_read_number(config, key, 0, value, path);
}

/* `positions`: max_position_embeddings. */
static trine_status read_scaling(trine_rope_scaling *s, const cJSON *rope, int positions,
                                 const char *path) {
    const cJSON *type = hf_member_of(rope, "rope_type");
    if (!type) type = hf_member_of(rope, "type"); /* its name before transformers 4.43 */
    const char *text = type ? cJSON_GetStringValue(type) : rope_texts[TRINE_ROPE_DEFAULT];
    int kind = 0;
    while (text && rope_texts[kind] && strcmp(rope_texts[kind], text)) kind++;
    CHECK(text && rope_texts[kind], TRINE_EINVAL,
          "%s: rope_type is %.60s; supported: default, linear, llama3", path,
          text ? text : "not a string");
    s->kind = (trine_rope_kind)kind;
    if (s->kind == TRINE_ROPE_DEFAULT) return TRINE_OK;
    TRY(demand_number(rope, "factor", &s->factor, path));
    if (s->kind == TRINE_ROPE_LINEAR) return TRINE_OK;
    TRY(read_size_or(rope, "original_max_position_embeddings", (default_size){positions, false},
                     &s->original_length, path));
    TRY(demand_number(rope, "low_freq_factor", &s->low_freq_factor, path));
    TRY(demand_number(rope, "high_freq_factor", &s->high_freq_factor, path));
    CHECK(s->high_freq_factor > s->low_freq_factor, TRINE_EDATA,
          "%s: high_freq_factor %g must be greater than low_freq_factor %g", path,
          s->high_freq_factor, s->low_freq_factor);
    return TRINE_OK;
}

/* Other positions than those of the whole model: by type of layer, or of a part of each head. */
static trine_status expect_plain_rope(const cJSON *config, const cJSON *rope, const char *path) {
    const cJSON *each;
    cJSON_ArrayForEach(each, rope)
        CHECK(!cJSON_IsObject(each), TRINE_EINVAL,
              "%s: rope_parameters has %.60s: rotary positions by layer type are not supported",
              path, each->string);
    for (int n = 0; n < 2; n++) {
        const cJSON *part = hf_entry_of(n ? rope : config, "partial_rotary_factor");
        CHECK(!part || (cJSON_IsNumber(part) && part->valuedouble == 1), TRINE_EINVAL,
              "%s: partial_rotary_factor: only full rotation (1) is supported", path);
    }
    return TRINE_OK;
}

/* rope_parameters of transformers 5, or rope_theta and rope_scaling of older ones. If both are there, rope_scaling
 * counts alone, also in transformers 5. */
static trine_status read_rope(trine_model *m, const cJSON *config, const char *path) {
    const cJSON *rope = hf_entry_of(config, "rope_scaling");
    if (!rope || (cJSON_IsObject(rope) && !rope->child))
        rope = hf_entry_of(config, "rope_parameters");
    CHECK(!rope || cJSON_IsObject(rope), TRINE_EINVAL, "%s: the rope scaling is not an object",
          path);
    TRY(expect_plain_rope(config, rope, path));
    const cJSON *theta = hf_member_of(rope, "rope_theta") ? rope : config;
    TRY(hf_read_number(theta, "rope_theta", 10000, &m->rotary_base, path));
    if (rope) TRY(read_scaling(&m->rope_scaling, rope, m->seq_length, path));
    const cJSON *beside = hf_entry_of(config, "original_max_position_embeddings");
    CHECK(!beside || m->rope_scaling.kind != TRINE_ROPE_LLAMA3 ||
              beside->valuedouble == m->rope_scaling.original_length,
          TRINE_EINVAL,
          "%s: original_max_position_embeddings differs between rope_scaling and the top level; "
          "remove one",
          path);
    return TRINE_OK;
}

static trine_status parse_common(trine_model *m, const hf_class *class, const cJSON *config,
                                 const char *path) {
    static const char *const silu[] = {"silu", "swish", NULL};
    const cJSON *act = hf_member_of(config, "hidden_act");
    bool tied = false;
    TRY(hf_expect_architectures(config, class->models, path));
    TRY(hf_expect_text(act, "hidden_act", silu, path));
    TRY(hf_expect_absent(config, path));
    TRY(hf_expect_switches(config, class->biases, (size_t) class->bias_count, path));
    TRY(read_sizes(m, class, config, path));
    TRY(read_rope(m, config, path));
    TRY(hf_read_switch(config, "tie_word_embeddings", false, &tied, path));
    m->untied = !tied;
    return TRINE_OK;
}

static trine_status parse_llama(trine_model *m, const cJSON *config, const char *path) {
    return parse_common(m, &llama_class, config, path);
}

/* ---- Windows ---- */

/* *window = 0: none. */
static trine_status read_window(const cJSON *config, int *window, const char *path) {
    return read_size_or(config, "sliding_window", (default_size){4096, true}, window, path);
}

/* A window of fewer positions than the model has limits the sequence: within it, a sliding window sees all. */
static void limit(trine_model *m, int window) {
    if (window && window < m->seq_length) m->seq_length = window;
}

static trine_status parse_mistral(trine_model *m, const cJSON *config, const char *path) {
    int window;
    TRY(parse_common(m, &mistral_class, config, path));
    TRY(read_window(config, &window, path));
    limit(m, window);
    return TRINE_OK;
}

/* Whether layer_types has a layer with a sliding window. */
static trine_status read_types(const cJSON *types, int layers, bool *slides, const char *path) {
    static const char *const known[] = {"full_attention", "sliding_attention", NULL};
    const cJSON *each;
    CHECK(cJSON_IsArray(types), TRINE_EINVAL, "%s: layer_types is not a list", path);
    int count = cJSON_GetArraySize(types);
    CHECK(count == layers, TRINE_EDATA, "%s: layer_types has %d entries, num_hidden_layers is %d",
          path, count, layers);
    cJSON_ArrayForEach(each, types) {
        TRY(hf_expect_text(each, "layer_types", known, path));
        *slides = *slides || !strcmp(cJSON_GetStringValue(each), "sliding_attention");
    }
    return TRINE_OK;
}

/* Without layer_types, layers slide from max_window_layers on. */
static trine_status read_slides(const cJSON *config, int layers, bool *slides, const char *path) {
    const cJSON *types = hf_entry_of(config, "layer_types");
    const cJSON *first = hf_member_of(config, "max_window_layers");
    if (types) return read_types(types, layers, slides, path);
    CHECK(!first || cJSON_IsNumber(first), TRINE_EINVAL, "%s: max_window_layers is not a number",
          path);
    *slides = layers > (first ? first->valuedouble : 28);
    return TRINE_OK;
}

static trine_status parse_qwen(trine_model *m, const hf_class *class, const cJSON *config,
                               const char *path) {
    bool windows = false, slides = false;
    int window = 0;
    TRY(parse_common(m, class, config, path));
    TRY(hf_read_switch(config, "use_sliding_window", false, &windows, path));
    if (windows) TRY(read_window(config, &window, path));
    TRY(read_slides(config, m->num_layers, &slides, path));
    CHECK(!slides || window || !hf_entry_of(config, "layer_types"), TRINE_EINVAL,
          "%s: layer_types has sliding_attention, but use_sliding_window and sliding_window give "
          "no window",
          path);
    if (slides) limit(m, window);
    return TRINE_OK;
}

static trine_status parse_qwen2(trine_model *m, const cJSON *config, const char *path) {
    return parse_qwen(m, &qwen2_class, config, path);
}

static trine_status parse_qwen3(trine_model *m, const cJSON *config, const char *path) {
    return parse_qwen(m, &qwen3_class, config, path);
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
           cJSON_AddNumberToObject(o, "max_position_embeddings", gpt_positions(m)) &&
           cJSON_AddNumberToObject(o, "vocab_size", m->vocab_size) &&
           cJSON_AddStringToObject(o, "hidden_act", "silu") &&
           add_number(o, "rms_norm_eps", or_else(m->norm_epsilon, 1e-5)) &&
           add_number(o, "rope_theta", or_else(m->rotary_base, 10000)) &&
           add_scaling(o, &m->rope_scaling) &&
           cJSON_AddBoolToObject(o, "tie_word_embeddings", !m->untied) &&
           cJSON_AddRawToObject(o, "attention_dropout", "0.0") &&
           cJSON_AddNumberToObject(o, "initializer_range", 0.02);
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
