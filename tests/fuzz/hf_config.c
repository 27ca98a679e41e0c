/* TEST np=0 */
/* config.json of a Hugging Face folder. */
#include "fuzz/fuzz.h"

#include "ckpt/hf/hf.h"
#include "model/gpt.h"
#include "trine.h"
#include "trine_model.h"

static void check_model(const trine_model *m) {
    fuzz_demand(m->num_layers > 0 && m->hidden_size > 0 && m->num_attention_heads > 0);
    fuzz_demand(m->ffn_hidden_size > 0 && m->seq_length > 0 && m->vocab_size > 0);
    fuzz_demand(m->kv_channels > 0 || m->hidden_size % m->num_attention_heads == 0);
    fuzz_demand(!m->num_query_groups || m->num_attention_heads % m->num_query_groups == 0);
    const trine_family *f = m->family;
    bool gpt2 = !f || f == &trine_gpt2;
    size_t each = gpt2 || f == &trine_qwen2 ? 12 : f == &trine_qwen3 ? 11 : 9;
    const size_t tensors = gpt_tensor_count(m);
    fuzz_demand(tensors == (size_t)m->num_layers * each + (gpt2 ? 4 : 2) + (m->untied ? 1 : 0));
    fuzz_demand(*gpt_tensor(m, 0).name && *gpt_tensor(m, tensors - 1).name);
}

/* A parsed model can be printed and parsed again. */
static void check_again(const trine_model *m) {
    trine_model again;
    char *text;
    fuzz_demand(hf_config_print(m, TRINE_F32, NULL, &text) == TRINE_OK);
    fuzz_demand(hf_config_parse(&again, text, strlen(text), FUZZ_PATH) == TRINE_OK);
    fuzz_demand(memcmp(&again, m, sizeof again) == 0);
    free(text);
}

static trine_status read_hf_config(const uint8_t *data, size_t size) {
    trine_model model;
    trine_status status = hf_config_parse(&model, (const char *)data, size, FUZZ_PATH);
    if (status != TRINE_OK) return status;
    fuzz_pause();
    check_model(&model);
    check_again(&model);
    fuzz_go_on();
    return TRINE_OK;
}

FUZZ(hf_config, 28)
