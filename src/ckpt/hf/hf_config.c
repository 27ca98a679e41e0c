/* Reads and writes config.json. */
#include "ckpt/hf/hf.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/json.h"

/* ---- Reading ---- */

/* The last member of that name, like Python; NULL if none. */
static const cJSON *member_of(const cJSON *config, const char *key) {
    const cJSON *found = NULL, *each;
    cJSON_ArrayForEach(each, config) if (!strcmp(each->string, key)) found = each;
    return found;
}

/* The same; null counts as absent. */
static const cJSON *entry_of(const cJSON *config, const char *key) {
    const cJSON *entry = member_of(config, key);
    return cJSON_IsNull(entry) ? NULL : entry;
}

static trine_status read_size(const cJSON *entry, const char *key, int *size, const char *path) {
    double value = cJSON_IsNumber(entry) ? entry->valuedouble : 0;
    CHECK(value >= 1 && value <= INT_MAX && value == (double)(int)value, TRINE_EDATA,
          "%s: %s must be an integer from 1 to %d", path, key, INT_MAX);
    *size = (int)value;
    return TRINE_OK;
}

/* Sizes have two names; transformers reads both, and the second one takes precedence. */
static trine_status demand_size(const cJSON *config, const char *key, const char *alias, int *size,
                                const char *path) {
    const cJSON *entry = entry_of(config, key), *other = alias ? entry_of(config, alias) : NULL;
    CHECK(entry || other, TRINE_EDATA, "%s: %s is missing", path, key);
    TRY(read_size(entry ? entry : other, entry ? key : alias, size, path));
    if (!entry || !other) return TRINE_OK;
    int second = 0;
    TRY(read_size(other, alias, &second, path));
    CHECK(second == *size, TRINE_EDATA, "%s: %s is %d but its alias %s is %d; remove one", path,
          key, *size, alias, second);
    return TRINE_OK;
}

static trine_status read_sizes(trine_model *m, const cJSON *config, const char *path) {
    TRY(demand_size(config, "n_layer", "num_hidden_layers", &m->num_layers, path));
    TRY(demand_size(config, "n_embd", "hidden_size", &m->hidden_size, path));
    TRY(demand_size(config, "n_head", "num_attention_heads", &m->num_attention_heads, path));
    TRY(demand_size(config, "n_positions", "max_position_embeddings", &m->seq_length, path));
    TRY(demand_size(config, "vocab_size", NULL, &m->vocab_size, path));
    CHECK(m->hidden_size % m->num_attention_heads == 0, TRINE_EDATA,
          "%s: n_embd %d is not a multiple of n_head %d", path, m->hidden_size,
          m->num_attention_heads);
    const cJSON *inner = entry_of(config, "n_inner");
    if (inner) return read_size(inner, "n_inner", &m->ffn_hidden_size, path);
    CHECK(m->hidden_size <= INT_MAX / 4, TRINE_EDATA, "%s: n_embd %d is too large", path,
          m->hidden_size);
    m->ffn_hidden_size = 4 * m->hidden_size;
    return TRINE_OK;
}

/* Expects one of the texts in `allowed` (ended by NULL), or an absent entry. */
static trine_status expect_text(const cJSON *entry, const char *key, const char *const *allowed,
                                const char *path) {
    if (!entry) return TRINE_OK;
    const char *text = cJSON_GetStringValue(entry);
    for (const char *const *a = allowed; text && *a; a++)
        if (!strcmp(text, *a)) return TRINE_OK;
    return RAISE(TRINE_EINVAL, "%s: %s is %.60s; supported: %s%s%s", path, key,
                 text ? text : "not a string", allowed[0], allowed[1] ? " or " : "",
                 allowed[1] ? allowed[1] : "");
}

/* Here null is not absent: Python takes it for false. */
static trine_status read_switch(const cJSON *config, const char *key, bool normal, bool *value,
                                const char *path) {
    const cJSON *entry = member_of(config, key);
    CHECK(!entry || cJSON_IsBool(entry), TRINE_EINVAL, "%s: %s must be true or false", path, key);
    *value = entry ? cJSON_IsTrue(entry) : normal;
    return TRINE_OK;
}

/* Refuses switches that change the forward pass. reorder_and_upcast_attn is not one of them: it
 * asks for scores and softmax in fp32, which they always are here. */
static trine_status expect_switches(const cJSON *config, const char *path) {
    static const struct {
        const char *key;
        bool normal;
    } switches[] = {{"scale_attn_weights", true},
                    {"scale_attn_by_inverse_layer_idx", false},
                    {"add_cross_attention", false},
                    {"is_encoder_decoder", false}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool normal = switches[i].normal, value = normal;
        TRY(read_switch(config, switches[i].key, normal, &value, path));
        CHECK(value == normal, TRINE_EINVAL, "%s: %s is %s; supported: %s", path, switches[i].key,
              value ? "true" : "false", normal ? "true" : "false");
    }
    return TRINE_OK;
}

/* Refuses entries that mean other weights or other code, whatever their value, unless they are
 * empty. */
static trine_status expect_absent(const cJSON *config, const char *path) {
    static const struct {
        const char *key, *means;
    } entries[] = {{"quantization_config", "its weights are quantized"},
                   {"pruned_heads", "some of its attention heads are pruned"},
                   {"auto_map", "it needs custom code"}};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const cJSON *entry = entry_of(config, entries[i].key);
        bool empty = !entry || ((cJSON_IsObject(entry) || cJSON_IsArray(entry)) && !entry->child);
        CHECK(empty, TRINE_EINVAL, "%s: %s: %s, which is not supported", path, entries[i].key,
              entries[i].means);
    }
    return TRINE_OK;
}

static trine_status expect_architecture(const cJSON *config, const char *path) {
    static const char *const types[] = {"gpt2", NULL};
    static const char *const models[] = {"GPT2LMHeadModel", "GPT2Model", NULL};
    CHECK(entry_of(config, "model_type"), TRINE_EINVAL,
          "%s: model_type is missing; supported: gpt2", path);
    TRY(expect_text(entry_of(config, "model_type"), "model_type", types, path));
    const cJSON *list = entry_of(config, "architectures"), *each;
    CHECK(!list || cJSON_IsArray(list), TRINE_EINVAL, "%s: architectures is not a list", path);
    cJSON_ArrayForEach(each, list) TRY(expect_text(each, "architectures", models, path));
    return TRINE_OK;
}

static trine_status expect_arithmetic(const cJSON *config, const char *path) {
    static const char *const gelus[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    TRY(expect_text(entry_of(config, "activation_function"), "activation_function", gelus, path));
    const cJSON *epsilon = entry_of(config, "layer_norm_epsilon");
    CHECK(!epsilon || cJSON_IsNumber(epsilon), TRINE_EINVAL,
          "%s: layer_norm_epsilon is not a number", path);
    CHECK(!epsilon || epsilon->valuedouble == 1e-5, TRINE_EINVAL,
          "%s: layer_norm_epsilon is %g; supported: 1e-05", path, epsilon->valuedouble);
    TRY(expect_switches(config, path));
    return expect_absent(config, path);
}

static trine_status read_config(trine_model *m, const cJSON *config, const char *path) {
    TRY(expect_architecture(config, path));
    TRY(expect_arithmetic(config, path));
    TRY(read_sizes(m, config, path));
    bool tied = true;
    TRY(read_switch(config, "tie_word_embeddings", true, &tied, path));
    m->untied = !tied;
    return TRINE_OK;
}

trine_status hf_config_parse(trine_model *model, const char *text, size_t bytes, const char *path) {
    *model = (trine_model){0};
    cJSON *config;
    TRY(json_read(&config, text, bytes, path));
    trine_status status = read_config(model, config, path);
    cJSON_Delete(config);
    return status;
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

/* GPT-2's tokenizer has <|endoftext|> as 50256, transformers' default; a smaller vocabulary belongs
 * to an unknown tokenizer. */
static bool add_token(cJSON *o, const char *key, const trine_model *m) {
    enum { END_OF_TEXT = 50256 };
    return m->vocab_size > END_OF_TEXT ? cJSON_AddNumberToObject(o, key, END_OF_TEXT) != NULL
                                       : cJSON_AddNullToObject(o, key) != NULL;
}

static bool fill_config(cJSON *o, const trine_model *m, trine_dtype type) {
    cJSON *models = cJSON_AddArrayToObject(o, "architectures");
    cJSON *name = models ? cJSON_CreateString("GPT2LMHeadModel") : NULL;
    const char *torch = type == TRINE_BF16 ? "bfloat16" : type == TRINE_F16 ? "float16" : "float32";
    return name && cJSON_AddItemToArray(models, name) &&
           cJSON_AddStringToObject(o, "model_type", "gpt2") && add_sizes(o, m) &&
           add_arithmetic(o, m) && add_training(o) && add_token(o, "bos_token_id", m) &&
           add_token(o, "eos_token_id", m) && cJSON_AddStringToObject(o, "torch_dtype", torch);
}

trine_status hf_config_print(const trine_model *model, trine_dtype type, char **text) {
    cJSON *o = cJSON_CreateObject();
    char *printed = o && fill_config(o, model, type) ? json_print(o, true) : NULL;
    cJSON_Delete(o);
    size_t size = printed ? strlen(printed) + 2 : 0;
    *text = size ? malloc(size) : NULL;
    if (*text) snprintf(*text, size, "%s\n", printed);
    cJSON_free(printed);
    CHECK(*text, TRINE_ENOMEM, "no memory for a config.json");
    return TRINE_OK;
}
