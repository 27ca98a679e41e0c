#include "train/load_request.h"

#include <string.h>

#include "base/status.h"
#include "ckpt/ckpt.h"
#include "ckpt/source.h"
#include "model/shape.h"

bool request_is_auto(const trine_checkpoint *c) {
    return c->load && strcmp(c->load, "auto") == 0;
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
    };
    return rules[i].wrong ? rules[i].text : NULL;
}

/* *found: whether `path` (NULL: none) has a model. */
static trine_status model_of(const char *path, trine_model *model, bool *found) {
    trine_model m;
    *found = false;
    if (path) TRY(ckpt_peek(&m, found, path));
    if (!*found) return TRINE_OK;
    m.trained = model->trained;
    m.hidden_dropout = model->hidden_dropout, m.attention_dropout = model->attention_dropout;
    m.lora.dropout = model->lora.dropout;
    if (hf_is(path) && gpt_has_rope(&m) && m.seq_length > TRINE_FOLDER_LENGTH)
        m.seq_length = TRINE_FOLDER_LENGTH;
    *model = m;
    return TRINE_OK;
}

trine_status trine_checkpoint_model(const trine_checkpoint *c, trine_model *model) {
    CHECK_GIVEN(c, "c");
    CHECK_GIVEN(model, "model");
    bool found = false;
    if (!request_is_auto(c)) return model_of(c->load, model, &found);
    TRY(model_of(c->save, model, &found));
    return found ? TRINE_OK : model_of(c->pretrained, model, &found);
}
