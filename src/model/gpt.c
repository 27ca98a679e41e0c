#include "model/gpt.h"

#include <math.h>
#include <stdio.h>

#include "base/status.h"
#include "device/ops.h"
#include "model/block.h"

int gpt_unit_count(const gpt_shape *s) {
    return (int)s->L + 2;
}

unit_kind gpt_unit_kind(const gpt_shape *s, int unit) {
    ASSERT(unit >= 0 && unit < gpt_unit_count(s));
    if (unit == 0) return UNIT_EMBEDDING;
    return unit <= (int)s->L ? UNIT_BLOCK : UNIT_HEAD;
}

/* ---- The tensors, as one table ------------------------------------------------------------------
 * Layout and binding walk the same rows, so that neither can mean another tensor than the other. */

typedef enum { DIM_1, DIM_C, DIM_F, DIM_T, DIM_V } dim;

/* Radford et al. 2019: deviation 0.02; what adds to the residual stream is scaled down by the root
 * of the number of such additions, 2L. */
typedef enum { VALUE_ZERO, VALUE_ONE, VALUE_NORMAL, VALUE_RESIDUAL, VALUE_POSITION } value;

typedef struct {
    size_t at; /* where the param lies in gpt_unit */
    const char *name;
    int range;
    size_t parts;
    dim rows, cols;
    tensor_split split;
    value value;
} tensor_row;

#define AT(member) offsetof(gpt_unit, member)

static const tensor_row embedding_rows[] = {
    {AT(embedding.token), "wte.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL},
    {AT(embedding.position), "wpe.weight", 1, 1, DIM_T, DIM_C, SPLIT_NONE, VALUE_POSITION},
};

static const tensor_row block_rows[] = {
    {AT(block.ln1.gain), "ln_1.weight", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE},
    {AT(block.ln1.bias), "ln_1.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
    {AT(block.qkv.weight), "attn.c_attn.weight", 0, 3, DIM_C, DIM_C, SPLIT_ROWS, VALUE_NORMAL},
    {AT(block.qkv.bias), "attn.c_attn.bias", 0, 3, DIM_C, DIM_1, SPLIT_ROWS, VALUE_ZERO},
    {AT(block.proj.weight), "attn.c_proj.weight", 0, 1, DIM_C, DIM_C, SPLIT_COLS, VALUE_RESIDUAL},
    {AT(block.proj.bias), "attn.c_proj.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
    {AT(block.ln2.gain), "ln_2.weight", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE},
    {AT(block.ln2.bias), "ln_2.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
    {AT(block.fc.weight), "mlp.c_fc.weight", 0, 1, DIM_F, DIM_C, SPLIT_ROWS, VALUE_NORMAL},
    {AT(block.fc.bias), "mlp.c_fc.bias", 0, 1, DIM_F, DIM_1, SPLIT_ROWS, VALUE_ZERO},
    {AT(block.out.weight), "mlp.c_proj.weight", 0, 1, DIM_C, DIM_F, SPLIT_COLS, VALUE_RESIDUAL},
    {AT(block.out.bias), "mlp.c_proj.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
};

static const tensor_row tied_head_rows[] = {
    {AT(head.token), "wte.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL},
    {AT(head.norm.gain), "ln_f.weight", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE},
    {AT(head.norm.bias), "ln_f.bias", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
};

static const tensor_row untied_head_rows[] = {
    {AT(head.token), "lm_head.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL},
    {AT(head.norm.gain), "ln_f.weight", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE},
    {AT(head.norm.bias), "ln_f.bias", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO},
};

typedef struct {
    const tensor_row *rows;
    size_t count;
} tensor_table;

#define TABLE(rows) ((tensor_table){(rows), sizeof(rows) / sizeof *(rows)})

static tensor_table unit_tensors(const gpt_shape *s, int unit) {
    switch (gpt_unit_kind(s, unit)) {
    case UNIT_EMBEDDING: return TABLE(embedding_rows);
    case UNIT_BLOCK: return TABLE(block_rows);
    case UNIT_HEAD: return s->untied ? TABLE(untied_head_rows) : TABLE(tied_head_rows);
    }
    ASSERT(false);
}

static size_t dim_size(const gpt_shape *s, dim d) {
    switch (d) {
    case DIM_1: return 1;
    case DIM_C: return s->C;
    case DIM_F: return s->F;
    case DIM_T: return s->T;
    case DIM_V: return s->V;
    }
    ASSERT(false);
}

/* ---- Layout and binding ---------------------------------------------------------------------- */

/* This rank's share. Rows are rounded up, so that the last ranks' may be padding: only the
 * vocabulary's are not divisible. */
static void split_over_tp(tensor *t, const gpt_shape *s) {
    size_t tp = (size_t)s->tp, rank = (size_t)s->tp_rank;
    if (t->split == SPLIT_ROWS) {
        t->rows = (t->global_rows + tp - 1) / tp;
        t->first_row = rank * t->rows;
    }
    if (t->split == SPLIT_COLS) {
        ASSERT(t->global_cols % tp == 0);
        t->cols = t->global_cols / tp;
        t->first_col = rank * t->cols;
    }
}

static void set_value(tensor *t, value v, size_t L) {
    t->init = v == VALUE_ZERO ? INIT_ZERO : v == VALUE_ONE ? INIT_ONE : INIT_NORMAL;
    if (t->init == INIT_NORMAL) t->std = v == VALUE_RESIDUAL ? 0.02 / sqrt(2.0 * (double)L) : 0.02;
    t->matrix = v == VALUE_NORMAL || v == VALUE_RESIDUAL;
}

static tensor unit_tensor(const gpt_shape *s, int unit, const tensor_row *row) {
    tensor t = {.parts = row->parts, .split = row->split};
    t.rows = t.global_rows = dim_size(s, row->rows);
    t.cols = t.global_cols = dim_size(s, row->cols);
    split_over_tp(&t, s);
    set_value(&t, row->value, s->L);
    if (gpt_unit_kind(s, unit) == UNIT_BLOCK)
        snprintf(t.name, sizeof t.name, "h.%d.%s", unit - 1, row->name);
    else
        snprintf(t.name, sizeof t.name, "%s", row->name);
    return t;
}

void gpt_unit_layout(const gpt_shape *s, int unit, int dp, flat_unit *out) {
    ASSERT(s->C % s->H == 0 && s->H % (size_t)s->tp == 0 && s->F % (size_t)s->tp == 0);
    *out = (flat_unit){0};
    tensor_table table = unit_tensors(s, unit);
    for (size_t i = 0; i < table.count; i++) {
        tensor t = unit_tensor(s, unit, &table.rows[i]);
        flat_add(&out->ranges[table.rows[i].range], &t);
        out->range_count = table.rows[i].range + 1;
    }
    for (int i = 0; i < out->range_count; i++) flat_finish(&out->ranges[i], dp);
}

/* The i-th row of a unit's table is the next tensor of its range. */
typedef struct {
    int next[FLAT_RANGES];
} cursor;

static size_t next_offset(cursor *c, const flat_unit *layout, const tensor_row *row) {
    return layout->ranges[row->range].tensors[c->next[row->range]++].offset;
}

static param *param_of(gpt_unit *u, const tensor_row *row) {
    return (param *)((char *)u + row->at);
}

void gpt_bind_params(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                     void *const base[FLAT_RANGES]) {
    tensor_table table = unit_tensors(s, unit);
    cursor c = {0};
    u->kind = gpt_unit_kind(s, unit);
    for (size_t i = 0; i < table.count; i++) {
        const tensor_row *row = &table.rows[i];
        size_t offset = next_offset(&c, layout, row) * trine_dtype_bytes(s->compute);
        param_of(u, row)->w = (char *)base[row->range] + offset;
    }
}

void gpt_bind_grads(gpt_unit *u, const gpt_shape *s, int unit, const flat_unit *layout,
                    void *const base[FLAT_RANGES], grad_mode mode) {
    tensor_table table = unit_tensors(s, unit);
    cursor c = {0};
    u->kind = gpt_unit_kind(s, unit);
    for (size_t i = 0; i < table.count; i++) {
        const tensor_row *row = &table.rows[i];
        param *p = param_of(u, row);
        size_t offset = next_offset(&c, layout, row) * trine_dtype_bytes(s->grads);
        p->dw = (char *)base[row->range] + offset;
        p->mode = mode;
    }
}

/* ---- Activations and scratch ----------------------------------------------------------------- */

static void *take(arena *a, mem_kind kind, const device *d, size_t count) {
    return arena_take(a, kind, count * trine_dtype_bytes(d->compute));
}

/* What tp ranks sum: peers of the node read it where it lies. */
static void *take_summed(arena *a, mem_kind kind, const gpt_shape *s, size_t bytes) {
    return s->tp > 1 ? arena_take_shared(a, kind, bytes) : arena_take(a, kind, bytes);
}

static float *take_floats(arena *a, size_t count) {
    return arena_take(a, MEM_ACTIVATIONS, count * sizeof(float));
}

static void block_acts_take(arena *a, const gpt_shape *s, const device *d, gpt_block_acts *out) {
    size_t tp = (size_t)s->tp, N = s->B * s->T;
    out->ln1 = take(a, MEM_ACTIVATIONS, d, N * s->C);
    out->ln1_stat = take_floats(a, N * 2);
    out->qkv = take(a, MEM_ACTIVATIONS, d, N * 3 * s->C / tp);
    out->att = take(a, MEM_ACTIVATIONS, d, N * s->C / tp);
    out->lse = take_floats(a, N * s->H / tp);
    out->mid = take_summed(a, MEM_ACTIVATIONS, s, N * s->C * trine_dtype_bytes(d->compute));
    out->ln2 = take(a, MEM_ACTIVATIONS, d, N * s->C);
    out->ln2_stat = take_floats(a, N * 2);
    out->fc = take(a, MEM_ACTIVATIONS, d, N * s->F / tp);
    out->gelu = take(a, MEM_ACTIVATIONS, d, N * s->F / tp);
}

static void head_acts_take(arena *a, const gpt_shape *s, const device *d, gpt_head_acts *out) {
    size_t N = s->B * s->T;
    out->norm = take(a, MEM_ACTIVATIONS, d, N * s->C);
    out->stat = take_floats(a, N * 2);
    out->logits = take(a, MEM_ACTIVATIONS, d, N * tp_vocab_of(s->V, s->tp, s->tp_rank).rows);
    out->max = take_summed(a, MEM_ACTIVATIONS, s, N * sizeof(float));
    out->sums = take_summed(a, MEM_ACTIVATIONS, s, N * 2 * sizeof(float));
}

void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit, gpt_acts *out) {
    *out = (gpt_acts){0};
    switch (gpt_unit_kind(s, unit)) {
    case UNIT_EMBEDDING: return;
    case UNIT_BLOCK: block_acts_take(a, s, d, &out->block); return;
    case UNIT_HEAD: head_acts_take(a, s, d, &out->head); return;
    }
}

void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, gpt_scratch *out) {
    size_t tp = (size_t)s->tp, N = s->B * s->T;
    size_t widest = 3 * s->C > s->F ? 3 * s->C : s->F;
    out->hidden = take(a, MEM_WORKSPACE, d, N * widest / tp);
    out->stream = take_summed(a, MEM_WORKSPACE, s, N * s->C * trine_dtype_bytes(d->compute));
    out->attention = arena_take(a, MEM_WORKSPACE,
                                d->ops->attention_workspace(d, s->B, s->T, s->H / tp, s->C / s->H));
}

/* ---- Running a unit -------------------------------------------------------------------------- */

trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *y,
                         const void *x, const gpt_batch *batch) {
    switch (u->kind) {
    case UNIT_EMBEDDING: TRY(embedding_forward(r, &u->embedding, y, batch)); break;
    case UNIT_BLOCK: TRY(block_forward(r, &u->block, &a->block, y, x)); break;
    case UNIT_HEAD: TRY(head_forward(r, &u->head, &a->head, x, batch)); break;
    }
    return TRINE_OK;
}

trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *d,
                          const void *x, const gpt_batch *batch) {
    switch (u->kind) {
    case UNIT_EMBEDDING: TRY(embedding_backward(r, &u->embedding, d, batch)); break;
    case UNIT_BLOCK: TRY(block_backward(r, &u->block, &a->block, d, x)); break;
    case UNIT_HEAD: TRY(head_backward(r, &u->head, &a->head, d, x, batch)); break;
    }
    return TRINE_OK;
}
