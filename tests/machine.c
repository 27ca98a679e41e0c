#include "machine.h"

#include <string.h>

#include "harness.h"

#define PLACES 40 /* buffers of a kind, at most */
#define ROOM   64 /* messages of a lane, at most */

typedef uint64_t value;

static value mix(value a, value b) {
    value x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    return (x ^ (x >> 29)) * 0x94d049bb133111ebu;
}

/* What is computed: the same functions for the loop and for the machine. */
static value tokens(int micro) {
    return mix(11, (value)micro);
}

static value weights(int unit) {
    return mix(12, (value)unit);
}

static value forward(int unit, value params, value x, value batch) {
    return mix(mix(mix(mix(13, (value)unit), params), x), batch);
}

static value backward(int unit, value params, value acts, value x, value dy) {
    return mix(mix(mix(mix(mix(14, (value)unit), params), acts), x), dy);
}

/* Of a unit's matrices; dy is the gradient of its input. */
static value weight_grad(value dy, value acts, value x) {
    return mix(mix(mix(18, dy), acts), x);
}

/* The result of a GATHER of `unit`: the weights of all units gathered with it. */
static value bring(const program_spec *s, int unit, const value *masters) {
    value v = 15;
    for (int u = 0; u < s->units; u++)
        if (spec_gather_unit(s, u) == unit) v = mix(v, masters[u]);
    return v;
}

static value summed(value grads) {
    return mix(16, grads);
}

static value summed_over_tp(value grads) {
    return mix(17, grads);
}

/* ---- The loop ---- */

typedef struct {
    value masters[MACHINE_UNITS], norm;
} meaning;

static void loop_micro(const program_spec *s, int m, const value *params, value *grads,
                       value *norms, value *loss) {
    value x[MACHINE_UNITS + 1] = {tokens(m)}, dy = 0;
    for (int u = 0; u < s->units; u++)
        x[u + 1] = forward(u, params[u], x[u], u == s->units - 1 ? tokens(m) : 0);
    *loss = mix(*loss, x[s->units]);
    for (int u = s->units - 1; u >= 0 && !s->forward_only; u--) {
        dy = backward(u, u ? params[u] : 0, x[u + 1], x[u], dy);
        value grad = weight_grad(dy, x[u + 1], x[u]);
        grads[u] = mix(grads[u], s->parallel.zero < TRINE_ZERO_2 ? grad : summed(mix(0, grad)));
        norms[u] = mix(norms[u], dy);
    }
}

static meaning loop(const program_spec *s) {
    meaning out;
    value params[MACHINE_UNITS], grads[MACHINE_UNITS] = {0}, norms[MACHINE_UNITS] = {0}, loss = 0;
    for (int u = 0; u < s->units; u++) out.masters[u] = weights(u);
    for (int u = 0; u < s->units; u++) params[u] = bring(s, spec_gather_unit(s, u), out.masters);
    for (int m = 0; m < s->micros; m++) loop_micro(s, m, params, grads, norms, &loss);
    int head = s->units - 1;
    for (int u = 0; u < s->units && !s->forward_only; u++)
        if (s->parallel.zero < TRINE_ZERO_2) grads[u] = summed(grads[u]);
    for (int u = 0; u < s->units && !s->forward_only; u++)
        if (s->tp_partial) grads[u] = summed_over_tp(grads[u]);
    if (s->tied && !s->forward_only) grads[0] = grads[head] = mix(grads[0], grads[head]);
    out.norm = loss;
    for (int u = 0; u < s->units; u++) out.norm = mix(out.norm, grads[u]);
    for (int u = 0; u < s->units && !s->forward_only; u++)
        out.masters[u] = mix(mix(mix(out.masters[u], grads[u]), norms[u]), out.norm);
    return out;
}

/* ---- The machine ---- */

/* A pending message or gather. */
typedef struct {
    value *from, *to; /* a message's buffers, each NULL until its side has started */
    int unit;         /* of a gather; -1 */
    bool done;
} transfer;

/* A slot belongs to any chunk of the stage: the n-th unit of each has the n-th activations. */
typedef struct {
    value batch, input, output, acts[MACHINE_UNITS];
} machine_slot;

typedef struct {
    const program *p;
    int at;
    bool arrived;
    int meetings;
    machine_slot slots[PLACES];
    value streams[PLACES], keeps[PLACES], gathers[CLASSES][PLACES], reduces[CLASSES][PLACES];
    value params[MACHINE_UNITS], masters[MACHINE_UNITS], grads[MACHINE_UNITS], norms[MACHINE_UNITS],
        loss, norm;
    value met_grads[2][MACHINE_UNITS], met_loss; /* at TIE and NORM: values on arrival */
    transfer *waits[RESOURCES][PLACES];
} machine_stage;

/* A lane: all messages of one cargo from a stage to the next or previous one; in one queue all from stage to stage. */
typedef struct {
    transfer pool[ROOM];
    int sends, receives;
} machine_lane;

typedef struct {
    const program_spec *spec;
    bool late;
    machine_stage stages[MACHINE_STAGES];
    machine_lane lanes[MACHINE_STAGES * MACHINE_STAGES];
    transfer gathers[8 * ROOM];
    int gather_count;
    const char *failed;
} machine;

static void move(machine *k, machine_stage *s, transfer *t) {
    if (t->done) return;
    *t->to = t->unit >= 0 ? bring(k->spec, t->unit, s->masters) : *t->from;
    t->done = true;
}

static bool ready(machine *k, machine_stage *s, const instr *i) {
    operand o[INSTR_OPERANDS];
    int count = program_operands(s->p, i, o);
    for (int n = 0; n < count; n++) {
        transfer **w = &s->waits[o[n].what][o[n].index], *t = *w;
        /* A resource that a pending send or ZeRO-3 gather only reads. */
        bool reads = t && (o[n].what == RES_OUTPUT || (t->unit >= 0 && o[n].what == RES_PARAMS &&
                                                       k->spec->parallel.zero == TRINE_ZERO_3));
        if (o[n].what == RES_STREAM && t)
            for (int q = 0; q < PLACES; q++) reads |= t->from == &s->streams[q];
        if (!t || (reads && !o[n].write)) continue;
        if (!t->to || (t->unit < 0 && !t->from)) return false;
        move(k, s, t);
        *w = NULL;
    }
    return true;
}

static void under_way(machine *k, machine_stage *s, resource r, int index, transfer *t) {
    transfer *old = s->waits[r][index];
    if (old && !old->done) k->failed = "a transfer is forgotten";
    s->waits[r][index] = t;
}

static machine_lane *lane_of(machine *k, const machine_stage *s, bool act, bool send,
                             const instr *i) {
    int chunk = program_chunk(s->p, i), before = act == send ? chunk : chunk - 1;
    int from = spec_stage_of(k->spec, before), to = spec_stage_of(k->spec, before + 1);
    bool back = to == from - 1;
    if (k->spec->queue == ONE_QUEUE)
        return &k->lanes[act ? from * MACHINE_STAGES + to : to * MACHINE_STAGES + from];
    return &k->lanes[(from * 2 + back) * 2 + act];
}

static void message(machine *k, machine_stage *s, const instr *i) {
    bool act = i->kind == SEND_ACT || i->kind == RECV_ACT;
    bool send = i->kind == SEND_ACT || i->kind == SEND_GRAD;
    machine_lane *lane = lane_of(k, s, act, send, i);
    transfer *t = &lane->pool[send ? lane->sends++ : lane->receives++];
    t->unit = -1;
    if (send)
        t->from = act ? &s->slots[i->slot].output : &s->streams[i->stream];
    else
        t->to = act ? &s->slots[i->slot].input : &s->streams[i->stream];
    resource r = !act ? RES_STREAM : send ? RES_OUTPUT : RES_INPUT;
    under_way(k, s, r, act ? i->slot : i->stream, t);
    if (!k->late && t->from && t->to) move(k, s, t);
}

static void gather(machine *k, machine_stage *s, const instr *i) {
    unit_class c = spec_class(k->spec, i->unit);
    transfer *t = &k->gathers[k->gather_count++];
    *t = (transfer){.unit = i->unit};
    t->to = i->gather < 0 ? &s->params[i->unit] : &s->gathers[c][i->gather];
    under_way(k, s, RES_PARAMS, i->unit, t);
    if (i->gather >= 0)
        under_way(k, s, RES_GATHER, program_buffer_index(s->p->gathers, c, i->gather), t);
    if (!k->late) move(k, s, t);
}

static value params_of(const machine_stage *s, const instr *i) {
    int unit = spec_gather_unit(s->p->spec, i->unit);
    return i->gather < 0 ? s->params[unit] : s->gathers[spec_class(s->p->spec, unit)][i->gather];
}

/* The input of a chunk's first unit: what was received, or what another slot has of the previous chunk. */
static value chunk_input(const machine_stage *s, const instr *i, int chunk) {
    const program_spec *spec = s->p->spec;
    if (chunk == 0) return s->slots[i->slot].batch;
    if (i->input < 0) return s->slots[i->slot].input;
    return s->slots[i->input]
        .acts[spec_chunk_last(spec, chunk - 1) - spec_chunk_first(spec, chunk - 1)];
}

static value input_of(const machine_stage *s, const instr *i) {
    int chunk = spec_chunk_of(s->p->spec, i->unit);
    int number = i->unit - spec_chunk_first(s->p->spec, chunk);
    return number ? s->slots[i->slot].acts[number - 1] : chunk_input(s, i, chunk);
}

static value *acts_of(machine_stage *s, const instr *i) {
    int chunk = spec_chunk_of(s->p->spec, i->unit);
    return &s->slots[i->slot].acts[i->unit - spec_chunk_first(s->p->spec, chunk)];
}

static void compute_forward(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    machine_slot *slot = &s->slots[i->slot];
    bool head = i->unit == spec->units - 1;
    int chunk = spec_chunk_of(spec, i->unit);
    /* Chunks share the memory of a slot: the output of the one before is lost. */
    if (i->unit == spec_chunk_first(spec, chunk) && spec_stage_chunks(spec, s->p->stage) > 1)
        slot->output = 0;
    value x = forward(i->unit, params_of(s, i), input_of(s, i), head ? slot->batch : 0);
    *acts_of(s, i) = x;
    if (head)
        s->loss = mix(s->loss, x);
    else if (i->unit == spec_chunk_last(spec, chunk))
        slot->output = x;
}

static void add_grads(machine_stage *s, const instr *i, value dy) {
    value grad = weight_grad(dy, *acts_of(s, i), input_of(s, i));
    value *sum = i->reduce < 0 ? &s->grads[i->unit]
                               : &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    *sum = mix(*sum, grad);
}

static void compute_backward(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    value dy = i->unit == spec->units - 1 ? 0 : s->streams[i->stream];
    dy = backward(i->unit, i->unit ? params_of(s, i) : 0, *acts_of(s, i), input_of(s, i), dy);
    s->streams[i->stream] = dy;
    if (i->keep >= 0)
        s->keeps[i->keep] = dy;
    else
        add_grads(s, i, dy);
    if (i->keep < 0 || spec->parallel.zero < TRINE_ZERO_2)
        s->norms[i->unit] = mix(s->norms[i->unit], dy);
}

static void compute_weight(machine_stage *s, const instr *i) {
    value dy = s->keeps[i->keep];
    add_grads(s, i, dy);
    if (s->p->spec->parallel.zero >= TRINE_ZERO_2) s->norms[i->unit] = mix(s->norms[i->unit], dy);
    s->keeps[i->keep] = 0;
}

static void reduce(machine_stage *s, const instr *i) {
    value *own = &s->grads[i->unit];
    if (i->reduce < 0) {
        *own = summed(*own);
        return;
    }
    value *sum = &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    *own = mix(*own, summed(*sum));
    *sum = 0;
}

static value met(const machine *k, bool norm, int unit) {
    int p = 0;
    while (!spec_holds(k->spec, p, unit)) p++;
    return k->stages[p].met_grads[norm][unit];
}

/* TIE or NORM, once all partners have arrived. */
static bool meet(machine *k, machine_stage *s, bool norm) {
    const program_spec *spec = k->spec;
    if (!s->arrived) {
        memcpy(s->met_grads[norm], s->grads, sizeof s->grads);
        s->met_loss = s->loss;
        s->meetings |= norm ? 2 : 1;
    }
    s->arrived = true;
    for (int p = 0; p < spec->stages; p++) {
        bool comes = norm || spec_holds(spec, p, 0) || spec_holds(spec, p, spec->units - 1);
        if (comes && !(k->stages[p].meetings & (norm ? 2 : 1))) return false;
    }
    s->arrived = false;
    if (!norm) {
        s->grads[0] = s->grads[spec->units - 1] =
            mix(met(k, false, 0), met(k, false, spec->units - 1));
        return true;
    }
    s->norm = k->stages[spec_stage_of(spec, spec_chunks(spec) - 1)].met_loss;
    for (int u = 0; u < spec->units; u++) s->norm = mix(s->norm, met(k, true, u));
    return true;
}

static void update(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    int unit = spec_gather_unit(spec, i->unit);
    value grads = mix(mix(s->masters[i->unit], s->grads[i->unit]), s->norms[i->unit]);
    s->masters[i->unit] = mix(grads, s->norm);
    if (spec->parallel.zero == TRINE_ZERO_0) s->params[unit] = bring(spec, unit, s->masters);
}

/* Runs the next instruction of a stage, or returns that it must wait. */
static bool run_next(machine *k, machine_stage *s) {
    const instr *i = &s->p->code[s->at];
    if (!s->arrived && !ready(k, s, i)) return false;
    switch ((instr_kind)i->kind) {
    case LOAD: s->slots[i->slot].batch = tokens(i->micro); break;
    case FORWARD: compute_forward(s, i); break;
    case BACKWARD:
    case BACKWARD_INPUT: compute_backward(s, i); break;
    case BACKWARD_WEIGHT: i->keep < 0 ? compute_backward(s, i) : compute_weight(s, i); break;
    case RECV_ACT:
    case SEND_ACT:
    case RECV_GRAD:
    case SEND_GRAD: message(k, s, i); break;
    case GATHER: gather(k, s, i); break;
    case REDUCE: reduce(s, i); break;
    case REDUCE_TP: s->grads[i->unit] = summed_over_tp(s->grads[i->unit]); break;
    case TIE:
    case NORM:
        if (!meet(k, s, i->kind == NORM)) return false;
        break;
    case UPDATE: update(s, i); break;
    default: break; /* no meaning here */
    }
    s->at++;
    return true;
}

static void finish(machine *k) {
    for (int p = 0; p < k->spec->stages; p++) {
        machine_stage *s = &k->stages[p];
        if (s->at < s->p->count) k->failed = "a stage waits forever";
        for (int r = 0; r < RESOURCES; r++)
            for (int n = 0; n < PLACES; n++) {
                transfer *t = s->waits[r][n];
                if (t && (!t->to || (t->unit < 0 && !t->from)))
                    k->failed = "a message is left over";
                else if (t)
                    move(k, s, t);
            }
    }
}

/* NULL, or the difference between programs and loop. */
static const char *run(const program_spec *spec, const program *stages, const meaning *want,
                       bool late) {
    static machine k;
    memset(&k, 0, sizeof k);
    k.spec = spec;
    k.late = late;
    for (int p = 0; p < spec->stages; p++) {
        machine_stage *s = &k.stages[p];
        s->p = &stages[p];
        for (int r = 0; r < RESOURCES; r++)
            assert_in_range(program_resource_count(s->p, (resource)r), 0, PLACES);
        for (int u = 0; u < spec->units; u++) s->masters[u] = weights(u);
        for (int u = 0; u < spec->units && spec->parallel.zero != TRINE_ZERO_3; u++)
            s->params[u] = bring(spec, u, s->masters);
    }
    for (bool moved = true; moved && !k.failed;) {
        moved = false;
        for (int p = 0; p < spec->stages; p++)
            while (k.stages[p].at < stages[p].count && run_next(&k, &k.stages[p])) moved = true;
    }
    finish(&k);
    for (int p = 0; p < spec->stages && !k.failed; p++) {
        const machine_stage *s = &k.stages[p];
        if (s->norm != want->norm) k.failed = "norm or loss differs";
        for (int n = 0; n < spec_stage_units(spec, p); n++) {
            int u = spec_stage_unit(spec, p, n);
            if (s->masters[u] != want->masters[u]) k.failed = "a unit's update differs";
            int unit = spec_gather_unit(spec, u);
            if (spec->parallel.zero != TRINE_ZERO_3 &&
                s->params[unit] != bring(spec, unit, want->masters))
                k.failed = "a unit's parameters are not the updated ones";
        }
    }
    return k.failed;
}

void machine_means_the_loop(const program_spec *spec, const program *stages, const char *what) {
    meaning want = loop(spec);
    for (int late = 0; late < 2; late++) {
        const char *failed = run(spec, stages, &want, late);
        if (!failed) continue;
        for (int p = 0; p < spec->stages; p++) program_print(&stages[p], stderr);
        fail_msg("%s, data moved %s: %s", what, late ? "late" : "early", failed);
    }
}
