/* Tensors of a source as those of a GGUF file, which is a model or a model's adapters: what gguf_export.c and
 * gguf_adapter.c share. Names and rows are in llama.cpp's order: rows of queries and keys are turned (gguf_family.h),
 * of a matrix as of the B of its adapter; the A, whose rows are of the rank, stays as it is. */
#ifndef TRINE_GGUF_GGUF_JOB_H
#define TRINE_GGUF_GGUF_JOB_H

#include "ckpt/hf/merge.h"
#include "ckpt/making.h"
#include "gguf/gguf_export.h"
#include "gguf/gguf_family.h"
#include "model/shape.h"
#include "trine.h"

/* A tensor of the model, and where the source has it. */
typedef struct {
    struct gguf_job *j;
    tensor t;
    const st_file *file;
    const st_entry *entry;
    uint64_t cols; /* of the file's */
    bool turned;
} gguf_item;

typedef struct gguf_job {
    const ckpt_source *source; /* set by the caller, as the next two */
    const gguf_request *request;
    bool adapters; /* these are written; else the model, with its adapters added to the weights */
    const gguf_family *family;
    trine_model model; /* of adapters with them, else without */
    gpt_shape shape;
    gguf *file; /* owned, as all below */
    making making;
    device *host;
    slice_buffer *buffer;
    float *head;             /* the rows of one head, to turn them */
    gguf_item *items;        /* [count] */
    size_t count, odd;       /* odd: matrices that are f16 for their rows' sake */
    trine_lora merged;       /* adapters that are added; rank 0: none */
    merge_adapter adapter;   /* of `adapted`, whose rows are being read */
    const gguf_item *adapted;
} gguf_job;

/* Adds general.*: the architecture, this type ("model", "adapter"), the name of the file, its tensors' type. */
void gguf_job_describe(gguf_job *j, const char *type);

/* Adds a tensor of the model, under llama.cpp's name. Errors: those of source_values, gguf_family_name. */
trine_status gguf_job_add(gguf_job *j, const tensor *t);

/* Writes the file `out`, which appears when it is complete; `describe` adds its entries and tensors, and sees all of
 * *j above but for `adapted`. Frees all that *j owns. Errors: those of gguf_export. Not collective. */
trine_status gguf_job_run(gguf_job *j, const char *out, trine_status (*describe)(gguf_job *j));

#endif
