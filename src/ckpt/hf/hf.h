/* Hugging Face folders of a model: config.json and model.safetensors, or shards of it under
 * model.safetensors.index.json; the format of transformers' GPT2LMHeadModel, LlamaForCausalLM and so on (hf_family.h
 * has the families). source.h opens and writes such folders; this header has config.json.
 *
 * Invariant: what transformers would compute differently is refused by name, never ignored: each entry of
 * config.json that changes the forward pass, and each unknown tensor. Absent entries have transformers'
 * defaults, except model_type and the sizes, which are required. Dropouts are ignored: they are options of
 * the run. */
#ifndef TRINE_CKPT_HF_H
#define TRINE_CKPT_HF_H

#include "core/flat.h"

#define HF_CONFIG_FILE "config.json"
#define HF_INDEX_FILE  "model.safetensors.index.json"

/* The ids of the tokens that begin and end a text, bos_token_id and eos_token_id; -1: unknown. */
typedef struct {
    int32_t begin, end;
} hf_tokens;

/* Parses a config.json into *model. `path` is for messages, which begin with it. Errors: TRINE_EDATA for
 * invalid JSON, or a size that is missing or invalid; TRINE_EINVAL names what is not supported, and what
 * is; TRINE_ENOMEM. Pure. */
trine_status hf_config_parse(trine_model *model, const char *text, size_t bytes, const char *path);

/* The model that a folder's config.json describes. Errors: those of hf_config_parse, TRINE_EIO. Not collective. */
trine_status hf_model(trine_model *model, const char *folder);

/* The ids in a folder's config.json, of a list the first; -1 for what is no id below `vocab`, and where no such file
 * can be read: a checkpoint needs none. Not collective. */
hf_tokens hf_config_tokens(const char *folder, int vocab);

/* transformers' class for the model, "LlamaForCausalLM"; the model is of one of these families. Pure. */
const char *hf_class(const trine_model *model);

/* Prints a config.json for the model, of one of these families, whose tensors have this type; owned by the caller
 * (free). tokens NULL: both unknown; what is unknown is null, unless the family has an id of its own. Errors:
 * TRINE_ENOMEM. Pure. */
trine_status hf_config_print(const trine_model *model, trine_dtype type, const hf_tokens *tokens, char **text);

/* The same as a new file in `folder`, synced: from_pretrained loads the folder if it also has a model.safetensors.
 * `mode`: as in file_create_copy (ckpt/file.h). Writes nothing for a family that transformers does not support.
 * Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status hf_config_save(const trine_model *model, trine_dtype type, const hf_tokens *tokens,
                            const char *folder, unsigned mode);

#endif
