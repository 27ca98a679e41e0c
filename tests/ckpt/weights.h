/* A full model on one rank (model/fixture.h) with the weights of a ckpt_source, and its logits. */
#ifndef TRINE_TESTS_CKPT_WEIGHTS_H
#define TRINE_TESTS_CKPT_WEIGHTS_H

#include "ckpt/source.h"
#include "model/fixture.h"

static inline gpt_shape weights_shape(const trine_model *m, size_t B) {
    gpt_shape s = {.B = B, .T = (size_t)m->seq_length, .C = (size_t)m->hidden_size};
    s.H = (size_t)m->num_attention_heads;
    s.F = (size_t)(m->ffn_hidden_size ? m->ffn_hidden_size : 4 * m->hidden_size);
    s.L = (size_t)m->num_layers;
    s.V = (size_t)m->vocab_size;
    s.untied = m->untied;
    return s;
}

static inline void weights_load(model *m, const ckpt_source *source) {
    for (int u = 0; u < m->units; u++)
        for (int r = 0; r < m->layout[u].range_count; r++) {
            const flat_range *range = &m->layout[u].ranges[r];
            ckpt_shard shard = {.kind = CKPT_WEIGHT, .range = range, .count = range->count};
            shard.at = m->params[u][r];
            shard.type = TRINE_F32;
            OK(ckpt_read(source, m->dev, &shard, 1));
        }
}

/* Logits (B, T, V) of B samples, whose token i, numbered over the batch, is (7 i + i^2) mod V,
 * as in hf_reference.py. They lie in the model, which the caller closes with model_close: an
 * evaluation leaves the logits of the full batch, which is one row chunk, in the head's scratch buffer. */
static inline const float *weights_logits(model *m, const ckpt_source *source, size_t B,
                                          device_kind kind, trine_comm *comm) {
    trine_model sizes;
    OK(ckpt_model(source, &sizes));
    assert_true(sizes.num_layers + 2 <= MAX_UNITS);
    model_open(m, weights_shape(&sizes, B), kind, comm);
    weights_load(m, source);
    for (size_t i = 0; i < m->s.B * m->s.T; i++)
        m->tokens[i] = (int32_t)((7 * i + i * i) % m->s.V);
    model_forward(m);
    return m->run.scratch->loss.logits;
}

#endif
