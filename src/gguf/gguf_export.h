/* Writes a model as a GGUF file for llama.cpp: its sizes (gguf_family.h), its tokenizer (tokenizer/ggml.h) with the
 * chat template, its tensors.
 *
 * Matrices have the type that is asked for; vectors, norms and GPT-2's positions are f32, and so is what llama.cpp's
 * own converter leaves in f32. A matrix whose rows are no multiple of 32 is f16 where q8_0 is asked for. A tied head
 * is not written: the file has no output.weight. Queries and keys of Llama and Mistral are turned (gguf_family.h);
 * rope scaling "llama3" is the tensor rope_freqs.weight. Low-rank adapters are added to the matrices that they belong
 * to (ckpt/hf/merge.h), before the type; gguf_adapter.h writes them alone. */
#ifndef TRINE_GGUF_GGUF_EXPORT_H
#define TRINE_GGUF_GGUF_EXPORT_H

#include "ckpt/source.h"
#include "gguf/gguf_type.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    gguf_type type;
    const tokenizer *tokenizer; /* NULL: none, and the file has no vocabulary ("none"): programs give it ids */
    hf_tokens tokens;           /* that begin and end a text, where the tokenizer does not know them */
    FILE *notes;                /* is told what the file says less than the source */
} gguf_request;

/* Writes `source` (a checkpoint or a Hugging Face folder) as the file `out`, which appears when it is complete. Equal
 * models, tokenizers and names give equal bytes, whatever the source's layout was. Errors: TRINE_EIO, also when `out`
 * exists; TRINE_EINVAL, TRINE_EUNSUPPORTED for what GGUF or llama.cpp cannot say; TRINE_EDATA for a number that the
 * type cannot hold; TRINE_ENOMEM. Not collective. Memory: that of gguf_write. */
trine_status gguf_export(const ckpt_source *source, const gguf_request *request, const char *out);

#endif
