/* Facts, costs and tensors of a model, derived from its lists. */
#include "model/gpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "model/family.h"
#include "model/list_parts.h"
#include "model/frozen.h"
#include "model/lora.h"
#include "trine.h"

unit_facts gpt_facts(const program_spec *s, int unit) {
    bool embedding = unit == 0, head = unit == s->units - 1;
    unit_kind kind = embedding ? UNIT_EMBEDDING : head ? UNIT_HEAD : UNIT_BLOCK;
    unit_facts facts = {.name = embedding ? "embedding"
                                : head    ? "head"
                                          : "layer",
                        .number = embedding || head ? -1 : unit - 1,
                        .class = embedding || head ? CLASS_END : CLASS_BLOCK,
                        .reads_tokens = embedding,
                        .makes_loss = head,
                        .reads_starts = s->starts >> kind & 1,
                        .twin = -1,
                        .backward = BACKWARD_SPLITS};
    if (s->tied && embedding) facts.twin = s->units - 1;
    if (s->tied && head) facts.twin = 0;
    if (embedding) facts.backward = BACKWARD_WEIGHT_ONLY; /* tokens have no gradient */
    if (head) facts.backward = BACKWARD_UNSPLIT;          /* its logits are never kept */
    if (unit < s->first_trained) facts.backward = BACKWARD_NONE;
    return facts;
}

/* Whether a list has tensors whose gradients are partial over tp even if every rank has all rows. */
static bool splits_heads(const gpt_shape *s, unit_kind kind) {
    for (const trine_layer *row = gpt_unit_rows(s, kind); row->kind != TRINE_LAYER_END; row++) {
        layer_tensor tensors[LAYER_TENSORS];
        for (int i = 0, count = layer_tensors(s, row, tensors); i < count; i++)
            if (tensors[i].kind->from == FROM_HEADS) return true;
        if (row->width.dim == TRINE_QKV && gpt_kv_copies(s) > 1) return true;
    }
    return false;
}

void gpt_spec_tp(const trine_model *m, int tp, bool sequence, program_spec *spec) {
    const spec_options *p = &spec->parallel;
    gpt_shape s = {.tp = tp, .sequence = sequence};
    gpt_set_sizes(&s, m);
    spec->tp_partial = tp > 1 && (sequence || splits_heads(&s, UNIT_BLOCK));
    spec->tp_part = gpt_kv_copies(&s);
    if (p->exact && p->exact_tp > 1) spec->tp_partial = true;
}

void gpt_spec_starts(const trine_model *m, bool attention, bool positions, program_spec *spec) {
    gpt_shape s = {.family = m->family};
    spec->starts = 0;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (const trine_layer *row = gpt_unit_rows(&s, kind); row->kind != TRINE_LAYER_END;
             row++) {
            starts_use use = layer_kind_of(row->kind)->starts;
            if ((use == STARTS_ATTENTION && attention) || (use == STARTS_POSITIONS && positions))
                spec->starts |= 1u << kind;
        }
}

/* Embedding and head must not share a layer name. */
static trine_status check_names_differ(const trine_model *m) {
    const trine_family *f = family_of(m);
    for (const trine_layer *a = f->embedding; a->kind != TRINE_LAYER_END; a++)
        for (const trine_layer *b = f->head; b->kind != TRINE_LAYER_END; b++)
            CHECK(!layer_kind_of(a->kind)->tensor_count || !layer_kind_of(b->kind)->tensor_count ||
                      strcmp(a->name, b->name) != 0,
                  TRINE_EINVAL, "family \"%s\": embedding and head both have a layer named \"%s\"",
                  f->name, a->name);
    return TRINE_OK;
}

trine_status gpt_check_family(const trine_model *m) {
    static const char *const names[UNIT_KINDS] = {"embedding", "block", "head"};
    gpt_shape s = gpt_unsharded_shape(m);
    unit_list l;
    TRY(family_check(family_of(m)));
    TRY(lora_check(m));
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
        char why[200];
        if (list_resolve(&l, &s, kind) == TRINE_OK) continue;
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        return RAISE(TRINE_EINVAL, "family \"%s\", %s: %s", family_of(m)->name, names[kind], why);
    }
    return check_names_differ(m);
}

trine_status gpt_check_tp(const trine_model *m, const char *option, int tp) {
    int heads = m->num_attention_heads, ffn = m->ffn_hidden_size, groups = m->num_query_groups;
    CHECK(heads % tp == 0 && ffn % tp == 0, TRINE_EINVAL,
          "%s %d: must divide --num-attention-heads %d and --ffn-hidden-size %d", option, tp, heads,
          ffn);
    CHECK(groups < 1 || groups % tp == 0 || tp % groups == 0, TRINE_EINVAL,
          "%s %d: must divide --num-query-groups %d, or be a multiple of it", option, tp, groups);
    return TRINE_OK;
}

/* ---- Costs ------------------------------------------------------------------------------------- */

double gpt_unit_cost(const trine_model *m, int T, int unit) {
    gpt_shape s = gpt_unsharded_shape(m);
    unit_list l;
    double sum = 0;
    s.T = (size_t)T;
    list_resolve_valid(&l, &s, gpt_unit_kind(&s, unit));
    for (int n = 0; n < l.count; n++) {
        const list_layer *at = &l.layers[n];
        if (at->kind->flops)
            sum += at->kind->flops(&s, (double)list_width_in(&l, at), (double)list_width(&l, at));
        sum += lora_flops(&s, at->row, list_width_in(&l, at), list_width(&l, at));
    }
    return sum;
}

/* ---- Tensors ----------------------------------------------------------------------------------- */

/* The number of matrices in all blocks whose output is added to the residual stream; at least 1. */
static size_t residual_count(const gpt_shape *s) {
    size_t count = 0;
    for (const trine_layer *row = gpt_unit_rows(s, UNIT_BLOCK); row->kind != TRINE_LAYER_END;
         row++) {
        const layer_kind *kind = layer_kind_of(row->kind);
        for (int i = 0; i < kind->tensor_count; i++)
            count += kind->tensors[i].start == START_RESIDUAL;
    }
    return count ? count * s->L : 1;
}

/* The unsharded sizes. The output of a COLUMN may be several stacked matrices, each of which is split by itself. */
static void set_sides(tensor *t, const layer_tensor *own, const gpt_shape *s, const unit_list *l,
                      const list_layer *at) {
    const kind_tensor *k = own->kind;
    size_t in = list_width_in(l, at), rank = (size_t)s->lora.rank;
    bool inside = at->kind->out == SHAPE_INSIDE;
    bool splits =
        k->side == SIDE_ROWS || (k->side == SIDE_WIDTH && inside) || (k->side == SIDE_UP && inside);
    bool stacks = splits && own->matrix < 0;
    size_t rows = layer_matrix(s, at->row, own->matrix < 0 ? 0 : own->matrix);
    t->parts = stacks ? (size_t)layer_matrices(at->row) : 1;
    t->global_cols = 1;
    switch (k->side) {
    case SIDE_ROWS: t->global_rows = rows, t->global_cols = in; break;
    case SIDE_COLUMNS: t->global_rows = list_width(l, at), t->global_cols = in; break;
    case SIDE_WIDTH: t->global_rows = splits ? rows : list_width(l, at); break;
    case SIDE_HIDDEN: t->global_rows = s->C; break;
    case SIDE_HEAD: t->global_rows = gpt_head_width(s); break;
    case SIDE_POSITIONS: t->global_rows = s->T, t->global_cols = s->C; break;
    case SIDE_VOCABULARY: t->global_rows = s->V, t->global_cols = s->C; break;
    case SIDE_DOWN: t->global_rows = rank, t->global_cols = in; break;
    case SIDE_UP: t->global_rows = splits ? rows : list_width(l, at), t->global_cols = rank; break;
    }
    bool columns = k->side == SIDE_COLUMNS || (k->side == SIDE_DOWN && !inside);
    t->split = splits || k->side == SIDE_VOCABULARY ? SPLIT_ROWS
               : columns                            ? SPLIT_COLS
                                                    : SPLIT_NONE;
}

/* Whether a tensor has the rows of heads of keys or values, of which there are fewer than tp ranks: neighbours have
 * the same rows. */
static bool is_shared(const layer_tensor *own, const gpt_shape *s, const list_layer *at) {
    return own->kind->side != SIDE_DOWN && at->row->width.dim == TRINE_QKV && own->matrix > 0 &&
           gpt_kv_copies(s) > 1;
}

/* The sizes of the shard of this rank's first part. Only the rows of the vocabulary need not be divisible: the last rows may be
 * padding. */
static void split_over_tp(tensor *t, const layer_tensor *own, const gpt_shape *s,
                          const list_layer *at) {
    size_t tp = (size_t)s->tp, rank = (size_t)s->tp_rank;
    t->rows = t->global_rows, t->cols = t->global_cols;
    t->shard = s->tp_rank, t->shard_copies = 1;
    if (is_shared(own, s, at)) {
        size_t copies = (size_t)gpt_kv_copies(s);
        t->shard_copies = (int)copies;
        t->rows = t->global_rows / (tp / copies);
        t->first_row = rank / copies * t->rows;
        t->copy = rank % copies != 0;
        t->tp_partial = t->in_part = true;
    } else if (own->kind->side == SIDE_VOCABULARY) {
        tp_vocab rows = gpt_vocab(s);
        t->rows = rows.rows;
        t->first_row = rows.first;
    } else if (t->split == SPLIT_ROWS) {
        ASSERT(t->global_rows % tp == 0);
        t->rows = t->global_rows / tp;
        t->first_row = rank * t->rows;
    } else if (t->split == SPLIT_COLS) {
        ASSERT(t->global_cols % tp == 0);
        t->cols = t->global_cols / tp;
        t->first_col = rank * t->cols;
    } else {
        t->copy = rank != 0;
    }
}

/* Radford et al. 2019: standard deviation 0.02, divided by the square root of the number of additions to the residual
 * stream for matrices that add to it. */
static void set_start(tensor *t, const kind_tensor *k, const gpt_shape *s) {
    double all = (double)residual_count(s);
    t->init = k->start == START_ZERO ? INIT_ZERO : k->start == START_ONE ? INIT_ONE : INIT_NORMAL;
    if (t->init == INIT_NORMAL) t->std = k->start == START_RESIDUAL ? 0.02 / sqrt(all) : 0.02;
    t->matrix = k->start == START_NORMAL || k->start == START_RESIDUAL;
    if (k->side != SIDE_DOWN && k->side != SIDE_UP) return;
    t->matrix = t->adapter = true;
    if (k->side == SIDE_DOWN)
        t->init = INIT_UNIFORM, t->std = 1 / sqrt(3.0 * (double)t->global_cols);
}

#define NO_BLOCK SIZE_MAX

static void set_name(tensor *t, const layer_tensor *own, const gpt_shape *s, size_t block,
                     const trine_layer *row) {
    char name[TRINE_LAYER_NAME];
    bool matrix = own->kind->side == SIDE_VOCABULARY, head = row->kind == TRINE_LAYER_LOSS;
    if (matrix && !s->untied) row = gpt_unit_rows(s, UNIT_EMBEDDING);
    layer_tensor_name(row, own, name);
    if (block == NO_BLOCK)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "%s.%zu.%s", gpt_block_name(s), block, name);
    t->prefix = matrix && head && s->untied ? "" : family_prefix(gpt_family(s));
}

/* The tensor of the given block; NO_BLOCK for embedding and head. */
static tensor unit_tensor(const gpt_shape *s, size_t block, const unit_list *l,
                          const list_layer *at, const layer_tensor *own) {
    const kind_tensor *k = own->kind;
    tensor t = {.joined = own->joined};
    set_sides(&t, own, s, l, at);
    t.tp_partial = (k->from == FROM_ROWS && gpt_shares_rows(s)) ||
                   (k->from == FROM_HEADS && s->tp > 1 && t.split == SPLIT_NONE);
    split_over_tp(&t, own, s, at);
    set_start(&t, k, s);
    set_name(&t, own, s, block, at->row);
    t.transposed = t.matrix && !t.adapter && block != NO_BLOCK && gpt_family(s)->transposed;
    return t;
}

/* Whether a tensor of this model is trained. */
static bool trains(const gpt_shape *s, const tensor *t) {
    char name[sizeof t->name + TRINE_LAYER_NAME];
    if (!s->freezes) return true;
    snprintf(name, sizeof name, "%s%s", t->prefix, t->name);
    return trained_by(s->trained, s->lora.rank > 0, name);
}

static int range_of(unit_kind kind, const kind_tensor *k, bool trained) {
    int others = kind != UNIT_BLOCK;
    if (others && k->side == SIDE_VOCABULARY) return 0;
    return trained ? others : others + 1;
}

void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out) {
    ASSERT(s->H % (size_t)s->tp == 0 && s->F % (size_t)s->tp == 0);
    unit_kind kind = gpt_unit_kind(s, unit);
    unit_list l;
    list_resolve_valid(&l, s, kind);
    *out = (flat_unit){.range_count = 1, .tp_parts = gpt_parts(s)};
    for (int i = 0; i < FLAT_RANGES; i++) out->ranges[i].frozen = true;
    for (int n = 0; n < l.count; n++) {
        layer_tensor tensors[LAYER_TENSORS];
        for (int i = 0, count = layer_tensors(s, l.layers[n].row, tensors); i < count; i++) {
            size_t block = kind == UNIT_BLOCK ? (size_t)unit - 1 : NO_BLOCK;
            tensor t = unit_tensor(s, block, &l, &l.layers[n], &tensors[i]);
            bool trained = trains(s, &t);
            int range = range_of(kind, tensors[i].kind, trained);
            flat_unit_add(out, range, &t);
            if (trained) out->ranges[range].frozen = false;
        }
    }
    for (int i = 0; i < out->range_count; i++) {
        out->ranges[i].sharded = out->ranges[i].reduced = AXIS(TRINE_AXIS_DP);
        flat_finish(&out->ranges[i], dp);
    }
}

/* In files a tied matrix belongs to the embedding. */
static bool is_twin(const gpt_shape *s, unit_kind kind, const kind_tensor *k) {
    return !s->untied && kind == UNIT_HEAD && k->side == SIDE_VOCABULARY;
}

/* Sets *out to the index-th tensor of a kind of unit; returns the number of tensors. */
static size_t file_tensors(const gpt_shape *s, unit_kind kind, size_t block, size_t index,
                           tensor *out) {
    unit_list l;
    size_t count = 0;
    trine_status status = list_read(&l, s, kind); /* enough for names and sizes */
    ASSERT(status == TRINE_OK);
    for (int n = 0; n < l.count; n++) {
        layer_tensor tensors[LAYER_TENSORS];
        for (int i = 0, own = layer_tensors(s, l.layers[n].row, tensors); i < own; i++) {
            if (is_twin(s, kind, tensors[i].kind)) continue;
            if (out && count == index) *out = unit_tensor(s, block, &l, &l.layers[n], &tensors[i]);
            count++;
        }
    }
    return count;
}

static size_t count_of(const gpt_shape *s, unit_kind kind) {
    return file_tensors(s, kind, NO_BLOCK, 0, NULL);
}

size_t gpt_tensor_count(const trine_model *m) {
    gpt_shape s = gpt_unsharded_shape(m);
    return count_of(&s, UNIT_EMBEDDING) + count_of(&s, UNIT_HEAD) + s.L * count_of(&s, UNIT_BLOCK);
}

tensor gpt_tensor(const trine_model *m, size_t index) {
    gpt_shape s = gpt_unsharded_shape(m);
    tensor t = {.parts = 0};
    size_t embedding = file_tensors(&s, UNIT_EMBEDDING, NO_BLOCK, index, &t);
    if (index < embedding) return t;
    index -= embedding;
    size_t head = file_tensors(&s, UNIT_HEAD, NO_BLOCK, index, &t);
    if (index < head) return t;
    index -= head;
    size_t each = count_of(&s, UNIT_BLOCK);
    ASSERT(index < each * s.L);
    file_tensors(&s, UNIT_BLOCK, index / each, index % each, &t);
    return t;
}

/* Whether a tensor of the unit is trained; of a tied matrix the embedding says it. */
static bool unit_trains(const gpt_shape *s, int unit) {
    unit_kind kind = gpt_unit_kind(s, unit);
    size_t block = kind == UNIT_BLOCK ? (size_t)unit - 1 : NO_BLOCK;
    tensor t;
    for (size_t n = 0, count = count_of(s, kind); n < count; n++) {
        file_tensors(s, kind, block, n, &t);
        if (trains(s, &t)) return true;
    }
    return false;
}

/* Some tensor is trained (gpt_check_trained). The matrix is the embedding's first tensor. */
static void set_trained(const gpt_shape *s, program_spec *spec) {
    tensor matrix;
    file_tensors(s, UNIT_EMBEDDING, NO_BLOCK, 0, &matrix);
    spec->tie_frozen = spec->tied && !trains(s, &matrix);
    while (spec->first_trained < spec->units - 1 && !unit_trains(s, spec->first_trained))
        spec->first_trained++;
}

/* The parameters of a unit's matrices that are not trained. */
static double frozen_parameters(const gpt_shape *s, int unit) {
    unit_kind kind = gpt_unit_kind(s, unit);
    double sum = 0;
    unit_list l;
    list_resolve_valid(&l, s, kind);
    for (int n = 0; n < l.count; n++) {
        layer_tensor tensors[LAYER_TENSORS];
        for (int i = 0, count = layer_tensors(s, l.layers[n].row, tensors); i < count; i++) {
            size_t block = kind == UNIT_BLOCK ? (size_t)unit - 1 : NO_BLOCK;
            tensor t = unit_tensor(s, block, &l, &l.layers[n], &tensors[i]);
            if (t.matrix && !trains(s, &t)) sum += (double)tensor_count(&t);
        }
    }
    return sum;
}

/* Forward, and backward from the lowest unit that is trained: by the input, and by the weights that are trained. What
 * is no product with a matrix, attention, counts twice there. */
static double unit_step_flops(const trine_model *m, const program_spec *spec, int unit) {
    gpt_shape s = gpt_unsharded_shape(m);
    double forward = gpt_unit_cost(m, m->seq_length, unit);
    if (unit < spec->first_trained) return forward;
    return 3 * forward - 2 * frozen_parameters(&s, unit);
}

void gpt_spec(const trine_model *m, program_spec *spec) {
    gpt_shape s = gpt_unsharded_shape(m);
    spec->units = m->num_layers + 2;
    spec->facts = gpt_facts;
    spec->tied = !m->untied;
    spec->tie_frozen = false;
    spec->first_trained = 0;
    spec->starts = 0;
    if (s.freezes) set_trained(&s, spec);
}

double gpt_flops_per_token(const trine_model *m) {
    program_spec spec = {.units = 0};
    gpt_spec(m, &spec);
    double sum = unit_step_flops(m, &spec, m->num_layers + 1);
    if (!model_freezes(m)) return sum + m->num_layers * unit_step_flops(m, &spec, 1);
    for (int unit = 1; unit <= m->num_layers; unit++) sum += unit_step_flops(m, &spec, unit);
    return sum;
}

static double count_parameters(const trine_model *m, bool adapters) {
    gpt_shape s = gpt_unsharded_shape(m);
    double sum = 0;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (size_t i = 0; i < count_of(&s, kind); i++) {
            tensor t = {.parts = 0};
            file_tensors(&s, kind, NO_BLOCK, i, &t);
            double times = kind == UNIT_BLOCK ? (double)s.L : 1;
            if (t.adapter || !adapters) sum += times * (double)tensor_count(&t);
        }
    return sum;
}

double gpt_parameters(const trine_model *m) {
    return count_parameters(m, false);
}

double gpt_adapter_parameters(const trine_model *m) {
    return m->lora.rank ? count_parameters(m, true) : 0;
}

/* ---- Binding ----------------------------------------------------------------------------------- */

/* Walks the tensors of a unit in the order of gpt_unit_layout, parameter by parameter. */
typedef struct {
    const trine_layer *row;
    layer_tensor tensors[LAYER_TENSORS];
    int tensor, count, first, next[FLAT_RANGES];
    int seen;          /* tensors */
    int number, range; /* of the parameter */
    size_t offset;     /* of the first of joined tensors */
} cursor;

static cursor first_tensor(const gpt_shape *s, int unit) {
    cursor c = {.row = gpt_unit_rows(s, gpt_unit_kind(s, unit))};
    c.count = layer_tensors(s, c.row, c.tensors);
    return c;
}

static void next_row(const gpt_shape *s, cursor *c) {
    c->first += layer_params(s, c->row);
    c->row++;
    c->tensor = 0;
    c->count = c->row->kind == TRINE_LAYER_END ? 0 : layer_tensors(s, c->row, c->tensors);
}

/* Moves to the next parameter. False: no more parameters. */
static bool next_param(const gpt_shape *s, cursor *c, const flat_unit *layout) {
    while (c->row->kind != TRINE_LAYER_END) {
        if (c->tensor == c->count) {
            next_row(s, c);
            continue;
        }
        const layer_tensor *t = &c->tensors[c->tensor++];
        c->range = layout->order[c->seen++];
        c->offset = layout->ranges[c->range].tensors[c->next[c->range]++].offset;
        c->number = c->first + t->of;
        if (!t->joined) return true;
    }
    return false;
}

void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]) {
    cursor c = first_tensor(s, unit);
    u->index = unit;
    while (next_param(s, &c, layout)) {
        param *p = &u->params[c.number];
        p->w = (char *)base[c.range] + c.offset * trine_dtype_bytes(s->compute);
        p->w_part = layout->ranges[c.range].count;
        p->frozen = layout->ranges[c.range].frozen;
    }
}

void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode) {
    cursor c = first_tensor(s, unit);
    u->index = unit;
    while (next_param(s, &c, layout)) {
        param *p = &u->params[c.number];
        p->mode = mode;
        p->dw_part = layout->ranges[c.range].count;
        p->frozen = layout->ranges[c.range].frozen;
        p->dw = p->frozen ? NULL : (char *)base[c.range] + c.offset * trine_dtype_bytes(s->grads);
    }
}

void gpt_trained_params(const gpt_shape *s, int unit, const flat_unit *layout,
                        bool trained[LIST_TENSORS]) {
    cursor c = first_tensor(s, unit);
    memset(trained, 0, LIST_TENSORS * sizeof *trained);
    while (next_param(s, &c, layout)) trained[c.number] = !layout->ranges[c.range].frozen;
}
