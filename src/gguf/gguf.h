/* Files in the GGUF format, version 3 (github.com/ggml-org/ggml, docs/gguf.md), which llama.cpp loads:
 *
 *   "GGUF", version, number of tensors, number of entries
 *   entries                             key, type, value
 *   tensors                             name, dimensions (innermost first), type, place from the start of the data
 *   data                                of each tensor, row by row; each begins at a multiple of GGUF_ALIGN bytes
 *
 * All numbers are little-endian. A file is described first: entries, then tensors, each with who has its rows; then
 * it is written, a piece of a tensor at a time, so that memory does not depend on the model. This header knows
 * neither models nor tokenizers: whatever has named rows of numbers can be written, an adapter too
 * (adapter.lora.alpha; NAME.lora_a). */
#ifndef TRINE_GGUF_GGUF_H
#define TRINE_GGUF_GGUF_H

#include "gguf/gguf_type.h"

#define GGUF_ALIGN 32
#define GGUF_NAME  64 /* bytes of a tensor's name with its terminating zero: llama.cpp's limit */

typedef struct gguf gguf;

/* Owned by the caller; NULL after an error. Errors: TRINE_ENOMEM. Not collective. */
trine_status gguf_create(gguf **g);
void gguf_destroy(gguf **g);

/* ---- Entries, in the order of the calls. Without memory the error is that of gguf_write. ---- */

void gguf_u32(gguf *g, const char *key, uint32_t value);
void gguf_f32(gguf *g, const char *key, double value);
void gguf_bool(gguf *g, const char *key, bool value);
void gguf_text(gguf *g, const char *key, const char *text, size_t bytes);

/* A list: its length, then as many elements of that kind. */
typedef enum { GGUF_LIST_I32 = 5, GGUF_LIST_F32 = 6, GGUF_LIST_TEXT = 8 } gguf_list_kind;
void gguf_list(gguf *g, const char *key, gguf_list_kind kind, uint64_t count);
void gguf_list_i32(gguf *g, int32_t value);
void gguf_list_f32(gguf *g, float value);
void gguf_list_text(gguf *g, const char *text, size_t bytes);

/* ---- Tensors ---- */

/* Sets to (rows, cols) = rows [row, row + rows) of the tensor. */
typedef trine_status (*gguf_read)(void *context, uint64_t row, uint64_t rows, float *to);

typedef struct {
    char name[GGUF_NAME];
    gguf_type type;
    uint64_t rows, cols; /* cols is a multiple of the type's block */
    bool vector;         /* of one dimension, cols; rows is 1 */
    uint64_t together;   /* rows are read by multiples of this, which divides rows; 0: 1 */
    gguf_read read;
    void *context; /* read's; borrowed */
} gguf_tensor;

void gguf_add(gguf *g, const gguf_tensor *tensor);

/* Bytes of the file. Pure. */
uint64_t gguf_bytes(const gguf *g);

/* Writes the file, which is empty; `path` is for messages. Memory: GGUF_PIECE numbers twice, or `together` rows if
 * that is more. Errors: TRINE_EIO, TRINE_ENOMEM, those of gguf_type_store and of the tensors' read. Not collective.
 * */
#define GGUF_PIECE ((uint64_t)1 << 20)
trine_status gguf_write(const gguf *g, int fd, const char *path);

#endif
