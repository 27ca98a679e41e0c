/* The types of tensors in a GGUF file (github.com/ggml-org/llama.cpp: ggml/include/ggml.h, ggml/src/ggml-quants.c):
 *
 *   f32    4 bytes                       as they are
 *   f16    2 bytes                       to nearest, ties to even
 *   bf16   2 bytes                       to nearest, ties to even
 *   q8_0   34 bytes for 32 numbers of a row: d in f16, then 32 signed bytes q; x = d q. d = max |x| / 127, and q = x
 * / d
 *          with d in f32, to nearest, ties away from zero
 */
#ifndef TRINE_GGUF_GGUF_TYPE_H
#define TRINE_GGUF_GGUF_TYPE_H

#include "trine_types.h"

/* X(NAME, name, ggml_type, llama_ftype): the numbers are the format's. */
#define GGUF_TYPE_LIST(X)                                                                                            \
    X(GGUF_F32, "f32", 0, 0)                                                                                         \
    X(GGUF_F16, "f16", 1, 1)                                                                                         \
    X(GGUF_BF16, "bf16", 30, 32)                                                                                     \
    X(GGUF_Q8_0, "q8_0", 8, 7)

typedef enum {
#define GGUF_TYPE_ENUM(name, text, number, file) name,
    GGUF_TYPE_LIST(GGUF_TYPE_ENUM)
#undef GGUF_TYPE_ENUM
    GGUF_TYPES
} gguf_type;

/* "q8_0". Pure. */
const char *gguf_type_name(gguf_type type);
/* Its number as a tensor's type, and as general.file_type of a file that is mostly of it. Pure. */
uint32_t gguf_type_number(gguf_type type);
uint32_t gguf_type_file(gguf_type type);

/* Numbers of which a row must have a multiple: 32 of q8_0, else 1. Bytes of so many numbers, a multiple. Pure. */
uint64_t gguf_type_block(gguf_type type);
uint64_t gguf_type_bytes(gguf_type type, uint64_t count);

/* to = from[0, count) in this type. What it cannot hold is an error and not an infinity: f16 has numbers up to 65504,
 * q8_0 no infinities and NaNs; f32 and bf16 have all. Errors: TRINE_EDATA with the number; the message begins with
 * `name`. Pure. */
trine_status gguf_type_store(gguf_type type, void *to, const float *from, uint64_t count, const char *name);

#endif
