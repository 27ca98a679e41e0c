#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "device/ops.h"
#include "model/family.h"
#include "trine.h"

/* PEFT's, of the families that it knows (peft/utils/constants.py): those that a family has. */
#define DEFAULT_TARGETS "q_proj,v_proj,c_attn"
#define ALL_LINEAR      "all-linear"

/* ---- Targets --------------------------------------------------------------------------------- */

static bool is_linear(const trine_layer *row) {
    return row->kind == TRINE_LAYER_COLUMN || row->kind == TRINE_LAYER_ROW;
}

/* The matrices of a row that can have an adapter of their own. */
static int own_matrices(const trine_layer *row) {
    return row->tensors[0] ? layer_matrices(row) : 1;
}

/* "self_attn.q_proj", "attn.c_attn" */
static void matrix_name(const trine_layer *row, int n, char text[2 * TRINE_LAYER_NAME]) {
    const char *own = row->tensors[0] ? row->tensors[n] : NULL;
    snprintf(text, 2 * TRINE_LAYER_NAME, "%s%s%s", row->name, own ? "." : "", own ? own : "");
}

/* As in PEFT: the name, or what is behind one of its points. */
static bool names(const char *target, size_t length, const char *name) {
    size_t all = strlen(name);
    if (length == 0 || length > all || strncmp(name + all - length, target, length) != 0)
        return false;
    return all == length || name[all - length - 1] == '.';
}

/* The next target of a list, which ends at *list. */
static const char *next_target(const char **list, size_t *length) {
    const char *target = *list;
    *length = strcspn(target, ",");
    *list = target + *length + (target[*length] == ',');
    return target;
}

static bool is_target(const char *list, const trine_layer *row, int n) {
    char name[2 * TRINE_LAYER_NAME];
    if (!strcmp(list, ALL_LINEAR)) return true;
    matrix_name(row, n, name);
    while (*list) {
        size_t length;
        const char *target = next_target(&list, &length);
        if (names(target, length, name)) return true;
    }
    return false;
}

const char *lora_targets(const trine_lora *l) {
    if (!l->rank) return "";
    return l->targets[0] ? l->targets : DEFAULT_TARGETS;
}

int lora_adapters(const gpt_shape *s, const trine_layer *row, int matrix[TRINE_LAYER_TENSORS]) {
    int count = 0;
    if (!s->lora.rank || !is_linear(row)) return 0;
    for (int n = 0; n < own_matrices(row); n++)
        if (is_target(lora_targets(&s->lora), row, n)) matrix[count++] = row->tensors[0] ? n : -1;
    return count;
}

/* ---- Checking -------------------------------------------------------------------------------- */

/* Whether a target names a matrix of the block; the names of all of them. */
static bool find_target(const trine_family *f, const char *target, size_t length, char *all,
                        size_t size) {
    bool found = false;
    size_t used = 0;
    all[0] = '\0';
    for (const trine_layer *row = f->block; row->kind != TRINE_LAYER_END; row++)
        for (int n = 0; is_linear(row) && n < own_matrices(row); n++) {
            char name[2 * TRINE_LAYER_NAME];
            matrix_name(row, n, name);
            found |= names(target, length, name);
            if (used < size)
                used += (size_t)snprintf(all + used, size - used, "%s%s", used ? ", " : "", name);
        }
    return found;
}

bool lora_has_target(const trine_model *m, const char *target) {
    char unused[1];
    return find_target(family_of(m), target, strlen(target), unused, sizeof unused);
}

static trine_status check_targets(const trine_model *m) {
    char all[600];
    bool some = !strcmp(lora_targets(&m->lora), ALL_LINEAR);
    for (const char *list = some ? "" : lora_targets(&m->lora); *list;) {
        size_t length;
        const char *target = next_target(&list, &length);
        bool found = find_target(family_of(m), target, length, all, sizeof all);
        CHECK(found || !m->lora.targets[0], TRINE_EINVAL,
              "--lora-targets: \"%.*s\" names no matrix of family %s, which has %s", (int)length,
              target, family_of(m)->name, all);
        some |= found;
    }
    CHECK(some, TRINE_EINVAL, "--lora-rank %d requires --lora-targets in family %s, which has %s",
          m->lora.rank, family_of(m)->name, all);
    return TRINE_OK;
}

trine_status lora_check(const trine_model *m) {
    const trine_lora *l = &m->lora;
    bool others = l->alpha != 0 || l->dropout != 0 || l->rslora || l->targets[0];
    CHECK(l->rank || !others, TRINE_EINVAL,
          "--lora-alpha, --lora-dropout, --lora-targets and --lora-rslora require --lora-rank");
    CHECK(l->rank >= 0 && l->alpha >= 0 && l->dropout >= 0 && l->dropout < 1, TRINE_EINVAL,
          "--lora-rank %d and --lora-alpha %g must not be negative, --lora-dropout %g in [0, 1)",
          l->rank, l->alpha, l->dropout);
    return l->rank ? check_targets(m) : TRINE_OK;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

double lora_scale(const trine_lora *l) {
    double alpha = l->alpha > 0 ? l->alpha : LORA_ALPHA;
    return alpha / (l->rslora ? sqrt(l->rank) : l->rank);
}

/* This part's columns of matrix m of a row's output; -1: all. */
static size_t own_columns(const gpt_shape *s, const trine_layer *row, int m, size_t width) {
    size_t tp = row->kind == TRINE_LAYER_ROW ? 1 : (size_t)s->tp;
    if (m < 0) return width / tp;
    if (row->width.dim == TRINE_QKV)
        return (m ? gpt_kv_heads(s) : gpt_heads(s)) * gpt_head_width(s);
    return layer_matrix(s, row, m) / tp;
}

static size_t own_inputs(const gpt_shape *s, const trine_layer *row, size_t width_in) {
    return row->kind == TRINE_LAYER_ROW ? width_in / (size_t)s->tp : width_in;
}

static int count_of(const gpt_shape *s, const trine_layer *row) {
    int matrix[TRINE_LAYER_TENSORS];
    return lora_adapters(s, row, matrix);
}

/* Rows of all of a layer's (N, rank). */
static size_t rank_elements(const gpt_shape *s, int count, bool each_part) {
    size_t parts = each_part ? (size_t)gpt_parts(s) : 1;
    return parts * (size_t)count * s->B * s->T * (size_t)s->lora.rank;
}

size_t lora_down(const gpt_shape *s, const trine_layer *row) {
    return rank_elements(s, count_of(s, row), row->kind == TRINE_LAYER_ROW);
}

size_t lora_up(const gpt_shape *s, const trine_layer *row) {
    return rank_elements(s, count_of(s, row), row->kind == TRINE_LAYER_COLUMN);
}

static size_t up_bytes(const device *d, const gpt_shape *s, const trine_layer *row) {
    size_t bytes = lora_up(s, row) * trine_dtype_bytes(d->compute);
    return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

size_t lora_workspace(const device *d, const gpt_shape *s, const trine_layer *row, size_t width_in,
                      size_t width) {
    int matrix[TRINE_LAYER_TENSORS], count = lora_adapters(s, row, matrix);
    size_t widest = own_inputs(s, row, width_in);
    for (int n = 0; n < count; n++) {
        size_t own = own_columns(s, row, matrix[n], width);
        if (own > widest) widest = own;
    }
    return count ? up_bytes(d, s, row) + s->B * s->T * widest * trine_dtype_bytes(d->compute) : 0;
}

double lora_flops(const gpt_shape *s, const trine_layer *row, size_t width_in, size_t width) {
    int matrix[TRINE_LAYER_TENSORS];
    double sum = 0;
    for (int n = 0, count = lora_adapters(s, row, matrix); n < count; n++) {
        double out = (double)(matrix[n] < 0 ? width : layer_matrix(s, row, matrix[n]));
        sum += 2 * s->lora.rank * ((double)width_in + out);
    }
    return sum;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* "layers.3.self_attn.q_proj.lora_dropout": one of each target, as PEFT has. */
static dropout_args dropout_of(const layer_call *c, int matrix) {
    char name[2 * TRINE_LAYER_NAME], full[2 * TRINE_LAYER_NAME + 16];
    const unit_run *r = c->r;
    const trine_lora *l = &r->shape->lora;
    if (!r->training || l->dropout == 0) return (dropout_args){.p = 0};
    matrix_name(c->row, matrix < 0 ? 0 : matrix, name);
    snprintf(full, sizeof full, "%s.lora_dropout", name);
    return (dropout_args){.p = (float)l->dropout,
                          .key = run_dropout_key(r, full),
                          .sample = r->batch->sample,
                          .T = r->shape->T,
                          .width = c->width_in};
}

/* The first of a part's columns of matrix m. */
static size_t first_column(const gpt_shape *s, const trine_layer *row, int m, size_t width) {
    size_t at = 0;
    for (int n = 0; n < m; n++) at += own_columns(s, row, n, width);
    return at;
}

const tp_linear *linear_of(const layer_call *c, void *up, layer_linear *out) {
    const gpt_shape *s = c->r->shape;
    int matrix[TRINE_LAYER_TENSORS], count = lora_adapters(s, c->row, matrix);
    const param *adapters = c->params + layer_kind_of(c->row->kind)->tensor_count;
    out->linear = (tp_linear){.weight = c->params[0], .bias = c->params[1]};
    if (!count) return &out->linear;
    char *workspace = c->r->workspace;
    out->lora = (tp_lora){.count = count,
                          .rank = (size_t)s->lora.rank,
                          .scale = (float)lora_scale(&s->lora),
                          .down = c->aux,
                          .up = up ? up : workspace,
                          .work = workspace + up_bytes(c->r->dev, s, c->row)};
    for (int n = 0; n < count; n++)
        out->lora.of[n] = (tp_adapter){.a = adapters[2 * n],
                                       .b = adapters[2 * n + 1],
                                       .at = first_column(s, c->row, matrix[n], c->width),
                                       .own = own_columns(s, c->row, matrix[n], c->width),
                                       .drop = dropout_of(c, matrix[n])};
    out->linear.lora = &out->lora;
    return &out->linear;
}

trine_status lora_warm(warm_state *w, const trine_layer *row, size_t width_in, size_t width) {
    const gpt_shape *s = w->s;
    int matrix[TRINE_LAYER_TENSORS];
    size_t N = warm_rows(w), rank = (size_t)s->lora.rank, I = own_inputs(s, row, width_in);
    for (int n = 0, count = lora_adapters(s, row, matrix); n < count; n++) {
        size_t own = own_columns(s, row, matrix[n], width);
        TRY(warm_product(w, WARM_NO_BIAS, N, rank, I));
        TRY(warm_product(w, WARM_NO_BIAS, N, own, rank));
        const dropout_args drop = {.p = (float)s->lora.dropout, .T = s->T, .width = width_in};
        warm_begin(w);
        void *x = warm_numbers(w, N * I), *y = warm_numbers(w, N * own);
        if (!w->base) continue;
        TRY(w->d->ops->columns_add(w->d, y, y, 1, N, own, 0, own));
        TRY(w->d->ops->columns_take(w->d, y, y, 1, N, own, 0, own));
        if (drop.p > 0) TRY(w->d->ops->dropout(w->d, x, x, &drop, N, I));
    }
    return TRINE_OK;
}
