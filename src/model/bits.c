#include "model/bits.h"

#include <string.h>

#include "base/status.h"

/* Adds a tensor to the strand of its like, or begins one. */
static int put(prove_strand *out, int count, const tensor *t, bool small, bool tied) {
    for (int k = 0; k < count; k++)
        if (out[k].small == small && out[k].tied == tied && out[k].partial == t->tp_partial) {
            out[k].tensors++;
            return count;
        }
    ASSERT(count < PROVE_STRANDS);
    out[count] = (prove_strand){"", 1, small, tied, t->tp_partial};
    snprintf(out[count].name, sizeof out[count].name, "%s", t->name);
    return count + 1;
}

int gpt_strands(const void *shape, int unit, prove_strand out[PROVE_STRANDS]) {
    const gpt_shape *s = shape;
    const unit_kind kind = gpt_unit_kind(s, unit);
    flat_unit layout;
    unit_list l;
    int next[FLAT_RANGES] = {0}, seen = 0, strands = 0;
    list_resolve_valid(&l, s, kind);
    gpt_unit_layout(s, unit, 1, &layout);
    for (int n = 0; n < l.count; n++) {
        layer_tensor tensors[LAYER_TENSORS];
        for (int i = 0, count = layer_tensors(s, l.layers[n].row, tensors); i < count; i++) {
            int range = layout.order[seen++];
            const tensor *t = &layout.ranges[range].tensors[next[range]++];
            if (layout.ranges[range].frozen) continue;
            bool tied = tensors[i].kind->side == SIDE_VOCABULARY && !s->untied;
            strands = put(out, strands, t, !list_splits(&l.layers[n]), tied);
        }
    }
    return strands;
}

const trine_layer *gpt_bits_layer(const gpt_shape *s, int unit, unsigned bits) {
    const trine_layer *row = gpt_unit_rows(s, gpt_unit_kind(s, unit));
    while (row->kind != TRINE_LAYER_END && !(layer_kind_of(row->kind)->bits & bits)) row++;
    return row->kind == TRINE_LAYER_END ? NULL : row;
}
