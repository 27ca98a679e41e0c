#include "model/kind.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"

const layer_kind *layer_kind_of(trine_layer_kind kind) {
    static const layer_kind *const kinds[] = {
#define KIND_ROW(NAME, name) [TRINE_LAYER_##NAME] = &kind_##name,
        TRINE_LAYER_LIST(KIND_ROW)
#undef KIND_ROW
    };
    ASSERT(kind > TRINE_LAYER_END && kind < TRINE_LAYER_KINDS);
    return kinds[kind];
}

int layer_matrices(const trine_layer *row) {
    if (row->width.dim == TRINE_QKV) return 3;
    return row->width.times ? row->width.times : 1;
}

size_t layer_matrix(const gpt_shape *s, const trine_layer *row, int m) {
    if (row->width.dim == TRINE_QKV) return (m ? gpt_query_groups(s) : s->H) * gpt_head_width(s);
    return row->width.dim == TRINE_FFN ? s->F : s->C;
}

int layer_tensors(const trine_layer *row, layer_tensor out[LAYER_TENSORS]) {
    const layer_kind *kind = layer_kind_of(row->kind);
    int count = 0;
    for (int i = 0; i < kind->tensor_count; i++) {
        if (kind->tensors[i].optional && row->no_bias) continue;
        int own = row->tensors[0] ? layer_matrices(row) : 1;
        for (int m = 0; m < own; m++)
            out[count++] = (layer_tensor){.kind = &kind->tensors[i],
                                          .of = i,
                                          .matrix = row->tensors[0] ? m : -1,
                                          .matrix_name = row->tensors[m],
                                          .joined = m > 0};
    }
    return count;
}

const char *layer_tensor_name(const trine_layer *row, const layer_tensor *t,
                              char text[TRINE_LAYER_NAME]) {
    snprintf(text, TRINE_LAYER_NAME, "%s%s%s.%s", row->name, t->matrix_name ? "." : "",
             t->matrix_name ? t->matrix_name : "", t->kind->suffix);
    return text;
}

static uint64_t dropout_key(const unit_run *r, const char *name) {
    char full[TRINE_LAYER_NAME + 16];
    if (gpt_unit_kind(r->shape, r->unit) != UNIT_BLOCK) return rng_key(r->seed, name);
    snprintf(full, sizeof full, "%s.%d.%s", gpt_block_name(r->shape), r->unit - 1, name);
    return rng_key(r->seed, full);
}

const dropout_args *run_dropout(const unit_run *r, const trine_layer *row, bool heads,
                                dropout_args *out) {
    const gpt_shape *s = r->shape;
    double p = heads ? s->attention_dropout : s->hidden_dropout;
    if (!r->training || p == 0 || !row->dropout) return NULL;
    size_t first_head = (size_t)s->tp_rank * gpt_heads(s);
    *out = (dropout_args){.p = (float)p,
                          .key = dropout_key(r, row->dropout),
                          .sample = r->batch->sample,
                          .first = heads ? first_head : r->own.first,
                          .T = s->T};
    return out;
}
