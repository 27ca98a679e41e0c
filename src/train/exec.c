#include "train/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tp/reduce.h"
#include "train/replicas.h"

trine_status exec_create(exec *e, holding *h, const trine_mesh *mesh, device *dev) {
    *e = (exec){.h = h, .mesh = mesh, .dev = dev};
    e->tp = (tp_region){.comm = trine_mesh_group(mesh, TRINE_TP), .dev = dev};
    for (int r = 0; r < RESOURCES; r++) {
        int count = program_resource_count(h->config.program, (resource)r);
        e->waits[r] = calloc(count > 0 ? (size_t)count : 1, sizeof *e->waits[r]);
        if (e->waits[r]) continue;
        exec_destroy(e);
        return RAISE(TRINE_ENOMEM, "no memory for the scoreboard");
    }
    return TRINE_OK;
}

void exec_destroy(exec *e) {
    for (int r = 0; r < RESOURCES; r++) free(e->waits[r]);
    *e = (exec){0};
}

void exec_measure(exec *e, device *dev, profile *p) {
    e->dev = e->tp.dev = dev;
    e->profile = p;
}

/* ---- The scoreboard ---- */

static trine_status finish(exec_pending *w) {
    for (int n = 0; n < w->count; n++) TRY(comm_wait(&w->requests[n]));
    w->count = 0;
    return TRINE_OK;
}

/* The next request that goes under way on a buffer. */
static comm_request *start(exec *e, resource what, int index, bool write) {
    exec_pending *w = &e->waits[what][index];
    ASSERT(w->count < EXEC_REQUESTS && (w->count == 0 || w->write == write));
    w->write = write;
    comm_request *r = &w->requests[w->count++];
    *r = (comm_request){0};
    return r;
}

static trine_status wait_for_operands(exec *e, const instr *i) {
    operand operands[PROGRAM_OPERANDS];
    int count = program_operands(e->program, i, operands);
    for (int o = 0; o < count; o++) {
        exec_pending *w = &e->waits[operands[o].what][operands[o].index];
        if (w->count && (w->write || operands[o].write)) TRY(finish(w));
    }
    return TRINE_OK;
}

/* All messages of a group are started before anybody waits, so the first waits for all. */
static trine_status wait_for_group(exec *e) {
    const program *p = e->program;
    if (program_group_first(p, e->at) != e->at) return TRINE_OK;
    for (int n = e->at; n <= program_group_last(p, e->at); n++)
        TRY(wait_for_operands(e, &p->code[n]));
    return TRINE_OK;
}

/* Finishes what is under way: everything, or (under --serial, after each instruction) all but
 * sends, for which the peer may not have come yet. */
static trine_status drain(exec *e, bool sends) {
    for (int r = 0; r < RESOURCES; r++)
        for (int n = 0; n < program_resource_count(e->program, (resource)r); n++)
            if (e->waits[r][n].count && (sends || e->waits[r][n].write))
                TRY(finish(&e->waits[r][n]));
    return TRINE_OK;
}

/* ---- Messages ---- */

static trine_comm *group(const exec *e, trine_group g) {
    return trine_mesh_group(e->mesh, g);
}

static size_t stream_count(const exec *e) {
    const gpt_shape *s = e->h->config.shape;
    return gpt_rows(s).count * s->C;
}

/* Receives into, or sends from, a buffer of (N, C); the peer is the other rank of the edge. */
static trine_status run_recv(exec *e, trine_group edge, void *buf, resource what, int index) {
    trine_comm *c = group(e, edge);
    return comm_recv_start(c, buf, stream_count(e), e->dev->compute, 1 - trine_comm_rank(c),
                           start(e, what, index, true));
}

static trine_status run_send(exec *e, trine_group edge, const void *buf, resource what, int index) {
    trine_comm *c = group(e, edge);
    return comm_send_start(c, buf, stream_count(e), e->dev->compute, 1 - trine_comm_rank(c),
                           start(e, what, index, false));
}

/* ---- Computation ---- */

/* The number of a sample of a micro-batch in the whole run. */
static uint64_t sample_of(const exec *e, int micro, size_t b) {
    const holding_config *c = &e->h->config;
    return e->step->first_sample +
           dp_sample((int)c->shape->B, c->layout.dp, c->coord.dp, micro, (int)b);
}

/* Sends what LOAD has filled to its slot, if that is not where it was filled. */
static trine_status write_batch(exec *e, const held_slot *slot, const held_batch *batch) {
    const gpt_shape *s = e->h->config.shape;
    size_t bytes = s->B * s->T * sizeof *slot->tokens;
    if (batch->tokens == slot->tokens) return TRINE_OK;
    TRY(device_write_start(e->dev, slot->tokens, batch->tokens, bytes));
    return device_write_start(e->dev, slot->targets, batch->targets, bytes);
}

static trine_status run_load(exec *e, const instr *i) {
    const gpt_shape *s = e->h->config.shape;
    const held_slot *slot = &e->h->slots[i->slot];
    held_batch batch = {slot->tokens, slot->targets};
    if (e->h->batches) batch = e->h->batches[i->micro];
    for (size_t b = 0; b < s->B; b++)
        TRY(status_user(sampler_load(e->step->samples, sample_of(e, i->micro, b),
                                     batch.tokens + b * s->T, batch.targets + b * s->T)));
    return write_batch(e, slot, &batch);
}

/* Points the unit's tensors at the gather buffer or at its parameters at rest. */
static void bind_params(exec *e, held_unit *u, const instr *i) {
    void *base[FLAT_RANGES];
    unit_class c = spec_class(e->program->spec, i->unit);
    for (int r = 0; r < u->layout.range_count; r++)
        base[r] = i->gather < 0 ? u->params[r]
                                : (char *)e->h->gathers[c][i->gather] +
                                      u->gather_offset[r] * holding_param_bytes(e->h);
    gpt_bind_params(&u->bound, e->h->config.shape, u->unit, &u->layout, base);
}

/* Where a unit's ranges lie in reduce buffer i->reduce, or at rest without one. */
static void grad_bases(const exec *e, const held_unit *u, const instr *i, void **base) {
    unit_class c = spec_class(e->program->spec, i->unit);
    size_t offset = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        base[r] = i->reduce < 0 ? u->grads[r] : (char *)e->h->reduces[c][i->reduce] + offset;
        offset += u->layout.ranges[r].count * holding_grad_bytes(e->h);
    }
}

/* What backward does not write: padding rows, and what lies between tensors and behind them. Units
 * of other layouts share a buffer, and a NaN would stay. */
static void zero_padding(exec *e, const flat_range *range, char *base) {
    size_t element = holding_grad_bytes(e->h);
    for (int n = 0; n < range->tensor_count; n++) {
        const tensor *t = &range->tensors[n];
        bool last = n == range->tensor_count - 1;
        size_t from = t->offset + tensor_real(t), to = last ? range->count : t[1].offset;
        device_zero(e->dev, base + from * element, (to - from) * element);
    }
}

/* The first gradients are set: of the first micro-batch at rest, of every one in a buffer. */
static void bind_grads(exec *e, held_unit *u, const instr *i) {
    void *base[FLAT_RANGES];
    grad_mode mode = i->reduce >= 0 || i->micro == 0 ? GRAD_SET : GRAD_ADD;
    grad_bases(e, u, i, base);
    for (int r = 0; mode == GRAD_SET && r < u->layout.range_count; r++)
        zero_padding(e, &u->layout.ranges[r], base[r]);
    gpt_bind_grads(&u->bound, e->h->config.shape, u->unit, &u->layout, base, mode);
}

static void *input_of(const exec *e, const held_unit *u, int slot) {
    int n = u->unit - e->h->first;
    const held_slot *s = &e->h->slots[slot];
    return n == 0 ? s->input : s->outputs[n - 1];
}

static gpt_batch batch_of(const exec *e, const instr *i) {
    const held_slot *s = &e->h->slots[i->slot];
    return (gpt_batch){.tokens = s->tokens,
                       .targets = s->targets,
                       .sample = sample_of(e, i->micro, 0),
                       .scale = e->step->scale,
                       .grad_scale = e->step->scale * e->step->loss_scale,
                       .loss = e->h->sums};
}

static trine_status run_forward(exec *e, const instr *i) {
    held_unit *u = holding_unit(e->h, i->unit);
    gpt_batch batch = batch_of(e, i);
    bind_params(e, u, i);
    return gpt_forward(&e->run, &u->bound, &u->acts[i->slot],
                       e->h->slots[i->slot].outputs[i->unit - e->h->first], input_of(e, u, i->slot),
                       &batch);
}

static trine_status run_backward(exec *e, const instr *i) {
    held_unit *u = holding_unit(e->h, i->unit);
    gpt_batch batch = batch_of(e, i);
    bind_params(e, u, i);
    bind_grads(e, u, i);
    return gpt_backward(&e->run, &u->bound, &u->acts[i->slot], e->h->streams[i->stream],
                        input_of(e, u, i->slot), &batch);
}

/* ---- Sharded state ---- */

/* Every range that comes with the unit: its own, and those of units gathered with it. */
static trine_status gather_ranges(exec *e, const instr *i, held_unit *u) {
    trine_comm *dp = group(e, TRINE_DP);
    trine_dtype type = e->dev->compute;
    unit_class c = spec_class(e->program->spec, i->unit);
    for (int r = 0; r < u->layout.range_count; r++) {
        size_t count = u->layout.ranges[r].count;
        if (u->borrowed[r]) continue;
        if (i->gather < 0) {
            void *own = holding_param(e->h, u, r, holding_slice(e->h, u, r));
            TRY(flat_redistribute(dp, SHARD, REPLICATE, u->params[r], own, count, type));
            continue;
        }
        char *to =
            (char *)e->h->gathers[c][i->gather] + u->gather_offset[r] * trine_dtype_bytes(type);
        resource what = c == CLASS_BLOCK ? RES_GATHER_BLOCK : RES_GATHER_END;
        TRY(flat_gather_start(dp, to, u->params[r], count, type, start(e, what, i->gather, true)));
    }
    return TRINE_OK;
}

static trine_status run_gather(exec *e, const instr *i) {
    for (int n = 0; n < e->h->count; n++) {
        held_unit *u = &e->h->units[n];
        if (spec_gather_unit(e->program->spec, u->unit) == i->unit) TRY(gather_ranges(e, i, u));
    }
    return TRINE_OK;
}

/* PARTIAL -> the placement at rest. Full gradients are reduced where they lie; those in a buffer
 * end in their own slice of it, which is then added to the shard. */
static trine_status reduce_range(exec *e, held_unit *u, int r, void *base, bool first) {
    trine_comm *dp = group(e, TRINE_DP);
    trine_dtype type = e->dev->grads;
    const zero_row *zero = zero_stage(e->program->spec->zero);
    size_t count = u->layout.ranges[r].count;
    if (zero->grads == REPLICATE)
        return flat_redistribute(dp, PARTIAL, REPLICATE, base, base, count, type);
    flat_part slice = holding_slice(e->h, u, r);
    void *own = (char *)base + slice.begin * holding_grad_bytes(e->h);
    TRY(flat_redistribute(dp, PARTIAL, SHARD, own, base, count, type));
    if (zero->full_grads) return TRINE_OK;
    void *shard = holding_grad(e->h, u, r, slice);
    if (!first) return e->dev->ops->add(e->dev, shard, own, slice.count);
    device_copy(e->dev, shard, own, slice.count * holding_grad_bytes(e->h));
    return TRINE_OK;
}

/* A run of n gradients at g, through memory that peers may read. */
static trine_status sum_over_tp(exec *e, char *g, size_t n) {
    size_t element = holding_grad_bytes(e->h), piece = e->h->rows_count;
    for (size_t at = 0; at < n; at += piece) {
        size_t count = n - at < piece ? n - at : piece;
        device_copy(e->dev, e->h->rows, g + at * element, count * element);
        TRY(trine_all_reduce(e->tp.comm, e->h->rows, e->h->rows, count, e->dev->grads, TRINE_SUM));
        device_copy(e->dev, g + at * element, e->h->rows, count * element);
    }
    return TRINE_OK;
}

/* On the part that is whole over dp. */
static trine_status run_reduce_tp(exec *e, const instr *i) {
    held_unit *u = holding_unit(e->h, i->unit);
    size_t from, to;
    for (int r = 0; r < u->layout.range_count; r++) {
        flat_part own = holding_owned(e->h, u, r);
        int next = 0;
        while (tp_run_next(&u->layout.ranges[r], own.begin, own.count, &next, &from, &to))
            TRY(sum_over_tp(e, holding_grad(e->h, u, r, (flat_part){from, to - from}), to - from));
    }
    return TRINE_OK;
}

static trine_status run_reduce(exec *e, const instr *i) {
    held_unit *u = holding_unit(e->h, i->unit);
    void *base[FLAT_RANGES];
    grad_bases(e, u, i, base);
    for (int r = 0; r < u->layout.range_count; r++)
        TRY(reduce_range(e, u, r, base[r], i->micro == 0));
    return TRINE_OK;
}

/* ---- The end of a step ---- */

/* Both stages add the other's gradient to their own; a + b = b + a, so both get the same bits. */
static trine_status tie_remote(exec *e, char *own, size_t count) {
    trine_comm *tie = group(e, TRINE_TIE);
    trine_dtype type = e->dev->grads;
    int peer = 1 - trine_comm_rank(tie);
    for (size_t at = 0; at < count; at += e->h->tie_count) {
        size_t n = count - at < e->h->tie_count ? count - at : e->h->tie_count;
        char *chunk = own + at * holding_grad_bytes(e->h);
        comm_request send = {0}, recv = {0};
        TRY(comm_group_begin(e->mesh));
        TRY(comm_recv_start(tie, e->h->tie, n, type, peer, &recv));
        TRY(comm_send_start(tie, chunk, n, type, peer, &send));
        TRY(comm_group_end(e->mesh));
        TRY(comm_wait(&recv));
        TRY(comm_wait(&send));
        TRY(e->dev->ops->add(e->dev, chunk, e->h->tie, n));
    }
    return TRINE_OK;
}

static trine_status run_tie(exec *e) {
    const program_spec *spec = e->program->spec;
    int stage = e->h->config.coord.pp;
    held_unit *u = holding_unit(e->h, stage == 0 ? 0 : spec->units - 1);
    flat_part owned = holding_owned(e->h, u, 0);
    void *own = holding_grad(e->h, u, 0, owned);
    if (!spec_tied_locally(spec)) return tie_remote(e, own, owned.count);
    const held_unit *head = holding_unit(e->h, spec->units - 1);
    return e->dev->ops->add(e->dev, own, holding_grad(e->h, head, 0, owned), owned.count);
}

/* A tied matrix counts where the embedding is. */
static bool counts_in_norm(const exec *e, const held_unit *u, int range) {
    const program_spec *spec = e->program->spec;
    return !(spec->tied && u->unit == spec->units - 1 && range == 0);
}

/* How many sums a range has; 0: it does not count. */
static int range_sums(const exec *e, const held_unit *u, int r) {
    flat_part slice = holding_slice(e->h, u, r);
    if (!counts_in_norm(e, u, r)) return 0;
    return dp_norm_count(&u->layout.ranges[r], slice.begin, slice.count, e->h->config.coord.tp);
}

/* The device sums the squares of a unit's tensors into sums from *at on. */
static trine_status start_squares(exec *e, const held_unit *u, int *at) {
    for (int r = 0; r < u->layout.range_count; r++) {
        int n = range_sums(e, u, r);
        if (!n) continue;
        flat_part slice = holding_slice(e->h, u, r);
        const void *g = holding_grad(e->h, u, r, slice);
        TRY(dp_norm_local(e->dev, &u->layout.ranges[r], slice.begin, slice.count, g,
                          e->h->config.coord.tp, e->h->sums + *at));
        *at += n;
    }
    return TRINE_OK;
}

/* The same way through the sums that were read back. */
static double add_squares(const exec *e, const held_unit *u, int *at) {
    double sum = 0;
    for (int r = 0; r < u->layout.range_count; r++) {
        int n = range_sums(e, u, r);
        sum += dp_norm_add(e->h->sums_read + *at, n);
        *at += n;
    }
    return sum;
}

/* squares (units) and *loss: this rank's, with one wait for the device. */
static trine_status read_sums(exec *e, double *squares, double *loss) {
    const holding *h = e->h;
    int units = e->program->spec->forward_only ? 0 : h->count;
    int count = 1, at = 1; /* behind the loss */
    for (int n = 0; n < units; n++) TRY(start_squares(e, &h->units[n], &count));
    TRY(device_read(e->dev, h->sums_read, h->sums, (size_t)count * sizeof(double)));
    memset(squares, 0, (size_t)e->program->spec->units * sizeof(double));
    for (int n = 0; n < units; n++) squares[h->units[n].unit] = add_squares(e, &h->units[n], &at);
    *loss = h->sums_read[0];
    device_zero(e->dev, h->sums, sizeof *h->sums); /* the next run's */
    return TRINE_OK;
}

static trine_status run_norm(exec *e) {
    const program_spec *spec = e->program->spec;
    exec_step *step = e->step;
    dp_sums own = {.squares = e->h->squares};
    TRY(read_sums(e, own.squares, &own.loss));
    double squares;
    TRY(dp_norm_global(e->mesh, &own, spec->units, e->h->norm_scratch, &squares, &step->loss));
    step->norm = sqrt(squares) / step->loss_scale;
    step->skipped = !isfinite(step->norm);
    bool clip = step->clip > 0 && step->norm > step->clip;
    double factor = clip ? step->clip / step->norm : 1.0;
    step->adamw.scale = (float)(factor / step->loss_scale);
    return TRINE_OK;
}

static trine_status run_update(exec *e, const instr *i) {
    held_unit *u = holding_unit(e->h, i->unit);
    if (e->step->skipped) return TRINE_OK;
    for (int r = 0; r < u->layout.range_count; r++) {
        if (u->borrowed[r]) continue;
        flat_part own = holding_owned(e->h, u, r);
        zero_state state = {.w = holding_master(e->h, u, r, own),
                            .m = u->moment1[r],
                            .v = u->moment2[r],
                            .g = holding_grad(e->h, u, r, own)};
        if (holding_has_master(e->h)) state.copy = holding_param(e->h, u, r, own);
        TRY(zero_adamw(e->dev, &u->layout.ranges[r], own.begin, own.count, &state, &e->step->adamw,
                       e->step->decay_all));
    }
    return TRINE_OK;
}

/* ---- The interpreter ---- */

static trine_status execute(exec *e, const instr *i) {
    holding *h = e->h;
    switch ((instr_kind)i->kind) {
    case LOAD: return run_load(e, i);
    case FORWARD: return run_forward(e, i);
    case BACKWARD: return run_backward(e, i);
    case RECV_ACT: return run_recv(e, TRINE_ACT_IN, h->slots[i->slot].input, RES_INPUT, i->slot);
    case SEND_ACT:
        return run_send(e, TRINE_ACT_OUT, h->slots[i->slot].outputs[h->count - 1], RES_OUTPUT,
                        i->slot);
    case RECV_GRAD: return run_recv(e, TRINE_GRAD_IN, h->streams[i->stream], RES_STREAM, i->stream);
    case SEND_GRAD:
        return run_send(e, TRINE_GRAD_OUT, h->streams[i->stream], RES_STREAM, i->stream);
    case GATHER: return run_gather(e, i);
    case REDUCE: return run_reduce(e, i);
    case REDUCE_TP: return run_reduce_tp(e, i);
    case TIE: return run_tie(e);
    case NORM: return run_norm(e);
    case UPDATE: return run_update(e, i);
    case INSTR_KINDS: break;
    }
    return RAISE(TRINE_EPROGRAM, "unknown instruction %d", i->kind);
}

/* The first message of a group opens it, the last one closes it. */
static trine_status execute_in_group(exec *e, const instr *i) {
    int first = program_group_first(e->program, e->at),
        last = program_group_last(e->program, e->at);
    if (first == last) return execute(e, i);
    if (e->at == first) TRY(comm_group_begin(e->mesh));
    TRY(execute(e, i));
    return e->at == last ? comm_group_end(e->mesh) : TRINE_OK;
}

_Static_assert(sizeof(instr) == COMM_WORDS * sizeof(int32_t), "an instruction is so many words");

static void describe(const int32_t words[COMM_WORDS], char *text, size_t size) {
    instr i;
    memcpy(&i, words, sizeof i);
    if (i.kind >= 0 && i.kind < INSTR_KINDS) instr_print(&i, text, size);
}

static void note(const exec *e, trine_world *world) {
    int32_t words[COMM_WORDS];
    memcpy(words, &e->program->code[e->at], sizeof words);
    comm_instruction(world, e->at, e->program->count, words);
}

static void waited(exec *e, int kind) {
    if (e->profile) profile_waited(e->profile, kind);
}

static void executed(exec *e, int kind) {
    if (e->profile) profile_executed(e->profile, kind);
}

static trine_status run_program(exec *e) {
    trine_world *world = comm_world(group(e, TRINE_WORLD));
    for (e->at = 0; e->at < e->program->count; e->at++) {
        const instr *i = &e->program->code[e->at];
        note(e, world);
        TRY(wait_for_group(e));
        waited(e, i->kind);
        TRY(execute_in_group(e, i));
        executed(e, i->kind);
        if (!e->serial || program_group_last(e->program, e->at) != e->at) continue;
        TRY(drain(e, false));
        waited(e, i->kind);
    }
    e->at = e->program->count - 1;
    TRY(drain(e, true));
    waited(e, PROFILE_FINISH);
    executed(e, PROFILE_FINISH);
    return TRINE_OK;
}

trine_status exec_run(exec *e, const program *p, exec_step *step) {
    trine_world *world = comm_world(group(e, TRINE_WORLD));
    e->program = p;
    e->step = step;
    e->tp.whole = e->h->scratch.whole;
    e->run = (gpt_run){.dev = e->dev,
                       .tp = &e->tp,
                       .shape = e->h->config.shape,
                       .scratch = e->h->scratch,
                       .seed = e->seed,
                       .training = !p->spec->forward_only};
    comm_describe(describe);
    trine_status status = run_program(e);
    comm_program_end(world);
    TRY(status);
    return e->audit && !p->spec->forward_only ? replicas_agree(e->h, e->dev, e->mesh) : TRINE_OK;
}
