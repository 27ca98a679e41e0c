/* Hugging Face's folders of a GPT-2: config.json and model.safetensors, or shards of it under
 * model.safetensors.index.json; the format of transformers' GPT2LMHeadModel and GPT2Model. What
 * opens and writes whole folders stands in source.h; here is what config.json says, and which
 * tensors there must be.
 *
 * Invariant: what transformers would compute otherwise than we do is refused by name, never
 * ignored: each entry of config.json that changes a forward pass, and each tensor that we have no
 * place for. Entries that are absent have transformers' defaults, but for model_type and the sizes,
 * which must be there. Dropouts are not taken over: they are a choice of the run. Source:
 * github.com/huggingface/transformers, models/gpt2/configuration_gpt2.py. */
#ifndef TRINE_CKPT_HF_H
#define TRINE_CKPT_HF_H

#include "core/flat.h"

#define HF_CONFIG_FILE "config.json"
#define HF_INDEX_FILE  "model.safetensors.index.json"

/* *model = what the text of a config.json says. `path` is for messages, which it begins. Errors:
 * TRINE_EDATA for what is no JSON, or a size that is missing or none; TRINE_EINVAL names what
 * cannot be run here, and what can; TRINE_ENOMEM. Pure. */
trine_status hf_config_parse(trine_model *model, const char *text, size_t bytes, const char *path);

/* A config.json for the model, a GPT-2, whose tensors are of this type, owned by the caller (free). Errors: TRINE_ENOMEM. Pure. */
trine_status hf_config_print(const trine_model *model, trine_dtype type, char **text);

/* The same as a new file of `folder`, synced: with a model.safetensors beside it, the folder is one that
 * from_pretrained loads. Of a family that transformers does not have, nothing is written. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status hf_config_save(const trine_model *model, trine_dtype type, const char *folder);

#endif
