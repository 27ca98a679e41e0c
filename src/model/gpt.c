/* Facts, costs and tensors of a model, derived from its lists. */
#include "model/gpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "model/family.h"
#include "model/list_parts.h"

unit_facts gpt_facts(const program_spec *s, int unit) {
    bool embedding = unit == 0, head = unit == s->units - 1;
    unit_facts facts = {.name = embedding ? "embedding"
                                : head    ? "head"
                                          : "layer",
                        .number = embedding || head ? -1 : unit - 1,
                        .class = embedding || head ? CLASS_END : CLASS_BLOCK,
                        .reads_tokens = embedding,
                        .makes_loss = head,
                        .twin = -1,
                        .backward = BACKWARD_SPLITS};
    if (s->tied && embedding) facts.twin = s->units - 1;
    if (s->tied && head) facts.twin = 0;
    if (embedding) facts.backward = BACKWARD_WEIGHT_ONLY; /* tokens have no gradient */
    if (head) facts.backward = BACKWARD_UNSPLIT;          /* its logits are never kept */
    return facts;
}

void gpt_spec(const trine_model *m, program_spec *spec) {
    spec->units = m->num_layers + 2;
    spec->facts = gpt_facts;
    spec->tied = !m->untied;
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
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
        char why[200];
        if (list_resolve(&l, &s, kind) == TRINE_OK) continue;
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        return RAISE(TRINE_EINVAL, "family \"%s\", %s: %s", family_of(m)->name, names[kind], why);
    }
    return check_names_differ(m);
}

/* Resolves a list that gpt_check_family has accepted. */
static void resolve(unit_list *l, const gpt_shape *s, unit_kind kind) {
    trine_status status = list_resolve(l, s, kind);
    ASSERT(status == TRINE_OK);
}

/* ---- Costs ------------------------------------------------------------------------------------- */

double gpt_unit_cost(const trine_model *m, int T, int unit) {
    gpt_shape s = gpt_unsharded_shape(m);
    unit_list l;
    double sum = 0;
    s.T = (size_t)T;
    resolve(&l, &s, gpt_unit_kind(&s, unit));
    for (int n = 0; n < l.count; n++) {
        const list_layer *at = &l.layers[n];
        if (at->kind->flops)
            sum += at->kind->flops(&s, (double)list_width_in(&l, at), (double)list_width(&l, at));
    }
    return sum;
}

double gpt_flops_per_token(const trine_model *m) {
    double block = gpt_unit_cost(m, m->seq_length, 1);
    return 3 * (m->num_layers * block + gpt_unit_cost(m, m->seq_length, m->num_layers + 1));
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
static void set_sides(tensor *t, const kind_tensor *k, const gpt_shape *s, const unit_list *l,
                      const list_layer *at) {
    size_t width = list_width(l, at), in = list_width_in(l, at);
    bool splits = k->side == SIDE_ROWS || (k->side == SIDE_WIDTH && at->kind->out == SHAPE_INSIDE);
    t->parts = splits && at->row->width.times ? (size_t)at->row->width.times : 1;
    t->global_cols = 1;
    switch (k->side) {
    case SIDE_ROWS:
    case SIDE_COLUMNS: t->global_rows = width / t->parts, t->global_cols = in; break;
    case SIDE_WIDTH: t->global_rows = width / t->parts; break;
    case SIDE_HIDDEN: t->global_rows = s->C; break;
    case SIDE_POSITIONS: t->global_rows = s->T, t->global_cols = s->C; break;
    case SIDE_VOCABULARY: t->global_rows = s->V, t->global_cols = s->C; break;
    }
    bool rows = splits || k->side == SIDE_VOCABULARY;
    t->split = rows ? SPLIT_ROWS : k->side == SIDE_COLUMNS ? SPLIT_COLS : SPLIT_NONE;
}

/* The sizes of this rank's shard. Only the rows of the vocabulary need not be divisible: the last rows may be
 * padding. */
static void split_over_tp(tensor *t, const kind_tensor *k, const gpt_shape *s) {
    size_t tp = (size_t)s->tp, rank = (size_t)s->tp_rank;
    t->rows = t->global_rows, t->cols = t->global_cols;
    if (k->side == SIDE_VOCABULARY) {
        tp_vocab own = gpt_vocab(s);
        t->rows = own.rows;
        t->first_row = own.first;
    } else if (t->split == SPLIT_ROWS) {
        ASSERT(t->global_rows % tp == 0);
        t->rows = t->global_rows / tp;
        t->first_row = rank * t->rows;
    } else if (t->split == SPLIT_COLS) {
        ASSERT(t->global_cols % tp == 0);
        t->cols = t->global_cols / tp;
        t->first_col = rank * t->cols;
    }
}

/* Radford et al. 2019: standard deviation 0.02, divided by the square root of the number of additions to the residual
 * stream for matrices that add to it. */
static void set_start(tensor *t, const kind_tensor *k, const gpt_shape *s) {
    double all = (double)residual_count(s);
    t->init = k->start == START_ZERO ? INIT_ZERO : k->start == START_ONE ? INIT_ONE : INIT_NORMAL;
    if (t->init == INIT_NORMAL) t->std = k->start == START_RESIDUAL ? 0.02 / sqrt(all) : 0.02;
    t->matrix = k->start == START_NORMAL || k->start == START_RESIDUAL;
}

#define NO_BLOCK SIZE_MAX

static void set_name(tensor *t, const kind_tensor *k, const gpt_shape *s, size_t block,
                     const list_layer *at) {
    const char *name = at->row->name;
    if (k->side == SIDE_VOCABULARY && !s->untied) name = gpt_unit_rows(s, UNIT_EMBEDDING)->name;
    if (block == NO_BLOCK)
        snprintf(t->name, sizeof t->name, "%s.%s", name, k->suffix);
    else
        snprintf(t->name, sizeof t->name, "h.%zu.%s.%s", block, name, k->suffix);
}

/* The tensor of the given block; NO_BLOCK for embedding and head. */
static tensor unit_tensor(const gpt_shape *s, size_t block, const unit_list *l,
                          const list_layer *at, const kind_tensor *k) {
    tensor t = {.tp_partial = k->tp_partial && gpt_tp_partial(s)};
    set_sides(&t, k, s, l, at);
    split_over_tp(&t, k, s);
    set_start(&t, k, s);
    set_name(&t, k, s, block, at);
    t.transposed = t.matrix && block != NO_BLOCK && gpt_family(s)->transposed;
    return t;
}

int gpt_range_of(unit_kind kind, const kind_tensor *k) {
    return kind == UNIT_BLOCK || k->side == SIDE_VOCABULARY ? 0 : 1;
}

void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out) {
    ASSERT(s->C % s->H == 0 && s->H % (size_t)s->tp == 0 && s->F % (size_t)s->tp == 0);
    unit_kind kind = gpt_unit_kind(s, unit);
    unit_list l;
    resolve(&l, s, kind);
    *out = (flat_unit){.range_count = 1};
    for (int n = 0; n < l.count; n++)
        for (int i = 0; i < l.layers[n].kind->tensor_count; i++) {
            const kind_tensor *k = &l.layers[n].kind->tensors[i];
            size_t block = kind == UNIT_BLOCK ? (size_t)unit - 1 : NO_BLOCK;
            tensor t = unit_tensor(s, block, &l, &l.layers[n], k);
            int range = gpt_range_of(kind, k);
            flat_add(&out->ranges[range], &t);
            if (range >= out->range_count) out->range_count = range + 1;
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
    for (int n = 0; n < l.count; n++)
        for (int i = 0; i < l.layers[n].kind->tensor_count; i++) {
            const kind_tensor *k = &l.layers[n].kind->tensors[i];
            if (is_twin(s, kind, k)) continue;
            if (out && count == index) *out = unit_tensor(s, block, &l, &l.layers[n], k);
            count++;
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

double gpt_parameters(const trine_model *m) {
    gpt_shape s = gpt_unsharded_shape(m);
    double sum = 0;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (size_t i = 0; i < count_of(&s, kind); i++) {
            tensor t = {.parts = 0};
            file_tensors(&s, kind, NO_BLOCK, i, &t);
            double times = kind == UNIT_BLOCK ? (double)s.L : 1;
            sum += times * (double)t.parts * (double)t.rows * (double)t.cols;
        }
    return sum;
}

/* ---- Binding ----------------------------------------------------------------------------------- */

/* Walks the tensors of a unit in the order of gpt_unit_layout. */
typedef struct {
    const trine_layer *row;
    int tensor, number, next[FLAT_RANGES];
    unit_kind kind;
} cursor;

static cursor first_tensor(const gpt_shape *s, int unit) {
    unit_kind kind = gpt_unit_kind(s, unit);
    return (cursor){.row = gpt_unit_rows(s, kind), .number = -1, .kind = kind};
}

/* Moves to the next tensor and sets its range and offset; false: no more tensors. */
static bool next_tensor(cursor *c, const flat_unit *layout, int *range, size_t *offset) {
    for (; c->row->kind != TRINE_LAYER_END; c->row++, c->tensor = 0) {
        const layer_kind *kind = layer_kind_of(c->row->kind);
        if (c->tensor == kind->tensor_count) continue;
        *range = gpt_range_of(c->kind, &kind->tensors[c->tensor++]);
        *offset = layout->ranges[*range].tensors[c->next[*range]++].offset;
        c->number++;
        return true;
    }
    return false;
}

void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]) {
    cursor c = first_tensor(s, unit);
    int range;
    size_t offset;
    u->index = unit;
    while (next_tensor(&c, layout, &range, &offset))
        u->params[c.number].w = (char *)base[range] + offset * trine_dtype_bytes(s->compute);
}

void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode) {
    cursor c = first_tensor(s, unit);
    int range;
    size_t offset;
    u->index = unit;
    while (next_tensor(&c, layout, &range, &offset)) {
        param *p = &u->params[c.number];
        p->dw = (char *)base[range] + offset * trine_dtype_bytes(s->grads);
        p->mode = mode;
    }
}
