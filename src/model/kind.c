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

static uint64_t dropout_key(const unit_run *r, const char *name) {
    char full[48];
    if (gpt_unit_kind(r->shape, r->unit) != UNIT_BLOCK) return rng_key(r->seed, name);
    snprintf(full, sizeof full, "h.%d.%s", r->unit - 1, name);
    return rng_key(r->seed, full);
}

const dropout_args *run_dropout(const unit_run *r, const trine_layer *row, bool heads,
                                dropout_args *out) {
    const gpt_shape *s = r->shape;
    double p = heads ? s->attention_dropout : s->hidden_dropout;
    if (!r->training || p == 0 || !row->dropout) return NULL;
    size_t first_head = (size_t)s->tp_rank * (s->H / (size_t)s->tp);
    *out = (dropout_args){.p = (float)p,
                          .key = dropout_key(r, row->dropout),
                          .sample = r->batch->sample,
                          .first = heads ? first_head : r->own.first,
                          .T = s->T};
    return out;
}
