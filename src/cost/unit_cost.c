#include "cost/unit_cost.h"

#include <math.h>

#include "base/status.h"

/* The sum over events so far. */
typedef struct {
    const cost_rules *rules;
    trine_dtype type;
    unit_seconds sum;
    double kernels;
    double beside; /* collectives that run beside the next product */
} pricing;

static void move(pricing *p, double bytes) {
    if (cost_has(&p->rules->machine, COST_MEMORY))
        p->sum.memory += op_bytes(&p->rules->machine, bytes);
}

/* Attention whose scores are in memory: batched products beside operators that move them. */
static void price_scores(pricing *p, const count_event *e, const implementation_op *o) {
    count_product q = e->product, weighted = {q.batch, q.rows, q.depth, q.columns};
    double scores = 2.0 * (double)q.batch * (double)q.rows * (double)q.columns,
           inner = 2.0 * (double)q.batch * (double)q.rows * (double)q.depth;
    const machine_cost *m = &p->rules->machine;
    p->sum.compute +=
        o->products / 2 * (op_product(m, q, p->type) + op_product(m, weighted, p->type));
    move(p, o->scores * scores + o->inner * inner);
}

/* Fused attention, or an operator that is no product: flops at the rate of products. */
static void price_fused(pricing *p, const count_event *e) {
    const hardware *h = p->rules->machine.h;
    double rate = p->type == TRINE_F32 ? h->matmul_rate_fp32 : h->matmul_rate;
    p->sum.compute += e->flops / (rate * h->matmul_efficiency);
}

/* Whether a collective that was started runs beside what is computed until the wait for it. */
static bool hides(const cost_rules *r) {
    return r->by->hides_sums && r->machine.h->host_moves == 0;
}

static void price_collective(pricing *p, const count_event *e) {
    const cost_rules *r = p->rules;
    double time = op_collective(&r->machine, r->tp, e->kind, e->sent);
    p->kernels++;
    if (!cost_has(&r->machine, COST_TP)) return;
    if (e->started && hides(r))
        p->beside += time;
    else
        p->sum.tp += time;
}

static void price_product(pricing *p, const count_event *e, double time) {
    const cost_rules *r = p->rules;
    p->sum.compute += time;
    p->sum.tp += fmax(0, p->beside - time);
    p->beside = 0;
    if (e->what == COUNT_linear_backward_weight && r->adds_apart &&
        cost_has(&r->machine, COST_ADDS))
        move(p, r->by->add_bytes * (double)e->product.rows * (double)e->product.columns);
}

static bool is_attention(const count_event *e) {
    return e->what == COUNT_attention_forward || e->what == COUNT_attention_backward;
}

/* An operator as the machine measured it, launch and all. False: it did not. */
static bool price_measured(pricing *p, const count_event *e) {
    double time = op_measured(&p->rules->machine, e, p->type);
    if (time < 0) return false;
    if (e->flops > 0 && e->product.batch && !is_attention(e))
        price_product(p, e, time);
    else if (e->flops > 0)
        p->sum.compute += time;
    else if (cost_has(&p->rules->machine, COST_MEMORY))
        p->sum.memory += time;
    return true;
}

static void price(pricing *p, const count_event *e) {
    const implementation_op *o = implementation_op_of(p->rules->by, e->what);
    if (e->what == COUNT_collective) {
        price_collective(p, e);
        return;
    }
    if (!o && price_measured(p, e)) return;
    p->kernels += o ? o->kernels : 1;
    if (is_attention(e) && o && o->products)
        price_scores(p, e, o);
    else if (is_attention(e) || (e->flops > 0 && !e->product.batch))
        price_fused(p, e);
    else if (e->flops > 0)
        price_product(p, e, op_product(&p->rules->machine, e->product, p->type));
    else
        move(p, e->bytes * (o ? o->factor : 1));
}

/* The operators' launches, and the time that the host needs for them where that is more than all of this. */
static unit_seconds priced(pricing *p) {
    const hardware *h = p->rules->machine.h;
    p->sum.tp += p->beside;
    if (!cost_has(&p->rules->machine, COST_HOST)) return p->sum;
    p->sum.memory += p->kernels * h->launch_time;
    double busy = p->sum.compute + p->sum.memory + p->sum.tp;
    p->sum.memory += fmax(0, p->kernels * h->host_time - busy);
    return p->sum;
}

unit_seconds trace_cost(const cost_rules *r, const count_trace *t, trine_dtype type) {
    pricing p = {.rules = r, .type = type};
    for (int n = 0; n < t->count; n++) price(&p, &t->at[n]);
    return priced(&p);
}

/* ---- A pass ---------------------------------------------------------------------------------- */

gpt_shape cost_shape(const cost_rules *r, const gpt_shape *s) {
    gpt_shape own = *s;
    if (r->by->repeats_forward) own.recompute = TRINE_RECOMPUTE_NONE;
    return own;
}

/* What an implementation repeats of the forward pass before the backward pass. */
static trine_status price_repeated(pricing *p, const gpt_shape *s, const device *dev, int unit) {
    count_trace t;
    trine_status status = unit_trace(s, dev, unit, (unit_pass){.kind = FORWARD}, &t);
    for (int n = 0; n < t.count && status == TRINE_OK; n++)
        if (p->rules->recompute == TRINE_RECOMPUTE_FULL || is_attention(&t.at[n]))
            price(p, &t.at[n]);
    count_trace_destroy(&t);
    return status;
}

trine_status unit_cost(const cost_rules *r, const gpt_shape *s, const device *dev, int unit,
                       unit_pass pass, unit_seconds *out) {
    pricing p = {.rules = r, .type = s->compute};
    count_trace t;
    bool block = gpt_unit_kind(s, unit) == UNIT_BLOCK;
    bool repeats = r->by->repeats_forward && r->recompute != TRINE_RECOMPUTE_NONE && block &&
                   (pass.kind == BACKWARD || pass.kind == BACKWARD_INPUT);
    *out = (unit_seconds){0};
    if (gpt_unit_kind(s, unit) == UNIT_HEAD && !cost_has(&r->machine, COST_HEAD)) return TRINE_OK;
    if (repeats) TRY(price_repeated(&p, s, dev, unit));
    trine_status status = unit_trace(s, dev, unit, pass, &t);
    for (int n = 0; n < t.count && status == TRINE_OK; n++) price(&p, &t.at[n]);
    count_trace_destroy(&t);
    if (status == TRINE_OK) *out = priced(&p);
    return status;
}
