/* TEST np=1,2,4 */
/* Training in 16 bits: bf16 and fp16, with gradients in fp32 and in 16 bits, on ref, which runs on every
 * processor. The parameters are the rounded master weights from the start, and the numbers are near those of
 * fp32. The pairs that are bitwise equal in fp32 are bitwise equal here, and audit, profile and evaluation change
 * nothing: tests/mix/cover.c. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "run/replicas.h"

enum { STEPS = 3, TYPES = 4 };

static const struct {
    bool fp16;
    trine_dtype grads;
    const char *name;
} types[TYPES] = {{false, TRINE_F32, "bf16"},
                  {false, TRINE_BF16, "bf16 including gradients"},
                  {true, TRINE_F32, "fp16"},
                  {true, TRINE_F16, "fp16 including gradients"}};

static trine_config config_of(trine_layout l, int zero, int type) {
    trine_config c = training_config();
    c.model.num_layers = 3;
    c.parallel.device = "ref";
    c.parallel.layout = l;
    c.parallel.zero = (trine_zero)zero;
    c.precision.bf16 = !types[type].fp16;
    c.precision.fp16 = types[type].fp16;
    c.precision.grads = types[type].grads;
    if (types[type].fp16) c.precision.initial_loss_scale = 1024;
    c.global_batch_size = 2 * l.dp;
    return c;
}

static trine_layout along(int axis) {
    int ranks = trine_world_size(harness_world);
    const trine_layout layouts[] = {{.dp = ranks, .tp = 1, .pp = 1},
                                    {.dp = 1, .tp = ranks, .pp = 1},
                                    {.dp = 1, .tp = 1, .pp = ranks}};
    return layouts[axis];
}

/* ---- The state ------------------------------------------------------------------------------- */

/* Every 16-bit weight whose master is on this rank is the rounded master, and not all masters are
 * exact in 16 bits. */
static void expect_rounded(const trine_trainer *t) {
    size_t differ = 0;
    const rank_state *h = &t->held;
    bool bf16 = t->config.precision.bf16;
    for (int n = 0; n < h->count; n++)
        for (int r = 0; r < h->units[n].layout.range_count; r++) {
            const held_unit *u = &h->units[n];
            flat_part own = state_owned(h, u, r);
            if (u->borrowed[r]) continue;
            const float *w = state_master(h, u, r, own);
            const uint16_t *half = state_param(h, u, r, own);
            for (size_t i = 0; i < own.count; i++) {
                assert_int_equal(half[i], bf16 ? bf16_store(w[i]) : f16_store(w[i]));
                differ += (bf16 ? bf16_load(half[i]) : f16_load(half[i])) != w[i];
            }
        }
    assert_true(differ > 0);
}

static void round_layout(trine_layout l) {
    for (int zero = 0; zero <= 3; zero++)
        for (int type = zero % 2; type < TYPES; type += 2) {
            trine_config c = config_of(l, zero, type);
            trine_trainer *t;
            trine_metrics m;
            OK(trine_trainer_create(&t, harness_world, &c));
            expect_rounded(t);
            OK(replicas_agree(&t->held, t->dev, t->mesh));
            for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
            assert_false(m.skipped);
            expect_rounded(t);
            trine_trainer_destroy(&t);
        }
}

/* At the start and after some steps. */
static void weights_are_the_masters_rounding(void **state) {
    (void)state;
    training_layouts(round_layout);
}

/* The master is the initial fp32 value, bit for bit: only the weight is rounded. */
static void the_master_starts_as_fp32_does(void **state) {
    (void)state;
    trine_config mixed = config_of(along(0), 1, 0), in_fp32 = mixed;
    trine_trainer *a, *b;
    in_fp32.precision.bf16 = false;
    OK(trine_trainer_create(&a, harness_world, &mixed));
    OK(trine_trainer_create(&b, harness_world, &in_fp32));
    for (int n = 0; n < a->held.count; n++)
        for (int r = 0; r < a->held.units[n].layout.range_count; r++) {
            const held_unit *u = &a->held.units[n], *v = &b->held.units[n];
            flat_part own = state_owned(&a->held, u, r);
            if (u->borrowed[r]) continue;
            assert_memory_equal(state_master(&a->held, u, r, own),
                                state_master(&b->held, v, r, own), own.count * sizeof(float));
        }
    trine_trainer_destroy(&a);
    trine_trainer_destroy(&b);
}

/* ---- Audit and evaluation -------------------------------------------------------------------- */

/* One wrong bit of a master is found before it reaches a weight. */
static void audit_sees_the_master(void **state) {
    (void)state;
    if (trine_world_size(harness_world) == 1) return;
    bool last = trine_world_rank(harness_world) == trine_world_size(harness_world) - 1;
    trine_config c = config_of(along(0), 0, 0);
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, &c));
    const held_unit *u = state_unit(&t->held, 2);
    unsigned char *w = (void *)(u->master[0] + u->layout.ranges[0].tensors[4].offset);
    if (last) *w ^= 1;
    REFUSED(replicas_agree(&t->held, t->dev, t->mesh), TRINE_EAUDIT, "h.1.attn.c_proj.weight");
    trine_trainer_destroy(&t);
}

/* An evaluation uses no loss scale. */
static void evaluation(void **state) {
    (void)state;
    for (int type = 0; type < TYPES; type += 2) {
        trine_config c = config_of(along(2), 0, type);
        c.data.val_data_path = training_tokens();
        c.eval_iters = 2;
        trine_trainer *t;
        trine_metrics m;
        double before, again, after;
        OK(trine_trainer_create(&t, harness_world, &c));
        OK(trine_trainer_eval(t, &before));
        OK(trine_trainer_eval(t, &again));
        assert_true(before == again);
        assert_true(fabs(before - log(TRAINING_VOCAB)) < 0.1);
        OK(trine_trainer_step(t, &m));
        OK(trine_trainer_eval(t, &after));
        assert_true(after != before);
        trine_trainer_destroy(&t);
    }
}

/* ---- Near fp32 ------------------------------------------------------------------------------- */

/* Rounding to 8 bits (bf16: 2^-9 each) or 11 (fp16: 2^-12), over a few layers: loss and norm differ
 * by a few roundings, and never by zero. Scaling by a power of two changes no bit within the
 * range, so norms are directly comparable: a scale that is not divided out, or divided out
 * twice, is an error of 1024. */
static void near_fp32(void **state) {
    (void)state;
    for (int type = 0; type < TYPES; type++) {
        trine_config c = config_of(along(1), 0, type), in_fp32 = c;
        in_fp32.precision = trine_config_default().precision;
        training_result x = training_run(harness_world, &c, STEPS);
        training_result y = training_run(harness_world, &in_fp32, STEPS);
        double off = training_distance(&x, &y), most = types[type].fp16 ? 0x1p-8 : 0x1p-5;
        if (!(off > 0 && off <= most))
            fail_msg("%s: differs from fp32 by %.2g", types[type].name, off);
    }
}

/* A scale that is a power of two is exact except for underflow: two scales differ little. */
static void the_scale_is_divided_out(void **state) {
    (void)state;
    trine_config a = config_of(along(1), 0, 2), b = a;
    b.precision.initial_loss_scale = 4096;
    a.precision.initial_loss_scale = 2048;
    trine_trainer *t[2];
    trine_metrics m[2];
    OK(trine_trainer_create(&t[0], harness_world, &a));
    OK(trine_trainer_create(&t[1], harness_world, &b));
    for (int i = 0; i < STEPS; i++) {
        for (int k = 0; k < 2; k++) OK(trine_trainer_step(t[k], &m[k]));
        assert_true(m[0].loss_scale == 2048 && m[1].loss_scale == 4096);
        assert_true(fabs(m[0].grad_norm / m[1].grad_norm - 1) < 1e-4);
        assert_true(fabs(m[0].loss / m[1].loss - 1) < 1e-4);
    }
    /* Moments are compared because AdamW's steps do not depend on the size of gradients. */
    const held_unit *u = &t[0]->held.units[0], *v = &t[1]->held.units[0];
    double moment[2] = {0};
    for (size_t i = 0; i < u->layout.ranges[0].count; i++) {
        moment[0] += fabs((double)u->moment1[0][i]);
        moment[1] += fabs((double)v->moment1[0][i]);
    }
    assert_true(moment[0] > 0 && fabs(moment[0] / moment[1] - 1) < 1e-2);
    for (int k = 0; k < 2; k++) trine_trainer_destroy(&t[k]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_the_masters_rounding),
        cmocka_unit_test(the_master_starts_as_fp32_does),
        cmocka_unit_test(audit_sees_the_master),
        cmocka_unit_test(evaluation),
        cmocka_unit_test(near_fp32),
        cmocka_unit_test(the_scale_is_divided_out),
    };
    return HARNESS_RUN(argc, argv, tests);
}
