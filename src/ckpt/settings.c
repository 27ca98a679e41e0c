#include "ckpt/settings.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/json.h"
#include "model/family.h"
#include "model/gpt.h"
#include "model/shape.h"

/* ---- The table ------------------------------------------------------------------------------- */

typedef enum {
    KIND_INT,
    KIND_U64,
    KIND_DOUBLE,
    KIND_FLAG,
    KIND_WORD,
    KIND_TEXT,
    KIND_FAMILY
} setting_kind;

/* Names of an enum's values, by number; NULL where there is no value. */
typedef struct {
    size_t count;
    const char *const *texts;
} word_list;

#define WORDS(name, ...)                                                                           \
    static const char *const name##_texts[] = {__VA_ARGS__};                                       \
    static const word_list name = {sizeof name##_texts / sizeof *name##_texts, name##_texts}

typedef struct {
    const char *name; /* of the command line */
    setting_role role;
    setting_kind kind;
    size_t at;              /* offset in trine_config */
    const word_list *words; /* of KIND_WORD */
    bool optional;          /* absent if it has its default, 0; a family: GPT-2 */
} setting;

#define TEXT(id, text, ...) text,
WORDS(schedules, TRINE_SCHEDULE_LIST(TEXT));
WORDS(recomputes, TRINE_RECOMPUTE_LIST(TEXT));
WORDS(transports, TRINE_TRANSPORT_LIST(TEXT));
WORDS(scalings, TRINE_ROPE_LIST(TEXT));
#undef TEXT
WORDS(decays, "cosine", "linear", "constant");
/* Types of gradients. */
WORDS(types, [TRINE_F32] = "fp32", [TRINE_BF16] = "bf16", [TRINE_F16] = "fp16");

_Static_assert(sizeof(trine_dtype) == sizeof(int) && sizeof(trine_zero) == sizeof(int),
               "enums are read as int");

#define AT(member) offsetof(trine_config, member)

static const setting settings[] = {
    {"num-layers", SETTING_MODEL, KIND_INT, AT(model.num_layers), NULL, false},
    {"hidden-size", SETTING_MODEL, KIND_INT, AT(model.hidden_size), NULL, false},
    {"num-attention-heads", SETTING_MODEL, KIND_INT, AT(model.num_attention_heads), NULL, false},
    {"ffn-hidden-size", SETTING_MODEL, KIND_INT, AT(model.ffn_hidden_size), NULL, false},
    {"seq-length", SETTING_MODEL, KIND_INT, AT(model.seq_length), NULL, false},
    {"vocab-size", SETTING_MODEL, KIND_INT, AT(model.vocab_size), NULL, false},
    {"untied", SETTING_MODEL, KIND_FLAG, AT(model.untied), NULL, false},
    /* Not written if they are 0, as in GPT-2. */
    {"num-query-groups", SETTING_MODEL, KIND_INT, AT(model.num_query_groups), NULL, true},
    {"kv-channels", SETTING_MODEL, KIND_INT, AT(model.kv_channels), NULL, true},
    {"norm-epsilon", SETTING_MODEL, KIND_DOUBLE, AT(model.norm_epsilon), NULL, true},
    {"rotary-base", SETTING_MODEL, KIND_DOUBLE, AT(model.rotary_base), NULL, true},
    {"rope-scaling", SETTING_MODEL, KIND_WORD, AT(model.rope_scaling.kind), &scalings, true},
    {"rope-scaling-factor", SETTING_MODEL, KIND_DOUBLE, AT(model.rope_scaling.factor), NULL, true},
    {"rope-low-freq-factor", SETTING_MODEL, KIND_DOUBLE, AT(model.rope_scaling.low_freq_factor),
     NULL, true},
    {"rope-high-freq-factor", SETTING_MODEL, KIND_DOUBLE, AT(model.rope_scaling.high_freq_factor),
     NULL, true},
    {"rope-original-length", SETTING_MODEL, KIND_INT, AT(model.rope_scaling.original_length), NULL,
     true},
    {"max-position-embeddings", SETTING_MODEL, KIND_INT, AT(model.max_positions), NULL, true},
    {"family", SETTING_MODEL, KIND_FAMILY, AT(model), NULL, true},

    {"hidden-dropout", SETTING_NUMBERS, KIND_DOUBLE, AT(model.hidden_dropout), NULL, false},
    {"attention-dropout", SETTING_NUMBERS, KIND_DOUBLE, AT(model.attention_dropout), NULL, false},
    {"bf16", SETTING_NUMBERS, KIND_FLAG, AT(precision.bf16), NULL, false},
    {"fp16", SETTING_NUMBERS, KIND_FLAG, AT(precision.fp16), NULL, false},
    {"grad-dtype", SETTING_NUMBERS, KIND_WORD, AT(precision.grads), &types, false},
    {"loss-scale", SETTING_NUMBERS, KIND_DOUBLE, AT(precision.loss_scale), NULL, false},
    {"initial-loss-scale", SETTING_NUMBERS, KIND_DOUBLE, AT(precision.initial_loss_scale), NULL,
     false},
    {"min-loss-scale", SETTING_NUMBERS, KIND_DOUBLE, AT(precision.min_loss_scale), NULL, false},
    {"loss-scale-window", SETTING_NUMBERS, KIND_INT, AT(precision.loss_scale_window), NULL, false},
    {"hysteresis", SETTING_NUMBERS, KIND_INT, AT(precision.hysteresis), NULL, false},
    {"tf32", SETTING_NUMBERS, KIND_FLAG, AT(parallel.tf32), NULL, false},
    {"global-batch-size", SETTING_NUMBERS, KIND_INT, AT(global_batch_size), NULL, false},
    {"train-iters", SETTING_NUMBERS, KIND_INT, AT(train_iters), NULL, false},
    {"lr", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.lr), NULL, false},
    {"min-lr", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.min_lr), NULL, false},
    {"lr-warmup-iters", SETTING_NUMBERS, KIND_INT, AT(optimizer.lr_warmup_iters), NULL, false},
    {"lr-decay-iters", SETTING_NUMBERS, KIND_INT, AT(optimizer.lr_decay_iters), NULL, false},
    {"lr-decay-style", SETTING_NUMBERS, KIND_WORD, AT(optimizer.lr_decay_style), &decays, false},
    {"weight-decay", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.weight_decay), NULL, false},
    {"decay-all", SETTING_NUMBERS, KIND_FLAG, AT(optimizer.decay_all), NULL, false},
    {"adam-beta1", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.adam_beta1), NULL, false},
    {"adam-beta2", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.adam_beta2), NULL, false},
    {"adam-eps", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.adam_eps), NULL, false},
    {"clip-grad", SETTING_NUMBERS, KIND_DOUBLE, AT(optimizer.clip_grad), NULL, false},
    {"seed", SETTING_NUMBERS, KIND_U64, AT(data.seed), NULL, false},

#define AXIS_SETTING(axis, member, option, help)                                                   \
    {#member, SETTING_LAYOUT, KIND_INT, AT(parallel.layout.member), NULL, false},
    TRINE_AXIS_LIST(AXIS_SETTING)
#undef AXIS_SETTING
        {"zero", SETTING_LAYOUT, KIND_INT, AT(parallel.zero), NULL, false},
    {"schedule", SETTING_LAYOUT, KIND_WORD, AT(parallel.schedule), &schedules, false},
    {"pp-split", SETTING_LAYOUT, KIND_TEXT, AT(parallel.pp_split), NULL, false},
    {"sequence-parallel", SETTING_LAYOUT, KIND_FLAG, AT(parallel.sequence_parallel), NULL, false},
    {"recompute-granularity", SETTING_LAYOUT, KIND_WORD, AT(parallel.recompute), &recomputes,
     false},
    {"micro-batch-size", SETTING_LAYOUT, KIND_INT, AT(micro_batch_size), NULL, false},
    {"loss-chunk", SETTING_LAYOUT, KIND_INT, AT(parallel.loss_chunk), NULL, false},
    {"device", SETTING_LAYOUT, KIND_TEXT, AT(parallel.device), NULL, false},
};

#define SETTINGS (sizeof settings / sizeof *settings)

/* Options that do not affect the numbers of a run, but the cooperation of its ranks. (A rank in
 * serial mode waits where others proceed, which the program checker does not cover.) */
static const setting joint[] = {
    {"schedule-file", SETTING_LAYOUT, KIND_TEXT, AT(parallel.schedule_file), NULL, false},
    {"num-virtual-stages-per-pipeline-rank", SETTING_LAYOUT, KIND_INT, AT(parallel.virtual_stages),
     NULL, false},
    {"keep-recomputed", SETTING_LAYOUT, KIND_FLAG, AT(parallel.keep_recomputed), NULL, false},
    {"gather-buffers", SETTING_LAYOUT, KIND_INT, AT(parallel.gather_buffers), NULL, false},
    {"reduce-buffers", SETTING_LAYOUT, KIND_INT, AT(parallel.reduce_buffers), NULL, false},
    {"ranks-per-node", SETTING_LAYOUT, KIND_INT, AT(parallel.ranks_per_node), NULL, false},
    {"transport", SETTING_LAYOUT, KIND_WORD, AT(parallel.transport), &transports, false},
    {"audit", SETTING_LAYOUT, KIND_FLAG, AT(parallel.audit), NULL, false},
    {"serial", SETTING_LAYOUT, KIND_FLAG, AT(parallel.serial), NULL, false},
    {"ordered-reductions", SETTING_LAYOUT, KIND_FLAG, AT(parallel.ordered_reductions), NULL, false},
    {"stage-messages", SETTING_LAYOUT, KIND_FLAG, AT(parallel.stage_messages), NULL, false},
    {"one-queue", SETTING_LAYOUT, KIND_FLAG, AT(parallel.one_queue), NULL, false},
    {"eval-iters", SETTING_LAYOUT, KIND_INT, AT(eval_iters), NULL, false},
};

#define JOINT (sizeof joint / sizeof *joint)

const char *settings_row(size_t i, setting_role *role) {
    if (i >= SETTINGS) return NULL;
    *role = settings[i].role;
    return settings[i].name;
}

/* ---- Printing -------------------------------------------------------------------------------- */

static cJSON *make_item(const setting *s, const trine_config *config) {
    const void *at = (const char *)config + s->at;
    char text[JSON_NUMBER], family[FAMILY_TEXT];
    const char *words;
    int number;
    switch (s->kind) {
    case KIND_DOUBLE: return cJSON_CreateRaw(json_number(text, *(const double *)at));
    case KIND_FLAG: return cJSON_CreateBool(*(const bool *)at);
    case KIND_U64:
        snprintf(text, sizeof text, "%" PRIu64, *(const uint64_t *)at);
        return cJSON_CreateString(text);
    case KIND_TEXT:
        words = *(const char *const *)at;
        return words ? cJSON_CreateString(words) : cJSON_CreateNull();
    case KIND_FAMILY: return cJSON_CreateString(family_text(family_of(at), family));
    case KIND_INT:
    case KIND_WORD: break;
    }
    memcpy(&number, at, sizeof number);
    return s->words ? cJSON_CreateString(s->words->texts[number]) : cJSON_CreateNumber(number);
}

/* Whether an optional setting has its default. */
static bool is_default(const setting *s, const trine_config *config) {
    const void *at = (const char *)config + s->at;
    int number;
    if (s->kind == KIND_FAMILY) return family_of(at) == &trine_gpt2;
    if (s->kind == KIND_DOUBLE) return *(const double *)at == 0;
    memcpy(&number, at, sizeof number);
    return number == 0;
}

static cJSON *make_object(const trine_config *config) {
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; object && i < SETTINGS; i++) {
        if (settings[i].optional && is_default(&settings[i], config)) continue;
        cJSON *item = make_item(&settings[i], config);
        if (item && cJSON_AddItemToObject(object, settings[i].name, item)) continue;
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

/* ---- Values as text -------------------------------------------------------------------------- */

#define VALUE_TEXT FAMILY_TEXT
_Static_assert(VALUE_TEXT >= JSON_NUMBER, "a value may be a number");

/* Equal texts are equal values: numbers have up to 17 digits. The configuration may be invalid; then a number may have
 * no word. */
static const char *value_text(char text[VALUE_TEXT], const setting *s, const trine_config *config) {
    const void *at = (const char *)config + s->at;
    const char *words;
    int number;
    switch (s->kind) {
    case KIND_DOUBLE: return json_number(text, *(const double *)at);
    case KIND_FLAG: return *(const bool *)at ? "on" : "off";
    case KIND_U64: snprintf(text, VALUE_TEXT, "%" PRIu64, *(const uint64_t *)at); return text;
    case KIND_TEXT: words = *(const char *const *)at; return words ? words : "not given";
    case KIND_FAMILY: return family_text(family_of(at), text);
    case KIND_INT:
    case KIND_WORD: break;
    }
    memcpy(&number, at, sizeof number);
    bool known = s->words && number >= 0 && (size_t)number < s->words->count;
    if (known && s->words->texts[number]) return s->words->texts[number];
    snprintf(text, VALUE_TEXT, "%d", number);
    return text;
}

/* ---- Comparing ranks ------------------------------------------------------------------------- */

static void add_setting(alike_list *list, const setting *s, const trine_config *config) {
    char text[VALUE_TEXT];
    alike_text(list, s->name, value_text(text, s, config));
}

static void add_given(alike_list *list, const char *name, const char *path) {
    alike_text(list, name, path ? "given" : "not given");
}

trine_status settings_alike(const trine_config *config, alike_list *list) {
    TRY(alike_begin(list, SETTINGS + JOINT + 3));
    for (size_t i = 0; i < SETTINGS; i++) add_setting(list, &settings[i], config);
    for (size_t i = 0; i < JOINT; i++) add_setting(list, &joint[i], config);
    add_given(list, "data-path", config->data.data_path);
    add_given(list, "val-data-path", config->data.val_data_path);
    add_given(list, "tokenizer", config->data.tokenizer);
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

static trine_status read_family(const cJSON *item, trine_model *model) {
    const char *name = cJSON_GetStringValue(item);
    if (!item) return TRINE_OK;
    CHECK(name && json_plain(name), TRINE_EDATA, "the configuration's \"family\" is not a name");
    return family_of_text(&model->family, name);
}

static trine_status read_word(const setting *s, const cJSON *item, int *at) {
    const char *text = cJSON_GetStringValue(item);
    for (size_t i = 0; text && i < s->words->count; i++) {
        *at = (int)i;
        if (!strcmp(text, s->words->texts[i])) return TRINE_OK;
    }
    return RAISE(TRINE_EDATA, "the configuration's \"%s\" is not a known word", s->name);
}

/* Stores one size of the model in `config`. */
static trine_status read_size(const setting *s, const cJSON *object, trine_config *config) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, s->name);
    void *at = (char *)config + s->at;
    if (s->kind == KIND_FAMILY) return read_family(item, at);
    if (!item && s->optional) return TRINE_OK;
    CHECK(item, TRINE_EDATA, "the configuration has no \"%s\"", s->name);
    if (s->kind == KIND_FLAG) {
        CHECK(cJSON_IsBool(item), TRINE_EDATA,
              "the configuration's \"%s\" is neither true nor false", s->name);
        *(bool *)at = cJSON_IsTrue(item);
        return TRINE_OK;
    }
    if (s->kind == KIND_WORD) return read_word(s, item, at);
    double x = cJSON_IsNumber(item) ? item->valuedouble : 0;
    if (s->kind == KIND_DOUBLE) {
        CHECK(x > 0 && isfinite(x), TRINE_EDATA,
              "the configuration's \"%s\" is not a positive number", s->name);
        *(double *)at = x;
        return TRINE_OK;
    }
    CHECK(x >= 1 && x <= INT_MAX && x == floor(x), TRINE_EDATA,
          "the configuration's \"%s\" is not a positive integer", s->name);
    *(int *)at = (int)x;
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
    for (size_t i = 0; i < SETTINGS; i++)
        if (settings[i].role == SETTING_MODEL) TRY(read_size(&settings[i], object, &config));
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

static const setting *find_setting(const char *name) {
    for (size_t i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0) return &settings[i];
    return NULL;
}

/* Prints differences, in the order of the table: those of the layout on one line, others one per line. */
static void print_differences(const cJSON *saved, const cJSON *now, bool layout, FILE *out) {
    char a[JSON_NUMBER], b[JSON_NUMBER];
    int printed = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        const char *name = settings[i].name;
        const cJSON *s = cJSON_GetObjectItemCaseSensitive(saved, name);
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(now, name);
        if ((settings[i].role == SETTING_LAYOUT) != layout || same(s, n)) continue;
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
        if (!find_setting(s->string))
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

static const char *size_text(char text[VALUE_TEXT], const setting *s, const trine_config *config) {
    bool without = s->optional && s->kind != KIND_FAMILY && is_default(s, config);
    return without ? "default" : value_text(text, s, config);
}

trine_status settings_same_model(const trine_model *saved, const trine_model *model,
                                 bool weights_only, const char *path) {
    trine_config a = {.model = *saved}, b = {.model = *model};
    char text[2000], before[VALUE_TEXT], after[VALUE_TEXT];
    size_t used = 0;
    gpt_canonical(&a.model);
    gpt_canonical(&b.model);
    a.model.max_positions = model->max_positions; /* no number depends on it */
    if (weights_only && gpt_has_rope(model)) a.model.seq_length = model->seq_length;
    for (size_t i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        if (s->role != SETTING_MODEL) continue;
        const char *x = size_text(before, s, &a), *y = size_text(after, s, &b);
        if (strcmp(x, y) != 0 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %s is %s there, %s here",
                                     used ? "," : "", s->name, x, y);
    }
    CHECK(!used, TRINE_EINVAL, "%s holds a different model:%s", path, text);
    return TRINE_OK;
}
