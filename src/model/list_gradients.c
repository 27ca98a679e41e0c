/* Where gradients are stored: walks the list from its end, like the backward pass. */
#include "base/status.h"
#include "model/list_parts.h"

typedef struct {
    unit_list *l;
    const gpt_shape *s;
    life_table *t;
    grad_ref now[LIST_VALUES]; /* current place of the gradient of each value */
    bool done[LIST_VALUES];    /* consumed */
    int time;
} walk;

static void touch(const walk *w, const grad_ref *r) {
    if (r->place == GRAD_BUFFER) w->t->lives[r->buffer].to[0] = w->time;
}

/* A new buffer for the gradient of a value. */
static grad_ref fresh(walk *w, int value, int from) {
    int n = w->t->count++;
    ASSERT(n < 4 * LIST_VALUES);
    w->t->lives[n] = (list_life){.from = {from, 1},
                                 .to = {w->time, 0},
                                 .room = {.elements = list_elements(w->l, value, w->s),
                                          .peers = w->l->values[value].shape == SHAPE_STREAM}};
    w->t->keep[n] = -1;
    return (grad_ref){GRAD_BUFFER, n, -1};
}

static bool stream_is_free(const walk *w) {
    for (int v = 0; v < w->l->value_count; v++)
        if (!w->done[v] && w->now[v].place == GRAD_STREAM) return false;
    return true;
}

/* The place for the first gradient of a value. */
static grad_ref first_place(walk *w, const list_layer *at, int input) {
    int value = at->in[input];
    if (at->kind->in_place && input == 0) return at->out_grad;
    /* Value and gradient share memory from the forward pass on. */
    if (at->kind->gradient_in_place) return fresh(w, value, w->l->values[value].writer);
    if (value == w->l->input && at->out_grad.place != GRAD_STREAM && stream_is_free(w))
        return (grad_ref){GRAD_STREAM, 0, -1};
    return fresh(w, value, w->time);
}

static void visit_input(walk *w, list_layer *at, int n) {
    int v = at->in[n];
    at->mode[n] = GRAD_SET;
    if (w->now[v].place == GRAD_NOWHERE) {
        at->in_grad[n] = w->now[v] = first_place(w, at, n);
    } else if (at->kind->adds) {
        at->in_grad[n] = w->now[v];
        at->mode[n] = GRAD_ADD;
    } else {
        at->in_grad[n] = at->kind->in_place && n == 0 ? at->out_grad : fresh(w, v, w->time);
        at->sums[n] = (grad_sum){w->now[v], at->in_grad[n], v};
    }
    touch(w, &at->in_grad[n]);
    touch(w, &w->now[v]);
}

/* The gradient of an addend is that of the output, in the same memory. If the addend already has a gradient, the two
 * are added, in the stream if one of them is there. */
static void visit_addend(walk *w, list_layer *at, int n) {
    int v = at->in[n];
    grad_ref had = w->now[v];
    at->in_grad[n] = (grad_ref){GRAD_NOWHERE, 0, -1};
    if (had.place == GRAD_NOWHERE) {
        w->now[v] = at->out_grad;
        return;
    }
    bool into_output = at->out_grad.place == GRAD_STREAM;
    if (into_output) w->now[v] = at->out_grad;
    at->sums[n] = into_output ? (grad_sum){at->out_grad, had, v} : (grad_sum){had, at->out_grad, v};
    touch(w, &had);
}

/* backward_weight reads the gradient of the output again: it stays in place, or is copied. */
static void keep_output(walk *w, const list_layer *at, int n) {
    if (!list_splits(at) || at->kind->copies) return;
    ASSERT(at->out_grad.place ==
           GRAD_BUFFER); /* the output of a COLUMN is inside a region, never in the stream */
    w->t->keep[at->out_grad.buffer] = n;
}

static void visit(walk *w, int n) {
    list_layer *at = &w->l->layers[n];
    w->time = list_back_time(w->l, n);
    at->out_grad = at->out < 0 ? (grad_ref){GRAD_NOWHERE, 0, -1} : w->now[at->out];
    touch(w, &at->out_grad);
    if (at->out >= 0) w->done[at->out] = true;
    keep_output(w, at, n);
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++) {
        at->sums[i] = (grad_sum){.value = -1};
        if (at->in[i] < 0) continue;
        if (i == 1 && at->kind->addend)
            visit_addend(w, at, i);
        else
            visit_input(w, at, i);
    }
}

void list_place_gradients(unit_list *l, const gpt_shape *s, life_table *t) {
    walk w = {.l = l, .s = s, .t = t};
    if (l->output >= 0) w.now[l->output] = (grad_ref){GRAD_STREAM, 0, -1};
    for (int n = l->count; n-- > 0;) visit(&w, n);
    l->input_grad = l->input < 0 ? (grad_ref){GRAD_NOWHERE, 0, -1} : w.now[l->input];
}
