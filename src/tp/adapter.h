/* Low-rank adapters beside the matrix of a linear layer: Hu et al., "LoRA: low-rank adaptation of large language
 * models", ICLR 2022, section 4.1. To the columns [at, at + own) of the layer's output is added
 *
 *   scale B A dropout(x)       A (rank, I), B (columns, rank)
 *
 * Over tp an adapter is split as the matrix beside it. In a column-parallel layer every rank has all of A and its
 * rows of B, in a row-parallel one its columns of A and all of B; so the addend of a rank joins the one of the
 * matrix, in the forward pass (row-parallel) or in the backward pass (column-parallel), before the sum over tp, and
 * nothing more is sent. The gradient of what every rank has is partial over tp (tensor.tp_partial, core/flat.h).
 *
 * Invariant: the weight half reads no parameter. Cost: 6 rank (I + columns) flops per row in a training step, beside
 * 6 I columns of the matrix; passes over the input and the output. */
#ifndef TRINE_TP_ADAPTER_H
#define TRINE_TP_ADAPTER_H

#include "tp/tp.h"

typedef struct {
    param a, b;
    size_t at, own;     /* columns of a part's output */
    dropout_args drop; /* of its input; p 0: none */
} tp_adapter;

/* N: rows of the call; P: tp_parts. All in the compute type. */
struct tp_lora {
    int count;
    tp_adapter of[3];
    size_t rank;
    float scale;
    void *down; /* A dropout(x), from forward to backward: (count, N, rank), in a row-parallel layer (P, N, rank) */
    void *up;   /* scale dy B, from the input half to the weight half: (P, count, N, rank), there (N, rank) */
    void *work; /* (N, widest of I/tp or I, own); not used after a call */
};

/* Column-parallel. y (N, own columns) += adapters; `full` is x (N, I); columns: of a part. */
trine_status tp_adapt_column(const tp_region *r, void *y, const tp_lora *l, const void *full, size_t N,
                             size_t columns, size_t I);
/* This rank's addends of dx, at tp_addend(r, dx), += those of the adapters. Sets l->up. */
trine_status tp_adapt_column_input(const tp_region *r, void *dx, const tp_lora *l, const void *dy, size_t N,
                                   size_t columns, size_t I);
/* The gradients of A and B (+)=, from l->up and l->down. */
trine_status tp_adapt_column_weight(const tp_region *r, const tp_lora *l, const void *dy, const void *full, size_t N,
                                    size_t columns, size_t I);

/* Row-parallel, one adapter. The addend (N, O) of part p += that of the adapter; own: columns of x of a part. */
trine_status tp_adapt_row(const tp_region *r, void *addend, int p, const tp_lora *l, const void *x, size_t N,
                          size_t O, size_t own);
/* dx (N, own) of each part +=; `full` is dy (N, O). Sets l->up. */
trine_status tp_adapt_row_input(const tp_region *r, void *dx, const tp_lora *l, const void *full, size_t N, size_t O,
                                size_t own);
trine_status tp_adapt_row_weight(const tp_region *r, const tp_lora *l, const void *full, const void *x, size_t N,
                                 size_t O, size_t own);

#endif
