/* Entries of a config.json. */
#include "ckpt/hf/entries.h"

#include <limits.h>
#include <string.h>

#include "base/status.h"

/* The last member of that name, like Python; NULL if none. */
const cJSON *hf_member_of(const cJSON *config, const char *key) {
    const cJSON *found = NULL, *each;
    cJSON_ArrayForEach(each, config) if (!strcmp(each->string, key)) found = each;
    return found;
}

/* The same; null counts as absent. */
const cJSON *hf_entry_of(const cJSON *config, const char *key) {
    const cJSON *entry = hf_member_of(config, key);
    return cJSON_IsNull(entry) ? NULL : entry;
}

trine_status hf_read_size(const cJSON *entry, const char *key, int *size, const char *path) {
    double value = cJSON_IsNumber(entry) ? entry->valuedouble : 0;
    CHECK(value >= 1 && value <= INT_MAX && value == (double)(int)value, TRINE_EDATA,
          "%s: %s must be an integer from 1 to %d", path, key, INT_MAX);
    *size = (int)value;
    return TRINE_OK;
}

/* Sizes have two names; transformers reads both, and the second one takes precedence. */
trine_status hf_demand_size(const cJSON *config, const char *key, const char *alias, int *size,
                            const char *path) {
    const cJSON *entry = hf_entry_of(config, key),
                *other = alias ? hf_entry_of(config, alias) : NULL;
    CHECK(entry || other, TRINE_EDATA, "%s: %s is missing", path, key);
    TRY(hf_read_size(entry ? entry : other, entry ? key : alias, size, path));
    if (!entry || !other) return TRINE_OK;
    int second = 0;
    TRY(hf_read_size(other, alias, &second, path));
    CHECK(second == *size, TRINE_EDATA, "%s: %s is %d but its alias %s is %d; remove one", path,
          key, *size, alias, second);
    return TRINE_OK;
}

/* Expects one of the texts in `allowed` (ended by NULL), or an absent entry. */
trine_status hf_expect_text(const cJSON *entry, const char *key, const char *const *allowed,
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
trine_status hf_read_switch(const cJSON *config, const char *key, bool normal, bool *value,
                            const char *path) {
    const cJSON *entry = hf_member_of(config, key);
    CHECK(!entry || cJSON_IsBool(entry), TRINE_EINVAL, "%s: %s must be true or false", path, key);
    *value = entry ? cJSON_IsTrue(entry) : normal;
    return TRINE_OK;
}

/* Refuses entries that mean other weights or other code, whatever their value, unless they are
 * empty. */
trine_status hf_expect_absent(const cJSON *config, const char *path) {
    static const struct {
        const char *key, *means;
    } entries[] = {{"quantization_config", "its weights are quantized"},
                   {"pruned_heads", "some of its attention heads are pruned"},
                   {"auto_map", "it needs custom code"}};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const cJSON *entry = hf_entry_of(config, entries[i].key);
        bool empty = !entry || ((cJSON_IsObject(entry) || cJSON_IsArray(entry)) && !entry->child);
        CHECK(empty, TRINE_EINVAL, "%s: %s: %s, which is not supported", path, entries[i].key,
              entries[i].means);
    }
    return TRINE_OK;
}

trine_status hf_read_number(const cJSON *config, const char *key, double normal, double *value,
                            const char *path) {
    const cJSON *entry = hf_member_of(config, key);
    CHECK(!entry || (cJSON_IsNumber(entry) && entry->valuedouble > 0), TRINE_EINVAL,
          "%s: %s must be a positive number", path, key);
    *value = entry ? entry->valuedouble : normal;
    return TRINE_OK;
}

trine_status hf_expect_switches(const cJSON *config, const hf_switch *switches, size_t count,
                                const char *path) {
    for (size_t i = 0; i < count; i++) {
        bool normal = switches[i].normal, value = normal;
        TRY(hf_read_switch(config, switches[i].key, normal, &value, path));
        CHECK(value == normal, TRINE_EINVAL, "%s: %s is %s; supported: %s", path, switches[i].key,
              value ? "true" : "false", normal ? "true" : "false");
    }
    return TRINE_OK;
}

trine_status hf_expect_architectures(const cJSON *config, const char *const *models,
                                     const char *path) {
    const cJSON *list = hf_entry_of(config, "architectures"), *each;
    CHECK(!list || cJSON_IsArray(list), TRINE_EINVAL, "%s: architectures is not a list", path);
    cJSON_ArrayForEach(each, list) TRY(hf_expect_text(each, "architectures", models, path));
    return TRINE_OK;
}
