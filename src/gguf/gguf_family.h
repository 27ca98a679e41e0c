/* What llama.cpp calls a family and its tensors (llama.cpp: src/llama-arch.cpp, convert_hf_to_gguf.py). */
#ifndef TRINE_GGUF_GGUF_FAMILY_H
#define TRINE_GGUF_GGUF_FAMILY_H

#include "gguf/gguf.h"
#include "trine_model.h"

typedef enum {
    GGUF_ROTARY = 1, /* rows of queries or keys that rotary positions turn: see `turned` */
    GGUF_PRECISE = 2 /* f32 in every file */
} gguf_flag;

/* A layer's tensors: names without the block's number, ".weight" and ".bias". */
typedef struct {
    const char *ours, *theirs; /* "self_attn.q_proj", "attn_q" */
    unsigned flags;
} gguf_name;

typedef struct {
    const trine_family *family;
    const char *architecture; /* general.architecture */
    const gguf_name *names;   /* ends with NULLs */
    bool layer_norm;          /* the norm's epsilon is that of layer norms */
    bool turned;              /* pairs of rotary positions are neighbours: of each head of D rows, row 2 i + j of the
                                 file is row i + j D/2 of ours */
    bool rope_factors;        /* llama.cpp reads rope_freqs.weight */
    bool square;              /* llama.cpp wants heads that are together as wide as the model */
} gguf_family;

/* The row of the model's family. Errors: TRINE_EINVAL, the message begins with `path`: GGUF has no such family, or
 * llama.cpp's code for it does not have what the model has. Pure. */
trine_status gguf_family_of(const gguf_family **family, const trine_model *m, const char *path);

/* The tensor's name in the file, and its flags: "layers.3.self_attn.q_proj.weight" is "blk.3.attn_q.weight", and its
 * adapter's "...q_proj.lora_A.weight" is "blk.3.attn_q.weight.lora_a". Errors: TRINE_EINVAL for one that the row does
 * not have. Pure. */
trine_status gguf_family_name(const gguf_family *f, const char *ours, char name[GGUF_NAME], unsigned *flags);

/* Adds the entries of the model's sizes, "llama.block_count" and so on. Pure but for memory. */
void gguf_family_describe(const gguf_family *f, gguf *g, const trine_model *m);

#endif
