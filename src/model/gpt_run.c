/* The instructions that run a unit, on a rank's state: FORWARD, BACKWARD, and its two parts. */
#include "base/status.h"
#include "dp/dp.h"
#include "model/block.h"

/* ---- What the state asks of a model ----------------------------------------------------------- */

static void layout_of(const void *shape, int unit, trine_layout layout, flat_unit *out) {
    gpt_unit_layout(shape, unit, axes_size(layout, AXIS(TRINE_AXIS_DP)), out);
}

static void take_scratch(const void *shape, arena *a, const device *dev, const program_spec *spec,
                         int stage, void *scratch) {
    int count = spec_stage_units(spec, stage);
    gpt_scratch_take(a, shape, dev, spec_stage_unit(spec, stage, 0),
                     spec_stage_unit(spec, stage, count - 1), scratch);
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
                         .acts_record = sizeof(gpt_block_acts),
                         .keep_record = sizeof(gpt_keep),
                         .scratch_record = sizeof(gpt_scratch),
                         .layout = layout_of,
                         .take_scratch = take_scratch,
                         .take_acts = take_acts,
                         .take_keep = take_keep};
}

/* ---- Binding ---------------------------------------------------------------------------------- */

static const gpt_shape *shape_of(const rank_state *s) {
    return s->config.model.shape;
}

/* Points the unit's tensors at the gather buffer or at its parameters at rest. */
static void bind_params(const rank_state *s, held_unit *u, const instr *i) {
    void *base[FLAT_RANGES];
    state_param_bases(s, u, i->gather, base);
    gpt_bind_params(u->record, shape_of(s), u->unit, &u->layout, base);
}

/* What backward does not write: padding rows, and what lies between tensors and behind them. Units
 * of other layouts share a buffer, and a NaN would stay. */
static void zero_padding(const step_run *r, const flat_range *range, char *base) {
    size_t element = state_grad_bytes(r->state);
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        bool last = n == range->tensor_count - 1;
        size_t from = t->offset + tensor_real(t), to = last ? range->count : t[1].offset;
        device_zero(r->dev, base + from * element, (to - from) * element);
    }
}

/* The first gradients are set: of the first micro-batch at rest, of every one in a buffer. */
static void bind_grads(const step_run *r, held_unit *u, const instr *i) {
    const rank_state *s = r->state;
    void *base[FLAT_RANGES];
    grad_mode mode = i->reduce >= 0 || i->micro == 0 ? GRAD_SET : GRAD_ADD;
    state_grad_bases(s, u, i->reduce, base);
    for (int n = 0; mode == GRAD_SET && n < u->layout.range_count; n++)
        zero_padding(r, &u->layout.ranges[n], base[n]);
    gpt_bind_grads(u->record, shape_of(s), u->unit, &u->layout, base, mode);
}

/* ---- Norms of a block whose backward pass is split -------------------------------------------- */

#define NORM_PARAMS 4

static void norm_params(gpt_block *b, param *out[NORM_PARAMS]) {
    out[0] = &b->ln1.gain, out[1] = &b->ln1.bias;
    out[2] = &b->ln2.gain, out[3] = &b->ln2.bias;
}

static char *kept_norm(const step_run *r, const gpt_keep *keep, int n) {
    return (char *)keep->norms + (size_t)n * shape_of(r->state)->C * state_grad_bytes(r->state);
}

/* Where BACKWARD_INPUT makes the gradients of norms: at rest or, where they do not accumulate there, in the keep
 * buffer; they have no reduce buffer before BACKWARD_WEIGHT. */
static void bind_norms(const step_run *r, const instr *i, held_unit *u, const gpt_keep *keep) {
    param *params[NORM_PARAMS];
    gpt_unit *unit = u->record;
    if (!keep->norms) {
        bind_grads(r, u, i);
        return;
    }
    norm_params(&unit->block, params);
    for (int n = 0; n < NORM_PARAMS; n++)
        params[n]->dw = kept_norm(r, keep, n), params[n]->mode = GRAD_SET;
}

static void move_norms(const step_run *r, gpt_block *b, const gpt_keep *keep) {
    param *params[NORM_PARAMS];
    size_t bytes = shape_of(r->state)->C * state_grad_bytes(r->state);
    norm_params(b, params);
    for (int n = 0; keep->norms && n < NORM_PARAMS; n++)
        device_copy(r->dev, params[n]->dw, kept_norm(r, keep, n), bytes);
}

/* ---- Running ---------------------------------------------------------------------------------- */

/* What a unit runs on, and with. */
typedef struct {
    held_unit *held;
    gpt_unit *unit;
    const gpt_block_acts *acts;
    void *input, *output; /* NULL where there is none */
    void *stream;
    gpt_keep *keep;
    tp_region tp;
    gpt_run run;
    gpt_batch batch;
} gpt_call;

static void *input_of(const rank_state *s, const held_unit *u, const held_slot *slot) {
    int chunk = spec_chunk_of(s->config.spec, u->unit);
    if (u->unit == spec_chunk_first(s->config.spec, chunk)) return slot->input;
    return slot->outputs[s->index[u->unit - 1]];
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
    c->input = input_of(s, u, slot);
    c->output = slot->outputs[s->index[i->unit]];
    c->stream = i->stream < 0 ? NULL : s->streams[i->stream];
    c->keep = i->keep < 0 ? NULL : state_keep(s, i->keep);
    c->tp = (tp_region){step_group(r, TRINE_TP), r->dev, scratch->whole};
    c->run = (gpt_run){.dev = r->dev,
                       .tp = &c->tp,
                       .shape = shape_of(s),
                       .scratch = *scratch,
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
    TRY(block_backward_weight(&c->run, c->unit, c->acts, c->keep));
    move_norms(r, &c->unit->block, c->keep);
    return TRINE_OK;
}

static trine_status run_input(step_run *r, const instr *i, gpt_call *c) {
    bind_params(r->state, c->held, i);
    bind_norms(r, i, c->held, c->keep);
    return block_backward_input(&c->run, c->unit, c->acts, c->keep, c->stream, c->input, &c->batch);
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

/* Activations (N, C) that enter a tp region, or leave it, in one direction: summed, where rows are
 * split gathered or summed. */
typedef struct {
    int sums, gathers;
} crossings;

static uint64_t crossing_bytes(const rank_state *s, crossings c) {
    const gpt_shape *shape = shape_of(s);
    size_t count = shape->B * shape->T * shape->C;
    trine_dtype type = s->config.dev->compute;
    if (!s->config.spec->by_rows)
        return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, count, type);
    return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_REDUCE_SCATTER, count, type) +
           (uint64_t)c.gathers * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_GATHER, count, type);
}

/* A column-parallel linear gathers its input once more for the weight's gradient; what is split gathers the
 * gradient of a row-parallel one in both parts. Recomputation in full runs all of the forward pass again
 * but the last product. */
static crossings block_crossings(const gpt_shape *s, instr_kind kind) {
    if (kind == FORWARD) return (crossings){2, 2};
    if (kind == BACKWARD_WEIGHT) return (crossings){0, 4};
    crossings c = {2, kind == BACKWARD_INPUT ? 2 : 4};
    if (s->recompute == TRINE_RECOMPUTE_FULL) c.sums += 1, c.gathers += 2;
    return c;
}

/* The maxima and sums of each chunk of logits, which are fp32. */
static uint64_t xent_bytes(const rank_state *s) {
    size_t N = s->config.model.tokens, K = gpt_loss_rows(shape_of(s));
    uint64_t bytes = 0;
    for (size_t at = 0; at < N; at += K) {
        size_t n = N - at < K ? N - at : K;
        bytes += state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, n, TRINE_F32) +
                 state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, 2 * n, TRINE_F32);
    }
    return bytes;
}

/* The head computes in its backward pass, if there is one. */
static uint64_t head_bytes(const rank_state *s, const program *p, bool forward) {
    if (p->spec->forward_only) return crossing_bytes(s, (crossings){0, 1}) + xent_bytes(s);
    return forward ? 0 : crossing_bytes(s, (crossings){1, 1}) + xent_bytes(s);
}

uint64_t gpt_instr_bytes(const rank_state *s, const program *p, const instr *i) {
    const gpt_shape *shape = shape_of(s);
    bool forward = i->kind == FORWARD;
    switch (gpt_unit_kind(shape, i->unit)) {
    case UNIT_EMBEDDING: return crossing_bytes(s, forward ? (crossings){1, 0} : (crossings){0, 1});
    case UNIT_BLOCK: return crossing_bytes(s, block_crossings(shape, (instr_kind)i->kind));
    case UNIT_HEAD: return head_bytes(s, p, forward);
    }
    return 0;
}
