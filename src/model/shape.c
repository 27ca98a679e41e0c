#include "model/shape.h"

#include "base/status.h"
#include "model/family.h"
#include "model/frozen.h"
#include "trine.h"

size_t gpt_head_width(const gpt_shape *s) {
    return s->D ? s->D : s->C / s->H;
}

size_t gpt_query_groups(const gpt_shape *s) {
    return s->K ? s->K : s->H;
}

float gpt_epsilon(const gpt_shape *s) {
    return (float)(s->epsilon > 0 ? s->epsilon : 1e-5);
}

int gpt_parts(const gpt_shape *s) {
    return s->parts ? s->parts : 1;
}

int gpt_tp_ranks(const gpt_shape *s) {
    return s->tp / gpt_parts(s);
}

size_t gpt_heads(const gpt_shape *s) {
    return s->H / (size_t)s->tp;
}

size_t gpt_kv_heads(const gpt_shape *s) {
    size_t all = gpt_query_groups(s), tp = (size_t)s->tp;
    return all < tp ? 1 : all / tp;
}

int gpt_kv_copies(const gpt_shape *s) {
    int all = (int)gpt_query_groups(s);
    return all < s->tp ? s->tp / all : 1;
}

size_t gpt_qkv(const gpt_shape *s) {
    return (s->H + 2 * gpt_kv_heads(s) * (size_t)s->tp) * gpt_head_width(s);
}

size_t gpt_loss_rows(const gpt_shape *s) {
    size_t N = s->B * s->T;
    return s->loss_rows && s->loss_rows < N ? s->loss_rows : N;
}

tp_vocab gpt_vocab(const gpt_shape *s) {
    return tp_vocab_of(s->V, s->tp, s->tp_rank, s->row_multiple ? s->row_multiple : 1);
}

bool gpt_splits_rows(const gpt_shape *s) {
    return s->sequence && gpt_tp_ranks(s) > 1;
}

tp_rows gpt_rows(const gpt_shape *s) {
    size_t N = s->B * s->T, each = N / (size_t)s->tp;
    if (!gpt_splits_rows(s)) return (tp_rows){0, N};
    return (tp_rows){(size_t)s->tp_rank * each, (size_t)gpt_parts(s) * each};
}

bool gpt_shares_rows(const gpt_shape *s) {
    return s->tp > 1 && (s->exact || s->sequence);
}

tp_rows gpt_part_rows(const gpt_shape *s, int p) {
    size_t N = s->B * s->T, each = N / (size_t)s->tp;
    if (!gpt_shares_rows(s)) return (tp_rows){0, N};
    return (tp_rows){(size_t)(s->tp_rank + p) * each, each};
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

const char *gpt_block_name(const gpt_shape *s) {
    return family_blocks(gpt_family(s));
}

const trine_layer *gpt_unit_rows(const gpt_shape *s, unit_kind kind) {
    const trine_family *f = gpt_family(s);
    if (kind == UNIT_EMBEDDING) return f->embedding;
    return kind == UNIT_BLOCK ? f->block : f->head;
}

void gpt_set_sizes(gpt_shape *s, const trine_model *m) {
    s->T = (size_t)m->seq_length;
    s->C = (size_t)m->hidden_size;
    s->H = (size_t)m->num_attention_heads;
    s->K = (size_t)m->num_query_groups;
    s->D = (size_t)m->kv_channels;
    s->F = m->ffn_hidden_size ? (size_t)m->ffn_hidden_size : 4 * s->C;
    s->L = (size_t)m->num_layers;
    s->V = (size_t)m->vocab_size;
    s->untied = m->untied;
    s->epsilon = m->norm_epsilon;
    s->rotary_base = m->rotary_base;
    s->rope_scaling = m->rope_scaling;
    s->lora = m->lora;
    s->family = family_of(m);
    s->trained = model_trained(m);
    s->freezes = model_freezes(m);
}

static bool has_layer(const trine_model *m, trine_layer_kind kind) {
    const trine_family *f = family_of(m);
    const trine_layer *const lists[] = {f->embedding, f->block, f->head};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const trine_layer *row = lists[i]; row->kind != TRINE_LAYER_END; row++)
            if (row->kind == kind) return true;
    return false;
}

bool gpt_has_dropout(const trine_model *m, bool of_attention) {
    const trine_family *f = family_of(m);
    const trine_layer *const lists[] = {f->embedding, f->block, f->head};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const trine_layer *row = lists[i]; row->kind != TRINE_LAYER_END; row++)
            if (row->dropout && (row->kind == TRINE_LAYER_ATTENTION) == of_attention) return true;
    return false;
}

bool gpt_has_rope(const trine_model *m) {
    return !has_layer(m, TRINE_LAYER_POSITIONS);
}

int gpt_positions(const trine_model *m) {
    return gpt_has_rope(m) && m->max_positions > m->seq_length ? m->max_positions : m->seq_length;
}

void gpt_canonical(trine_model *m) {
    if (m->num_query_groups == m->num_attention_heads) m->num_query_groups = 0;
    if ((int64_t)m->kv_channels * m->num_attention_heads == m->hidden_size) m->kv_channels = 0;
    if (m->norm_epsilon == 1e-5) m->norm_epsilon = 0;
    if (m->rotary_base == 10000) m->rotary_base = 0;
    if (m->lora.alpha == LORA_ALPHA) m->lora.alpha = 0;
    if (m->rope_scaling.kind == TRINE_ROPE_DEFAULT) m->rope_scaling = (trine_rope_scaling){0};
    if (m->rope_scaling.kind == TRINE_ROPE_LINEAR)
        m->rope_scaling = (trine_rope_scaling){TRINE_ROPE_LINEAR, m->rope_scaling.factor, 0, 0, 0};
}

/* Whether heads of keys and values may be fewer, and of another width than C / H: else the columns before attention
 * are {TRINE_HIDDEN, 3}, which may have as many only by chance, and on one tp rank only. */
static bool has_qkv(const trine_model *m) {
    for (const trine_layer *row = family_of(m)->block; row->kind != TRINE_LAYER_END; row++)
        if (row->width.dim == TRINE_QKV) return true;
    return false;
}

const char *gpt_unread(const trine_model *m) {
    const trine_rope_scaling *s = &m->rope_scaling;
    bool rope = has_layer(m, TRINE_LAYER_ROPE);
    bool rms = has_layer(m, TRINE_LAYER_RMS_NORM) || has_layer(m, TRINE_LAYER_QK_NORM);
    bool ranges = s->low_freq_factor != 0 || s->high_freq_factor != 0 || s->original_length;
    bool qkv = has_qkv(m) || !has_layer(m, TRINE_LAYER_ATTENTION);
    int heads = m->num_attention_heads, groups = m->num_query_groups, width = m->kv_channels;
    const struct {
        bool wrong;
        const char *text;
    } rules[] = {
        {!qkv && groups && groups != heads,
         "--num-query-groups: this family has as many heads of keys and values as of queries"},
        {!qkv && width && (int64_t)width * heads != m->hidden_size,
         "--kv-channels: in this family a head has --hidden-size / --num-attention-heads channels"},
        {m->norm_epsilon != 0 && m->norm_epsilon != 1e-5 && !rms,
         "--norm-epsilon: this family has no RMS norms; its layer norms have 1e-5"},
        {m->rotary_base != 0 && m->rotary_base != 10000 && !rope,
         "--rotary-base: this family has no rotary positions"},
        {s->kind != TRINE_ROPE_DEFAULT && !rope,
         "--rope-scaling: this family has no rotary positions"},
        {s->kind == TRINE_ROPE_DEFAULT && s->factor != 0,
         "--rope-scaling-factor requires --rope-scaling linear or llama3"},
        {s->kind != TRINE_ROPE_LLAMA3 && ranges,
         "--rope-low-freq-factor, --rope-high-freq-factor and --rope-original-length require "
         "--rope-scaling llama3"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].wrong) return rules[i].text;
    return NULL;
}

gpt_shape gpt_unsharded_shape(const trine_model *m) {
    gpt_shape s = {.B = 1, .tp = 1};
    gpt_set_sizes(&s, m);
    return s;
}
