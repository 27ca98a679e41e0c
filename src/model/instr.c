/* The instructions that run a unit on a rank's state: FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT. */
#include "base/status.h"
#include "core/check_state.h"
#include "model/gpt.h"
#include "model/instr_prove.h"
#include "state/part.h"

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
    return rope_write(dev, shape, ((const gpt_scratch *)scratch)->rope);
}

static void take_acts(const void *shape, arena *a, const device *dev, int unit, const void *scratch,
                      void *acts) {
    gpt_acts_take(a, shape, dev, unit, scratch, acts);
}

static void take_keep(const void *shape, arena *a, const device *dev, const program_spec *spec,
                      void *keep) {
    gpt_keep_take(a, shape, dev, !spec_small_at_rest(spec), keep);
}

state_model gpt_state_model(const gpt_shape *s) {
    return (state_model){.shape = s,
                         .stream = gpt_rows(s).count * s->C,
                         .batch = s->B,
                         .tokens = s->B * s->T,
                         .shares_outputs = gpt_tp_ranks(s) > 1,
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

/* ---- Checking --------------------------------------------------------------------------------- */

/* A computation reads its own unit's parameters. */
static trine_status check_params(stage_state *s, const instr *i) {
    if (spec_zero(s->p->spec)->gather != GATHER_BEFORE_USE) return check_no_gather(s, i);
    int unit = spec_gather_unit(s->p->spec, i->unit);
    REQUIRE(i->gather >= 0, "field b is missing: ZeRO-3 reads parameters from a gather buffer");
    buffer_state *b = &s->gathers[spec_class(s->p->spec, unit)][i->gather];
    REQUIRE(b->full, "gather buffer %d is empty; gather unit %d into it first", i->gather, unit);
    REQUIRE(b->unit == unit, "gather buffer %d holds unit %d, not unit %d", i->gather, b->unit,
            unit);
    b->read = true;
    return TRINE_OK;
}

/* No later instruction reads the slot of the input. */
static void release_input(stage_state *s, const instr *i, chunk_facts c) {
    if (i->input < 0) return;
    s->slots[i->input].sent = true;
    check_release_slot(s, &s->slots[i->input], check_chunk_number(s, c.index - 1));
}

/* Slot i->input must hold the output of the previous chunk, if that is on this stage. */
static trine_status check_input_slot(const stage_state *s, const instr *i, chunk_facts c) {
    int before = c.index - 1;
    bool reads = program_reads_slot(s->p, i);
    REQUIRE(reads || i->input < 0,
            "field i%d must be unset: unit %d does not read the output of another slot", i->input,
            i->unit);
    if (!reads) return TRINE_OK;
    REQUIRE(i->input >= 0, "field i is missing: unit %d reads the output of chunk %d from its slot",
            i->unit, before);
    const slot_state *slot = &s->slots[i->input];
    REQUIRE(slot->busy, "slot %d is free; it does not hold the input, micro-batch %d of chunk %d",
            i->input, i->micro, before);
    REQUIRE(slot->micro == i->micro && slot->chunk == before,
            "slot %d holds micro-batch %d of chunk %d, not the input, micro-batch %d of chunk %d",
            i->input, slot->micro, slot->chunk, i->micro, before);
    REQUIRE(slot->forwards == check_chunk_number(s, before).units,
            "chunk %d has not run forward on micro-batch %d", before, i->micro);
    return TRINE_OK;
}

/* The first unit of a chunk takes its input from a message, or from the slot of the previous chunk. */
static trine_status check_input(const stage_state *s, const instr *i, chunk_facts c) {
    bool receives = i->unit == c.first && spec_receives(s->p->spec, c.index);
    REQUIRE(!receives || s->slots[i->slot].received,
            "the input of chunk %d was not received for micro-batch %d", c.index, i->micro);
    return check_input_slot(s, i, c);
}

static trine_status check_forward(stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    chunk_facts c = check_chunk_of(s, i);
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    if (i->unit == c.first) TRY(check_claim_slot(s, i));
    TRY(check_slot(s, i));
    REQUIRE(unit->forwards == i->micro,
            "unit %d has run forward on %d of %d micro-batches; " ASCENDING, i->unit,
            unit->forwards, spec->micros);
    REQUIRE(c.first + slot->forwards == i->unit,
            "unit %d is next in slot %d; units run forward in ascending order",
            c.first + slot->forwards, i->slot);
    TRY(check_input(s, i, c));
    REQUIRE(!spec_takes_batch(spec, i->unit) || slot->loaded,
            "micro-batch %d was not loaded into slot %d", i->micro, i->slot);
    TRY(check_params(s, i));
    unit->forwards++;
    slot->forwards++;
    if (spec->forward_only || !spec_goes_back(spec, i->unit)) release_input(s, i, c);
    if (spec->forward_only || !c.backs) check_release_slot(s, slot, c);
    return TRINE_OK;
}

/* The destination of parameter gradients: a reduce buffer, or the gradients at rest. */
static trine_status check_grads(stage_state *s, const instr *i) {
    if (spec_zero(s->p->spec)->full_grads) return check_no_reduce(s, i);
    REQUIRE(i->reduce >= 0, "field r is missing: ZeRO-%d writes gradients into a reduce buffer",
            (int)s->p->spec->parallel.zero);
    buffer_state *b = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    REQUIRE(!b->full,
            "reduce buffer %d still holds unit %d of micro-batch %d, which must be reduced first",
            i->reduce, b->unit, b->micro);
    *b = (buffer_state){.unit = i->unit, .micro = i->micro, .full = true};
    return TRINE_OK;
}

/* All backward instructions: their inputs exist. */
static trine_status check_slot_back(const stage_state *s, const instr *i, chunk_facts c) {
    const slot_state *slot = &s->slots[i->slot];
    TRY(check_slot(s, i));
    REQUIRE(slot->forwards == c.units,
            "the forward pass of chunk %d is not complete: %d of %d units have run", c.index,
            slot->forwards, c.units);
    return check_input(s, i, c);
}

/* The stream changes from the gradient of the unit's output to that of its input. Micro-batches come in
 * ascending order, in which gradients are added: no bit depends on the schedule. */
static trine_status check_stream_back(stage_state *s, const instr *i, chunk_facts c) {
    const program_spec *spec = s->p->spec;
    slot_state *slot = &s->slots[i->slot];
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->backwards == i->micro,
            "unit %d has run backward on %d of %d micro-batches; " ASCENDING, i->unit,
            unit->backwards, spec->micros);
    REQUIRE(c.last - slot->backwards == i->unit,
            "unit %d is next in slot %d; units run backward in descending order",
            c.last - slot->backwards, i->slot);
    if (spec_unit(spec, i->unit).makes_loss) TRY(check_claim_stream(s, i, i->unit));
    stream_state *stream = &s->streams[i->stream];
    REQUIRE(stream->busy && stream->micro == i->micro && stream->unit == i->unit,
            "gradient stream %d does not hold the gradient of unit %d's output for micro-batch %d",
            i->stream, i->unit, i->micro);
    unit->backwards++;
    slot->backwards++;
    stream->unit--;
    bool last = spec_unit(spec, i->unit).reads_tokens || !spec_goes_back(spec, i->unit - 1);
    if (last) check_release_stream(s, stream);
    return TRINE_OK;
}

/* The gradients of the unit's parameters. */
static trine_status check_weights_back(stage_state *s, const instr *i, chunk_facts c) {
    unit_state *unit = &s->units[i->unit];
    REQUIRE(unit->weights == i->micro,
            "unit %d has parameter gradients of %d of %d micro-batches; " ASCENDING, i->unit,
            unit->weights, s->p->spec->micros);
    TRY(check_grads(s, i));
    unit->weights++;
    s->slots[i->slot].weights++;
    release_input(s, i, c);
    check_release_slot(s, &s->slots[i->slot], c);
    return TRINE_OK;
}

/* Whether the unit's backward pass is split as the program and the unit allow. */
static trine_status check_way(const stage_state *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    unit_backward way = spec_unit(spec, i->unit).backward;
    bool unsplit = i->kind == BACKWARD;
    REQUIRE(way != BACKWARD_NONE,
            "unit %d has no backward pass: nothing is trained in it and in the units before it",
            i->unit);
    REQUIRE(unsplit || spec->parallel.split_backward,
            "this program does not split backward passes; use BACKWARD");
    REQUIRE(unsplit || way != BACKWARD_UNSPLIT,
            "the backward pass of unit %d cannot be split; use BACKWARD", i->unit);
    REQUIRE(!unsplit || way != BACKWARD_WEIGHT_ONLY || !spec->parallel.split_backward,
            "unit %d has no input gradient; use BACKWARD_WEIGHT alone", i->unit);
    REQUIRE(i->kind != BACKWARD_INPUT || way == BACKWARD_SPLITS,
            "unit %d has no input gradient; use BACKWARD_WEIGHT alone", i->unit);
    return TRINE_OK;
}

static trine_status check_backward(stage_state *s, const instr *i) {
    chunk_facts c = check_chunk_of(s, i);
    TRY(check_way(s, i));
    TRY(check_slot_back(s, i, c));
    TRY(check_stream_back(s, i, c));
    TRY(check_params(s, i));
    return check_weights_back(s, i, c);
}

static trine_status check_backward_input(stage_state *s, const instr *i) {
    chunk_facts c = check_chunk_of(s, i);
    buffer_state *keep = &s->keeps[i->keep];
    TRY(check_way(s, i));
    REQUIRE(!keep->full, "keep buffer %d still holds unit %d of micro-batch %d", i->keep,
            keep->unit, keep->micro);
    TRY(check_slot_back(s, i, c));
    TRY(check_stream_back(s, i, c));
    *keep = (buffer_state){.unit = i->unit, .micro = i->micro, .full = true};
    return check_params(s, i);
}

static trine_status check_backward_weight(stage_state *s, const instr *i) {
    chunk_facts c = check_chunk_of(s, i);
    unit_backward backward = spec_unit(s->p->spec, i->unit).backward;
    TRY(check_way(s, i));
    TRY(check_slot_back(s, i, c));
    if (backward == BACKWARD_WEIGHT_ONLY) {
        REQUIRE(i->stream >= 0 && i->keep < 0,
                "unit %d has no BACKWARD_INPUT; field d must be set, field k unset", i->unit);
        TRY(check_stream_back(s, i, c));
        return check_weights_back(s, i, c);
    }
    REQUIRE(i->stream < 0 && i->keep >= 0,
            "unit %d reads what BACKWARD_INPUT kept; field k must be set, field d unset", i->unit);
    buffer_state *keep = &s->keeps[i->keep];
    REQUIRE(keep->full && keep->unit == i->unit && keep->micro == i->micro,
            "keep buffer %d does not hold unit %d of micro-batch %d", i->keep, i->unit, i->micro);
    keep->full = false;
    keep->read = true;
    return check_weights_back(s, i, c);
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
static void zero_padding(const step_run *r, const held_unit *u, int number, char *base) {
    size_t element = state_grad_bytes(r->state);
    const flat_range *range = state_range(u, number);
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor t = flat_tensor(range, flat_part_of(&u->layout, number), n);
        bool last = n == range->tensor_count - 1;
        size_t from = t.offset + tensor_real(&t);
        size_t to = last ? range->count : range->tensors[n + 1].offset;
        device_zero(r->dev, base + from * element, (to - from) * element);
    }
}

/* Binds the unit's gradients to reduce buffer i->reduce, which dp/reduce.c has assigned to the last instruction that
 * computes them (BACKWARD, BACKWARD_WEIGHT), or with -1 to the gradients at rest. The first micro-batch of a lane
 * sets gradients, the others add to them. */
static void bind_grads(const step_run *r, held_unit *u, const instr *i) {
    const rank_state *s = r->state;
    void *base[FLAT_RANGES];
    grad_mode mode = spec_begins_lane(r->program->spec, i->micro) ? GRAD_SET : GRAD_ADD;
    state_grad_bases(s, u, i->reduce, base);
    for (int n = 0; mode == GRAD_SET && n < flat_ranges(&u->layout); n++)
        if (state_trains(u, n))
            zero_padding(r, u, n, state_range_at(u, base, n, state_grad_bytes(s)));
    gpt_bind_grads(u->record, shape_of(s), u->unit, &u->layout, base, mode);
}

/* ---- Gradients that BACKWARD_INPUT computes ------------------------------------------------------ */

/* Gradients of layers whose backward pass is not split, such as norms. They are computed at rest or, if they do not
 * accumulate there, in the keep buffer: before BACKWARD_WEIGHT there is no reduce buffer, and at rest the lane before may
 * not be reduced. BACKWARD_WEIGHT moves them there. Those of the lane's earlier micro-batches, which are added to, are
 * in the keep buffer of the last or, where its BACKWARD_WEIGHT has run, at rest. */
typedef enum { START_SMALL, BIND_SMALL, MOVE_SMALL } small_use;

static void each_small(const step_run *r, gpt_unit *u, const gpt_keep *keep, small_use use) {
    const gpt_shape *s = shape_of(r->state);
    const gpt_scratch *scratch = r->state->scratch;
    const unit_list *l = &scratch->lists[gpt_unit_kind(s, u->index)];
    char *at = keep->small;
    for (int n = 0; n < l->count; n++) {
        const list_layer *layer = &l->layers[n];
        for (int i = 0; !list_splits(layer) && i < layer->kind->tensor_count; i++) {
            param *p = &u->params[layer->tensor + i];
            size_t count = list_small(&layer->kind->tensors[i], s),
                   element = state_grad_bytes(r->state);
            if (use == BIND_SMALL) p->dw = p->frozen ? NULL : at, p->dw_part = count;
            for (int part = 0; !p->frozen && part < gpt_parts(s); part++, at += count * element) {
                char *rest = (char *)p->dw + (size_t)part * p->dw_part * element;
                if (use == MOVE_SMALL) device_copy(r->dev, rest, at, count * element);
                if (use == START_SMALL)
                    device_copy(r->dev, at, u->small ? u->small + (at - (char *)keep->small) : rest,
                                count * element);
            }
        }
    }
}

static void bind_small(const step_run *r, const instr *i, held_unit *held, const gpt_keep *keep) {
    gpt_unit *u = held->record;
    bool adds = !spec_begins_lane(r->program->spec, i->micro);
    if (!keep->small || adds) bind_grads(r, held, i);
    if (!keep->small) return;
    if (adds) each_small(r, u, keep, START_SMALL);
    each_small(r, u, keep, BIND_SMALL);
    for (int n = 0; n < LIST_TENSORS; n++) u->params[n].mode = adds ? GRAD_ADD : GRAD_SET;
    u->small = keep->small;
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
    bool exact = r->program->spec->parallel.exact;
    c->held = u;
    c->unit = u->record;
    c->acts = state_acts(s, u, i->slot);
    c->input = input_of(s, u, i);
    c->output = slot->outputs[s->index[i->unit]];
    c->stream = i->stream < 0 ? NULL : s->streams[i->stream];
    c->keep = i->keep < 0 ? NULL : state_keep(s, i->keep);
    c->tp = (tp_region){.comm = step_group(r, TRINE_TP),
                        .dev = r->dev,
                        .full = scratch->full,
                        .sum = scratch->sum,
                        .tree = shape_of(s)->exact,
                        .parts = gpt_parts(shape_of(s)),
                        .addends = scratch->addends,
                        .wide = scratch->wide};
    c->run = (gpt_run){.dev = r->dev,
                       .tp = &c->tp,
                       .shape = shape_of(s),
                       .scratch = scratch,
                       .seed = r->seed,
                       .training = !r->program->spec->forward_only};
    c->batch = (gpt_batch){.tokens = slot->tokens,
                           .targets = slot->targets,
                           .starts = slot->starts,
                           .sample = step_sample(r, i->micro),
                           .scale = scale,
                           .grad_scale = scale * r->io->loss_scale,
                           .loss = s->loss + (exact ? i->micro : 0)};
}

static trine_status run_weight(step_run *r, const instr *i, gpt_call *c) {
    bind_grads(r, c->held, i);
    if (!c->keep) return gpt_backward(&c->run, c->unit, c->acts, c->stream, c->input, &c->batch);
    TRY(gpt_backward_weight(&c->run, c->unit, c->acts, c->keep, c->input, &c->batch));
    if (!c->keep->small) return TRINE_OK;
    each_small(r, c->unit, c->keep, MOVE_SMALL);
    if (c->unit->small == c->keep->small) c->unit->small = NULL;
    return TRINE_OK;
}

static trine_status run_input(step_run *r, const instr *i, gpt_call *c) {
    bind_params(r->state, c->held, i);
    bind_small(r, i, c->held, c->keep);
    return gpt_backward_input(&c->run, c->unit, c->acts, c->keep, c->stream, c->input, &c->batch);
}

/* Collective over: tp. */
static trine_status run_unit(step_run *r, const instr *i) {
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
    trine_dtype type = s->config.dev->compute, sum = gpt_parts(shape) > 1 ? TRINE_F32 : type;
    if (!gpt_splits_rows(shape))
        return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_REDUCE, count, sum);
    return (uint64_t)c.sums * state_bytes(s, TRINE_TP, TRINE_TALLY_REDUCE_SCATTER, count, sum) +
           (uint64_t)c.gathers * state_bytes(s, TRINE_TP, TRINE_TALLY_ALL_GATHER, count, type);
}

static uint64_t forward_bytes(const rank_state *s, const list_layer *at) {
    uint64_t more = at->kind->sends_more ? at->kind->sends_more(s) : 0;
    return crossing_bytes(s, at->kind->sends) + more;
}

/* A layer whose backward pass is not split runs completely in BACKWARD_INPUT. In a unit that is not split, such as an
 * embedding, all layers run in BACKWARD_WEIGHT. */
static uint64_t backward_bytes(const rank_state *s, const list_layer *at, const instr *i,
                               const bool *trained) {
    const layer_kind *k = at->kind;
    bool parts = i->keep >= 0 && list_splits(at), weight = trained[0];
    /* The bias of a layer that gathers dy, not x, is computed from that, too. */
    bool reads = weight || (!k->gathers_for_weight && k->tensor_count > 1 && trained[1]);
    if (i->kind == BACKWARD_WEIGHT && i->keep >= 0)
        return parts && reads ? crossing_bytes(s, k->sends_weight) : 0;
    tp_crossings sends = parts ? k->sends_input : k->sends_backward;
    if (k->gathers_for_weight && !weight && !parts) sends.gathers = 0;
    uint64_t bytes = crossing_bytes(s, sends);
    return at->rerun ? bytes + forward_bytes(s, at) : bytes;
}

/* Resolves the list if the state is only a plan, which has none yet. */
static const unit_list *list_of(const rank_state *s, int unit) {
    gpt_scratch *scratch = s->scratch;
    unit_kind kind = gpt_unit_kind(shape_of(s), unit);
    unit_list *l = &scratch->lists[kind];
    if (!l->count) list_resolve_valid(l, shape_of(s), kind);
    return l;
}

/* LOSS does not run twice: its backward pass contains its forward pass. */
static uint64_t unit_bytes(const rank_state *s, const program *p, const instr *i) {
    const unit_list *l = list_of(s, i->unit);
    bool trained[LIST_TENSORS];
    uint64_t sum = 0;
    gpt_trained_params(shape_of(s), i->unit, &state_unit(s, i->unit)->layout, trained);
    for (int n = 0; n < l->count; n++) {
        const list_layer *at = &l->layers[n];
        bool deferred = l->makes_loss && !p->spec->forward_only;
        if (i->kind == FORWARD) {
            sum += deferred ? 0 : forward_bytes(s, at);
        } else {
            sum += backward_bytes(s, at, i, &trained[at->tensor]);
            if (deferred && at->out >= 0) sum += forward_bytes(s, at);
            if (at->kind->gradient_in_place && at->kind->sends_more) sum += at->kind->sends_more(s);
        }
    }
    return sum;
}

/* pp/order.c inserts them. */
const instr_part part_FORWARD = {
    .check = check_forward, .prove = gpt_prove_forward, .run = run_unit, .bytes = unit_bytes};
const instr_part part_BACKWARD = {
    .check = check_backward, .prove = gpt_prove_backward, .run = run_unit, .bytes = unit_bytes};
const instr_part part_BACKWARD_INPUT = {.check = check_backward_input,
                                        .prove = gpt_prove_backward_input,
                                        .run = run_unit,
                                        .bytes = unit_bytes};
const instr_part part_BACKWARD_WEIGHT = {.check = check_backward_weight,
                                         .prove = gpt_prove_backward_weight,
                                         .run = run_unit,
                                         .bytes = unit_bytes};
