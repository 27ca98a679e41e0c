#include "ckpt/settings.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/json.h"
#include "config/config.h"
#include "model/family.h"
#include "model/gpt.h"
#include "model/shape.h"
#include "model/frozen.h"
#include "trine.h"

/* ---- Printing -------------------------------------------------------------------------------- */

static cJSON *make_item(const options *o, const option *row) {
    const void *at = options_member(o, row);
    char text[OPTION_TEXT], digits[OPTION_TEXT];
    const char *value = options_text(o, row, text);
    switch (row->kind) {
    case OPTION_KIND_DOUBLE: return cJSON_CreateRaw(value);
    case OPTION_KIND_FLAG: return cJSON_CreateBool(*(const bool *)at);
    case OPTION_KIND_INT: return cJSON_CreateNumber(*(const int *)at);
    case OPTION_KIND_STRING:
    case OPTION_KIND_WORD:
    case OPTION_KIND_GLOBS:
        return *(const char *const *)at ? cJSON_CreateString(value) : cJSON_CreateNull();
    case OPTION_KIND_CHOICE: /* words that are their numbers are saved as numbers */
        snprintf(digits, sizeof digits, "%d", *(const int *)at);
        return strcmp(value, digits) ? cJSON_CreateString(value) : cJSON_CreateRaw(digits);
    default: return cJSON_CreateString(value);
    }
}

static cJSON *make_object(const trine_config *config) {
    const options o = config_options(config, NULL, NULL);
    cJSON *object = cJSON_CreateObject();
    for (const option *row = NULL; (row = config_saved_after(row));) {
        if (!object || (row->absent && options_is_absent(&o, row))) continue;
        cJSON *item = make_item(&o, row);
        if (item && cJSON_AddItemToObject(object, row->name, item)) continue;
        cJSON_Delete(item);
        cJSON_Delete(object);
        object = NULL;
    }
    return object;
}

trine_status settings_print(const trine_config *config, char **json) {
    cJSON *object = make_object(config);
    *json = object ? json_print(object, false) : NULL;
    cJSON_Delete(object);
    CHECK(*json, TRINE_ENOMEM, "no memory for a configuration's text");
    return TRINE_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static trine_status parse(const char *json, cJSON **object) {
    *object = json_parse(json);
    bool is = cJSON_IsObject(*object);
    if (!is) cJSON_Delete(*object);
    CHECK(is, TRINE_EDATA, "the configuration is not a JSON object");
    return TRINE_OK;
}

static trine_status read_family(const cJSON *item, const trine_family **family) {
    const char *name = cJSON_GetStringValue(item);
    CHECK(name && json_plain(name), TRINE_EDATA, "the configuration's \"family\" is not a name");
    return family_of_text(family, name);
}

/* Of a family, whose layers are compared, or of a type's text. */
static trine_status read_typed(const option *row, const cJSON *item, void *to) {
    const char *text = cJSON_GetStringValue(item);
    if (!strcmp(row->name, "family")) return read_family(item, to);
    CHECK(text && json_plain(text) && row->type->read(to, text) == TRINE_OK, TRINE_EDATA,
          "the configuration: \"%s\" is not valid", row->name);
    return TRINE_OK;
}

static trine_status read_word(const option *row, const cJSON *item, int *to) {
    const char *text = cJSON_GetStringValue(item);
    int word = text ? options_word(row, text) : -1;
    CHECK(word >= 0, TRINE_EDATA, "the configuration: unknown value for \"%s\"", row->name);
    *to = word;
    return TRINE_OK;
}

/* Stores one size of the model. */
static trine_status read_size(const options *o, const option *row, const cJSON *object) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, row->name);
    void *to = options_member(o, row);
    if (!item && row->absent) return TRINE_OK;
    CHECK(item, TRINE_EDATA, "the configuration has no \"%s\"", row->name);
    if (row->kind == OPTION_KIND_TYPE) return read_typed(row, item, to);
    if (row->kind == OPTION_KIND_FLAG) {
        CHECK(cJSON_IsBool(item), TRINE_EDATA,
              "the configuration's \"%s\" is neither true nor false", row->name);
        *(bool *)to = cJSON_IsTrue(item);
        return TRINE_OK;
    }
    if (row->kind == OPTION_KIND_CHOICE) return read_word(row, item, to);
    double x = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (row->kind == OPTION_KIND_DOUBLE) {
        CHECK(x > 0 && isfinite(x), TRINE_EDATA,
              "the configuration's \"%s\" is not a positive number", row->name);
        *(double *)to = x;
        return TRINE_OK;
    }
    CHECK(x >= 1 && x <= INT_MAX && x == floor(x), TRINE_EDATA,
          "the configuration's \"%s\" is not a positive integer", row->name);
    *(int *)to = (int)x;
    return TRINE_OK;
}

/* The family's lists of layers fit these sizes, on any number of tp ranks. */
static trine_status check_family(const trine_model *model) {
    const char *unread = gpt_unread(model);
    char why[300];
    CHECK(!unread, TRINE_EDATA, "the configuration: %s", unread);
    if (gpt_check_family(model) == TRINE_OK) return TRINE_OK;
    snprintf(why, sizeof why, "%s", status_message());
    status_clear();
    return RAISE(TRINE_EDATA, "the configuration: %s", why);
}

static trine_status read_sizes(const cJSON *object, trine_model *model) {
    trine_config config = {0};
    const options o = config_options(&config, NULL, NULL);
    for (const option *row = NULL; (row = config_saved_after(row));)
        if (row->role == OPTION_MODEL) TRY(read_size(&o, row, object));
    *model = config.model;
    CHECK(model->kv_channels || model->hidden_size % model->num_attention_heads == 0, TRINE_EDATA,
          "the configuration's \"hidden-size\" %d is not a multiple of its \"num-attention-heads\" "
          "%d",
          model->hidden_size, model->num_attention_heads);
    return check_family(model);
}

trine_status settings_model(const char *json, trine_model *model) {
    cJSON *object;
    TRY(parse(json, &object));
    trine_status status = read_sizes(object, model);
    cJSON_Delete(object);
    return status;
}

trine_status settings_scale_moves(const char *json, bool *moves) {
    cJSON *object;
    TRY(parse(json, &object));
    const cJSON *fixed = cJSON_GetObjectItemCaseSensitive(object, "loss-scale");
    *moves = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "fp16")) &&
             cJSON_IsNumber(fixed) && fixed->valuedouble == 0;
    cJSON_Delete(object);
    return TRINE_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Of two parsed values. A value that is absent has its default, which no row writes. */
static bool same(const cJSON *a, const cJSON *b) {
    if (!a || !b) return a == b;
    ASSERT(!cJSON_IsRaw(a) && !cJSON_IsRaw(b)); /* made, not parsed: a number without a value */
    if ((a->type & 0xff) != (b->type & 0xff)) return false;
    if (cJSON_IsNumber(a)) return a->valuedouble == b->valuedouble;
    return !cJSON_IsString(a) || strcmp(a->valuestring, b->valuestring) == 0;
}

static const char *item_text(char text[JSON_NUMBER], const cJSON *item) {
    if (!item) return "not set";
    if (cJSON_IsNumber(item)) return json_number(text, item->valuedouble);
    if (cJSON_IsString(item)) return json_plain(item->valuestring) ? item->valuestring : "(text)";
    if (cJSON_IsBool(item)) return cJSON_IsTrue(item) ? "on" : "off";
    return cJSON_IsNull(item) ? "none" : "(not a value)";
}

static bool is_known(const char *name) {
    for (const option *row = NULL; (row = config_saved_after(row));)
        if (strcmp(row->name, name) == 0) return true;
    return false;
}

/* Prints differences, in the order of the table: those of the layout on one line, others one per line. */
static void print_differences(const cJSON *saved, const cJSON *now, bool layout, FILE *out) {
    char a[JSON_NUMBER], b[JSON_NUMBER];
    int printed = 0;
    for (const option *row = NULL; (row = config_saved_after(row));) {
        const char *name = row->name;
        const cJSON *s = cJSON_GetObjectItemCaseSensitive(saved, name);
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(now, name);
        if ((row->role == OPTION_LAYOUT) != layout || same(s, n)) continue;
        const char *before = item_text(a, s), *after = item_text(b, n);
        if (layout)
            fprintf(out, "%s%s %s -> %s", printed ? ", " : "  the layout differs: ", name, before,
                    after);
        else
            fprintf(out, "  %s: %s in the checkpoint, %s now\n", name, before, after);
        printed++;
    }
    if (layout && printed) fputc('\n', out);
}

/* Reports settings that this version does not know, since they may matter. */
static void print_unknown(const cJSON *saved, FILE *out) {
    char text[JSON_NUMBER];
    for (const cJSON *s = saved->child; s; s = s->next)
        if (!is_known(s->string))
            fprintf(out, "  %s: %s in the checkpoint, unknown to this version\n",
                    json_plain(s->string) ? s->string : "(a name)", item_text(text, s));
}

/* The current configuration is printed and parsed, so that both sides have been parsed. */
static trine_status compare(const cJSON *saved, const trine_config *config, FILE *out) {
    char *json;
    cJSON *now;
    TRY(settings_print(config, &json));
    trine_status status = parse(json, &now);
    free(json);
    TRY(status);
    print_differences(saved, now, true, out);
    print_differences(saved, now, false, out);
    print_unknown(saved, out);
    cJSON_Delete(now);
    return TRINE_OK;
}

trine_status settings_compare(const char *json, const trine_config *config, FILE *out) {
    cJSON *saved;
    TRY(parse(json, &saved));
    trine_status status = compare(saved, config, out);
    cJSON_Delete(saved);
    return status;
}

/* A family is always named. */
static const char *size_text(char text[OPTION_TEXT], const options *o, const option *row) {
    bool without = row->absent && row->kind != OPTION_KIND_TYPE && options_is_absent(o, row);
    return without ? "default" : options_text(o, row, text);
}

trine_status settings_same_model(const trine_model *saved, const trine_model *model,
                                 bool weights_only, const char *path) {
    trine_config a = {.model = *saved}, b = {.model = *model};
    const options oa = config_options(&a, NULL, NULL), ob = config_options(&b, NULL, NULL);
    char text[2000], before[OPTION_TEXT], after[OPTION_TEXT];
    size_t used = 0;
    gpt_canonical(&a.model);
    gpt_canonical(&b.model);
    a.model.max_positions = model->max_positions; /* no number depends on it */
    if (weights_only && gpt_has_rope(model)) a.model.seq_length = model->seq_length;
    if (weights_only && !saved->lora.rank) a.model.lora = b.model.lora; /* those begin anew */
    for (const option *row = NULL; (row = config_saved_after(row));) {
        if (row->role != OPTION_MODEL) continue;
        const char *x = size_text(before, &oa, row), *y = size_text(after, &ob, row);
        if (strcmp(x, y) != 0 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %s is %s there, %s here",
                                     used ? "," : "", row->name, x, y);
    }
    CHECK(!used, TRINE_EINVAL, "%s holds a different model:%s", path, text);
    return TRINE_OK;
}

/* The patterns in a configuration; NULL: all tensors are trained. */
static trine_status read_patterns(const cJSON *object, const char **patterns) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "freeze");
    *patterns = cJSON_GetStringValue(item);
    CHECK(!item || (*patterns && json_plain(*patterns)), TRINE_EDATA,
          "the configuration's \"freeze\" is not a string");
    for (const char *rest = *patterns; rest;) {
        trained_pattern p;
        TRY(trained_next(rest, &p, &rest));
    }
    return TRINE_OK;
}

static trine_status trained_there(const cJSON *object, const trine_model *model, const char *path) {
    const char *saved, *now = model_trained(model);
    bool adapters = model->lora.rank > 0; /* there, too: settings_same_model */
    TRY(read_patterns(object, &saved));
    for (size_t n = 0, count = saved || adapters ? gpt_tensor_count(model) : 0; n < count; n++) {
        tensor t = gpt_tensor(model, n);
        char name[sizeof t.name + TRINE_LAYER_NAME];
        snprintf(name, sizeof name, "%s%s", t.prefix, t.name);
        CHECK(!trained_by(now, adapters, name) || trained_by(saved, adapters, name), TRINE_EINVAL,
              "%s was saved with --freeze=%s, but here it is %s%s: %s is trained here, and the "
              "checkpoint has no optimizer state for it; freeze it, or start anew from the weights "
              "(--load-weights-only)",
              path, saved ? saved : " not given", now ? "--freeze=" : "not given", now ? now : "",
              name);
    }
    return TRINE_OK;
}

trine_status settings_trained_there(const char *json, const trine_model *model, const char *path) {
    cJSON *object;
    TRY(parse(json, &object));
    trine_status status = trained_there(object, model, path);
    cJSON_Delete(object);
    return status;
}
