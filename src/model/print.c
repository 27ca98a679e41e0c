/* --explain layers. The column "storage" says where the output of a layer is stored until the backward pass: kept in
 * the slot, recomputed, in a scratch buffer, passed to the next unit, or overwritten in place by its reader. */
#include <string.h>

#include "base/status.h"
#include "model/family.h"
#include "model/gpt.h"

#define CELL 80

/* "a, x" */
static const char *reads_text(const list_layer *at, char text[CELL]) {
    const char *const *in = at->row->in;
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < TRINE_LAYER_INPUTS && in[i] && used < CELL; i++)
        used += (size_t)snprintf(text + used, CELL - used, "%s%s", i ? ", " : "", in[i]);
    return text;
}

/* "qkv (1024, 1152)": this rank's rows and columns. */
static const char *writes_text(const unit_list *l, const list_layer *at, const gpt_shape *s,
                               char text[CELL]) {
    *text = 0;
    if (at->out < 0) return text;
    size_t rows = list_rows(l, at->out, s), columns = list_elements(l, at->out, s) / rows;
    snprintf(text, CELL, "%s (%zu, %zu)", l->values[at->out].name, rows, columns);
    return text;
}

/* Where the output is stored until the backward pass. */
static const char *place_text(const unit_list *l, const list_layer *at) {
    if (at->out < 0) return "";
    switch (l->values[at->out].place) {
    case VALUE_INPUT: return "";
    case VALUE_OUTPUT: return "next unit";
    case VALUE_KEPT: return "kept";
    case VALUE_REBUILT: return "recomputed";
    case VALUE_BUFFER: return "scratch";
    case VALUE_ALIAS: return "in place";
    }
    return "";
}

static const char *sends_text(tp_crossings c, const gpt_shape *s, char text[CELL]) {
    bool rows = gpt_splits_rows(s), sums = c.sums && s->tp > 1, gathers = c.gathers && rows;
    snprintf(text, CELL, "%s%s%s", gathers ? "all-gather" : "", sums && gathers ? ", " : "",
             !sums  ? ""
             : rows ? "reduce-scatter"
                    : "all-reduce");
    return *text ? text : "-";
}

/* "weight 3 x (384, 768)": the next tensors of the unit in the order of its list. */
static void print_tensors(const gpt_shape *s, const list_layer *at, const flat_unit *layout,
                          int next[FLAT_RANGES], int *seen, FILE *out) {
    layer_tensor tensors[LAYER_TENSORS];
    for (int i = 0, count = layer_tensors(s, at->row, tensors); i < count; i++) {
        int range = layout->order[(*seen)++];
        const tensor *t = &layout->ranges[range].tensors[next[range]++];
        const char *matrix = tensors[i].matrix_name;
        fprintf(out, "%s%s%s%s ", i ? ", " : "  ", matrix ? matrix : "", matrix ? "." : "",
                tensors[i].kind->suffix);
        if (t->parts > 1) fprintf(out, "%zu x ", t->parts);
        fprintf(out, t->cols > 1 ? "(%zu, %zu)" : "(%zu)", t->rows, t->cols);
    }
}

/* "column mlp.c_fc"; returns its length. */
static int name_text(const trine_layer *row, char text[CELL]) {
    return snprintf(text, CELL, "%s%s%s", family_layer_text(row->kind), row->name ? " " : "",
                    row->name ? row->name : "");
}

/* The width of the column of names. */
static int name_width(const gpt_shape *s) {
    char text[CELL];
    int width = 24;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (const trine_layer *row = gpt_unit_rows(s, kind); row->kind != TRINE_LAYER_END; row++) {
            int own = name_text(row, text);
            if (own > width) width = own;
        }
    return width;
}

static void print_layer(const unit_list *l, const list_layer *at, const gpt_shape *s, FILE *out) {
    char name[CELL], reads[CELL], writes[CELL], forward[CELL], backward[CELL];
    name_text(at->row, name);
    fprintf(out, "  %-*s %-10s %-20s %-11s %-15s %-27s", name_width(s), name, reads_text(at, reads),
            writes_text(l, at, s, writes), place_text(l, at),
            sends_text(at->kind->sends, s, forward),
            sends_text(at->kind->sends_backward, s, backward));
}

static void print_unit(const gpt_shape *s, unit_kind kind, const unit_list *l, FILE *out) {
    int unit = kind == UNIT_EMBEDDING ? 0 : kind == UNIT_BLOCK ? 1 : (int)s->L + 1;
    int next[FLAT_RANGES] = {0}, seen = 0;
    flat_unit layout;
    gpt_unit_layout(s, unit, 1, &layout);
    fprintf(out,
            kind == UNIT_EMBEDDING ? "embedding\n"
            : kind == UNIT_HEAD    ? "head\n"
                                   : "block, %zu times\n",
            s->L);
    for (int n = 0; n < l->count; n++) {
        print_layer(l, &l->layers[n], s, out);
        print_tensors(s, &l->layers[n], &layout, next, &seen, out);
        fputc('\n', out);
    }
}

trine_status gpt_print_lists(const gpt_shape *s, FILE *out) {
    fprintf(out, "layers of %s, one rank of tp %d: micro-batch %zu, sequence %zu\n",
            gpt_family(s)->name, s->tp, s->B, s->T);
    fprintf(out, "  %-*s %-10s %-20s %-11s %-15s %-27s  %s\n", name_width(s), "layer", "reads",
            "writes", "storage", "tp forward", "tp backward", "tensors");
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
        unit_list l;
        TRY(list_resolve(&l, s, kind));
        print_unit(s, kind, &l, out);
    }
    return TRINE_OK;
}
