#include "model/list.h"

#include <stdlib.h>

#include "base/status.h"
#include "model/list_parts.h"
#include "model/lora.h"

/* ---- Sharing ----------------------------------------------------------------------------------- */

static int before(const void *a, const void *b) {
    const list_life *x = *(list_life *const *)a, *y = *(list_life *const *)b;
    if (x->room.peers != y->room.peers) return x->room.peers ? -1 : 1;
    if (x->room.elements != y->room.elements) return x->room.elements > y->room.elements ? -1 : 1;
    return x < y ? -1 : 1;
}

static bool overlap(const list_life *a, const list_life *b) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (a->from[i] <= a->to[i] && b->from[j] <= b->to[j] && a->from[i] <= b->to[j] &&
                b->from[j] <= a->to[i])
                return true;
    return false;
}

static bool fits(list_life *const *done, int count, const list_life *own, int b,
                 const list_buffer *buffers) {
    if (own->room.peers && !buffers[b].peers) return false;
    for (int n = 0; n < count; n++)
        if (done[n]->buffer == b && overlap(done[n], own)) return false;
    return true;
}

void list_share(list_life *lives, int count, list_buffer *buffers, int *buffer_count) {
    list_life *order[4 * LIST_VALUES];
    int first = *buffer_count;
    for (int n = 0; n < count; n++) order[n] = &lives[n];
    qsort(order, (size_t)count, sizeof *order, before);
    for (int n = 0; n < count; n++) {
        list_life *own = order[n];
        int b = first;
        while (b < *buffer_count && !fits(order, n, own, b, buffers)) b++;
        ASSERT(b < LIST_BUFFERS);
        if (b == *buffer_count)
            buffers[(*buffer_count)++] = (list_buffer){.peers = own->room.peers};
        list_buffer *room = &buffers[b];
        if (own->room.elements > room->elements) room->elements = own->room.elements;
        if (own->room.aux > room->aux) room->aux = own->room.aux;
        own->buffer = b;
    }
}

/* ---- Resolving --------------------------------------------------------------------------------- */

/* Replaces the index of a life by that of its buffer. */
static void settle(grad_ref *r, const life_table *t) {
    if (r->place != GRAD_BUFFER) return;
    r->keep = t->keep[r->buffer];
    r->buffer = t->lives[r->buffer].buffer;
}

static void share_buffers(unit_list *l, life_table *t) {
    list_share(t->lives, t->count, l->buffers, &l->buffer_count);
    settle(&l->input_grad, t);
    for (int n = 0; n < l->count; n++) {
        list_layer *at = &l->layers[n];
        settle(&at->out_grad, t);
        for (int i = 0; i < TRINE_LAYER_INPUTS; i++) {
            settle(&at->in_grad[i], t);
            settle(&at->sums[i].dst, t);
            settle(&at->sums[i].src, t);
        }
    }
    for (int v = 0; v < l->value_count; v++)
        if (l->values[v].place == VALUE_BUFFER) l->values[v].at = t->lives[l->values[v].at].buffer;
}

trine_status list_resolve(unit_list *l, const gpt_shape *s, unit_kind kind) {
    life_table t = {.count = 0};
    TRY(list_read(l, s, kind));
    list_place_gradients(l, s, &t);
    list_place_values(l, s, kind, &t);
    share_buffers(l, &t);
    return TRINE_OK;
}

void list_resolve_valid(unit_list *l, const gpt_shape *s, unit_kind kind) {
    trine_status status = list_resolve(l, s, kind);
    ASSERT(status == TRINE_OK);
}

int list_readers(const unit_list *l, int value) {
    int count = 0;
    for (int n = 0; n < l->count; n++)
        for (int i = 0; i < TRINE_LAYER_INPUTS; i++) count += l->layers[n].in[i] == value;
    return count;
}

int list_over(const unit_list *l, int value) {
    const list_value *v = &l->values[value];
    if (v->writer < 0 || v->last_reader < 0) return -1;
    const list_layer *reader = &l->layers[v->last_reader];
    if (list_readers(l, value) != 1) return -1;
    return reader->kind->over_in && reader->in[0] == value ? reader->out : -1;
}

int list_first_writer(const unit_list *l, int value) {
    int first = l->values[value].writer;
    while (first >= 0 && l->layers[first].in[0] >= 0 && list_over(l, l->layers[first].in[0]) >= 0)
        first = l->values[l->layers[first].in[0]].writer;
    return first;
}

/* ---- Sizes ------------------------------------------------------------------------------------- */

size_t list_width_in(const unit_list *l, const list_layer *at) {
    return at->in[0] < 0 ? 0 : l->values[at->in[0]].width;
}

size_t list_width(const unit_list *l, const list_layer *at) {
    return at->out < 0 ? 0 : l->values[at->out].width;
}

size_t list_rows(const unit_list *l, int value, const gpt_shape *s) {
    return l->values[value].shape == SHAPE_STREAM ? gpt_rows(s).count : s->B * s->T;
}

size_t list_elements(const unit_list *l, int value, const gpt_shape *s) {
    const list_value *v = &l->values[value];
    size_t tp = v->shape == SHAPE_STREAM ? 1 : (size_t)s->tp;
    size_t parts = v->shape == SHAPE_STREAM ? 1 : (size_t)gpt_parts(s);
    return parts * list_rows(l, value, s) * (v->width / tp);
}

size_t list_workspace(const device *d, const gpt_shape *s, const unit_list *l,
                      const list_layer *at) {
    size_t own = at->kind->workspace ? at->kind->workspace(d, s) : 0;
    size_t lora = lora_workspace(d, s, at->row, list_width_in(l, at), list_width(l, at));
    return own > lora ? own : lora;
}

size_t list_small(const kind_tensor *k, const gpt_shape *s) {
    ASSERT(k->side == SIDE_HIDDEN || k->side == SIDE_HEAD || k->side == SIDE_POSITIONS);
    if (k->side == SIDE_HEAD) return gpt_head_width(s);
    return k->side == SIDE_POSITIONS ? s->T * s->C : s->C;
}
