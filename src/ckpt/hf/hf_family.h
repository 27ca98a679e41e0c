/* How a family's sizes are written in a config.json. */
#ifndef TRINE_CKPT_HF_HF_FAMILY_H
#define TRINE_CKPT_HF_HF_FAMILY_H

#include "base/json.h"
#include "trine_model.h"

typedef struct {
    const trine_family *family; /* its `hugging_face` is the model_type */
    const char *model;          /* transformers' class, for `architectures` */
    int own_end; /* the token that ends and begins a text where no other is known, in a vocabulary that contains it;
                    0: none. With one, a text begins with the token that ends it, unless it is known to begin with
                    another */
    /* Sets the sizes of *m, whose family is set. Errors: TRINE_EDATA, TRINE_EINVAL; messages begin with `path`.
     * Pure. */
    trine_status (*parse)(trine_model *m, const cJSON *config, const char *path);
    /* Adds the entries; false: no memory. Pure. */
    bool (*print)(cJSON *o, const trine_model *m);
} hf_family;

/* Each family has a row here, and its functions in hf_<file>.c. */
#define HF_FAMILIES(X) X(hf_gpt2) X(hf_llama) X(hf_mistral) X(hf_qwen2) X(hf_qwen3)

#define HF_EXTERN(name) extern const hf_family name;
HF_FAMILIES(HF_EXTERN)
#undef HF_EXTERN

#endif
