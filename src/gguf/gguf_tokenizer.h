/* The tokenizer's entries of a GGUF file. */
#ifndef TRINE_GGUF_GGUF_TOKENIZER_H
#define TRINE_GGUF_GGUF_TOKENIZER_H

#include "gguf/gguf.h"
#include "gguf/gguf_export.h"

/* Adds tokenizer.ggml.* for a vocabulary of the model's size, where ids without a token are "[PAD<id>]", unused, and
 * tokenizer.chat_template, if `folder` has one. Errors: those of ggml_describe; TRINE_EUNSUPPORTED if no token ends a
 * text; TRINE_EDATA, TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status gguf_tokenizer_describe(gguf *g, const gguf_request *request, const trine_model *m, const char *folder);

#endif
