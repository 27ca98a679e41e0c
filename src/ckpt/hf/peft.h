/* Folders of low-rank adapters as PEFT writes them: adapter_config.json and adapter_model.safetensors
 * (github.com/huggingface/peft, tuners/lora/config.py, utils/save_and_load.py). Tensors have the names that the base
 * model's files would give them, behind "base_model.model.":
 *
 *     base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight    (rank, in)
 *     base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight    (out, rank)
 *
 * Invariant: what PEFT would compute differently is refused by name: an entry of the configuration that is neither
 * known nor empty, and each unknown tensor. What only says how the adapters were initialised is ignored. */
#ifndef TRINE_CKPT_HF_PEFT_H
#define TRINE_CKPT_HF_PEFT_H

#include "ckpt/source.h"

#define PEFT_CONFIG_FILE "adapter_config.json"
#define PEFT_MODEL_FILE  "adapter_model.safetensors"

/* What an adapter_config.json says. */
typedef struct {
    trine_lora lora;
    char *base; /* base_model_name_or_path; NULL: none. Owned: free */
} peft_config;

/* Parses an adapter_config.json. `path` is for messages, which begin with it. Errors: TRINE_EDATA for invalid JSON
 * or a value that is missing or invalid; TRINE_EINVAL names what is not supported; TRINE_ENOMEM; *c is empty then.
 * Pure. */
trine_status peft_config_parse(peft_config *c, const char *text, size_t bytes, const char *path);

/* The text of an adapter_config.json for the model's adapters and its base (NULL: none), owned by the caller (free).
 * Errors: TRINE_ENOMEM. Pure. */
trine_status peft_config_print(const trine_model *model, const char *base, char **text);

/* Whether `path` is a folder of adapters: it has an adapter_config.json, and neither a manifest nor a config.json.
 * Not collective. */
bool peft_is(const char *path);

/* Reads a folder's adapter_config.json. Errors: those of peft_config_parse, TRINE_EIO. Not collective. */
trine_status peft_read_config(peft_config *c, const char *folder);

/* *base = the folder of the base that a folder's adapter_config.json names; owned by the caller (free). Errors: those
 * of peft_read_config; TRINE_EINVAL if it names none, TRINE_EIO if that is no folder here. Not collective. */
trine_status peft_base(char **base, const char *folder);

/* Adds a folder's adapters to a source, whose model has none: its model gets them, and its files. Each adapter of
 * each target must be there once, in its shape. The source's fingerprint becomes that of both. Errors: TRINE_EINVAL
 * if the model has adapters already or has no matrix of a target's name; TRINE_EDATA, TRINE_EIO, TRINE_ENOMEM; the
 * source is then closed by ckpt_close as before. Not collective. */
trine_status peft_attach(ckpt_source *source, const char *folder);

#endif
