#include "model/decode.h"

#include "base/status.h"
#include "model/list_parts.h"
#include "model/lora.h"

/* ---- Where values are -------------------------------------------------------------------------- */

/* "y" overwrites "x" if no later row reads "x"; else it has a buffer and is copied. */
static bool is_stream(const unit_list *l, int v) {
    if (v == l->input) return true;
    if (v != l->output) return false;
    return l->input < 0 || l->values[l->input].last_reader < list_first_writer(l, v);
}

static void place(decode_unit *u, const gpt_shape *s, unit_kind kind, size_t rows) {
    const unit_list *l = &u->list;
    list_life lives[LIST_VALUES];
    int values[LIST_VALUES], count = 0;
    list_resolve_valid(&u->list, s, kind);
    u->buffer_count = 0;
    for (int v = 0; v < l->value_count; v++) {
        const list_value *value = &l->values[v];
        u->place[v] = -1;
        if (is_stream(l, v) || list_over(l, v) >= 0) continue;
        int first = list_first_writer(l, v);
        int last = value->last_reader < 0 ? l->count : value->last_reader;
        size_t tp = value->shape == SHAPE_STREAM ? 1 : (size_t)s->tp;
        values[count] = v;
        lives[count++] = (list_life){
            .from = {first, 1},
            .to = {last, 0},
            .room = {.elements = rows * (value->width / tp),
                     .peers = value->writer >= 0 && l->layers[value->writer].kind->sends.sums}};
    }
    list_share(lives, count, u->buffers, &u->buffer_count);
    for (int n = 0; n < count; n++) u->place[values[n]] = lives[n].buffer;
    for (int v = l->value_count; v-- > 0;)
        if (list_over(l, v) >= 0) u->place[v] = u->place[list_over(l, v)];
}

/* ---- Memory ------------------------------------------------------------------------------------ */

static void *take(arena *a, const device *d, mem_kind kind, size_t count) {
    return arena_take(a, kind, count * trine_dtype_bytes(d->compute));
}

static void *take_exchanged(arena *a, const device *d, size_t count) {
    return arena_take_exchanged(a, MEM_WORKSPACE, count * trine_dtype_bytes(d->compute));
}

/* One set of buffers for all kinds of units. */
static void take_buffers(arena *a, const device *d, decode_scratch *out) {
    for (int b = 0; b < LIST_BUFFERS; b++) {
        list_buffer room = {0};
        for (unit_kind kind = 0; kind < UNIT_KINDS; kind++) {
            const decode_unit *u = &out->units[kind];
            if (b >= u->buffer_count) continue;
            if (u->buffers[b].elements > room.elements) room.elements = u->buffers[b].elements;
            room.peers = room.peers || u->buffers[b].peers;
        }
        if (room.elements)
            out->buffers[b] = room.peers ? take_exchanged(a, d, room.elements)
                                         : take(a, d, MEM_WORKSPACE, room.elements);
    }
}

/* The aux of layers that decode with their forward pass, and the workspace of all layers. */
static void take_beside(arena *a, const gpt_shape *s, const device *d, decode_scratch *out) {
    gpt_shape chunk = *s, all = *s;
    size_t aux = 0, workspace = 0;
    chunk.B = all.B = 1;
    chunk.T = out->rows;
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        for (int n = 0; n < out->units[kind].list.count; n++) {
            const unit_list *l = &out->units[kind].list;
            const layer_kind *k = l->layers[n].kind;
            size_t down = lora_down(&chunk, l->layers[n].row) * trine_dtype_bytes(d->compute);
            size_t own = k->aux && !k->decode ? k->aux(&chunk) : down;
            size_t work = list_workspace(d, &chunk, l, &l->layers[n]);
            if (k->workspace && k->workspace(d, &all) > work) work = k->workspace(d, &all);
            if (own > aux) aux = own;
            if (work > workspace) workspace = work;
        }
    out->aux = arena_take(a, MEM_WORKSPACE, aux);
    out->workspace = arena_take(a, MEM_WORKSPACE, workspace);
}

void decode_scratch_take(arena *a, const gpt_shape *s, const device *d, size_t rows,
                         size_t head_rows, decode_scratch *out) {
    size_t tp = (size_t)s->tp, vocab = gpt_vocab(s).rows;
    *out = (decode_scratch){.rows = rows, .head_rows = head_rows};
    for (unit_kind kind = 0; kind < UNIT_KINDS; kind++)
        place(&out->units[kind], s, kind, kind == UNIT_HEAD ? head_rows : rows);
    take_buffers(a, d, out);
    take_beside(a, s, d, out);
    out->rope = rope_take(a, s);
    if (!head_rows) return;
    out->logits = take_exchanged(a, d, head_rows * vocab);
    out->all = tp > 1 ? take_exchanged(a, d, tp * head_rows * vocab) : out->logits;
}

void decode_cache_take(arena *a, const gpt_shape *s, const device *d, int unit, decode_cache *out) {
    int n = 0;
    *out = (decode_cache){.halves = {{NULL}}};
    for (const trine_layer *row = gpt_unit_rows(s, gpt_unit_kind(s, unit));
         row->kind != TRINE_LAYER_END; row++, n++) {
        const layer_kind *kind = layer_kind_of(row->kind);
        for (int i = 0; kind->cache && i < 2; i++)
            out->halves[n][i] = take(a, d, MEM_ACTIVATIONS, kind->cache(s));
    }
}

void *decode_stream_take(arena *a, const gpt_shape *s, const device *d, size_t rows) {
    return take_exchanged(a, d, rows * s->C);
}

/* ---- Running ----------------------------------------------------------------------------------- */

static void *value_at(const decode_run *r, const decode_unit *u, int v, void *x) {
    if (v < 0) return NULL;
    return u->place[v] < 0 ? x : r->scratch.buffers[u->place[v]];
}

static trine_status run_layer(const decode_run *r, const unit_run *run, const gpt_unit *unit,
                              const decode_unit *u, const list_layer *at, const decode_cache *cache,
                              void *x, size_t past) {
    const decode_scratch *a = &r->scratch;
    void *const *halves = cache->halves[at - u->list.layers];
    layer_call c = {.r = run,
                    .row = at->row,
                    .width_in = list_width_in(&u->list, at),
                    .width = list_width(&u->list, at),
                    .params = &unit->params[at->tensor],
                    .out = value_at(r, u, at->out, x),
                    .aux = a->aux};
    for (int i = 0; i < TRINE_LAYER_INPUTS; i++) c.in[i] = value_at(r, u, at->in[i], x);
    layer_decode d = {past, {halves[0], halves[1]}, a->logits, a->all};
    if (at->kind->decode) return at->kind->decode(&c, &d);
    return at->kind->forward(&c);
}

trine_status decode_rows(const decode_run *r, const gpt_unit *unit, const decode_cache *cache,
                         void *x, const int32_t *tokens, size_t past, size_t n) {
    const gpt_shape *s = r->shape;
    const decode_unit *u = &r->scratch.units[gpt_unit_kind(s, unit->index)];
    const gpt_batch batch = {.tokens = tokens};
    const unit_run run = {.dev = r->dev,
                          .tp = r->tp,
                          .shape = s,
                          .rows = n,
                          .own = {past, n},
                          .workspace = r->scratch.workspace,
                          .batch = &batch,
                          .rope = r->scratch.rope,
                          .unit = unit->index};
    for (int k = 0; k < u->list.count; k++)
        TRY(run_layer(r, &run, unit, u, &u->list.layers[k], cache, x, past));
    int y = u->list.output;
    if (y >= 0 && u->place[y] >= 0)
        device_copy(r->dev, x, value_at(r, u, y, x), n * s->C * trine_dtype_bytes(r->dev->compute));
    return TRINE_OK;
}
