#include "model/shape.h"

#include "base/status.h"
#include "model/family.h"

size_t gpt_loss_rows(const gpt_shape *s) {
    size_t N = s->B * s->T;
    return s->loss_rows && s->loss_rows < N ? s->loss_rows : N;
}

tp_vocab gpt_vocab(const gpt_shape *s) {
    return tp_vocab_of(s->V, s->tp, s->tp_rank, s->row_multiple ? s->row_multiple : 1);
}

bool gpt_tp_partial(const gpt_shape *s) {
    return s->sequence && s->tp > 1;
}

tp_rows gpt_rows(const gpt_shape *s) {
    size_t N = s->B * s->T, tp = (size_t)s->tp;
    if (!gpt_tp_partial(s)) return (tp_rows){0, N};
    return (tp_rows){(size_t)s->tp_rank * (N / tp), N / tp};
}

int gpt_unit_count(const gpt_shape *s) {
    return (int)s->L + 2;
}

unit_kind gpt_unit_kind(const gpt_shape *s, int unit) {
    ASSERT(unit >= 0 && unit < gpt_unit_count(s));
    if (unit == 0) return UNIT_EMBEDDING;
    return unit <= (int)s->L ? UNIT_BLOCK : UNIT_HEAD;
}

const trine_family *gpt_family(const gpt_shape *s) {
    return s->family ? s->family : &trine_gpt2;
}

const trine_layer *gpt_unit_rows(const gpt_shape *s, unit_kind kind) {
    const trine_family *f = gpt_family(s);
    if (kind == UNIT_EMBEDDING) return f->embedding;
    return kind == UNIT_BLOCK ? f->block : f->head;
}

gpt_shape gpt_unsharded_shape(const trine_model *m) {
    int F = m->ffn_hidden_size ? m->ffn_hidden_size : 4 * m->hidden_size;
    return (gpt_shape){.B = 1,
                       .T = (size_t)m->seq_length,
                       .C = (size_t)m->hidden_size,
                       .H = (size_t)m->num_attention_heads,
                       .F = (size_t)F,
                       .L = (size_t)m->num_layers,
                       .V = (size_t)m->vocab_size,
                       .untied = m->untied,
                       .tp = 1,
                       .family = family_of(m)};
}
