/* The memory of units, from their lists. */
#include "base/status.h"
#include "model/gpt.h"
#include "model/lora.h"

typedef struct {
    arena *arena;
    const gpt_shape *s;
    const device *d;
    mem_kind kind;
} taker;

/* `peers`: other tp ranks read the memory, in place where they can. */
static void *take_bytes(const taker *t, size_t bytes, bool peers) {
    return peers && gpt_tp_ranks(t->s) > 1 ? arena_take_shared(t->arena, t->kind, bytes)
                                           : arena_take(t->arena, t->kind, bytes);
}

static void *take(const taker *t, size_t count, bool peers) {
    return take_bytes(t, count * trine_dtype_bytes(t->d->compute), peers);
}

/* ---- Scratch ----------------------------------------------------------------------------------- */

/* One set of buffers for all kinds of units. */
static void take_buffers(const taker *t, gpt_scratch *out) {
    list_buffer room[LIST_BUFFERS] = {{0}};
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
        const unit_list *l = &out->lists[kind];
        for (int b = 0; b < l->buffer_count; b++) {
            if (l->buffers[b].elements > room[b].elements)
                room[b].elements = l->buffers[b].elements;
            room[b].peers = room[b].peers || l->buffers[b].peers;
        }
    }
    for (int b = 0; b < LIST_BUFFERS; b++)
        if (room[b].elements) out->buffers[b] = take(t, room[b].elements, room[b].peers);
}

static size_t workspace_bytes(const taker *t, const gpt_scratch *out) {
    size_t most = 0;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (int n = 0; n < out->lists[kind].count; n++) {
            const unit_list *l = &out->lists[kind];
            size_t bytes = list_workspace(t->d, t->s, l, &l->layers[n]);
            if (bytes > most) most = bytes;
        }
    return most;
}

static void take_rebuilt(const taker *t, unit_kind kind, gpt_scratch *out) {
    const unit_list *l = &out->lists[kind];
    for (int b = 0; b < l->rebuilt_count; b++) {
        const list_buffer *room = &l->rebuilt[b];
        if (room->elements) out->rebuilt[kind][b] = take(t, room->elements, room->peers);
        if (room->aux) out->aux[kind][b] = arena_take(t->arena, t->kind, room->aux);
    }
}

static void take_loss(const taker *t, gpt_loss_scratch *out) {
    size_t K = gpt_loss_rows(t->s), parts = (size_t)gpt_parts(t->s);
    out->logits = take(t, parts * K * gpt_vocab(t->s).rows, false);
    out->xent.max = take_bytes(t, K * sizeof(float), true);
    out->xent.sums = take_bytes(t, parts * K * 2 * sizeof(float), true);
    if (t->s->tp > 1) out->xent.own = take_bytes(t, parts * K * sizeof(float), true);
}

/* Whether a layer of these units sums and gathers at the same time. */
static bool crosses_together(const gpt_scratch *out, const bool has[UNIT_KINDS]) {
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (int n = 0; has[kind] && n < out->lists[kind].count; n++)
            if (out->lists[kind].layers[n].kind->sends_backward.together) return true;
    return false;
}

/* What is gathered and summed over tp. */
static void take_crossings(const taker *t, const bool has[UNIT_KINDS], gpt_scratch *out) {
    size_t count = t->s->B * t->s->T * t->s->C, parts = (size_t)gpt_parts(t->s);
    bool wide = parts > 1 && gpt_tp_ranks(t->s) > 1 && t->d->compute != TRINE_F32;
    if (parts > 1) out->addends = take(t, parts * count, false);
    if (wide) out->wide = take_bytes(t, count * sizeof(float), true);
    if (!gpt_splits_rows(t->s)) return;
    out->full = take(t, count, true);
    if (!wide) out->sum = crosses_together(out, has) ? take(t, count, true) : out->full;
}

void gpt_scratch_take(arena *a, const gpt_shape *s, const device *d, const bool has[UNIT_KINDS],
                      gpt_scratch *out) {
    const taker t = {a, s, d, MEM_WORKSPACE};
    size_t R = gpt_rows(s).count;
    *out = (gpt_scratch){.full = NULL};
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        list_resolve_valid(&out->lists[kind], s, kind);
    take_buffers(&t, out);
    take_crossings(&t, has, out);
    if (s->hidden_dropout > 0) out->dropped = take(&t, R * s->C, gpt_splits_rows(s));
    out->workspace = arena_take(a, MEM_WORKSPACE, workspace_bytes(&t, out));
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        if (has[kind]) take_rebuilt(&t, kind, out);
    if (has[UNIT_HEAD]) take_loss(&t, &out->loss);
    if (has[UNIT_BLOCK]) out->rope = rope_take(a, s);
}

/* ---- Between forward and backward -------------------------------------------------------------- */

static void *place_of(const taker *t, const unit_list *l, unit_kind kind, int value,
                      const gpt_scratch *scratch) {
    const list_value *v = &l->values[value];
    switch (v->place) {
    case VALUE_KEPT: return take(t, list_elements(l, value, t->s), v->peers);
    case VALUE_REBUILT: return scratch->rebuilt[kind][v->at];
    case VALUE_BUFFER: return scratch->buffers[v->at];
    default: return NULL;
    }
}

void gpt_acts_take(arena *a, const gpt_shape *s, const device *d, int unit,
                   const gpt_scratch *scratch, gpt_acts *out) {
    const taker t = {a, s, d, MEM_ACTIVATIONS};
    unit_kind kind = gpt_unit_kind(s, unit);
    const unit_list *l = &scratch->lists[kind];
    *out = (gpt_acts){.value = {NULL}};
    for (int v = 0; v < l->value_count; v++) out->value[v] = place_of(&t, l, kind, v, scratch);
    for (int n = 0; n < l->count; n++) {
        const list_layer *at = &l->layers[n];
        size_t down = lora_down(s, at->row);
        if (down) out->aux[n] = take(&t, down, false); /* also with recomputation: it is small */
        if (!at->kind->aux) continue;
        out->aux[n] = at->aux < 0 ? arena_take(a, MEM_ACTIVATIONS, at->kind->aux(s))
                                  : scratch->aux[kind][at->aux];
    }
}

/* ---- Between BACKWARD_INPUT and BACKWARD_WEIGHT ------------------------------------------------ */

void gpt_keep_take(arena *a, const gpt_shape *s, const device *d, bool small, gpt_keep *out) {
    const taker t = {a, s, d, MEM_ACTIVATIONS};
    unit_list l;
    list_resolve_valid(&l, s, UNIT_BLOCK);
    *out = (gpt_keep){.small = NULL};
    for (int n = 0; n < l.count; n++)
        if (list_splits(&l.layers[n]))
            out->grad[n] = take(&t, list_elements(&l, l.layers[n].out, s),
                                l.layers[n].kind->copies && gpt_splits_rows(s));
    for (int n = 0; n < l.count; n++)
        if (lora_up(s, l.layers[n].row)) out->up[n] = take(&t, lora_up(s, l.layers[n].row), false);
    for (int v = 0; v < l.value_count; v++)
        if (l.values[v].for_weight)
            out->value[v] = take(&t, list_elements(&l, v, s), l.values[v].peers);
    size_t count = 0;
    for (int n = 0; n < l.count; n++)
        for (int i = 0; !list_splits(&l.layers[n]) && i < l.layers[n].kind->tensor_count; i++)
            count += (size_t)gpt_parts(s) * list_small(&l.layers[n].kind->tensors[i], s);
    if (small) out->small = arena_take(a, MEM_ACTIVATIONS, count * trine_dtype_bytes(d->grads));
}
