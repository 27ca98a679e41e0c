/* Runs a unit's list in order, and in reverse. */
#include <string.h>

#include "base/status.h"
#include "device/ops.h"
#include "model/gpt.h"

/* The part of a backward pass that runs. */
typedef enum { PART_WHOLE, PART_INPUT, PART_WEIGHT } part;

/* One call: the list and all pointers. */
typedef struct {
    unit_run run;
    const gpt_run *r;
    const gpt_unit *unit;
    const unit_list *list;
    const gpt_keep *keep; /* NULL: the backward pass is not split */
    void *d;
    gpt_acts at;
} unit_call;

/* ---- Values ------------------------------------------------------------------------------------ */

static void place_values(unit_call *c, void *x, void *y) {
    const unit_list *l = c->list;
    if (l->input >= 0) c->at.value[l->input] = x;
    if (l->output >= 0) c->at.value[l->output] = y;
    for (int v = l->value_count;
         v-- > 0;) { /* the value that an alias refers to has a higher number */
        if (l->values[v].place == VALUE_ALIAS) c->at.value[v] = c->at.value[l->values[v].at];
        if (c->keep && c->keep->value[v]) c->at.value[v] = c->keep->value[v];
    }
}

static unit_call begin(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *x, void *y,
                       const gpt_batch *batch, const gpt_keep *keep) {
    const gpt_shape *s = r->shape;
    unit_call c = {.run = {.dev = r->dev,
                           .tp = r->tp,
                           .shape = s,
                           .rows = s->B * s->T,
                           .own = gpt_rows(s),
                           .dropped = r->scratch->dropped,
                           .workspace = r->scratch->workspace,
                           .loss = &r->scratch->loss,
                           .rope = r->scratch->rope,
                           .batch = batch,
                           .seed = r->seed,
                           .unit = u->index,
                           .training = r->training},
                   .r = r,
                   .unit = u,
                   .list = &r->scratch->lists[gpt_unit_kind(s, u->index)],
                   .keep = keep,
                   .at = *a};
    place_values(&c, x, y);
    return c;
}

static layer_call call_of(const unit_call *c, const list_layer *at) {
    int n = (int)(at - c->list->layers);
    layer_call call = {.r = &c->run,
                       .row = at->row,
                       .width_in = list_width_in(c->list, at),
                       .width = list_width(c->list, at),
                       .params = &c->unit->params[at->tensor],
                       .out = at->out < 0 ? NULL : c->at.value[at->out],
                       .aux = c->at.aux[n]};
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++)
        call.in[i] = at->in[i] < 0 ? NULL : c->at.value[at->in[i]];
    return call;
}

static trine_status run_forward(const unit_call *c, int n) {
    const list_layer *at = &c->list->layers[n];
    layer_call call = call_of(c, at);
    TRY(at->kind->forward(&call));
    return TRINE_OK;
}

/* ---- Recomputation ----------------------------------------------------------------------------- */

static trine_status rerun(const unit_call *c) {
    for (int n = 0; n < c->list->count; n++)
        if (c->list->layers[n].rerun) TRY(run_forward(c, n));
    return TRINE_OK;
}

/* Recomputes the values that layer n reads next and that were not kept. */
static trine_status rebuild(const unit_call *c, int n, part which) {
    for (int v = 0; v < c->list->value_count; v++) {
        const list_value *value = &c->list->values[v];
        if (value->place != VALUE_REBUILT) continue;
        int before = which == PART_WHOLE   ? value->rebuild_full
                     : which == PART_INPUT ? value->rebuild_input
                                           : value->rebuild_weight;
        if (before == n) TRY(run_forward(c, value->writer));
    }
    return TRINE_OK;
}

/* ---- Gradients --------------------------------------------------------------------------------- */

static void *grad_at(const unit_call *c, grad_ref r) {
    if (r.place == GRAD_STREAM) return c->d;
    if (r.place == GRAD_NOWHERE) return NULL;
    return c->keep && r.keep >= 0 ? c->keep->grad[r.keep] : c->r->scratch->buffers[r.buffer];
}

static layer_grads grads_of(const unit_call *c, const list_layer *at) {
    layer_grads g = {.out = grad_at(c, at->out_grad)};
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++) {
        g.in[i] = grad_at(c, at->in_grad[i]);
        g.mode[i] = at->mode[i];
    }
    if (c->keep && list_splits(at)) {
        g.keep = c->keep->grad[at - c->list->layers];
        g.up = c->keep->up[at - c->list->layers];
    }
    return g;
}

/* Adds the gradients of values that several layers read. */
static trine_status add_up(const unit_call *c, const list_layer *at) {
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++) {
        const grad_sum *sum = &at->sums[i];
        if (sum->dst.place == GRAD_NOWHERE) continue;
        size_t rows = list_rows(c->list, sum->value, c->run.shape);
        TRY(c->run.dev->ops->bias_residual(
            c->run.dev, grad_at(c, sum->dst), NULL, grad_at(c, sum->src), rows,
            list_elements(c->list, sum->value, c->run.shape) / rows));
    }
    return TRINE_OK;
}

static trine_status run_backward(const unit_call *c, int n, part which) {
    const list_layer *at = &c->list->layers[n];
    layer_call call = call_of(c, at);
    layer_grads g = grads_of(c, at);
    TRY(rebuild(c, n, which));
    if (which == PART_INPUT && list_splits(at))
        TRY(at->kind->backward_input(&call, &g));
    else
        TRY(at->kind->backward(&call, &g));
    return add_up(c, at);
}

/* Runs all layers in reverse. The gradient of the input ends in d. */
static trine_status walk_back(const unit_call *c, part which) {
    const unit_list *l = c->list;
    for (int n = l->count; n-- > 0;) TRY(run_backward(c, n, which));
    if (l->input_grad.place == GRAD_BUFFER)
        device_copy(c->run.dev, c->d, grad_at(c, l->input_grad),
                    list_elements(l, l->input, c->run.shape) *
                        trine_dtype_bytes(c->run.dev->compute));
    return TRINE_OK;
}

/* ---- A unit ------------------------------------------------------------------------------------ */

trine_status gpt_forward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *y, void *x,
                         const gpt_batch *batch) {
    unit_call c = begin(r, u, a, x, y, batch, NULL);
    if (c.list->makes_loss && r->training) return TRINE_OK;
    for (int n = 0; n < c.list->count; n++) TRY(run_forward(&c, n));
    return TRINE_OK;
}

trine_status gpt_backward(const gpt_run *r, const gpt_unit *u, const gpt_acts *a, void *d, void *x,
                          const gpt_batch *batch) {
    unit_call c = begin(r, u, a, x, NULL, batch, NULL);
    c.d = d;
    /* All layers except LOSS, the last row of a head (list_names.c). */
    for (int n = 0; c.list->makes_loss && n < c.list->count - 1; n++) TRY(run_forward(&c, n));
    TRY(rerun(&c));
    return walk_back(&c, PART_WHOLE);
}

trine_status gpt_backward_input(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                const gpt_keep *keep, void *d, void *x, const gpt_batch *batch) {
    unit_call c = begin(r, u, a, x, NULL, batch, keep);
    c.d = d;
    TRY(rerun(&c));
    return walk_back(&c, PART_INPUT);
}

trine_status gpt_backward_weight(const gpt_run *r, const gpt_unit *u, const gpt_acts *a,
                                 const gpt_keep *keep, void *x, const gpt_batch *batch) {
    unit_call c = begin(r, u, a, x, NULL, batch, keep);
    for (int n = c.list->count; n-- > 0;) {
        const list_layer *at = &c.list->layers[n];
        if (!list_splits(at)) continue;
        layer_call call = call_of(&c, at);
        layer_grads g = grads_of(&c, at);
        TRY(rebuild(&c, n, PART_WEIGHT));
        TRY(at->kind->backward_weight(&call, &g));
    }
    return TRINE_OK;
}
