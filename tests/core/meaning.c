/* TEST np=0 */
/* Programs that the checker accepts compute the same as a plain loop. A machine much simpler than the checker
 * runs all stages' programs symbolically: a value is a hash of its inputs. It knows no rules and no legal
 * order, only memory; it uses only program_operands of the library, for the waits for messages. Messages and
 * gathers move their data as early as possible, or as late as these waits allow. Then
 *
 *   - every composed program ends with the hashes of the loop over micro-batches and units
 *   - of random mutants of such programs, those that the checker accepts do so, too. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "model/gpt.h"
#include "run/compose.h"

#define UNITS  8
#define MICROS 6
#define STAGES 4
#define PLACES 16 /* buffers of a kind, at most */
#define ROOM   512

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
static value weight_grad(value dy, value acts) {
    return mix(mix(18, dy), acts);
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
    value masters[UNITS], norm;
} meaning;

static void loop_micro(const program_spec *s, int m, const value *params, value *grads,
                       value *norms, value *loss) {
    value x[UNITS + 1] = {tokens(m)}, dy = 0;
    for (int u = 0; u < s->units; u++)
        x[u + 1] = forward(u, params[u], x[u], u == s->units - 1 ? tokens(m) : 0);
    *loss = mix(*loss, x[s->units]);
    for (int u = s->units - 1; u >= 0 && !s->forward_only; u--) {
        dy = backward(u, u ? params[u] : 0, x[u + 1], x[u], dy);
        value grad = weight_grad(dy, x[u + 1]);
        grads[u] = mix(grads[u], s->zero < TRINE_ZERO_2 ? grad : summed(mix(0, grad)));
        norms[u] = mix(norms[u], dy);
    }
}

static meaning loop(const program_spec *s) {
    meaning out;
    value params[UNITS], grads[UNITS] = {0}, norms[UNITS] = {0}, loss = 0;
    for (int u = 0; u < s->units; u++) out.masters[u] = weights(u);
    for (int u = 0; u < s->units; u++) params[u] = bring(s, spec_gather_unit(s, u), out.masters);
    for (int m = 0; m < s->micros; m++) loop_micro(s, m, params, grads, norms, &loss);
    int head = s->units - 1;
    for (int u = 0; u < s->units && !s->forward_only; u++)
        if (s->zero < TRINE_ZERO_2) grads[u] = summed(grads[u]);
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

typedef struct {
    const program *p;
    int at;
    bool arrived;
    int meetings;
    value batch[PLACES], input[PLACES], output[PLACES], x[PLACES], acts[PLACES][UNITS];
    value streams[PLACES], keeps[PLACES], gathers[CLASSES][PLACES], reduces[CLASSES][PLACES];
    value params[UNITS], masters[UNITS], grads[UNITS], norms[UNITS], loss, norm;
    value met_grads[2][UNITS], met_loss; /* at TIE and NORM: values on arrival */
    transfer *waits[RESOURCES][PLACES];
} machine_stage;

typedef struct {
    transfer pool[ROOM];
    int sends, receives;
} machine_edge;

typedef struct {
    const program_spec *spec;
    bool late;
    machine_stage stages[STAGES];
    machine_edge edges[2][STAGES]; /* acts, grads; edge e joins e and e + 1 */
    transfer gathers[ROOM];
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
                                                       k->spec->zero == TRINE_ZERO_3));
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

static void message(machine *k, machine_stage *s, const instr *i) {
    bool act = i->kind == SEND_ACT || i->kind == RECV_ACT;
    bool send = i->kind == SEND_ACT || i->kind == SEND_GRAD;
    machine_edge *e = &k->edges[!act][s->p->stage - (act != send)];
    transfer *t = &e->pool[send ? e->sends++ : e->receives++];
    t->unit = -1;
    if (send)
        t->from = act ? &s->output[i->slot] : &s->streams[i->stream];
    else
        t->to = act ? &s->input[i->slot] : &s->streams[i->stream];
    under_way(k, s,
              !act   ? RES_STREAM
              : send ? RES_OUTPUT
                     : RES_INPUT,
              act ? i->slot : i->stream, t);
    if (!k->late && t->from && t->to) move(k, s, t);
}

static void gather(machine *k, machine_stage *s, const instr *i) {
    unit_class c = spec_class(k->spec, i->unit);
    transfer *t = &k->gathers[k->gather_count++];
    *t = (transfer){.unit = i->unit};
    t->to = i->gather < 0 ? &s->params[i->unit] : &s->gathers[c][i->gather];
    under_way(k, s, RES_PARAMS, i->unit, t);
    if (i->gather >= 0) under_way(k, s, RES_GATHER, program_gather_index(s->p, c, i->gather), t);
    if (!k->late) move(k, s, t);
}

static value params_of(const machine_stage *s, const instr *i) {
    int unit = spec_gather_unit(s->p->spec, i->unit);
    return i->gather < 0 ? s->params[unit] : s->gathers[spec_class(s->p->spec, unit)][i->gather];
}

static void compute_forward(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    bool head = i->unit == spec->units - 1;
    value x = i->unit == 0                                     ? s->batch[i->slot]
              : i->unit == spec_chunk_first(spec, s->p->stage) ? s->input[i->slot]
                                                               : s->x[i->slot];
    x = forward(i->unit, params_of(s, i), x, head ? s->batch[i->slot] : 0);
    s->acts[i->slot][i->unit] = s->x[i->slot] = x;
    if (head)
        s->loss = mix(s->loss, x);
    else if (i->unit == spec_chunk_last(spec, s->p->stage))
        s->output[i->slot] = x;
}

static void add_grads(machine_stage *s, const instr *i, value dy) {
    value grad = weight_grad(dy, s->acts[i->slot][i->unit]);
    value *sum = i->reduce < 0 ? &s->grads[i->unit]
                               : &s->reduces[spec_class(s->p->spec, i->unit)][i->reduce];
    *sum = mix(*sum, grad);
}

static void compute_backward(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    value x = i->unit == 0                                     ? s->batch[i->slot]
              : i->unit == spec_chunk_first(spec, s->p->stage) ? s->input[i->slot]
                                                               : s->acts[i->slot][i->unit - 1];
    value dy = i->unit == spec->units - 1 ? 0 : s->streams[i->stream];
    dy = backward(i->unit, i->unit ? params_of(s, i) : 0, s->acts[i->slot][i->unit], x, dy);
    s->streams[i->stream] = dy;
    if (i->keep >= 0)
        s->keeps[i->keep] = dy;
    else
        add_grads(s, i, dy);
    if (i->keep < 0 || spec->zero < TRINE_ZERO_2) s->norms[i->unit] = mix(s->norms[i->unit], dy);
}

static void compute_weight(machine_stage *s, const instr *i) {
    value dy = s->keeps[i->keep];
    add_grads(s, i, dy);
    if (s->p->spec->zero >= TRINE_ZERO_2) s->norms[i->unit] = mix(s->norms[i->unit], dy);
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
    int ends = spec->stages - 1;
    if (!s->arrived) {
        memcpy(s->met_grads[norm], s->grads, sizeof s->grads);
        s->met_loss = s->loss;
        s->meetings |= norm ? 2 : 1;
    }
    s->arrived = true;
    for (int p = 0; p <= ends; p++)
        if ((norm || p == 0 || p == ends) && !(k->stages[p].meetings & (norm ? 2 : 1)))
            return false;
    s->arrived = false;
    if (!norm) {
        s->grads[0] = s->grads[spec->units - 1] =
            mix(met(k, false, 0), met(k, false, spec->units - 1));
        return true;
    }
    s->norm = k->stages[ends].met_loss;
    for (int u = 0; u < spec->units; u++) s->norm = mix(s->norm, met(k, true, u));
    return true;
}

static void update(machine_stage *s, const instr *i) {
    const program_spec *spec = s->p->spec;
    int unit = spec_gather_unit(spec, i->unit);
    value grads = mix(mix(s->masters[i->unit], s->grads[i->unit]), s->norms[i->unit]);
    s->masters[i->unit] = mix(grads, s->norm);
    if (spec->zero == TRINE_ZERO_0) s->params[unit] = bring(spec, unit, s->masters);
}

/* Runs the next instruction of a stage, or returns that it must wait. */
static bool run_next(machine *k, machine_stage *s) {
    const instr *i = &s->p->code[s->at];
    if (!s->arrived && !ready(k, s, i)) return false;
    switch ((instr_kind)i->kind) {
    case LOAD: s->batch[i->slot] = tokens(i->micro); break;
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
    case INSTR_KINDS: break;
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
        for (int u = 0; u < spec->units; u++) s->masters[u] = weights(u);
        for (int u = 0; u < spec->units && spec->zero != TRINE_ZERO_3; u++)
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
        for (int u = spec_chunk_first(spec, p); u <= spec_chunk_last(spec, p); u++) {
            if (s->masters[u] != want->masters[u]) k.failed = "a unit's update differs";
            int unit = spec_gather_unit(spec, u);
            if (spec->zero != TRINE_ZERO_3 && s->params[unit] != bring(spec, unit, want->masters))
                k.failed = "a unit's parameters are not the updated ones";
        }
    }
    return k.failed;
}

static void means_the_loop(const program_spec *spec, const program *stages, const char *what) {
    meaning want = loop(spec);
    for (int late = 0; late < 2; late++) {
        const char *failed = run(spec, stages, &want, late);
        if (!failed) continue;
        for (int p = 0; p < spec->stages; p++) program_print(&stages[p], stderr);
        fail_msg("%s, data moved %s: %s", what, late ? "late" : "early", failed);
    }
}

/* ---- Composed programs ---- */

static program_spec spec_number(unsigned n) {
    program_spec s = {.facts = gpt_facts, .stages = 1 + (int)(n % STAGES)};
    n /= STAGES;
    s.schedule = (trine_schedule)(n % TRINE_SCHEDULES), n /= TRINE_SCHEDULES;
    s.zero = (trine_zero)(n % 4), n /= 4;
    s.tied = n % 2, n /= 2;
    s.forward_only = n % 8 == 0, n /= 8;
    s.queue = n % 2 ? ONE_QUEUE : QUEUES_PER_EDGE, n /= 2;
    s.tp_partial = n % 2, n /= 2;
    s.split_backward = n % 2, n /= 2;
    s.gather_buffers = 1 + (int)(n % 3), n /= 3;
    s.micros = 1 + (int)(n % MICROS);
    static const int ends[STAGES][STAGES] = {{5}, {2, 4}, {1, 3, 7}, {1, 2, 5, 6}};
    for (int p = 0; p < s.stages; p++) s.first[p + 1] = ends[s.stages - 1][p];
    s.units = s.first[s.stages];
    return s;
}

#define SPECS (STAGES * TRINE_SCHEDULES * 4u * 2u * 8u * 2u * 2u * 2u * 3u * MICROS)

static void test_composed_programs_mean_the_loop(void **state) {
    (void)state;
    for (unsigned n = 0; n < SPECS; n++) {
        program_spec s = spec_number(n);
        program *stages;
        OK(compose_all(&s, &stages, NULL));
        means_the_loop(&s, stages, "a composed program");
        compose_destroy(&s, &stages);
    }
}

/* ---- Mutants ---- */

static uint64_t random_state = 1;

static int below(int n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)(random_state % (uint64_t)n);
}

typedef enum { DROP, DOUBLE, FIELD, SWAP, MOVE, RENAME, MUTATIONS } mutation;

static void take_out(program *p, int at) {
    p->count--;
    memmove(p->code + at, p->code + at + 1, (size_t)(p->count - at) * sizeof *p->code);
}

static void change_field(instr *i) {
    int by = below(2) ? 1 : -1;
    switch (below(10)) {
    case 0: i->unit += by; break;
    case 1: i->micro += by; break;
    case 2: i->slot += by; break;
    case 3: i->stream += by; break;
    case 4: i->gather += by; break;
    case 5: i->reduce += by; break;
    case 6: i->group += by; break;
    case 7: i->keep += by; break;
    case 8: i->chunk += by; break;
    default: i->kind = below(INSTR_KINDS); break;
    }
}

/* A micro-batch in another slot, or on another stream. */
static void rename_buffers(program *p) {
    int micro = below(p->spec->micros), slot = below(p->slots);
    int stream = below(p->streams + 1) - 1;
    for (int n = 0; n < p->count; n++) {
        instr *i = &p->code[n];
        if (i->micro == micro && i->slot >= 0 && stream < 0) i->slot = slot;
        if (i->micro == micro && i->stream >= 0 && stream >= 0) i->stream = stream;
    }
}

static void mutate(program *p, mutation kind) {
    int a = below(p->count), b = below(p->count);
    instr i = p->code[a];
    switch (kind) {
    case DROP: take_out(p, a); break;
    case DOUBLE: OK(program_insert(p, b, i)); break;
    case SWAP:
        a = below(p->count - 1);
        i = p->code[a];
        p->code[a] = p->code[a + 1];
        p->code[a + 1] = i;
        break;
    case MOVE:
        take_out(p, a);
        OK(program_insert(p, below(p->count + 1), i));
        break;
    case FIELD: change_field(&p->code[a]); break;
    case RENAME: rename_buffers(p); break;
    case MUTATIONS: break;
    }
}

static bool same_code(const program *a, const program *b) {
    return a->count == b->count && !memcmp(a->code, b->code, (size_t)a->count * sizeof *a->code);
}

/* A random composed program, changed once or twice on one stage. Returns whether the checker accepts it. */
static bool try_mutant(mutation kind, int changes) {
    program_spec s = spec_number((unsigned)below((int)SPECS));
    program *stages, *original;
    OK(compose_all(&s, &stages, NULL));
    OK(compose_all(&s, &original, NULL));
    int stage = below(s.stages);
    for (int n = 0; n < changes; n++) mutate(&stages[stage], kind);
    bool legal = check_programs(stages, NULL) == TRINE_OK;
    bool same = same_code(&stages[stage], &original[stage]);
    if (same && !legal) fail_msg("an unchanged program is refused: %s", status_message());
    status_clear();
    if (legal) means_the_loop(&s, stages, "a mutant that the checker accepts");
    compose_destroy(&s, &original);
    compose_destroy(&s, &stages);
    return legal && !same;
}

/* Dropping or doubling any instruction, or changing any field, is refused. */
static void test_nothing_is_dropped_doubled_or_changed(void **state) {
    (void)state;
    for (int n = 0; n < 30000; n++)
        if (try_mutant((mutation)(n % 3), 1)) fail_msg("mutant %d is accepted", n);
}

static void test_accepted_mutants_mean_the_loop(void **state) {
    (void)state;
    int accepted[MUTATIONS] = {0};
    for (int n = 0; n < 60000; n++) {
        mutation kind = (mutation)(SWAP + n % 3);
        accepted[kind] += try_mutant(kind, 1 + below(3));
    }
    print_message("# accepted: %d swaps, %d moves, %d renamings\n", accepted[SWAP], accepted[MOVE],
                  accepted[RENAME]);
    /* Without accepted mutants the test would prove nothing. */
    assert_true(accepted[SWAP] > 100 && accepted[MOVE] > 100 && accepted[RENAME] > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composed_programs_mean_the_loop),
        cmocka_unit_test(test_nothing_is_dropped_doubled_or_changed),
        cmocka_unit_test(test_accepted_mutants_mean_the_loop),
    };
    return HARNESS_RUN_ALONE(tests);
}
