/* Writes a model's low-rank adapters as a GGUF file for llama.cpp, which adds them to a file of the base (llama-cli
 * --lora; llama.cpp: src/llama-adapter.cpp, convert_lora_to_gguf.py):
 *
 *   general.type         "adapter"; general.architecture is the base's
 *   adapter.type         "lora"
 *   adapter.lora.alpha   f32; llama.cpp's scale is alpha / rank, so rank-stabilised adapters have alpha sqrt(rank)
 *   NAME.lora_a          (rank, in) of the base's tensor NAME
 *   NAME.lora_b          (out, rank); rows of queries and keys turned, where those of the base are
 *
 * A and B have the type that is asked for; one whose rows are no multiple of 32 is f16 where q8_0 is. There is no
 * tokenizer: it is the base's. */
#ifndef TRINE_GGUF_GGUF_ADAPTER_H
#define TRINE_GGUF_GGUF_ADAPTER_H

#include "gguf/gguf_export.h"

/* Writes the adapters of `source` as the file `out`, which appears when it is complete. Of the request the type and
 * the notes are used. Equal adapters and names give equal bytes. Errors: TRINE_EINVAL if there are no adapters, or a
 * scale that GGUF cannot say; those of gguf_export. Not collective. Memory: that of gguf_write. */
trine_status gguf_export_adapters(const ckpt_source *source, const gguf_request *request, const char *out);

#endif
