#include "train/load_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "ckpt/ckpt.h"
#include "ckpt/hf/peft.h"
#include "ckpt/source.h"
#include "model/shape.h"

bool request_is_auto(const trine_checkpoint *c) {
    return c->load && strcmp(c->load, "auto") == 0;
}

trine_status request_is_there(const trine_checkpoint *c) {
    const struct {
        const char *option, *path;
    } loaded[] = {{"--load", request_is_auto(c) ? NULL : c->load},
                  {"--pretrained-checkpoint", c->pretrained},
                  {"--adapter", c->adapter}};
    for (size_t n = 0; n < sizeof loaded / sizeof *loaded; n++)
        CHECK(!loaded[n].path || access(loaded[n].path, F_OK) == 0, TRINE_EIO, "%s %s: %s",
              loaded[n].option, loaded[n].path, strerror(errno));
    return TRINE_OK;
}

const char *request_fault(const trine_checkpoint *c, int i) {
    bool automatic = request_is_auto(c);
    const struct {
        bool wrong;
        const char *text;
    } rules[REQUEST_RULES] = {
        {automatic && !c->save, "--load auto requires --save"},
        {automatic && c->load_weights_only,
         "--load auto resumes a run, --load-weights-only starts a new one; give the checkpoint's "
         "path, or --pretrained-checkpoint PATH for both"},
        {c->pretrained && !automatic,
         "--pretrained-checkpoint requires --load auto; without it, use --load PATH --finetune"},
        {c->adapter && !c->load, "--adapter requires --load, with the model that it belongs to"},
        {c->adapter && automatic && !c->pretrained,
         "--adapter with --load auto requires --pretrained-checkpoint, with the model that it "
         "belongs to"},
    };
    return rules[i].wrong ? rules[i].text : NULL;
}

static trine_status read_adapters(trine_lora *lora, const char *folder) {
    peft_config config;
    TRY(peft_read_config(&config, folder));
    *lora = config.lora;
    free(config.base);
    return TRINE_OK;
}

/* *found: whether `path` (NULL: none) has a model, which gets these adapters (NULL: none). */
static trine_status model_with(const char *path, const char *adapters, trine_model *model,
                               bool *found) {
    trine_model m;
    *found = false;
    if (path) TRY(ckpt_peek(&m, found, path));
    if (!*found) return TRINE_OK;
    if (adapters) TRY(read_adapters(&m.lora, adapters));
    m.trained = model->trained;
    m.hidden_dropout = model->hidden_dropout, m.attention_dropout = model->attention_dropout;
    m.lora.dropout = model->lora.dropout;
    if (hf_is(path) && gpt_has_rope(&m) && m.seq_length > TRINE_FOLDER_LENGTH)
        m.seq_length = TRINE_FOLDER_LENGTH;
    *model = m;
    return TRINE_OK;
}

/* The same, where `path` may be a folder of adapters. */
static trine_status model_of(const char *path, const char *adapters, trine_model *model,
                             bool *found) {
    char *base;
    if (!path || !peft_is(path)) return model_with(path, adapters, model, found);
    TRY(peft_base(&base, path));
    trine_status status = model_with(base, path, model, found);
    free(base);
    return status;
}

trine_status trine_checkpoint_model(const trine_checkpoint *c, trine_model *model) {
    CHECK_GIVEN(c, "c");
    CHECK_GIVEN(model, "model");
    bool found = false;
    if (!request_is_auto(c)) return model_of(c->load, c->adapter, model, &found);
    TRY(model_of(c->save, NULL, model, &found));
    return found ? TRINE_OK : model_of(c->pretrained, c->adapter, model, &found);
}
