/* TEST np=0 */
/* A configuration in a manifest, which has already been parsed as JSON. */
#define FUZZ_PATH "the configuration"
#include "fuzz/fuzz.h"

#include "base/json.h"
#include "ckpt/settings.h"
#include "model/gpt.h"
#include "trine.h"

static trine_config present(void) {
    trine_config c = trine_config_default();
    c.model.vocab_size = 101;
    c.model.ffn_hidden_size = 3072;
    c.parallel.layout = (trine_layout){.dp = 2, .tp = 1, .pp = 4};
    c.global_batch_size = 32;
    return c;
}

static void check_model(const trine_model *m) {
    fuzz_demand(m->num_layers > 0 && m->hidden_size > 0 && m->num_attention_heads > 0);
    fuzz_demand(m->ffn_hidden_size > 0 && m->seq_length > 0 && m->vocab_size > 0);
    fuzz_demand(m->kv_channels > 0 || m->hidden_size % m->num_attention_heads == 0);
    fuzz_demand(!gpt_unread(m) && gpt_check_family(m) == TRINE_OK);
}

/* Differences are printed as lines of text, whatever the input. */
static void check_said(const char *json, const trine_config *now) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fuzz_demand(out && settings_compare(json, now, out) == TRINE_OK && !fclose(out));
    for (size_t i = 0; i < size; i++)
        fuzz_demand(((unsigned char)text[i] >= ' ' && text[i] != 0x7f) || text[i] == '\n');
    free(text);
}

/* Compares configurations and models; errors must be of the expected kind. */
static void compare(const char *json, const trine_model *saved) {
    const trine_config now = present();
    bool moves;
    check_said(json, &now);
    fuzz_demand(settings_scale_moves(json, &moves) == TRINE_OK);
    trine_status same = settings_same_model(saved, &now.model, false, FUZZ_PATH);
    fuzz_demand(same == TRINE_OK || same == TRINE_EINVAL);
    fuzz_demand(settings_same_model(saved, saved, false, FUZZ_PATH) == TRINE_OK);
}

static trine_status parse(const char *json) {
    trine_model model;
    cJSON *tree;
    fuzz_pause();
    trine_status status = json_read(&tree, json, strlen(json), FUZZ_PATH);
    cJSON_Delete(tree);
    fuzz_go_on();
    if (status != TRINE_OK) return status;
    status = settings_model(json, &model);
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_model(&model);
    compare(json, &model);
    fuzz_go_on();
    return TRINE_OK;
}

static trine_status read_settings(const uint8_t *data, size_t size) {
    char *json = malloc(size + 1);
    fuzz_demand(json);
    memcpy(json, data, size);
    json[size] = '\0';
    trine_status status = parse(json);
    free(json);
    return status;
}

FUZZ(settings, 28)
