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
    if (head) facts.backward = BACKWARD_WHOLE;            /* its logits are never kept */
    return facts;
}

void gpt_spec(const trine_model *m, program_spec *spec) {
    spec->units = m->num_layers + 2;
    spec->facts = gpt_facts;
    spec->tied = !m->untied;
}

double gpt_unit_cost(const trine_model *m, int T, int unit) {
    double C = m->hidden_size, F = m->ffn_hidden_size, V = m->vocab_size;
    if (unit == 0) return 2 * C;
    return unit > m->num_layers ? 2 * V * C : 2 * (4 * C * C + 2 * C * F) + 2 * T * C;
}

double gpt_flops_per_token(const trine_model *m) {
    double sum = 0;
    for (int u = 1; u <= m->num_layers + 1; u++) sum += gpt_unit_cost(m, m->seq_length, u);
    return 3 * sum;
}

static bool by_rows(const gpt_shape *s) {
    return s->sequence && s->tp > 1;
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
    bool by_rows; /* its gradient comes from the rows that a tp rank has between the regions */
} tensor_row;

#define AT(member) offsetof(gpt_unit, member)

static const tensor_row embedding_rows[] = {
    {AT(embedding.token), "wte.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL, false},
    {AT(embedding.position), "wpe.weight", 1, 1, DIM_T, DIM_C, SPLIT_NONE, VALUE_POSITION, true},
};

static const tensor_row block_rows[] = {
    {AT(block.ln1.gain), "ln_1.weight", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE, true},
    {AT(block.ln1.bias), "ln_1.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, true},
    {AT(block.qkv.weight), "attn.c_attn.weight", 0, 3, DIM_C, DIM_C, SPLIT_ROWS, VALUE_NORMAL,
     false},
    {AT(block.qkv.bias), "attn.c_attn.bias", 0, 3, DIM_C, DIM_1, SPLIT_ROWS, VALUE_ZERO, false},
    {AT(block.proj.weight), "attn.c_proj.weight", 0, 1, DIM_C, DIM_C, SPLIT_COLS, VALUE_RESIDUAL,
     false},
    {AT(block.proj.bias), "attn.c_proj.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, false},
    {AT(block.ln2.gain), "ln_2.weight", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE, true},
    {AT(block.ln2.bias), "ln_2.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, true},
    {AT(block.fc.weight), "mlp.c_fc.weight", 0, 1, DIM_F, DIM_C, SPLIT_ROWS, VALUE_NORMAL, false},
    {AT(block.fc.bias), "mlp.c_fc.bias", 0, 1, DIM_F, DIM_1, SPLIT_ROWS, VALUE_ZERO, false},
    {AT(block.out.weight), "mlp.c_proj.weight", 0, 1, DIM_C, DIM_F, SPLIT_COLS, VALUE_RESIDUAL,
     false},
    {AT(block.out.bias), "mlp.c_proj.bias", 0, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, false},
};

static const tensor_row tied_head_rows[] = {
    {AT(head.token), "wte.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL, false},
    {AT(head.norm.gain), "ln_f.weight", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE, true},
    {AT(head.norm.bias), "ln_f.bias", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, true},
};

static const tensor_row untied_head_rows[] = {
    {AT(head.token), "lm_head.weight", 0, 1, DIM_V, DIM_C, SPLIT_ROWS, VALUE_NORMAL, false},
    {AT(head.norm.gain), "ln_f.weight", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ONE, true},
    {AT(head.norm.bias), "ln_f.bias", 1, 1, DIM_C, DIM_1, SPLIT_NONE, VALUE_ZERO, true},
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

tp_vocab gpt_vocab(const gpt_shape *s) {
    return tp_vocab_of(s->V, s->tp, s->tp_rank, s->row_multiple ? s->row_multiple : 1);
}

/* This rank's share. Only the vocabulary's rows are not divisible: the last ones may be padding. */
static void split_over_tp(tensor *t, const gpt_shape *s, dim rows) {
    size_t tp = (size_t)s->tp, rank = (size_t)s->tp_rank;
    if (rows == DIM_V) {
        tp_vocab own = gpt_vocab(s);
        t->rows = own.rows;
        t->first_row = own.first;
    } else if (t->split == SPLIT_ROWS) {
        ASSERT(t->global_rows % tp == 0);
        t->rows = t->global_rows / tp;
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
    split_over_tp(&t, s, row->rows);
    t.by_rows = row->by_rows && by_rows(s);
    set_value(&t, row->value, s->L);
    t.turned = t.matrix && gpt_unit_kind(s, unit) == UNIT_BLOCK;
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
    for (int i = 0; i < out->range_count; i++) {
        out->ranges[i].sharded = out->ranges[i].reduced = AXIS(TRINE_AXIS_DP);
        flat_finish(&out->ranges[i], dp);
    }
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
    u->index = unit;
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
    u->index = unit;
    for (size_t i = 0; i < table.count; i++) {
        const tensor_row *row = &table.rows[i];
        param *p = param_of(u, row);
        size_t offset = next_offset(&c, layout, row) * trine_dtype_bytes(s->grads);
        p->dw = (char *)base[row->range] + offset;
        p->mode = mode;
    }
}

/* ---- Activations and scratch ----------------------------------------------------------------- */

tp_rows gpt_rows(const gpt_shape *s) {
    size_t N = s->B * s->T, tp = (size_t)s->tp;
    if (!s->sequence || tp == 1) return (tp_rows){0, N};
    return (tp_rows){(size_t)s->tp_rank * (N / tp), N / tp};
}

size_t gpt_loss_rows(const gpt_shape *s) {
    size_t N = s->B * s->T;
    return s->loss_rows && s->loss_rows < N ? s->loss_rows : N;
}

typedef struct {
    arena *arena;
    const gpt_shape *s;
    const device *d;
    mem_kind kind;
} taker;

static void *take(const taker *t, size_t count) {
    return arena_take(t->arena, t->kind, count * trine_dtype_bytes(t->d->compute));
}

static float *take_floats(const taker *t, size_t count) {
    return arena_take(t->arena, t->kind, count * sizeof(float));
}

/* What tp ranks read of each other, in place where they can. */
static void *take_read(const taker *t, size_t bytes) {
    return t->s->tp > 1 ? arena_take_shared(t->arena, t->kind, bytes)
                        : arena_take(t->arena, t->kind, bytes);
}

/* (R, C): summed over tp where it lies, or with sequence parallelism gathered from there. */
static void *take_rows(const taker *t) {
    return take_read(t, gpt_rows(t->s).count * t->s->C * trine_dtype_bytes(t->d->compute));
}

/* The output of a norm, which enters a tp region: peers read it only if each has its share. */
static void *take_norm(const taker *t) {
    return by_rows(t->s) ? take_rows(t) : take(t, gpt_rows(t->s).count * t->s->C);
}

static void take_norms(const taker *t, gpt_block_acts *out) {
    out->ln1 = take_norm(t);
    out->ln1_stat = take_floats(t, gpt_rows(t->s).count * 2);
}

static void *take_mlp(const taker *t) {
    return take(t, t->s->B * t->s->T * t->s->F / (size_t)t->s->tp);
}

/* What no norm and no GELU makes. */
static void take_products(const taker *t, gpt_block_acts *out) {
    const gpt_shape *s = t->s;
    size_t tp = (size_t)s->tp, N = s->B * s->T;
    out->qkv = take(t, N * 3 * s->C / tp);
    out->att = take(t, N * s->C / tp);
    out->lse = take_floats(t, N * s->H / tp);
    out->mid = take_rows(t);
    out->fc = take_mlp(t);
}

/* Selective: each of the two norms is rebuilt when it is needed, so they share their memory. */
static void take_rebuilt(const taker *t, gpt_block_acts *out) {
    if (t->s->recompute == TRINE_RECOMPUTE_NONE) return;
    take_norms(t, out);
    out->gelu = take_mlp(t);
    out->ln2 = out->ln1;
    out->ln2_stat = out->ln1_stat;
    if (t->s->recompute == TRINE_RECOMPUTE_SELECTIVE) return;
    take_products(t, out);
    out->ln2 = take_norm(t);
    out->ln2_stat = take_floats(t, gpt_rows(t->s).count * 2);
}

static void take_head(const taker *t, gpt_head_acts *out) {
    const gpt_shape *s = t->s;
    size_t K = gpt_loss_rows(s);
    out->stat = take_floats(t, gpt_rows(s).count * 2);
    out->logits = take(t, K * gpt_vocab(s).rows);
    out->xent.max = take_read(t, K * sizeof(float));
    out->xent.sums = take_read(t, K * 2 * sizeof(float));
    if (s->tp > 1) out->xent.own = take_read(t, K * sizeof(float));
}

void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, int first, int last,
                      gpt_scratch *out) {
    const taker t = {a, s, d, MEM_WORKSPACE};
    size_t tp = (size_t)s->tp, N = s->B * s->T, R = gpt_rows(s).count;
    size_t widest = 3 * s->C > s->F ? 3 * s->C : s->F, element = trine_dtype_bytes(d->compute);
    *out = (gpt_scratch){0};
    out->hidden = take(&t, N * widest / tp);
    out->stream = take_read(&t, (R * s->C > N * s->C / tp ? R * s->C : N * s->C / tp) * element);
    if (by_rows(s)) out->whole = take_read(&t, N * s->C * element);
    if (s->hidden_dropout > 0) out->dropped = take_norm(&t);
    out->attention = arena_take(a, MEM_WORKSPACE,
                                d->ops->attention_workspace(d, s->B, s->T, s->H / tp, s->C / s->H));
    int blocks = (last < (int)s->L ? last : (int)s->L) - (first > 1 ? first : 1) + 1;
    if (blocks > 0) take_rebuilt(&t, &out->block);
    if (last == gpt_unit_count(s) - 1) take_head(&t, &out->head);
}

void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit,
                   const gpt_scratch *scratch, gpt_block_acts *out) {
    const taker t = {a, s, d, MEM_ACTIVATIONS};
    *out = scratch->block;
    if (gpt_unit_kind(s, unit) != UNIT_BLOCK || s->recompute == TRINE_RECOMPUTE_FULL) return;
    take_products(&t, out);
    if (s->recompute != TRINE_RECOMPUTE_NONE) return;
    take_norms(&t, out);
    out->ln2 = take_norm(&t);
    out->ln2_stat = take_floats(&t, gpt_rows(s).count * 2);
    out->gelu = take_mlp(&t);
}

void gpt_keep_take(arena *a, const gpt_shape *s, const device *d, bool norms, gpt_keep *out) {
    const taker t = {a, s, d, MEM_ACTIVATIONS};
    size_t tp = (size_t)s->tp, N = s->B * s->T;
    *out = (gpt_keep){0};
    out->out = take_norm(&t);
    out->fc = take_mlp(&t);
    out->proj = take_norm(&t);
    out->qkv = take(&t, N * 3 * s->C / tp);
    if (norms) out->norms = arena_take(a, MEM_ACTIVATIONS, 4 * s->C * trine_dtype_bytes(d->grads));
    if (s->recompute == TRINE_RECOMPUTE_NONE) return;
    out->rebuilt.ln1 = take_norm(&t);
    out->rebuilt.ln2 = take_norm(&t);
    if (s->recompute == TRINE_RECOMPUTE_SELECTIVE) return;
    out->rebuilt.att = take(&t, N * s->C / tp);
    out->rebuilt.fc = take_mlp(&t);
}

/* ---- Running a unit -------------------------------------------------------------------------- */

trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *y,
                         const void *x, const gpt_batch *batch) {
    switch (u->kind) {
    case UNIT_EMBEDDING: TRY(embedding_forward(r, u, y, batch)); break;
    case UNIT_BLOCK: TRY(block_forward(r, u, a, y, x, batch)); break;
    case UNIT_HEAD:
        if (!r->training) TRY(head_loss(r, &u->head, x, batch));
        break;
    }
    return TRINE_OK;
}

trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_block_acts *a, void *d,
                          const void *x, const gpt_batch *batch) {
    switch (u->kind) {
    case UNIT_EMBEDDING: TRY(embedding_backward(r, u, d, batch)); break;
    case UNIT_BLOCK: TRY(block_backward(r, u, a, d, x, batch)); break;
    case UNIT_HEAD: TRY(head_backward(r, &u->head, d, x, batch)); break;
    }
    return TRINE_OK;
}
