#include "cost/op_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "cost/clock_device.h"

enum { CALLS = 128, MOST_BLOCKS = 8 };
#define LEAST 1e-9 /* seconds of an operator that the clock does not see */
#define CACHES                                                                                     \
    ((size_t)64 << 20) /* bytes that the blocks exceed: more than most processors' last level */

/* ---- Calls ----------------------------------------------------------------------------------- */

struct measure_calls {
    measured_point of;
    double seconds[CALLS]; /* the last ones */
    int count;
};

/* Sizes within 3% are one point: operators count some bytes of small operands. */
static bool is_same(const measured_point *a, const measured_point *b) {
    bool same = a->what == b->what && a->type == b->type;
    for (int k = 0; k < MEASURED_SIZES && same; k++)
        same = fabs(a->size[k] / b->size[k] - 1) < 0.03;
    return same;
}

static trine_status calls_of(measure *m, const measured_point *p, struct measure_calls **out) {
    for (int n = 0; n < m->count; n++) {
        *out = &m->at[n];
        if (is_same(&(*out)->of, p)) return TRINE_OK;
    }
    if (m->count == m->room) {
        int room = m->room ? 2 * m->room : 64;
        struct measure_calls *more = realloc(m->at, (size_t)room * sizeof *more);
        CHECK(more, TRINE_ENOMEM, "no memory to measure %d operators", room);
        m->at = more;
        m->room = room;
    }
    *out = &m->at[m->count++];
    **out = (struct measure_calls){.of = *p};
    return TRINE_OK;
}

static trine_status keep(measure *m, const count_trace *t, trine_dtype type) {
    for (int n = 0; n < t->count; n++) {
        measured_point p;
        struct measure_calls *c = NULL;
        if (!measured_event(&t->at[n], type, &p)) continue;
        TRY(calls_of(m, &p, &c));
        c->seconds[c->count++ % CALLS] = fmax(t->at[n].seconds, LEAST);
    }
    return TRINE_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

trine_status measure_add(const measure *m, int ranks, measured_points *points) {
    for (int n = 0; n < m->count; n++) {
        struct measure_calls *c = &m->at[n];
        int kept = c->count < CALLS ? c->count : CALLS;
        measured_point p = c->of;
        qsort(c->seconds, (size_t)kept, sizeof *c->seconds, ascending);
        p.ranks = ranks;
        p.seconds = 0.5 * (c->seconds[(kept - 1) / 2] + c->seconds[kept / 2]);
        CHECK(measured_add(points, &p), TRINE_EUNSUPPORTED, "more than %d measured operators",
              MEASURED_POINTS);
    }
    return TRINE_OK;
}

void measure_destroy(measure *m) {
    free(m->at);
    *m = (measure){0};
}

/* ---- A model in memory ----------------------------------------------------------------------- */

typedef struct {
    flat_unit layout;
    gpt_unit unit;
    gpt_acts acts;
    void *x; /* its input */
    void *params[FLAT_RANGES], *grads[FLAT_RANGES];
    float *moments[FLAT_RANGES][2], *master[FLAT_RANGES];
} held;

typedef struct {
    gpt_shape shape;
    held units[MOST_BLOCKS + 2];
    int count;
    gpt_scratch scratch;
    gpt_batch batch;
    void *y, *d;
    double *sum;
    device *dev;
    void *base;
    size_t bytes;
    trine_comm *tp; /* of one rank */
    clock_device clock;
    count_trace trace;
} model;

static void take_unit(model *m, arena *a, held *u) {
    const gpt_shape *s = &m->shape;
    size_t element = trine_dtype_bytes(s->compute);
    gpt_acts_take(a, s, m->dev, u->unit.index, &m->scratch, &u->acts);
    u->x = arena_take(a, MEM_MESSAGES, s->B * s->T * s->C * element);
    for (int r = 0; r < u->layout.range_count; r++) {
        size_t count = u->layout.ranges[r].count, floats = count * sizeof(float);
        u->params[r] = arena_take(a, MEM_PARAMS, count * element);
        u->grads[r] = arena_take(a, MEM_GRADS, count * trine_dtype_bytes(s->grads));
        u->master[r] = s->compute == TRINE_F32 ? u->params[r] : arena_take(a, MEM_PARAMS, floats);
        for (int k = 0; k < 2; k++) u->moments[r][k] = arena_take(a, MEM_PARAMS, floats);
    }
}

static void take(model *m, arena *a) {
    const gpt_shape *s = &m->shape;
    const bool has[UNIT_KINDS] = {true, true, true};
    size_t tokens = s->B * s->T, stream = tokens * s->C * trine_dtype_bytes(s->compute);
    gpt_scratch_take(a, s, m->dev, has, &m->scratch);
    for (int u = 0; u < m->count; u++) take_unit(m, a, &m->units[u]);
    m->y = arena_take(a, MEM_MESSAGES, stream);
    m->d = arena_take(a, MEM_MESSAGES, stream);
    m->batch.tokens = arena_take(a, MEM_DATA, tokens * sizeof(int32_t));
    m->batch.targets = arena_take(a, MEM_DATA, tokens * sizeof(int32_t));
    m->batch.loss = arena_take(a, MEM_WORKSPACE, sizeof *m->batch.loss);
    m->sum = arena_take(a, MEM_WORKSPACE, sizeof *m->sum);
}

/* Small numbers everywhere, positive ones, since some are second moments; and tokens from all over the vocabulary. */
static void fill(model *m) {
    const gpt_shape *s = &m->shape;
    bool half = s->compute != TRINE_F32;
    int32_t *tokens = (int32_t *)(uintptr_t)m->batch.tokens,
            *targets = (int32_t *)(uintptr_t)m->batch.targets;
    for (size_t i = 0; i < m->bytes / (half ? 2 : 4); i++) {
        float value = 1e-3f * (float)(i % 7 + 1);
        if (!half)
            ((float *)m->base)[i] = value;
        else
            ((uint16_t *)m->base)[i] =
                s->compute == TRINE_BF16 ? bf16_store(value) : f16_store(value);
    }
    for (size_t i = 0; i < s->B * s->T; i++) {
        tokens[i] = (int32_t)(i * 2654435761u % s->V);
        targets[i] = (int32_t)((i + 1) * 2654435761u % s->V);
    }
    *m->batch.loss = 0;
}

/* As many blocks as exceed the caches, at least two. */
static void choose_blocks(model *m) {
    flat_unit block;
    gpt_unit_layout(&m->shape, 1, 1, &block);
    size_t bytes = block.ranges[0].count * trine_dtype_bytes(m->shape.compute),
           blocks = CACHES / bytes + 1;
    m->shape.L = blocks < 2 ? 2 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    m->count = (int)m->shape.L + 2;
}

static trine_status create(model *m, device *dev, const gpt_shape *s) {
    arena plan, there;
    *m = (model){.shape = *s, .dev = dev};
    m->batch.scale = m->batch.grad_scale = 1.0 / (double)(s->B * s->T);
    choose_blocks(m);
    for (int u = 0; u < m->count; u++) {
        m->units[u].unit.index = u;
        gpt_unit_layout(&m->shape, u, 1, &m->units[u].layout);
    }
    arena_init(&plan, NULL, 0);
    take(m, &plan);
    m->bytes = plan.used;
    TRY(device_alloc(dev, &m->base, m->bytes));
    arena_init(&there, m->base, m->bytes);
    take(m, &there);
    fill(m);
    m->trace.tp = 1;
    clock_device_init(&m->clock, dev, &m->trace);
    if (m->scratch.rope) TRY(rope_write(dev, &m->shape, m->scratch.rope));
    return comm_count_create(&m->tp, TRINE_TP, 1, count_collective, &m->trace);
}

static void destroy(model *m) {
    comm_count_destroy(&m->tp);
    if (m->base) device_free(m->dev, m->base, m->bytes);
    count_trace_destroy(&m->trace);
}

/* ---- Running --------------------------------------------------------------------------------- */

static void bind(model *m, held *u, grad_mode mode) {
    gpt_bind_params(&u->unit, &m->shape, u->unit.index, &u->layout, u->params);
    gpt_bind_grads(&u->unit, &m->shape, u->unit.index, &u->layout, u->grads, mode);
}

/* NORM's part of a unit, or UPDATE. */
static trine_status update(model *m, held *u, bool norm) {
    device *d = &m->clock.device;
    const adamw_args args = {
        .lr = 1e-6f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .scale = 1, .step = 1};
    bool half = m->shape.compute != TRINE_F32;
    for (int r = 0; r < u->layout.range_count; r++) {
        size_t n = u->layout.ranges[r].count;
        if (!n) continue;
        if (norm) TRY(ops_sum_squares(d, m->sum, u->grads[r], n));
        if (norm) continue;
        TRY(ops_adamw(d, u->master[r], u->moments[r][0], u->moments[r][1],
                      half ? u->params[r] : NULL, u->grads[r], n, &args));
    }
    return TRINE_OK;
}

static trine_status run(model *m, grad_mode mode) {
    device *d = &m->clock.device;
    tp_region region = {.comm = m->tp, .dev = d, .parts = 1};
    gpt_run r = {
        .dev = d, .tp = &region, .shape = &m->shape, .scratch = &m->scratch, .training = true};
    m->trace.count = 0;
    for (int u = 0; u < m->count; u++) {
        held *h = &m->units[u];
        void *y = u + 1 < m->count ? m->units[u + 1].x : m->y;
        bind(m, h, mode);
        TRY(gpt_forward(&r, &h->unit, &h->acts, y, h->x, &m->batch));
    }
    for (int u = m->count - 1; u >= 0; u--) {
        held *h = &m->units[u];
        TRY(gpt_backward(&r, &h->unit, &h->acts, m->d, h->x, &m->batch));
    }
    for (int u = 0; u < m->count; u++) TRY(update(m, &m->units[u], true));
    for (int u = 0; u < m->count; u++) TRY(update(m, &m->units[u], false));
    return TRINE_OK;
}

trine_status measure_model(measure *m, device *dev, const gpt_shape *s, int runs,
                           trine_comm *node) {
    model *own = calloc(1, sizeof *own);
    CHECK(own, TRINE_ENOMEM, "no memory to measure a model");
    trine_status status = dev ? create(own, dev, s) : TRINE_OK;
    for (int n = 0; n <= runs && status == TRINE_OK; n++) {
        status = trine_barrier(node);
        if (!dev) continue;
        if (status == TRINE_OK) status = run(own, n % 2 ? GRAD_ADD : GRAD_SET);
        if (status == TRINE_OK && n) status = keep(m, &own->trace, s->compute);
    }
    if (dev) destroy(own);
    free(own);
    return status;
}
