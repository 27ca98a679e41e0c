#include <string.h>

#include "base/status.h"
#include "trine.h"

/* Radford et al. 2019, table 2. */
static const struct {
    const char *name;
    int layers, hidden, heads;
} presets[] = {
    {"gpt2", 12, 768, 12},
    {"gpt2-medium", 24, 1024, 16},
    {"gpt2-large", 36, 1280, 20},
    {"gpt2-xl", 48, 1600, 25},
};

trine_status trine_model_preset(trine_model *model, const char *name) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, name) != 0) continue;
        *model = (trine_model){.num_layers = presets[i].layers,
                               .hidden_size = presets[i].hidden,
                               .num_attention_heads = presets[i].heads,
                               .seq_length = 1024,
                               .vocab_size = 50257};
        return TRINE_OK;
    }
    return RAISE(TRINE_EINVAL,
                 "unknown model preset \"%s\" (valid: gpt2, gpt2-medium, gpt2-large, gpt2-xl)",
                 name);
}
