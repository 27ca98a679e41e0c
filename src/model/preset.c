#include "model/preset.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "trine.h"
#include "trine_model.h"

typedef struct {
    const char *name;
    const trine_family *family;
    trine_model model;
} preset;

#define SCALING(kind, factor, low, high, length)                                                   \
    { kind, factor, low, high, length }
#define PRESET(text, of, layers, hidden, heads, groups, width, ffn, vocab, sequence, apart, eps,   \
               base, scaling)                                                                      \
    {.name = text,                                                                                 \
     .family = &trine_##of,                                                                        \
     .model = {.num_layers = layers,                                                               \
               .hidden_size = hidden,                                                              \
               .num_attention_heads = heads,                                                       \
               .ffn_hidden_size = ffn,                                                             \
               .seq_length = sequence,                                                             \
               .vocab_size = vocab,                                                                \
               .untied = apart,                                                                    \
               .num_query_groups = groups,                                                         \
               .kv_channels = width,                                                               \
               .norm_epsilon = eps,                                                                \
               .rotary_base = base,                                                                \
               .rope_scaling = SCALING scaling}},

static const preset presets[] = {PRESET_LIST(PRESET)};

trine_status trine_model_preset(trine_model *model, const char *name) {
    CHECK_GIVEN(model, "model");
    CHECK_GIVEN(name, "name");
    char known[600];
    size_t used = 0;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 presets[i].name);
        if (strcmp(presets[i].name, name) != 0) continue;
        *model = presets[i].model;
        if (presets[i].family != &trine_gpt2) model->family = presets[i].family;
        return TRINE_OK;
    }
    return RAISE(TRINE_EINVAL, "unknown model preset \"%s\" (valid: %s)", name, known);
}
