/* Reads and writes adapter_config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ckpt/hf/entries.h"
#include "ckpt/hf/peft.h"
#include "model/family.h"
#include "model/lora.h"

#define PEFT_RANK  8 /* PEFT's defaults */
#define PEFT_ALPHA 8

/* ---- Reading ----------------------------------------------------------------------------------- */

/* Entries without a meaning for the numbers: where it comes from, how it was initialised, how it is trained. GPT-2's
 * Conv1D has fan_in_fan_out, which says how the base is stored. */
static const char *const ignored[] = {"auto_mapping",
                                      "base_model_name_or_path",
                                      "ensure_weight_tying",
                                      "fan_in_fan_out",
                                      "inference_mode",
                                      "megatron_core",
                                      "peft_version",
                                      "qalora_group_size",
                                      "revision",
                                      "runtime_config",
                                      NULL};
static const char *const read_here[] = {
    "peft_type",    "task_type",         "r",    "lora_alpha",     "use_rslora",
    "lora_dropout", "init_lora_weights", "bias", "target_modules", NULL};

static bool is_one_of(const char *const *names, const char *name) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

/* null, false, 0, "", {} and []. */
static bool is_empty(const cJSON *entry) {
    if (cJSON_IsObject(entry) || cJSON_IsArray(entry)) return !entry->child;
    if (cJSON_IsString(entry)) return !*entry->valuestring;
    return cJSON_IsNull(entry) || cJSON_IsFalse(entry) ||
           (cJSON_IsNumber(entry) && entry->valuedouble == 0);
}

static trine_status refuse_unknown(const cJSON *config, const char *path) {
    const cJSON *each;
    cJSON_ArrayForEach(each, config) {
        if (is_one_of(ignored, each->string) || is_one_of(read_here, each->string)) continue;
        CHECK(is_empty(each), TRINE_EINVAL, "%s: %.60s is not supported", path, each->string);
    }
    return TRINE_OK;
}

/* These change the base's weights, which the adapters then belong to. */
static trine_status expect_plain_start(const cJSON *config, const char *path) {
    static const char *const plain[] = {"gaussian", "orthogonal", "eva", NULL};
    const cJSON *entry = hf_entry_of(config, "init_lora_weights");
    const char *text = cJSON_GetStringValue(entry);
    CHECK(
        !text || is_one_of(plain, text), TRINE_EINVAL,
        "%s: init_lora_weights is \"%.40s\", which changes the base's weights; PEFT converts such "
        "adapters by save_pretrained(path_initial_model_for_weight_conversion=...)",
        path, text);
    return TRINE_OK;
}

static trine_status read_scale(trine_lora *l, const cJSON *config, const char *path) {
    const cJSON *rank = hf_entry_of(config, "r");
    const cJSON *dropout = hf_entry_of(config, "lora_dropout");
    double p = cJSON_IsNumber(dropout) ? dropout->valuedouble : 0;
    l->rank = PEFT_RANK;
    if (rank) TRY(hf_read_size(rank, "r", &l->rank, path));
    TRY(hf_read_number(config, "lora_alpha", PEFT_ALPHA, &l->alpha, path));
    TRY(hf_read_switch(config, "use_rslora", false, &l->rslora, path));
    CHECK(p >= 0 && p < 1, TRINE_EDATA, "%s: lora_dropout %g is not in [0, 1)", path, p);
    l->dropout = p;
    return TRINE_OK;
}

static trine_status add_target(trine_lora *l, const cJSON *entry, const char *path) {
    const char *name = json_text(entry);
    bool plain = name && *name && json_plain(name) && !strpbrk(name, ", *()[]\\|^$+?");
    CHECK(plain, TRINE_EINVAL, "%s: target_modules: \"%.60s\" is not the end of a module's name",
          path, name ? name : "not a string");
    size_t used = strlen(l->targets), more = strlen(name) + (used ? 1 : 0);
    CHECK(used + more < sizeof l->targets, TRINE_EINVAL,
          "%s: target_modules has more than %zu characters", path, sizeof l->targets - 1);
    snprintf(l->targets + used, sizeof l->targets - used, "%s%s", used ? "," : "", name);
    return TRINE_OK;
}

static trine_status read_targets(trine_lora *l, const cJSON *config, const char *path) {
    const cJSON *list = hf_entry_of(config, "target_modules"), *each;
    if (!list) return TRINE_OK; /* the family's */
    if (cJSON_IsString(list)) return add_target(l, list, path);
    CHECK(cJSON_IsArray(list) && list->child, TRINE_EDATA,
          "%s: target_modules is not a list of names", path);
    cJSON_ArrayForEach(each, list) TRY(add_target(l, each, path));
    return TRINE_OK;
}

static trine_status read_entries(peft_config *c, const cJSON *config, const char *path) {
    static const char *const types[] = {"LORA", NULL}, *const tasks[] = {"CAUSAL_LM", NULL},
                             *const biases[] = {"none", NULL};
    const cJSON *base = hf_entry_of(config, "base_model_name_or_path"),
                *task = hf_entry_of(config, "task_type"), *bias = hf_entry_of(config, "bias");
    TRY(hf_expect_text(hf_entry_of(config, "peft_type"), "peft_type", types, path));
    if (task) TRY(hf_expect_text(task, "task_type", tasks, path));
    if (bias) TRY(hf_expect_text(bias, "bias", biases, path));
    TRY(refuse_unknown(config, path));
    TRY(expect_plain_start(config, path));
    TRY(read_scale(&c->lora, config, path));
    TRY(read_targets(&c->lora, config, path));
    if (!cJSON_IsString(base) || !*base->valuestring) return TRINE_OK;
    CHECK(c->base = strdup(base->valuestring), TRINE_ENOMEM, "no memory for a path");
    return TRINE_OK;
}

trine_status peft_config_parse(peft_config *c, const char *text, size_t bytes, const char *path) {
    cJSON *config;
    *c = (peft_config){.base = NULL};
    TRY(json_read(&config, text, bytes, path));
    trine_status status = read_entries(c, config, path);
    cJSON_Delete(config);
    return status;
}

/* ---- Writing ----------------------------------------------------------------------------------- */

/* The names of the list; "all-linear" is a text of its own, as in PEFT. */
static cJSON *target_modules(const trine_model *m) {
    const char *list = lora_targets(&m->lora);
    if (!strchr(list, ',') && !strcmp(list, "all-linear")) return cJSON_CreateString(list);
    cJSON *names = cJSON_CreateArray();
    char name[TRINE_LORA_TARGETS];
    while (names && *list) {
        size_t length = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
        if (!lora_has_target(m, name)) continue; /* a default of other families */
        cJSON *each = cJSON_CreateString(name);
        if (!each || !cJSON_AddItemToArray(names, each)) {
            cJSON_Delete(names);
            return NULL;
        }
    }
    return names;
}

static bool fill_config(cJSON *o, const trine_model *m, const char *base) {
    const trine_lora *l = &m->lora;
    cJSON *targets = target_modules(m);
    return targets && cJSON_AddItemToObject(o, "target_modules", targets) &&
           cJSON_AddStringToObject(o, "peft_type", "LORA") &&
           cJSON_AddStringToObject(o, "task_type", "CAUSAL_LM") &&
           (base ? cJSON_AddStringToObject(o, "base_model_name_or_path", base)
                 : cJSON_AddNullToObject(o, "base_model_name_or_path")) &&
           cJSON_AddNumberToObject(o, "r", l->rank) &&
           cJSON_AddNumberToObject(o, "lora_alpha", l->alpha > 0 ? l->alpha : LORA_ALPHA) &&
           cJSON_AddNumberToObject(o, "lora_dropout", l->dropout) &&
           cJSON_AddBoolToObject(o, "use_rslora", l->rslora) &&
           cJSON_AddBoolToObject(o, "fan_in_fan_out", family_of(m)->transposed) &&
           cJSON_AddStringToObject(o, "bias", "none") &&
           cJSON_AddBoolToObject(o, "inference_mode", true);
}

trine_status peft_config_print(const trine_model *model, const char *base, char **text) {
    cJSON *o = cJSON_CreateObject();
    char *printed = o && fill_config(o, model, base) && json_exact(o) ? json_print(o, true) : NULL;
    cJSON_Delete(o);
    size_t size = printed ? strlen(printed) + 2 : 0;
    *text = size ? malloc(size) : NULL;
    if (*text) snprintf(*text, size, "%s\n", printed);
    cJSON_free(printed);
    CHECK(*text, TRINE_ENOMEM, "no memory for an " PEFT_CONFIG_FILE);
    return TRINE_OK;
}
