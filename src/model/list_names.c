/* Resolves the names in a list to numbers and checks the rules of trine_model.h. */
#include <string.h>

#include "base/status.h"
#include "model/family.h"
#include "model/list_parts.h"

static int find_value(const unit_list *l, const char *name) {
    for (int v = 0; v < l->value_count; v++)
        if (strcmp(l->values[v].name, name) == 0) return v;
    return -1;
}

static int add_value(unit_list *l, list_value value) {
    ASSERT(l->value_count < LIST_VALUES);
    value.last_reader = -1;
    l->values[l->value_count] = value;
    return l->value_count++;
}

/* "row 3 (column mlp.c_fc)" */
static const char *row_text(const unit_list *l, char text[64]) {
    const list_layer *at = &l->layers[l->count];
    snprintf(text, 64, "row %d (%s%s%s)", l->count + 1, family_layer_text(at->row->kind),
             at->row->name ? " " : "", at->row->name ? at->row->name : "");
    return text;
}

static const char *shape_text(value_shape shape) {
    return shape == SHAPE_STREAM ? "in the residual stream" : "inside a tp region";
}

static trine_status read_input(unit_list *l, list_layer *at, int n) {
    char text[64];
    const char *name = at->row->in[n];
    at->in[n] = -1;
    CHECK(name || n >= at->kind->inputs, TRINE_EINVAL, "%s: input %d is missing", row_text(l, text),
          n + 1);
    if (!name) return TRINE_OK;
    CHECK(at->kind->in[n] != SHAPE_NONE, TRINE_EINVAL,
          "%s: input %d (\"%s\") is not allowed for this kind of layer", row_text(l, text), n + 1,
          name);
    at->in[n] = find_value(l, name);
    CHECK(at->in[n] >= 0, TRINE_EINVAL, "%s: input \"%s\" is not written by any earlier row",
          row_text(l, text), name);
    list_value *v = &l->values[at->in[n]];
    CHECK(v->shape == at->kind->in[n], TRINE_EINVAL, "%s: input \"%s\" is %s; it must be %s",
          row_text(l, text), name, shape_text(v->shape), shape_text(at->kind->in[n]));
    v->last_reader = l->count;
    return TRINE_OK;
}

static trine_status write_output(unit_list *l, list_layer *at, const gpt_shape *s) {
    char text[64];
    const char *name = at->row->out;
    at->out = -1;
    CHECK(!name == (at->kind->out == SHAPE_NONE), TRINE_EINVAL,
          name ? "%s: this kind of layer writes no value; remove .out = \"%s\""
               : "%s: the output (.out) is missing",
          row_text(l, text), name);
    if (!name) return TRINE_OK;
    CHECK(find_value(l, name) < 0, TRINE_EINVAL,
          "%s: value \"%s\" already exists; use another name for the output", row_text(l, text),
          name);
    size_t width_in = list_width_in(l, at), wanted = width_in;
    if (at->kind->width_in) wanted = at->kind->width_in(s);
    CHECK(width_in == wanted, TRINE_EINVAL, "%s: the input has %zu columns; it must have %zu",
          row_text(l, text), width_in, wanted);
    size_t width = at->kind->keeps_columns ? width_in : s->C;
    if (at->kind->width) width = at->kind->width(s, at->row, width_in);
    int parts_in = at->in[0] < 0 ? 1 : l->values[at->in[0]].parts;
    CHECK(!at->kind->parts_in || parts_in == at->kind->parts_in, TRINE_EINVAL,
          "%s: the input has the columns of %d stacked matrices; it must have those of %d",
          row_text(l, text), parts_in, at->kind->parts_in);
    at->out = add_value(
        l, (list_value){.name = name,
                        .shape = at->kind->out,
                        .parts = at->kind->keeps_columns ? parts_in : layer_matrices(at->row),
                        .width = width,
                        .writer = l->count});
    return TRINE_OK;
}

/* Which members a row may set depends on its kind. */
static trine_status check_row(const unit_list *l, const list_layer *at, const gpt_shape *s,
                              unit_kind kind) {
    char text[64];
    const trine_layer *row = at->row;
    CHECK(kind != UNIT_EMBEDDING || at->kind->in_embedding, TRINE_EINVAL,
          "%s: an embedding may contain only TOKENS and POSITIONS", row_text(l, text));
    CHECK(at->kind->takes_width || (!row->width.times && !row->width.dim), TRINE_EINVAL,
          "%s: .width is not allowed for this kind of layer", row_text(l, text));
    int most = row->width.dim == TRINE_QKV ? 1 : TRINE_LAYER_TIMES;
    CHECK((int)row->width.dim >= 0 && row->width.dim <= TRINE_QKV && row->width.times >= 0 &&
              row->width.times <= most,
          TRINE_EINVAL,
          "%s: invalid .width {%d, %d}; use {TRINE_HIDDEN, N} or {TRINE_FFN, N}, N from 1 to %d, "
          "or {TRINE_QKV, 1}",
          row_text(l, text), (int)row->width.dim, row->width.times, TRINE_LAYER_TIMES);
    CHECK(!row->no_bias || row->kind == TRINE_LAYER_COLUMN || row->kind == TRINE_LAYER_ROW,
          TRINE_EINVAL, "%s: .no_bias is not allowed for this kind of layer", row_text(l, text));
    int names = 0;
    while (names < TRINE_LAYER_TENSORS && row->tensors[names]) names++;
    CHECK(!names || (at->kind->takes_width && names == layer_matrices(row)), TRINE_EINVAL,
          "%s: .tensors has %d names; %s", row_text(l, text), names,
          at->kind->takes_width ? "the layer stacks another number of matrices"
                                : "it is not allowed for this kind of layer");
    CHECK(!at->kind->reads_rope || gpt_head_width(s) % 2 == 0, TRINE_EINVAL,
          "%s: rotary positions need heads of an even width, not %zu", row_text(l, text),
          gpt_head_width(s));
    CHECK(at->kind->takes_dropout || !row->dropout, TRINE_EINVAL,
          "%s: .dropout is not allowed for this kind of layer", row_text(l, text));
    CHECK(!row->dropout || strlen(row->dropout) < TRINE_LAYER_NAME, TRINE_EINVAL,
          "%s: dropout name \"%.40s\" is longer than %d bytes", row_text(l, text), row->dropout,
          TRINE_LAYER_NAME - 1);
    return TRINE_OK;
}

/* Whether two rows have a tensor of the same name. */
static bool share_name(const gpt_shape *s, const trine_layer *a, const trine_layer *b) {
    layer_tensor of_a[LAYER_TENSORS], of_b[LAYER_TENSORS];
    int count_a = layer_tensors(s, a, of_a), count_b = layer_tensors(s, b, of_b);
    char x[TRINE_LAYER_NAME], y[TRINE_LAYER_NAME];
    for (int i = 0; i < count_a; i++) {
        layer_tensor_name(a, &of_a[i], x);
        for (int j = 0; j < count_b; j++)
            if (!strcmp(x, layer_tensor_name(b, &of_b[j], y))) return true;
    }
    return false;
}

/* The layer's name identifies its tensors, the dropout's name its mask. */
static trine_status check_names_differ(const unit_list *l, const list_layer *at,
                                       const gpt_shape *s) {
    char text[64];
    const trine_layer *row = at->row;
    for (int n = 0; n < l->count; n++) {
        const trine_layer *other = l->layers[n].row;
        CHECK(!row->dropout || !other->dropout || strcmp(row->dropout, other->dropout) != 0,
              TRINE_EINVAL, "%s: dropout name \"%s\" is already used by row %d", row_text(l, text),
              row->dropout, n + 1);
        CHECK(!share_name(s, row, other), TRINE_EINVAL, "%s: the name is already used by row %d",
              row_text(l, text), n + 1);
    }
    return TRINE_OK;
}

static trine_status check_tensors(unit_list *l, const list_layer *at, const gpt_shape *s,
                                  unit_kind kind) {
    char text[64];
    const char *name = at->row->name;
    layer_tensor tensors[LAYER_TENSORS];
    if (!at->kind->tensor_count) return TRINE_OK;
    CHECK(name && *name, TRINE_EINVAL, "%s: a layer with tensors needs a name", row_text(l, text));
    for (int n = 0, count = layer_tensors(s, at->row, tensors); n < count; n++) {
        const char *own = tensors[n].matrix_name ? tensors[n].matrix_name : "";
        size_t around = strlen(gpt_block_name(s)) + strlen(".31999..") +
                        strlen(tensors[n].kind->suffix) + (*own ? 1 : 0);
        size_t limit = TRINE_LAYER_NAME - around - strlen(own);
        CHECK(around + strlen(own) < TRINE_LAYER_NAME && strlen(name) < limit, TRINE_EINVAL,
              "%s: the name is longer than %zu bytes", row_text(l, text), limit - 1);
    }
    CHECK(kind != UNIT_BLOCK || at->kind->tensors[0].side != SIDE_VOCABULARY, TRINE_EINVAL,
          "%s: only the embedding and the head may use the token matrix", row_text(l, text));
    return TRINE_OK;
}

/* A unit has an input if a row reads "x". */
static bool has_input(const trine_layer *rows) {
    for (; rows->kind != TRINE_LAYER_END; rows++)
        for (int n = 0; n < TRINE_LAYER_INPUTS; n++)
            if (rows->in[n] && strcmp(rows->in[n], "x") == 0) return true;
    return false;
}

static trine_status read_row(unit_list *l, const trine_layer *row, const gpt_shape *s,
                             unit_kind kind) {
    CHECK(l->count < LIST_LAYERS, TRINE_EINVAL, "the list has more than %d rows", LIST_LAYERS);
    CHECK(row->kind > TRINE_LAYER_END && row->kind < TRINE_LAYER_KINDS, TRINE_EINVAL,
          "row %d: unknown layer kind %d", l->count + 1, (int)row->kind);
    list_layer *at = &l->layers[l->count], *last = at - 1;
    *at = (list_layer){.row = row, .kind = layer_kind_of(row->kind), .aux = -1};
    if (l->count) at->tensor = last->tensor + layer_params(s, last->row);
    for (int n = 0; n < TRINE_LAYER_INPUTS; n++) TRY(read_input(l, at, n));
    TRY(check_row(l, at, s, kind));
    TRY(check_tensors(l, at, s, kind));
    TRY(check_names_differ(l, at, s));
    TRY(write_output(l, at, s));
    l->count++;
    return TRINE_OK;
}

static bool has_kind(const unit_list *l, int n, trine_layer_kind kind) {
    return n >= 0 && n < l->count && l->layers[n].row->kind == kind;
}

static int count_kind(const unit_list *l, trine_layer_kind kind) {
    int count = 0;
    for (int n = 0; n < l->count; n++) count += l->layers[n].row->kind == kind;
    return count;
}

/* The rows and values through which units are connected. */
static trine_status check_first_and_last(const unit_list *l, const gpt_shape *s, unit_kind kind) {
    layer_tensor unused[LAYER_TENSORS];
    int tensors = 0;
    for (int n = 0; n < l->count; n++) tensors += layer_tensors(s, l->layers[n].row, unused);
    int tokens = count_kind(l, TRINE_LAYER_TOKENS), losses = count_kind(l, TRINE_LAYER_LOSS);
    CHECK(tensors <= FLAT_TENSORS, TRINE_EINVAL, "the list has %d tensors; at most %d are allowed",
          tensors, FLAT_TENSORS);
    CHECK(tokens == (kind == UNIT_EMBEDDING) && (!tokens || has_kind(l, 0, TRINE_LAYER_TOKENS)),
          TRINE_EINVAL,
          "TOKENS must be the first row of an embedding and cannot be used elsewhere");
    CHECK(losses == (kind == UNIT_HEAD) && (!losses || has_kind(l, l->count - 1, TRINE_LAYER_LOSS)),
          TRINE_EINVAL, "LOSS must be the last row of a head and cannot be used elsewhere");
    CHECK((l->input < 0) == (kind == UNIT_EMBEDDING), TRINE_EINVAL,
          kind == UNIT_EMBEDDING ? "an embedding has no input \"x\"" : "no row reads \"x\"");
    CHECK((l->output < 0) == (kind == UNIT_HEAD), TRINE_EINVAL,
          kind == UNIT_HEAD ? "a head must not write \"y\"" : "no row writes \"y\"");
    CHECK(l->output < 0 || l->values[l->output].writer == l->count - 1, TRINE_EINVAL,
          "\"y\" must be written by the last row");
    return TRINE_OK;
}

/* Some kinds overwrite their input. */
static trine_status check_overwritten(const unit_list *l, const list_layer *at) {
    const layer_kind *kind = at->kind;
    const char *name = family_layer_text(at->row->kind);
    if (!kind->over_tokens && !kind->gradient_in_place && !kind->only_over_in) return TRINE_OK;
    int v = at->in[0], writer = l->values[v].writer;
    CHECK(
        list_readers(l, v) == 1 && writer >= 0, TRINE_EINVAL,
        "%s overwrites its input \"%s\"; another row must write it, and only this row may read it",
        name, l->values[v].name);
    CHECK(!at->kind->over_tokens || has_kind(l, writer, TRINE_LAYER_TOKENS), TRINE_EINVAL,
          "%s must read the output of TOKENS, in an embedding", name);
    return TRINE_OK;
}

static trine_status check_values(const unit_list *l) {
    for (int n = 0; n < l->count; n++) TRY(check_overwritten(l, &l->layers[n]));
    for (int v = 0; v < l->value_count; v++) {
        const list_value *value = &l->values[v];
        CHECK(v != l->output || value->last_reader < 0, TRINE_EINVAL,
              "no row may read \"y\", the output of the unit");
        CHECK(v == l->output || value->last_reader >= 0, TRINE_EINVAL, "no row reads \"%s\"",
              value->name);
    }
    CHECK(l->output < 0 || l->values[l->output].shape == SHAPE_STREAM, TRINE_EINVAL,
          "\"y\" is inside a tp region; add a ROW layer to return to the residual stream");
    return TRINE_OK;
}

trine_status list_read(unit_list *l, const gpt_shape *s, unit_kind kind) {
    const trine_layer *rows = gpt_unit_rows(s, kind);
    *l = (unit_list){.input = -1, .output = -1};
    CHECK(rows && rows->kind != TRINE_LAYER_END, TRINE_EINVAL, "the list has no rows");
    if (has_input(rows))
        l->input = add_value(
            l, (list_value){
                   .name = "x", .shape = SHAPE_STREAM, .width = s->C, .parts = 1, .writer = -1});
    for (; rows->kind != TRINE_LAYER_END; rows++) TRY(read_row(l, rows, s, kind));
    l->output = find_value(l, "y");
    l->makes_loss = kind == UNIT_HEAD;
    TRY(check_first_and_last(l, s, kind));
    return check_values(l);
}
