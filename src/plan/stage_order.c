#include "plan/stage_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "pp/order.h"

/* ---- Chunks ----------------------------------------------------------------------------------- */

static void add_unit(order_chunk *c, unit_facts u) {
    c->blocks += u.class == CLASS_BLOCK;
    c->head |= u.makes_loss;
    c->embedding |= u.reads_tokens && !u.makes_loss;
}

static trine_status find_chunks(step_order *o) {
    const program_spec *s = &o->spec;
    int chunks = spec_chunks(s);
    o->chunks = calloc((size_t)chunks, sizeof *o->chunks);
    o->stages = calloc((size_t)s->stages, sizeof *o->stages);
    CHECK(o->chunks && o->stages, TRINE_ENOMEM, "no memory for the order of %d chunks", chunks);
    for (int c = 0; c < chunks; c++) {
        order_chunk *at = &o->chunks[c];
        stage_order *stage = &o->stages[spec_stage_of(s, c)];
        *at = (order_chunk){.stage = spec_stage_of(s, c),
                            .number = stage->chunks++,
                            .receives = spec_receives(s, c),
                            .sends = spec_sends(s, c)};
        for (int u = spec_chunk_first(s, c); u <= spec_chunk_last(s, c); u++)
            add_unit(at, spec_unit(s, u));
        if (at->blocks > stage->places) stage->places = at->blocks;
    }
    return TRINE_OK;
}

/* ---- The order of a stage ---------------------------------------------------------------------- */

/* What is counted on the way through the actions. */
typedef struct {
    const step_order *o;
    stage_order *out;
    int *done; /* (chunks)(ORDER_KINDS) */
    int *next; /* memory for the next mark */
    int live, waiting;
} walk;

/* Marks, at most, of a chunk: F and I of the first micro-batch, F, I and W of the last. */
enum { CHUNK_MARKS = 5 };

static trine_status setup(walk *w, int stage) {
    stage_order *out = &w->o->stages[stage];
    size_t chunks = (size_t)out->chunks, each = chunks * ORDER_KINDS;
    w->out = out;
    out->marks = calloc(CHUNK_MARKS * chunks, sizeof *out->marks);
    out->memory = calloc(chunks + each * (CHUNK_MARKS * chunks + 1), sizeof *out->memory);
    CHECK(out->marks && out->memory, TRINE_ENOMEM, "no memory for the order of a stage");
    out->own = out->memory;
    w->done = out->own + chunks;
    w->next = w->done + each;
    for (int c = 0; c < spec_chunks(&w->o->spec); c++)
        if (w->o->chunks[c].stage == stage) out->own[w->o->chunks[c].number] = c;
    return TRINE_OK;
}

static void mark(walk *w, order_kind kind, int chunk, bool enters, bool completes) {
    int each = w->out->chunks * ORDER_KINDS;
    memcpy(w->next, w->done, (size_t)each * sizeof *w->next);
    w->out->marks[w->out->count++] = (order_mark){kind, enters, completes, chunk, w->next};
    w->next += each;
}

static void raise_to(int *most, int value) {
    if (value > *most) *most = value;
}

/* F: the chunk's activations are held from here on. */
static void forward(walk *w, int chunk, bool first, bool last) {
    if (first) mark(w, ORDER_FORWARD, chunk, true, false);
    if (last) mark(w, ORDER_FORWARD, chunk, false, false);
    w->done[chunk * ORDER_KINDS + ORDER_FORWARD]++;
    raise_to(&w->out->slots, ++w->live);
}

/* B or I; `all`: no W comes after it. */
static void input(walk *w, int chunk, int blocks, bool all, bool first, bool last) {
    bool split = w->o->splits && blocks;
    if (first) mark(w, ORDER_INPUT, chunk, true, false);
    if (last) mark(w, ORDER_INPUT, chunk, false, all);
    w->done[chunk * ORDER_KINDS + ORDER_INPUT]++;
    if (split) raise_to(&w->out->keeps, w->waiting += blocks);
    if (!all) return;
    w->live--;
    if (!split) return;
    w->waiting -= blocks;
    w->done[chunk * ORDER_KINDS + ORDER_WEIGHT]++;
}

static void weight(walk *w, int chunk, int blocks, bool last) {
    if (last) mark(w, ORDER_WEIGHT, chunk, false, true);
    w->done[chunk * ORDER_KINDS + ORDER_WEIGHT]++;
    w->waiting -= blocks;
    w->live--;
}

static void step(walk *w, const pp_action *a) {
    const order_chunk *c = &w->o->chunks[a->chunk];
    const program_spec *s = &w->o->spec;
    bool first = a->micro == 0, last = a->micro == s->micros - 1;
    bool follows = a->kind == ACTION_BACKWARD || s->weight_follows || !c->blocks;
    if (a->kind == ACTION_FORWARD)
        forward(w, c->number, first, last);
    else if (a->kind != ACTION_WEIGHT)
        input(w, c->number, c->blocks, follows || !w->o->splits, first, last);
    else if (!s->weight_follows && c->blocks)
        weight(w, c->number, c->blocks, last);
}

static trine_status find_stage(const step_order *o, int stage) {
    walk w = {.o = o};
    pp_actions order = {0};
    TRY(setup(&w, stage));
    trine_status status = pp_stage_actions(&o->spec, stage, &order);
    for (int n = 0; n < order.count && status == TRINE_OK; n++) step(&w, &order.at[n]);
    actions_destroy(&order);
    return status;
}

trine_status step_order_create(step_order *out, const program_spec *spec) {
    *out = (step_order){.spec = *spec, .splits = spec->parallel.split_backward};
    TRY(find_chunks(out));
    for (int p = 0; p < spec->stages; p++) TRY(find_stage(out, p));
    return TRINE_OK;
}

void step_order_destroy(step_order *o) {
    for (int p = 0; o->stages && p < o->spec.stages; p++) {
        free(o->stages[p].marks);
        free(o->stages[p].memory);
    }
    free(o->chunks);
    free(o->stages);
    *o = (step_order){0};
}
