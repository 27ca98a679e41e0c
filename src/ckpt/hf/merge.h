/* Adds low-rank adapters to the matrices that they belong to: W + scale B A (trine_lora), as PEFT's merge_and_unload
 * does. */
#ifndef TRINE_CKPT_HF_MERGE_H
#define TRINE_CKPT_HF_MERGE_H

#include "ckpt/source.h"

/* The adapter of one matrix. */
typedef struct {
    float *a, *b; /* (rank, in), (out, rank); owned */
    size_t rank, in, out;
    double scale;
    bool transposed; /* the matrix is (in, out) in its file */
} merge_adapter;

/* *m = the adapter of a tensor of the base in the source, of the model that ckpt_model gives; a == NULL: it has none.
 * Freed with merge_free. Errors: TRINE_EIO, TRINE_ENOMEM. Not collective. */
trine_status merge_open(merge_adapter *m, const ckpt_source *source, const trine_lora *lora, const tensor *t);
void merge_free(merge_adapter *m);

/* Adds rows [first, first + rows) of the adapter to those rows of the matrix as its file has them, of this type (F32,
 * BF16 or F16). Sums are computed in double and rounded once to the type. Pure. */
void merge_rows(const merge_adapter *m, void *matrix, trine_dtype type, size_t first, size_t rows);

#endif
