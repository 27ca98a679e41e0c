#include "cost/unit_trace.h"

#include <sys/mman.h>

#include "base/status.h"

/* All that a pass is given. */
typedef struct {
    const gpt_shape *shape;
    flat_unit layout;
    gpt_unit unit;
    gpt_scratch scratch;
    gpt_acts acts;
    gpt_keep keep;
    gpt_batch batch;
    void *x, *y, *d;
    void *params[FLAT_RANGES], *grads[FLAT_RANGES];
} call;

static void take(call *c, arena *a, const device *dev, bool keeps) {
    const gpt_shape *s = c->shape;
    size_t tokens = s->B * s->T * sizeof(int32_t),
           stream = gpt_rows(s).count * s->C * trine_dtype_bytes(s->compute);
    bool has[UNIT_KINDS] = {false};
    has[gpt_unit_kind(s, c->unit.index)] = true;
    gpt_scratch_take(a, s, dev, has, &c->scratch);
    gpt_acts_take(a, s, dev, c->unit.index, &c->scratch, &c->acts);
    if (keeps) gpt_keep_take(a, s, dev, false, &c->keep);
    c->x = arena_take(a, MEM_MESSAGES, stream);
    c->y = arena_take(a, MEM_MESSAGES, stream);
    c->d = arena_take(a, MEM_MESSAGES, stream);
    c->batch.tokens = arena_take(a, MEM_DATA, tokens);
    c->batch.targets = arena_take(a, MEM_DATA, tokens);
    c->batch.loss = arena_take(a, MEM_WORKSPACE, sizeof *c->batch.loss);
    for (int r = 0; r < c->layout.range_count; r++) {
        size_t count = c->layout.ranges[r].count * (size_t)gpt_parts(s);
        c->params[r] = arena_take(a, MEM_PARAMS, count * trine_dtype_bytes(s->compute));
        c->grads[r] = arena_take(a, MEM_GRADS, count * trine_dtype_bytes(s->grads));
    }
}

static trine_status run(call *c, device *dev, trine_comm *tp, unit_pass pass) {
    const gpt_shape *s = c->shape;
    tp_region region = {.comm = tp,
                        .dev = dev,
                        .full = c->scratch.full,
                        .sum = c->scratch.sum,
                        .tree = s->exact,
                        .parts = gpt_parts(s),
                        .addends = c->scratch.addends,
                        .wide = c->scratch.wide};
    gpt_run r = {.dev = dev, .tp = &region, .shape = s, .scratch = &c->scratch, .training = true};
    gpt_bind_params(&c->unit, s, c->unit.index, &c->layout, c->params);
    gpt_bind_grads(&c->unit, s, c->unit.index, &c->layout, c->grads,
                   pass.adds ? GRAD_ADD : GRAD_SET);
    if (pass.kind == FORWARD) return gpt_forward(&r, &c->unit, &c->acts, c->y, c->x, &c->batch);
    if (!pass.keeps) return gpt_backward(&r, &c->unit, &c->acts, c->d, c->x, &c->batch);
    if (pass.kind == BACKWARD_INPUT)
        return gpt_backward_input(&r, &c->unit, &c->acts, &c->keep, c->d, c->x, &c->batch);
    return gpt_backward_weight(&r, &c->unit, &c->acts, &c->keep, c->x, &c->batch);
}

/* Runs the pass in addresses that the plan needs. */
static trine_status run_in_addresses(call *c, count_device *d, trine_comm *tp, unit_pass pass) {
    arena plan, there;
    arena_init(&plan, NULL, 0);
    take(c, &plan, &d->device, pass.keeps);
    void *base = mmap(NULL, plan.used + ARENA_ALIGN, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED, TRINE_ENOMEM, "no addresses for %zu bytes", plan.used);
    arena_init(&there, base, plan.used + ARENA_ALIGN);
    take(c, &there, &d->device, pass.keeps);
    trine_status status = run(c, &d->device, tp, pass);
    munmap(base, plan.used + ARENA_ALIGN);
    return status;
}

trine_status unit_trace(const gpt_shape *s, const device *dev, int unit, unit_pass pass,
                        count_trace *out) {
    call c = {.shape = s, .unit = {.index = unit}};
    count_device d;
    trine_comm *tp;
    *out = (count_trace){.tp = gpt_tp_ranks(s)};
    count_device_init(&d, dev, out);
    gpt_unit_layout(s, unit, 1, &c.layout);
    TRY(comm_count_create(&tp, TRINE_TP, out->tp, count_collective, out));
    trine_status status = run_in_addresses(&c, &d, tp, pass);
    comm_count_destroy(&tp);
    return status;
}
