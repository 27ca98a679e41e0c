#include "plan/resolve.h"
#include "trace/trace.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "data/blend.h"
#include "dp/dp.h"

trine_status resolve_vocabulary(trine_config *config, int ranks) {
    blend *samples;
    TRY(blend_open(&samples, config->data.data_path));
    trine_status status = blend_vocab(samples, &config->model.vocab_size);
    blend_close(&samples);
    TRY(status);
    return trine_config_check(config, ranks);
}

static trine_reset resolve_reset(trine_reset asked, bool marked) {
    if (asked == TRINE_RESET_AUTO) return marked ? TRINE_RESET_YES : TRINE_RESET_AUTO;
    return asked == TRINE_RESET_NO && !marked ? TRINE_RESET_AUTO : asked;
}

void resolve_resets(trine_data *d, bool marked) {
    d->reset_attention_mask = resolve_reset(d->reset_attention_mask, marked);
    d->reset_position_ids = resolve_reset(d->reset_position_ids, marked);
}

static bool says_documents(const char *path) {
    blend *samples;
    if (!path) return false;
    if (blend_open(&samples, path) != TRINE_OK) return status_clear(), false;
    bool says = blend_has_documents(samples);
    blend_close(&samples);
    return says;
}

void resolve_resets_of_files(trine_config *c) {
    trine_data *d = &c->data;
    bool left =
        d->reset_attention_mask == TRINE_RESET_AUTO || d->reset_position_ids == TRINE_RESET_AUTO;
    if (left) resolve_resets(d, says_documents(d->data_path) || says_documents(d->val_data_path));
}

/* Groups of GPU ranks may use NCCL; which of them do is determined once the mesh exists. */
static bool may_use_nccl(trine_transport transport, device_kind kind) {
    bool automatic = transport == TRINE_TRANSPORT_AUTO && kind == DEVICE_CUDA;
    return transport == TRINE_TRANSPORT_NCCL || automatic;
}

/* A forward pass is a third of a training step. */
static trine_status split_by_cost(const trine_model *m, program_spec *spec) {
    double *cost = malloc((size_t)spec->units * sizeof *cost);
    CHECK(cost, TRINE_ENOMEM, "no memory to split %d units", spec->units);
    for (int u = 0; u < spec->units; u++)
        cost[u] = gpt_unit_cost(m, m->seq_length, u) * (spec_goes_back(spec, u) ? 1 : 1.0 / 3);
    trine_status status = pp_split_by_cost(spec, cost);
    free(cost);
    return status;
}

/* spec->lane of parallel.exact. Of ZeRO-2 and 3 a single micro-batch has a reduce buffer instead of a full one. */
static int lane_of(const trine_parallel *p, int micros) {
    int lanes = p->exact && p->exact_dp > p->layout.dp ? p->exact_dp / p->layout.dp : 1;
    int each = micros / lanes;
    bool small = each == 1 && p->zero >= TRINE_ZERO_2;
    return each == micros && !small ? 0 : each;
}

static spec_options spec_options_of(const trine_parallel *p) {
    return (spec_options){.layout = p->layout,
                          .zero = p->zero,
                          .schedule = p->schedule,
                          .gather_buffers = p->gather_buffers,
                          .reduce_buffers = p->reduce_buffers,
                          .split_backward = p->split_backward,
                          .exact = p->exact,
                          .audit = p->audit,
                          .exact_tp = p->exact_tp};
}

const zero_row *resolve_zero(const trine_config *c) {
    program_spec spec = {.parallel = spec_options_of(&c->parallel)};
    int ranks = axes_size(c->parallel.layout, axes_of_samples());
    spec.lane = lane_of(&c->parallel, c->global_batch_size / c->micro_batch_size / ranks);
    return spec_zero(&spec);
}

trine_status resolve_spec(const trine_config *c, program_spec *spec) {
    const trine_parallel *p = &c->parallel;
    device_kind kind;
    TRY(device_find(&kind, p->device));
    bool one_queue = p->one_queue || may_use_nccl(p->transport, kind);
    *spec = (program_spec){.stages = p->layout.pp,
                           .parallel = spec_options_of(p),
                           .queue = one_queue ? ONE_QUEUE : QUEUES_PER_EDGE,
                           .weight_follows =
                               p->recompute == TRINE_RECOMPUTE_FULL && !p->keep_recomputed};
    if (p->layout.dp == 1) spec->parallel.reduce_buffers = 1;
    gpt_spec(&c->model, spec);
    gpt_spec_tp(&c->model, p->layout.tp, p->sequence_parallel, spec);
    gpt_spec_starts(&c->model, c->data.reset_attention_mask == TRINE_RESET_YES,
                    c->data.reset_position_ids == TRINE_RESET_YES, spec);
    TRY(dp_micro_batches(c->global_batch_size, c->micro_batch_size,
                         axes_size(p->layout, axes_of_samples()), &spec->micros));
    spec->lane = lane_of(p, spec->micros);
    TRY(p->schedule_file ? pp_place_file(spec, p->virtual_stages, p->schedule_file)
                         : pp_place_chunks(spec, p->virtual_stages));
    trine_status status =
        p->pp_split ? pp_split_by_hand(spec, p->pp_split) : split_by_cost(&c->model, spec);
    if (status != TRINE_OK) pp_place_end(spec);
    return status;
}

trine_status resolve_device(const trine_config *c, device_config *out) {
    const trine_precision *p = &c->precision;
    trine_dtype compute = p->bf16 ? TRINE_BF16 : p->fp16 ? TRINE_F16 : TRINE_F32;
    int threads = c->parallel.threads ? c->parallel.threads : 1;
    *out = (device_config){.threads = threads, .compute = compute, .grads = p->grads};
    if (c->parallel.tf32) out->precision = DEVICE_TF32;
    out->exact_threads = c->parallel.exact_threads;
    out->level = c->parallel.cpu_level;
    return device_find(&out->kind, c->parallel.device);
}

/* Default number of logits computed at a time, over all tp ranks: products of some hundred rows run at
 * full rate, and each row chunk adds to the full token gradient once. A GPU needs more rows for that,
 * and has the memory. */
#define LOSS_LOGITS_HOST (1 << 25)
#define LOSS_LOGITS_GPU  (1 << 28)
#define LOSS_ROWS_ALIGN  64

/* A function of the model and the device alone, so that the loss is bitwise independent of the layout. */
bool resolve_ordered(const trine_config *c) {
    return c->parallel.ordered_reductions || c->parallel.audit || c->parallel.exact;
}

static size_t loss_rows(const trine_config *c, const device *dev) {
    if (c->parallel.loss_chunk) return (size_t)c->parallel.loss_chunk;
    size_t logits = dev->memory->host ? LOSS_LOGITS_HOST : LOSS_LOGITS_GPU;
    size_t rows = logits / (size_t)c->model.vocab_size / LOSS_ROWS_ALIGN * LOSS_ROWS_ALIGN;
    return rows ? rows : LOSS_ROWS_ALIGN;
}

gpt_shape resolve_shape(const trine_config *c, const device *dev, int tp_rank) {
    const trine_parallel *p = &c->parallel;
    int parts = p->exact ? p->exact_tp / p->layout.tp : 1;
    gpt_shape s = {.B = (size_t)c->micro_batch_size,
                   .row_multiple = device_row_multiple(dev),
                   .tp = p->layout.tp * parts,
                   .tp_rank = tp_rank * parts,
                   .parts = parts,
                   .exact = p->exact,
                   .compute = dev->compute,
                   .grads = dev->grads,
                   .sequence = p->sequence_parallel,
                   .recompute = p->recompute,
                   .loss_rows = loss_rows(c, dev),
                   .hidden_dropout = c->model.hidden_dropout,
                   .attention_dropout = c->model.attention_dropout,
                   .reset_attention = c->data.reset_attention_mask == TRINE_RESET_YES,
                   .reset_positions = c->data.reset_position_ids == TRINE_RESET_YES};
    gpt_set_sizes(&s, &c->model);
    return s;
}

/* The share of the rate's way down that is left after `ratio` of the decay. */
static double decay_left(const trine_optimizer *o, double ratio) {
    bool wsd = o->lr_decay_style == TRINE_DECAY_WSD,
         linear = o->lr_decay_style == TRINE_DECAY_LINEAR;
    trine_wsd_decay how = wsd      ? o->lr_wsd_decay_style
                          : linear ? TRINE_WSD_LINEAR
                                   : TRINE_WSD_COSINE;
    switch (how) {
    case TRINE_WSD_EXPONENTIAL: return 2 * pow(0.5, ratio) - 1;
    case TRINE_WSD_LINEAR: return 1 - ratio;
    case TRINE_WSD_MINUS_SQRT: return 1 - sqrt(ratio);
    default: return 0.5 * (cos(M_PI * ratio) + 1);
    }
}

double resolve_learning_rate(const trine_optimizer *o, int64_t step) {
    int64_t warmup = o->lr_warmup_iters, end = o->lr_decay_iters;
    if (step <= warmup) return o->lr * (double)step / (double)warmup;
    if (o->lr_decay_style == TRINE_DECAY_CONSTANT) return o->lr;
    if (step > end) return o->min_lr;
    int64_t begin = o->lr_decay_style == TRINE_DECAY_WSD ? end - o->lr_wsd_decay_iters : warmup;
    double ratio = step > begin ? (double)(step - begin) / (double)(end - begin) : 0;
    return o->min_lr + decay_left(o, ratio) * (o->lr - o->min_lr);
}

state_config resolve_state(const trine_config *config, const program *stages,
                           const gpt_shape *shape, const device *dev, trine_coord coord) {
    return (state_config){.spec = stages[0].spec,
                          .program = &stages[coord.pp],
                          .model = gpt_state_model(shape),
                          .dev = dev,
                          .layout = config->parallel.layout,
                          .coord = coord,
                          .tp_part = stages[0].spec->tp_part,
                          .part_of = run_part_of};
}

size_t resolve_trace_bytes_grown(const trine_config *config, const program *p,
                                 const program *longer, int64_t periods) {
    const trine_trace *t = &config->trace;
    int steps = t->file ? t->steps.last - t->steps.first + 1 : 0;
    trace_room room = trace_room_of(p, config->parallel.layout);
    trace_room more = trace_room_of(longer, config->parallel.layout);
    if (t->no_ring && !t->file) return 0;
    room.times += (more.times - room.times) * periods;
    room.calls += (more.calls - room.calls) * periods;
    return trace_bytes(trace_room_kept(room, t->file), steps);
}

size_t resolve_trace_bytes(const trine_config *config, const program *p) {
    return resolve_trace_bytes_grown(config, p, p, 0);
}

trine_status resolve_plan(const trine_config *config, const program *stages, const device *dev,
                          trine_coord coord, arena *a) {
    gpt_shape shape = resolve_shape(config, dev, coord.tp);
    rank_state h;
    state_config hc = resolve_state(config, stages, &shape, dev, coord);
    TRY(state_create(&h, &hc));
    arena_init(a, NULL, 0);
    if (!dev->memory->host) arena_device(a, (arena_region){0}, (arena_region){0});
    state_take(&h, a);
    state_destroy(&h);
    return TRINE_OK;
}
