#include "model/kind.h"

#include <stdio.h>

#include "base/rng.h"
#include "base/status.h"
#include "model/lora.h"

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

/* A uniform, with PEFT's bounds; B zero, so that a model starts as without adapters. */
static const kind_tensor adapter_tensors[] = {
    {"lora_A.weight", SIDE_DOWN, START_UNIFORM, FROM_HEADS, false},
    {"lora_B.weight", SIDE_UP, START_ZERO, FROM_HEADS, false}};

int layer_params(const gpt_shape *s, const trine_layer *row) {
    int matrix[TRINE_LAYER_TENSORS];
    return layer_kind_of(row->kind)->tensor_count + 2 * lora_adapters(s, row, matrix);
}

static int adapters_of(const gpt_shape *s, const trine_layer *row, layer_tensor *out) {
    int matrix[TRINE_LAYER_TENSORS], count = lora_adapters(s, row, matrix);
    int first = layer_kind_of(row->kind)->tensor_count;
    for (int n = 0; n < 2 * count; n++)
        out[n] =
            (layer_tensor){.kind = &adapter_tensors[n % 2],
                           .of = first + n,
                           .matrix = matrix[n / 2],
                           .matrix_name = matrix[n / 2] < 0 ? NULL : row->tensors[matrix[n / 2]]};
    return 2 * count;
}

int layer_tensors(const gpt_shape *s, const trine_layer *row, layer_tensor out[LAYER_TENSORS]) {
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
    return count + adapters_of(s, row, out + count);
}

/* Lists are resolved for every plan, and compare all names of a unit: without snprintf, which took half of a search. */
const char *layer_tensor_name(const trine_layer *row, const layer_tensor *t,
                              char text[TRINE_LAYER_NAME]) {
    const char *const parts[] = {row->name, t->matrix_name ? "." : "",
                                 t->matrix_name ? t->matrix_name : "", ".", t->kind->suffix};
    size_t used = 0;
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
        for (const char *c = parts[n]; *c && used < TRINE_LAYER_NAME - 1; c++) text[used++] = *c;
    text[used] = '\0';
    return text;
}

uint64_t run_dropout_key(const unit_run *r, const char *name) {
    char full[TRINE_LAYER_NAME + 16];
    if (gpt_unit_kind(r->shape, r->unit) != UNIT_BLOCK) return rng_key(r->seed, name);
    snprintf(full, sizeof full, "%s.%d.%s", gpt_block_name(r->shape), r->unit - 1, name);
    return rng_key(r->seed, full);
}

static const dropout_args *dropout_of(const unit_run *r, const trine_layer *row, double p,
                                      size_t first, dropout_args *out) {
    if (!r->training || p == 0 || !row->dropout) return NULL;
    *out = (dropout_args){.p = (float)p,
                          .key = run_dropout_key(r, row->dropout),
                          .sample = r->batch->sample,
                          .first = first,
                          .T = r->shape->T};
    return out;
}

const dropout_args *run_dropout(const unit_run *r, const trine_layer *row, dropout_args *out) {
    return dropout_of(r, row, r->shape->hidden_dropout, r->own.first, out);
}

const dropout_args *run_dropout_of_heads(const unit_run *r, const trine_layer *row, int part,
                                         dropout_args *out) {
    const gpt_shape *s = r->shape;
    size_t first_head = (size_t)(s->tp_rank + part) * gpt_heads(s);
    return dropout_of(r, row, s->attention_dropout, first_head, out);
}

const int32_t *run_starts(const unit_run *r, starts_use use) {
    const gpt_shape *s = r->shape;
    bool resets = use == STARTS_ATTENTION ? s->reset_attention : s->reset_positions;
    return resets ? r->batch->starts : NULL;
}

bool run_next_share(const unit_run *r, row_share *share) {
    const gpt_shape *s = r->shape;
    size_t at = share->at + share->n, all = r->own.count;
    if (at == all) return false;
    *share = (row_share){at, all - at, -1};
    for (int p = 0; p < gpt_parts(s) && share->part < 0; p++) {
        tp_rows rows = gpt_part_rows(s, p);
        size_t first = rows.first - r->own.first;
        if (first == at) *share = (row_share){at, rows.count, p};
        if (first > at && first - at < share->n) share->n = first - at;
    }
    return true;
}

size_t gpt_discard(const device *d, const gpt_shape *s) {
    bool others = gpt_shares_rows(s) && !gpt_splits_rows(s) && gpt_tp_ranks(s) > 1;
    return others || s->freezes ? 2 * s->C * trine_dtype_bytes(d->grads) : 0;
}

void *call_small(const layer_call *c, int n, int part) {
    const unit_run *r = c->r;
    size_t bytes = r->shape->C * trine_dtype_bytes(r->dev->grads);
    char *discarded = (char *)r->workspace + (size_t)n * bytes;
    if (part >= 0 && c->params[n].dw) return tp_dw(r->tp, &c->params[n], part);
    if (part >= 0) device_zero(r->dev, discarded, bytes); /* it may be added to */
    return discarded;
}

grad_mode call_small_mode(const layer_call *c, int n, int part) {
    return part >= 0 ? c->params[n].mode : GRAD_SET;
}
