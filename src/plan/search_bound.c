#include "plan/search_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/status.h"
#include "device/cuda/sizes.h"
#include "plan/bound_parts.h"
#include "plan/outside_plan.h"

#define ROUNDING                                                                                   \
    1e-9 /* the simulation adds the same numbers in another order, some millions of them */

/* What was made so far, each with its key first. */
typedef struct {
    void **at; /* owned, as its elements */
    int count, room;
} parts;

/* ---- Time -------------------------------------------------------------------------------------- */

/* Seconds of a chunk's passes of a micro-batch, and what they need. */
typedef struct {
    double forward, input, weight; /* input: of a whole backward pass, if it does not split */
    double busy[ORDER_KINDS];      /* the same with what its messages block */
    double
        enters[ORDER_WEIGHT]; /* when the first micro-batch can be there, to go forward and back */
    double leaves
        [ORDER_WEIGHT]; /* after the last micro-batch: until the end of stage 0's backward pass */
} chunk_times;

typedef struct {
    const order_bounds *o;
    const unit_bounds *u;
    const state_bounds *d;
    bool blocks, late; /* of messages, and of REDUCE (pp/simulate.h) */
    double message;
    int micros;
    chunk_times at[PROGRAM_CHUNKS];
} timing;

struct bounds {
    forecast_rules rules;
    int ranks;
    device *dev;
    parts units, states, orders;
    timing timing; /* of the last layout */
};

/* Whether chunk c sends a gradient to the one before it: not to an embedding alone that is frozen. */
static bool sends_back(const timing *t, int c) {
    const order_chunk *f = t->o->order.chunks;
    bool frozen = t->u->prices.shape.freezes && c == 1 && !f[0].blocks;
    return f[c].receives && !frozen;
}

static void time_chunk(timing *t, int c) {
    const order_chunk *f = &t->o->order.chunks[c];
    const unit_bounds *u = t->u;
    double blocks = f->blocks, blocked = t->blocks ? t->message : 0;
    chunk_times *at = &t->at[c];
    *at = (chunk_times){.forward = blocks * u->forward[UNIT_BLOCK],
                        .input = blocks * u->input[UNIT_BLOCK],
                        .weight = blocks * u->weight[UNIT_BLOCK]};
    if (f->embedding) {
        at->forward += u->forward[UNIT_EMBEDDING];
        at->input += u->input[UNIT_EMBEDDING];
    }
    if (f->head) {
        at->forward += u->forward[UNIT_HEAD];
        at->input += u->input[UNIT_HEAD];
    }
    at->busy[ORDER_FORWARD] = at->forward + (f->sends ? blocked : 0);
    at->busy[ORDER_INPUT] = at->input + (sends_back(t, c) ? blocked : 0);
    at->busy[ORDER_WEIGHT] = at->weight;
}

/* Through the model and back: what comes before a chunk's passes, and after them. */
static void time_chunks(timing *t) {
    const order_chunk *f = t->o->order.chunks;
    int chunks = spec_chunks(&t->o->order.spec);
    for (int c = 0; c < chunks; c++) time_chunk(t, c);
    double there = 0, back = 0;
    for (int c = 0; c < chunks; c++) {
        if (f[c].receives) there += t->message;
        t->at[c].enters[ORDER_FORWARD] = there;
        there += t->at[c].forward;
        t->at[c].leaves[ORDER_INPUT] = back += sends_back(t, c) ? t->message : 0;
        back += t->at[c].input;
    }
    for (int c = chunks - 1; c >= 0; c--) {
        if (f[c].sends && sends_back(t, c + 1)) there += t->message;
        t->at[c].enters[ORDER_INPUT] = there;
        there += t->at[c].input;
        t->at[c].leaves[ORDER_FORWARD] = back;
        back += t->at[c].forward + (f[c].receives ? t->message : 0);
    }
}

/* Seconds of what comes before a mark. */
static double time_before(const timing *t, const stage_order *s, const int *before) {
    double sum = 0;
    for (int c = 0; c < s->chunks; c++)
        for (int k = 0; k < ORDER_KINDS; k++)
            sum += before[c * ORDER_KINDS + k] * t->at[s->own[c]].busy[k];
    return sum;
}

/* All that a stage computes. */
static double time_stage(const timing *t, const stage_order *s) {
    double sum = 0;
    for (int c = 0; c < s->chunks; c++)
        for (int k = 0; k < ORDER_KINDS; k++) sum += t->micros * t->at[s->own[c]].busy[k];
    return sum;
}

/* A number of each unit of a chunk, summed; blocks alone where the rest is done before. */
static double sum_units(const order_chunk *c, const double each[UNIT_KINDS], bool blocks_only) {
    double sum = c->blocks * each[UNIT_BLOCK];
    if (c->embedding && !blocks_only) sum += each[UNIT_EMBEDDING];
    if (c->head && !blocks_only) sum += each[UNIT_HEAD];
    return sum;
}

static double sum_stage(const timing *t, const stage_order *s, const double each[UNIT_KINDS]) {
    double sum = 0;
    for (int c = 0; c < s->chunks; c++)
        sum += sum_units(&t->o->order.chunks[s->own[c]], each, false);
    return sum;
}

/* GATHERs of ZeRO-3 that a stage needs: each unit's, and of a chunk's blocks those that the buffers cannot have kept
 * since the pass before. */
static double gather_seconds(const timing *t, const stage_order *s) {
    double all = 0, again = 0;
    for (int c = 0; c < s->chunks; c++) {
        const order_chunk *f = &t->o->order.chunks[s->own[c]];
        all += sum_units(f, t->d->gather, false);
        again += 2.0 * t->micros * fmax(0, f->blocks - t->d->buffers) * t->d->gather[UNIT_BLOCK];
    }
    return fmax(all, again);
}

/* What is on the way over dp after the last gradients are complete, in the order of the program: from each mark on,
 * the REDUCEs of the chunks that follow. */
static double reduces_from(const timing *t, const stage_order *s, int first) {
    double sum = 0;
    for (int n = first; n < s->count; n++) {
        const order_mark *m = &s->marks[n];
        bool some = t->o->order.splits;
        if (m->completes)
            sum += sum_units(&t->o->order.chunks[s->own[m->chunk]], t->d->reduce, some);
    }
    return sum;
}

/* The last REDUCE of a stage. */
static double last_reduce(const timing *t, const stage_order *s) {
    int n = s->count - 1;
    while (n > 0 && !s->marks[n].completes) n--;
    const order_mark *m = &s->marks[n];
    const order_chunk *f = &t->o->order.chunks[s->own[m->chunk]];
    if (m->kind == ORDER_INPUT && f->embedding && !t->o->order.splits)
        return t->d->reduce[UNIT_EMBEDDING];
    if (f->blocks) return t->d->reduce[UNIT_BLOCK];
    return fmin(f->embedding ? t->d->reduce[UNIT_EMBEDDING] : INFINITY,
                f->head ? t->d->reduce[UNIT_HEAD] : INFINITY);
}

/* When the sums over dp and tp of a stage are complete, which has computed its passes at `end`. Those over dp are on
 * their way beside later passes, and beside those over tp; one after the other. */
static double time_sums(const timing *t, const stage_order *s, double end, double first_backward) {
    double sums = sum_stage(t, s, t->d->reduce), over_tp = sum_stage(t, s, t->d->reduce_tp);
    if (t->d->once && t->late) return end + sums + over_tp;
    double ready = fmax(end + over_tp, end + last_reduce(t, s));
    if (t->d->once) return ready;
    ready = fmax(ready, first_backward + t->micros * sums);
    return t->d->gathers_first ? fmax(ready, t->micros * sums + gather_seconds(t, s)) : ready;
}

/* Whether the stage has the embedding or the head. */
static bool holds_end(const timing *t, const stage_order *s) {
    bool holds = false;
    for (int c = 0; c < s->chunks; c++) {
        const order_chunk *f = &t->o->order.chunks[s->own[c]];
        holds = holds || f->embedding || f->head;
    }
    return holds;
}

/* When a stage comes to NORM; *all: when the first stage does by way of this one. */
static double stage_ready(const timing *t, int stage, double *all) {
    const stage_order *s = &t->o->order.stages[stage];
    double run = -INFINITY, ready = 0, first_backward = INFINITY;
    for (int n = 0; n < s->count; n++) {
        const order_mark *m = &s->marks[n];
        const chunk_times *c = &t->at[s->own[m->chunk]];
        double before = time_before(t, s, m->before);
        if (m->enters) {
            run = fmax(run, c->enters[m->kind] - before);
            if (m->kind == ORDER_INPUT) first_backward = fmin(first_backward, run + before);
            continue;
        }
        double starts = run + before;
        if (m->completes && t->d->once && !t->late)
            ready = fmax(ready, starts + reduces_from(t, s, n));
        if (m->kind == ORDER_FORWARD) *all = fmax(*all, starts + c->forward + c->leaves[m->kind]);
        if (m->kind == ORDER_INPUT) *all = fmax(*all, starts + c->input + c->leaves[m->kind]);
    }
    ready = fmax(ready, time_sums(t, s, run + time_stage(t, s), first_backward));
    return holds_end(t, s) ? ready + t->d->tie : ready;
}

/* After NORM. */
static double stage_tail(const timing *t, int stage) {
    const stage_order *s = &t->o->order.stages[stage];
    double sum = sum_stage(t, s, t->d->update);
    return t->d->gathers_last ? sum + sum_stage(t, s, t->d->gather) : sum;
}

static double step_seconds(const timing *t, bool bubble) {
    int stages = t->o->order.spec.stages;
    double ready = 0, tail = 0, longest = 0;
    for (int p = 0; p < stages; p++) {
        double own = stage_ready(t, p, &ready);
        ready = fmax(ready, own);
        tail = fmax(tail, stage_tail(t, p));
        longest = fmax(longest, time_stage(t, &t->o->order.stages[p]));
    }
    return bubble ? ready + tail : longest;
}

/* ---- Memory ------------------------------------------------------------------------------------ */

/* Units of a stage by kind, and the class buffers that they need. */
typedef struct {
    double blocks;
    bool has[UNIT_KINDS];
    bool receives;
} stage_units;

static stage_units units_of(const step_order *o, const stage_order *s) {
    stage_units u = {0};
    for (int c = 0; c < s->chunks; c++) {
        const order_chunk *f = &o->chunks[s->own[c]];
        u.blocks += f->blocks;
        u.has[UNIT_EMBEDDING] |= f->embedding;
        u.has[UNIT_HEAD] |= f->head;
        u.receives |= f->receives;
    }
    u.has[UNIT_BLOCK] = u.blocks > 0;
    return u;
}

static double most_of(const stage_units *u, const double each[UNIT_KINDS], bool ends) {
    double most = 0;
    if (!ends) return u->has[UNIT_BLOCK] ? each[UNIT_BLOCK] : 0;
    if (u->has[UNIT_EMBEDDING]) most = each[UNIT_EMBEDDING];
    return u->has[UNIT_HEAD] ? fmax(most, each[UNIT_HEAD]) : most;
}

/* Gather and reduce buffers of both classes. */
static double buffer_bytes(const state_bounds *d, const stage_units *u, int micros) {
    double sum = 0, ends = u->has[UNIT_EMBEDDING] + u->has[UNIT_HEAD];
    if (d->gathers_first)
        sum += fmin(d->buffers, u->blocks) * most_of(u, d->gather_bytes, false) +
               fmin(1, ends) * most_of(u, d->gather_bytes, true);
    if (!d->once)
        sum += fmin(d->reduces, u->blocks * micros) * most_of(u, d->reduce_bytes, false) +
               fmin(d->reduces, ends * micros) * most_of(u, d->reduce_bytes, true);
    return sum;
}

/* What a slot keeps of a micro-batch. */
static double slot_bytes(const unit_bounds *u, const stage_order *s, const stage_units *has) {
    double sum = s->places * (u->acts[UNIT_BLOCK] + u->stream);
    if (has->has[UNIT_EMBEDDING]) sum += u->acts[UNIT_EMBEDDING] + u->stream;
    if (has->has[UNIT_HEAD]) sum += u->acts[UNIT_HEAD];
    if (has->has[UNIT_EMBEDDING] || has->has[UNIT_HEAD]) sum += u->batch;
    return has->receives ? sum + u->stream : sum;
}

static double stage_bytes(const order_bounds *o, const unit_bounds *u, const state_bounds *d,
                          int stage) {
    const stage_order *s = &o->order.stages[stage];
    stage_units has = units_of(&o->order, s);
    int micros = o->order.spec.micros, set = 0;
    double sum = has.blocks * d->bytes[UNIT_BLOCK];
    for (int k = 0; k < UNIT_KINDS; k++) set |= has.has[k] << k;
    if (has.has[UNIT_EMBEDDING]) sum += d->bytes[UNIT_EMBEDDING];
    if (has.has[UNIT_HEAD]) sum += d->bytes[UNIT_HEAD];
    return sum + buffer_bytes(d, &has, micros) + u->scratch[set] +
           s->slots * slot_bytes(u, s, &has) + s->keeps * u->keep +
           (micros > 1 ? 2 : 1) * u->stream;
}

/* ---- Parts ------------------------------------------------------------------------------------- */

/* The part of this key, by its first `used` numbers; NULL: there is none. */
static void *find_part(const parts *p, const int *key, size_t used) {
    for (int n = p->count - 1; n >= 0; n--)
        if (!memcmp(p->at[n], key, used * sizeof *key)) return p->at[n];
    return NULL;
}

/* A new one, zeroed behind its key. */
static trine_status add_part(parts *p, const int *key, size_t bytes, void **out) {
    void **more = grow(p->at, p->count, &p->room, sizeof *more);
    if (more) p->at = more;
    *out = more ? calloc(1, bytes) : NULL;
    CHECK(*out, TRINE_ENOMEM, "no memory for the bounds of layouts");
    memcpy(*out, key, BOUND_KEY * sizeof *key);
    p->at[p->count++] = *out;
    return TRINE_OK;
}

static trine_status find_order(bounds *b, const trine_config *c, order_bounds **out) {
    int key[BOUND_KEY];
    void *made;
    order_bounds_key(c, key);
    if ((*out = find_part(&b->orders, key, BOUND_KEY))) return TRINE_OK;
    const order_bounds *like = find_part(&b->orders, key, ORDER_LIKE);
    TRY(add_part(&b->orders, key, sizeof **out, &made));
    *out = made;
    return order_bounds_make(*out, c, like);
}

static trine_status find_units(bounds *b, const trine_config *c, unit_bounds **out) {
    int key[BOUND_KEY];
    void *made;
    unit_bounds_key(c, key);
    if ((*out = find_part(&b->units, key, BOUND_KEY))) return TRINE_OK;
    TRY(add_part(&b->units, key, sizeof **out, &made));
    *out = made;
    return unit_bounds_make(*out, &b->rules, c, b->ranks, b->dev);
}

static trine_status find_state(bounds *b, const trine_config *c, const order_bounds *o,
                               state_bounds **out) {
    int key[BOUND_KEY];
    void *made;
    state_bounds_key(c, &o->order, key);
    if ((*out = find_part(&b->states, key, BOUND_KEY))) return TRINE_OK;
    TRY(add_part(&b->states, key, sizeof **out, &made));
    *out = made;
    return state_bounds_make(*out, &b->rules, c, b->ranks, b->dev);
}

/* ---- All together ------------------------------------------------------------------------------ */

trine_status bounds_create(bounds **out, const forecast_rules *rules, const trine_config *c,
                           int ranks) {
    device_config dev;
    *out = calloc(1, sizeof **out);
    CHECK(*out, TRINE_ENOMEM, "no memory for the bounds of layouts");
    (*out)->rules = *rules;
    (*out)->ranks = ranks;
    trine_status status = resolve_device(c, &dev);
    if (status == TRINE_OK) status = device_open_sizes(&(*out)->dev, &dev);
    if (status == TRINE_OK) return TRINE_OK;
    bounds_destroy(*out);
    *out = NULL;
    return status;
}

static void destroy_parts(parts *p) {
    for (int n = 0; n < p->count; n++) free(p->at[n]);
    free(p->at);
}

void bounds_destroy(bounds *b) {
    if (!b) return;
    for (int n = 0; n < b->orders.count; n++)
        step_order_destroy(&((order_bounds *)b->orders.at[n])->order);
    destroy_parts(&b->units);
    destroy_parts(&b->states);
    destroy_parts(&b->orders);
    if (b->dev) device_close_sizes(&b->dev);
    free(b);
}

trine_status bounds_of(bounds *b, const trine_config *c, layout_bound *out) {
    order_bounds *o;
    unit_bounds *u;
    state_bounds *d;
    TRY(find_order(b, c, &o));
    TRY(find_units(b, c, &u));
    TRY(find_state(b, c, o, &d));
    u->prices.config = c;
    timing *t = &b->timing;
    *t = (timing){.o = o,
                  .u = u,
                  .d = d,
                  .blocks = b->rules.by->blocks,
                  .late = forecast_late(&b->rules, o->order.spec.stages),
                  .micros = o->order.spec.micros};
    t->message = price_message(&u->prices, u->stream);
    time_chunks(t);
    out->seconds = step_seconds(t, !(b->rules.without >> COST_BUBBLE & 1)) * (1 - ROUNDING);
    out->bytes = 0;
    for (int p = 0; p < o->order.spec.stages; p++)
        out->bytes = fmax(out->bytes, stage_bytes(o, u, d, p));
    if (!b->dev->memory->host) out->bytes += (double)(CUDA_RESERVE + outside_plan_libraries(c));
    return TRINE_OK;
}
