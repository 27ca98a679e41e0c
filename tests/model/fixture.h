/* A complete model on one tp group, run unit by unit without program, pipeline or optimizer, for the
 * tests of model/ and tp/. */
#ifndef TRINE_TESTS_MODEL_FIXTURE_H
#define TRINE_TESTS_MODEL_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/ops.h"
#include "harness.h"
#include "model/gpt.h"

#define MAX_UNITS 8

typedef struct {
    gpt_shape s;
    device *dev;
    tp_region tp;
    gpt_scratch scratch;
    gpt_run run;
    gpt_batch batch;
    int units;
    flat_unit layout[MAX_UNITS];
    gpt_unit unit[MAX_UNITS];
    gpt_acts acts[MAX_UNITS];
    float *params[MAX_UNITS][FLAT_RANGES], *grads[MAX_UNITS][FLAT_RANGES];
    float *x[MAX_UNITS]; /* input of each unit, (R, C); x[0] is unused */
    float *d;            /* (R, C) */
    int32_t *tokens, *targets;
    double loss;
    void *memory;
} model;

static inline void model_take(model *m, arena *a) {
    const bool all[UNIT_KINDS] = {true, true, true};
    gpt_scratch_take(a, &m->s, m->dev, all, &m->scratch);
    for (int u = 0; u < m->units; u++) {
        for (int r = 0; r < m->layout[u].range_count; r++) {
            size_t bytes = m->layout[u].ranges[r].count * sizeof(float);
            bool shared = u == m->units - 1 && r == 0 && !m->s.untied;
            m->params[u][r] = shared ? m->params[0][0] : arena_take(a, MEM_PARAMS, bytes);
            m->grads[u][r] = arena_take(a, MEM_GRADS, bytes);
        }
        gpt_acts_take(a, &m->s, m->dev, u, &m->scratch, &m->acts[u]);
        m->x[u] = arena_take(a, MEM_MESSAGES, gpt_rows(&m->s).count * m->s.C * sizeof(float));
    }
    m->d = arena_take(a, MEM_MESSAGES, gpt_rows(&m->s).count * m->s.C * sizeof(float));
    m->tokens = arena_take(a, MEM_DATA, m->s.B * m->s.T * sizeof(int32_t));
    m->targets = arena_take(a, MEM_DATA, m->s.B * m->s.T * sizeof(int32_t));
}

static inline void model_init(model *m, uint64_t seed) {
    for (int u = 0; u < m->units; u++)
        for (int r = 0; r < m->layout[u].range_count; r++)
            flat_init(&m->layout[u].ranges[r], 0, seed, 0, m->layout[u].ranges[r].count,
                      m->params[u][r]);
}

/* Opens a model with the library's initial values and tokens computed from their position. The
 * tp group is `comm`; m->s.tp and tp_rank are set from it. */
static inline void model_open(model *m, gpt_shape s, device_kind kind, trine_comm *comm) {
    *m = (model){.s = s};
    m->s.tp = trine_comm_size(comm);
    m->s.tp_rank = trine_comm_rank(comm);
    OK(device_open(&m->dev, kind, 1));
    m->tp = (tp_region){.comm = comm, .dev = m->dev};
    m->units = gpt_unit_count(&m->s);
    for (int u = 0; u < m->units; u++) gpt_unit_layout(&m->s, u, 1, &m->layout[u]);
    arena a;
    arena_init(&a, NULL, 0);
    model_take(m, &a);
    size_t bytes = a.used;
    OK(device_alloc(m->dev, &m->memory, bytes));
    arena_init(&a, m->memory, bytes);
    model_take(m, &a);
    assert_int_equal(a.used, bytes);
    for (int u = 0; u < m->units; u++) {
        gpt_bind_params(&m->unit[u], &m->s, u, &m->layout[u], (void *const *)m->params[u]);
        gpt_bind_grads(&m->unit[u], &m->s, u, &m->layout[u], (void *const *)m->grads[u],
                       GRAD_ADD);
    }
    size_t N = s.B * s.T;
    for (size_t i = 0; i < N; i++) {
        m->tokens[i] = (int32_t)((7 * i + 3) % s.V);
        m->targets[i] = (int32_t)((5 * i + i * i) % s.V);
    }
    double scale = 1.0 / (double)N;
    m->batch = (gpt_batch){.tokens = m->tokens,
                           .targets = m->targets,
                           .sample = 5,
                           .scale = scale,
                           .grad_scale = scale,
                           .loss = &m->loss};
    m->tp.full = m->scratch.full;
    m->tp.sum = m->scratch.sum;
    m->run.scratch = &m->scratch;
    OK(rope_write(m->dev, &m->s, m->scratch.rope));
    m->run.seed = 17;
    m->run.training = true;
    m->run.dev = m->dev;
    m->run.tp = &m->tp;
    m->run.shape = &m->s;
    model_init(m, 42);
}

static inline void model_close(model *m) {
    arena a;
    arena_init(&a, NULL, 0);
    model sizes = *m;
    model_take(&sizes, &a);
    device_free(m->dev, m->memory, a.used);
    device_close(&m->dev);
}

/* Sets and returns the loss of the batch, with the run's dropout. */
static inline double model_forward(model *m) {
    m->loss = 0;
    for (int u = 0; u < m->units; u++) {
        gpt_run run = m->run;
        void *y = u + 1 < m->units ? m->x[u + 1] : NULL;
        if (u == m->units - 1) run.training = false; /* here the head computes its loss in the forward pass */
        OK(gpt_forward(&run, &m->unit[u], &m->acts[u], y, m->x[u], &m->batch));
    }
    return m->loss;
}

static inline void model_zero_grads(model *m) {
    for (int u = 0; u < m->units; u++)
        for (int r = 0; r < m->layout[u].range_count; r++)
            memset(m->grads[u][r], 0, m->layout[u].ranges[r].count * sizeof(float));
}

/* Gradients +=; the loss is added again. */
static inline void model_backward(model *m) {
    for (int u = m->units - 1; u >= 0; u--)
        OK(gpt_backward(&m->run, &m->unit[u], &m->acts[u], m->d, m->x[u], &m->batch));
}

/* Initial values larger than GPT-2's and all different, so that no gradient is near zero. The values
 * are functions of name and global index, like those of flat_init. */
static inline void model_roughen(model *m, double std) {
    for (int u = 0; u < m->units; u++)
        for (int r = 0; r < m->layout[u].range_count; r++) {
            flat_range rough = m->layout[u].ranges[r];
            for (int t = 0; t < rough.tensor_count; t++) {
                rough.tensors[t].init = INIT_NORMAL;
                rough.tensors[t].std = std;
            }
            flat_init(&rough, 0, 99, 0, rough.count, m->params[u][r]);
        }
}

#endif
