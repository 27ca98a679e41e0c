/* The instructions that run a unit on a rank's state: FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT. */
#include "base/status.h"
#include "dp/dp.h"
#include "model/gpt.h"

/* ---- Callbacks of the rank state -------------------------------------------------------------- */

static void layout_of(const void *shape, int unit, trine_layout layout, flat_unit *out) {
    gpt_unit_layout(shape, unit, layout.dp, out);
}

static void take_scratch(const void *shape, arena *a, const device *dev, const program_spec *spec,
                         int stage, void *scratch) {
    bool has[UNIT_KINDS] = {false};
    for (int n = 0; n < spec_stage_units(spec, stage); n++)
        has[gpt_unit_kind(shape, spec_stage_unit(spec, stage, n))] = true;
    gpt_scratch_take(a, shape, dev, has, scratch);
}

static trine_status write_scratch(const void *shape, device *dev, const void *scratch) {
    return gpt_scratch_write(dev, shape, scratch);
}

static void take_acts(const void *shape, arena *a, const device *dev, int unit, const void *scratch,
                      void *acts) {
    gpt_acts_take(a, shape, dev, unit, scratch, acts);
}

static void take_keep(const void *shape, arena *a, const device *dev, const program_spec *spec,
                      void *keep) {
    gpt_keep_take(a, shape, dev, !zero_stage(spec->zero)->full_grads, keep);
}

state_model gpt_state_model(const gpt_shape *s) {
    return (state_model){.shape = s,
                         .stream = gpt_rows(s).count * s->C,
                         .batch = s->B,
                         .tokens = s->B * s->T,
                         .shares_outputs = s->tp > 1,
                         .unit_record = sizeof(gpt_unit),
                         .acts_record = sizeof(gpt_acts),
                         .keep_record = sizeof(gpt_keep),
                         .scratch_record = sizeof(gpt_scratch),
                         .layout = layout_of,
                         .take_scratch = take_scratch,
                         .write_scratch = write_scratch,
                         .take_acts = take_acts,
                         .take_keep = take_keep};
}

/* ---- Binding ---------------------------------------------------------------------------------- */

static const gpt_shape *shape_of(const rank_state *s) {
    return s->config.model.shape;
}

/* Binds the unit's tensors to the gather buffer or to its parameters at rest. */
static void bind_params(const rank_state *s, held_unit *u, const instr *i) {
    void *base[FLAT_RANGES];
    state_param_bases(s, u, i->gather, base);
    gpt_bind_params(u->record, shape_of(s), u->unit, &u->layout, base);
}

/* Zeroes what backward does not write: padding rows, and the gaps between and after tensors. A buffer is shared by
 * units of different layouts, so an old NaN would otherwise remain there. */
static void zero_padding(const step_run *r, const flat_range *range, char *base) {
    size_t element = state_grad_bytes(r->state);
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        bool last = n == range->tensor_count - 1;
        size_t from = t->offset + tensor_real(t), to = last ? range->count : t[1].offset;
        device_zero(r->dev, base + from * element, (to - from) * element);
    }
}

/* Binds the unit's gradients to reduce buffer i->reduce, which dp/reduce.c has assigned to the last instruction that
 * computes them (BACKWARD, BACKWARD_WEIGHT), or with -1 to the gradients at rest. Gradients are set, not added to,
 * in a reduce buffer, and at rest in the first micro-batch. */
static void bind_grads(const step_run *r, held_unit *u, const instr *i) {
    const rank_state *s = r->state;
    void *base[FLAT_RANGES];
    grad_mode mode = i->reduce >= 0 || i->micro == 0 ? GRAD_SET : GRAD_ADD;
    state_grad_bases(s, u, i->reduce, base);
    for (int n = 0; mode == GRAD_SET && n < u->layout.range_count; n++)
        zero_padding(r, &u->layout.ranges[n], base[n]);
    gpt_bind_grads(u->record, shape_of(s), u->unit, &u->layout, base, mode);
}

/* ---- Gradients that BACKWARD_INPUT computes ------------------------------------------------------ */

/* Gradients of layers whose backward pass is not split, such as norms. They are computed at rest or, if they do not
 * accumulate there, in the keep buffer: there is no reduce buffer before BACKWARD_WEIGHT, which moves them into it.
 */
typedef enum { BIND_SMALL, MOVE_SMALL } small_use;

static void each_small(const step_run *r, gpt_unit *u, const gpt_keep *keep, small_use use) {
    const gpt_shape *s = shape_of(r->state);
    const gpt_scratch *scratch = r->state->scratch;
    const unit_list *l = &scratch->lists[gpt_unit_kind(s, u->index)];
    char *at = keep->small;
    for (int n = 0; n < l->count; n++) {
        const list_layer *layer = &l->layers[n];
        for (int i = 0; !list_splits(layer) && i < layer->kind->tensor_count; i++) {
            param *p = &u->params[layer->tensor + i];
            size_t bytes = list_small(&layer->kind->tensors[i], s) * state_grad_bytes(r->state);
            if (use == BIND_SMALL)
                p->dw = at, p->mode = GRAD_SET;
            else
                device_copy(r->dev, p->dw, at, bytes);
            at += bytes;
        }
    }
}

static void bind_small(const step_run *r, const instr *i, held_unit *u, const gpt_keep *keep) {
    if (keep->small)
        each_small(r, u->record, keep, BIND_SMALL);
    else
        bind_grads(r, u, i);
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* The arguments of one instruction. */
typedef struct {
    held_unit *held;
    gpt_unit *unit;
    const gpt_acts *acts;
    void *input, *output; /* NULL if the unit has none */
    void *stream;
    gpt_keep *keep;
    tp_region tp;
    gpt_run run;
    gpt_batch batch;
} gpt_call;

/* What was received, or the output of the previous unit: of this slot, or of the input slot. */
static void *input_of(const rank_state *s, const held_unit *u, const instr *i) {
    const program_spec *spec = s->config.spec;
    int chunk = spec_chunk_of(spec, u->unit), slot = i->input >= 0 ? i->input : i->slot;
    if (u->unit == 0) return NULL;
    if (u->unit == spec_chunk_first(spec, chunk) && spec_receives(spec, chunk))
        return s->slots[slot].input;
    return s->slots[slot].outputs[s->index[u->unit - 1]];
}

static void prepare(step_run *r, const instr *i, gpt_call *c) {
    const rank_state *s = r->state;
    const held_slot *slot = &s->slots[i->slot];
    held_unit *u = state_unit(s, i->unit);
    const gpt_scratch *scratch = s->scratch;
    double scale = r->io->scale;
    c->held = u;
    c->unit = u->record;
    c->acts = state_acts(s, u, i->slot);
    c->input = input_of(s, u, i);
    c->output = slot->outputs[s->index[i->unit]];
    c->stream = i->stream < 0 ? NULL : s->streams[i->stream];
    c->keep = i->keep < 0 ? NULL : state_keep(s, i->keep);
    c->tp = (tp_region){step_group(r, TRINE_TP), r->dev, scratch->full};
    c->run = (gpt_run){.dev = r->dev,
                       .tp = &c->tp,
                       .shape = shape_of(s),
                       .scratch = scratch,
                       .seed = r->seed,
                       .training = !r->program->spec->forward_only};
    c->batch = (gpt_batch){.tokens = slot->tokens,
                           .targets = slot->targets,
                           .sample = dp_step_sample(r, i->micro, 0),
                           .scale = scale,
                           .grad_scale = scale * r->io->loss_scale,
                           .loss = s->sums};
}

static trine_status run_weight(step_run *r, const instr *i, gpt_call *c) {
    bind_grads(r, c->held, i);
    if (!c->keep) return gpt_backward(&c->run, c->unit, c->acts, c->stream, c->input, &c->batch);
    TRY(gpt_backward_weight(&c->run, c->unit, c->acts, c->keep, c->input, &c->batch));
    if (c->keep->small) each_small(r, c->unit, c->keep, MOVE_SMALL);
    return TRINE_OK;
}

static trine_status run_input(step_run *r, const instr *i, gpt_call *c) {
    bind_params(r->state, c->held, i);
    bind_small(r, i, c->held, c->keep);
    return gpt_backward_input(&c->run, c->unit, c->acts, c->keep, c->stream, c->input, &c->batch);
}

trine_status gpt_run_instr(step_run *r, const instr *i) {
    gpt_call c;
    prepare(r, i, &c);
    if (i->kind == BACKWARD_WEIGHT) return run_weight(r, i, &c);
    if (i->kind == BACKWARD_INPUT) return run_input(r, i, &c);
    bind_params(r->state, c.held, i);
    if (i->kind == FORWARD) return gpt_forward(&c.run, c.unit, c.acts, c.output, c.input, &c.batch);
    bind_grads(r, c.held, i);
    return gpt_backward(&c.run, c.unit, c.acts, c.stream, c.input, &c.batch);
}

/* ---- Bytes ------------------------------------------------------------------------------------ */

static uint64_t crossing_bytes(const rank_state *s, tp_crossings c) {
    const gpt_shape *shape = shape_of(s);
    size_t count = shape->B * shape->T * shape->C;
    trine_dtype type = s->config.dev->compute;
    if (!gpt_splits_rows(shape))
        return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, count, type);
    return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_REDUCE_SCATTER, count, type) +
           (uint64_t)c.gathers * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_GATHER, count, type);
}

static uint64_t forward_bytes(const rank_state *s, const list_layer *at) {
    uint64_t more = at->kind->sends_more ? at->kind->sends_more(s) : 0;
    return crossing_bytes(s, at->kind->sends) + more;
}

/* A layer whose backward pass is not split runs completely in BACKWARD_INPUT. In a unit that is not split, such as an
 * embedding, all layers run in BACKWARD_WEIGHT. */
static uint64_t backward_bytes(const rank_state *s, const list_layer *at, const instr *i) {
    const layer_kind *k = at->kind;
    bool parts = i->keep >= 0 && list_splits(at);
    if (i->kind == BACKWARD_WEIGHT && i->keep >= 0)
        return parts ? crossing_bytes(s, k->sends_weight) : 0;
    uint64_t bytes = crossing_bytes(s, parts ? k->sends_input : k->sends_backward);
    return at->rerun ? bytes + forward_bytes(s, at) : bytes;
}

/* Resolves the list if the state is only a plan, which has none yet. */
static const unit_list *list_of(const rank_state *s, int unit) {
    gpt_scratch *scratch = s->scratch;
    unit_kind kind = gpt_unit_kind(shape_of(s), unit);
    unit_list *l = &scratch->lists[kind];
    trine_status status = l->count ? TRINE_OK : list_resolve(l, shape_of(s), kind);
    ASSERT(status == TRINE_OK);
    return l;
}

/* LOSS does not run twice: its backward pass contains its forward pass. */
uint64_t gpt_instr_bytes(const rank_state *s, const program *p, const instr *i) {
    const unit_list *l = list_of(s, i->unit);
    uint64_t bytes = 0;
    for (int n = 0; n < l->count; n++) {
        const list_layer *at = &l->layers[n];
        bool deferred = l->makes_loss && !p->spec->forward_only;
        if (i->kind == FORWARD) {
            bytes += deferred ? 0 : forward_bytes(s, at);
        } else {
            bytes += backward_bytes(s, at, i);
            if (deferred && at->out >= 0) bytes += forward_bytes(s, at);
            if (at->kind->gradient_in_place && at->kind->sends_more)
                bytes += at->kind->sends_more(s);
        }
    }
    return bytes;
}
