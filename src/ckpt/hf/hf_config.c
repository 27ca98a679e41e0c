/* Reads and writes config.json: what is common to all families. */
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "ckpt/hf/entries.h"
#include "ckpt/hf/hf_family.h"
#include "ckpt/hf/hf.h"
#include "model/family.h"
#include "model/shape.h"
#include "trine.h"

#define HF_POINTER(name) &name,
static const hf_family *const families[] = {HF_FAMILIES(HF_POINTER) NULL};

/* "gpt2, llama" */
static const char *supported(char text[120]) {
    *text = '\0';
    for (int n = 0; families[n]; n++)
        c_append(text, 120, "%s%s", n ? ", " : "", families[n]->family->hugging_face);
    return text;
}

static trine_status find_family(const hf_family **found, const cJSON *config, const char *path) {
    const cJSON *entry = hf_entry_of(config, "model_type");
    const char *type = cJSON_GetStringValue(entry);
    char known[120];
    CHECK(entry, TRINE_EINVAL, "%s: model_type is missing; supported: %s", path, supported(known));
    for (int n = 0; type && families[n]; n++) {
        *found = families[n];
        if (!strcmp(type, families[n]->family->hugging_face)) return TRINE_OK;
    }
    return RAISE(TRINE_EINVAL, "%s: model_type is %.60s; supported: %s", path,
                 type ? type : "not a string", supported(known));
}

static trine_status read_config(trine_model *m, const cJSON *config, const char *path) {
    const hf_family *f;
    TRY(find_family(&f, config, path));
    if (f->family != &trine_gpt2) m->family = f->family; /* NULL means GPT-2 */
    TRY(f->parse(m, config, path));
    if (gpt_has_rope(m)) m->max_positions = m->seq_length;
    gpt_canonical(m);
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

static const hf_family *family_for(const trine_model *m) {
    int n = 0;
    while (families[n] && families[n]->family != family_of(m)) n++;
    ASSERT(families[n]);
    return families[n];
}

const char *hf_class(const trine_model *model) {
    return family_for(model)->model;
}

static bool add_token(cJSON *o, const char *key, int id) {
    return (id >= 0 ? cJSON_AddNumberToObject(o, key, id) : cJSON_AddNullToObject(o, key)) != NULL;
}

static bool add_tokens(cJSON *o, const hf_family *f, const trine_model *m, const hf_tokens *t) {
    hf_tokens known = t ? *t : (hf_tokens){-1, -1};
    bool unknown = known.begin < 0 && known.end < 0;
    if (unknown && f->own_end && f->own_end < m->vocab_size) known.end = f->own_end;
    if (known.begin < 0 && f->own_end) known.begin = known.end;
    return add_token(o, "bos_token_id", known.begin) && add_token(o, "eos_token_id", known.end);
}

static bool fill_config(cJSON *o, const trine_model *m, trine_dtype type, const hf_tokens *t) {
    const hf_family *f = family_for(m);
    cJSON *models = cJSON_AddArrayToObject(o, "architectures");
    cJSON *name = models ? cJSON_CreateString(f->model) : NULL;
    const char *torch = type == TRINE_BF16 ? "bfloat16" : type == TRINE_F16 ? "float16" : "float32";
    return name && cJSON_AddItemToArray(models, name) &&
           cJSON_AddStringToObject(o, "model_type", f->family->hugging_face) && f->print(o, m) &&
           add_tokens(o, f, m, t) && cJSON_AddStringToObject(o, "torch_dtype", torch);
}

trine_status hf_config_print(const trine_model *model, trine_dtype type, const hf_tokens *tokens,
                             char **text) {
    cJSON *o = cJSON_CreateObject();
    char *printed = o && fill_config(o, model, type, tokens) ? json_print(o, true) : NULL;
    cJSON_Delete(o);
    size_t size = printed ? strlen(printed) + 2 : 0;
    *text = size ? malloc(size) : NULL;
    if (*text) snprintf(*text, size, "%s\n", printed);
    cJSON_free(printed);
    CHECK(*text, TRINE_ENOMEM, "no memory for a config.json");
    return TRINE_OK;
}
