/* TEST np=1,2,4 */
/* The loss scale: its purpose, and what happens if it is too large. A wrapper of the device's operators
 * puts an infinity into one rank's gradient, or makes the loss so small that its gradients
 * underflow in fp16. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/ops.h"
#include "trine_checkpoint.h"

/* ---- A device with a wrapped table ------------------------------------------------------------ */

static struct {
    ops table;
    device device;
    const ops *real;
    int poisoned; /* the n-th next matrix gradient of this rank becomes infinite; 0: none */
    float weight; /* of the loss */
} fake;

/* Sets one number of the gradient to infinity, as an overflow does. */
static trine_status poison(device *d, void *dw, void *dbias, const void *dy, const void *x,
                           size_t T, size_t N, size_t K, grad_mode mode) {
    trine_status status = fake.real->linear_backward_weight(d, dw, dbias, dy, x, T, N, K, mode);
    uint16_t half = d->grads == TRINE_F16 ? 0x7C00 : 0x7F80;
    float inf = INFINITY;
    if (fake.poisoned == 1)
        memcpy(dw, d->grads == TRINE_F32 ? (void *)&inf : &half, trine_dtype_bytes(d->grads));
    if (fake.poisoned > 0) fake.poisoned--;
    return status;
}

static trine_status lighten(device *d, void *logits, const float *max, const float *sums,
                            const int32_t *targets, int32_t first, float scale, size_t T, size_t V,
                            size_t valid) {
    return fake.real->xent_backward(d, logits, max, sums, targets, first, scale * fake.weight, T, V,
                                    valid);
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    fake.real = t->dev->ops;
    fake.table = *fake.real;
    fake.table.linear_backward_weight = poison;
    fake.table.xent_backward = lighten;
    fake.poisoned = 0;
    fake.weight = 1;
    fake.device = *t->dev;
    fake.device.ops = &fake.table;
    exec_use_device(&t->interpreter, &fake.device);
    return t;
}

static trine_config config_of(trine_layout l, int zero) {
    trine_config c = training_config();
    c.model.num_layers = 3;
    c.parallel.device = "ref";
    c.parallel.layout = l;
    c.parallel.zero = (trine_zero)zero;
    c.precision.fp16 = true;
    c.precision.initial_loss_scale = 1024;
    c.precision.hysteresis = 1;
    c.global_batch_size = 2 * l.dp;
    return c;
}

static bool is_last_rank(void) {
    return trine_world_rank(harness_world) == trine_world_size(harness_world) - 1;
}

/* Whether all ranks have the same number. */
static bool same_everywhere(const trine_trainer *t, double x) {
    double most[2] = {x, -x};
    OK(trine_all_reduce(trine_mesh_group(t->mesh, TRINE_WORLD), most, most, 2, TRINE_F64,
                        TRINE_MAX));
    return most[0] == x && most[1] == -x;
}

/* ---- One infinity ---------------------------------------------------------------------------- */

/* Only the last rank has the infinity; all ranks skip the step. The next step is as if the skipped one
 * had not been made, except for the scale, which is a power of two. */
static void expect_skipped(trine_trainer *t, double scale, double next) {
    trine_metrics m;
    uint64_t before = training_fingerprint(t);
    int64_t updates = t->updates, skips = t->steps - t->updates;
    fake.poisoned = is_last_rank();
    OK(trine_trainer_step(t, &m));
    assert_true(m.skipped && !isfinite(m.grad_norm));
    assert_int_equal(m.skips, skips + 1);
    assert_int_equal(t->updates, updates);
    assert_true(m.loss_scale == scale && t->scale.scale == next);
    assert_true(same_everywhere(t, t->scale.scale));
    assert_true(training_fingerprint(t) == before);
    OK(trine_trainer_step(t, &m));
    assert_false(m.skipped);
    assert_true(m.loss_scale == next);
    assert_int_equal(m.skips, skips + 1);
    assert_true(training_fingerprint(t) != before);
}

static void poison_layout(trine_layout l) {
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = config_of(l, zero);
        trine_metrics m;
        c.model.untied = zero % 2;
        if (zero >= 2) c.precision.grads = TRINE_F16;
        if (zero == 1) c.precision.hysteresis = 2;
        trine_trainer *t = create(&c);
        OK(trine_trainer_step(t, &m));
        assert_false(m.skipped);
        expect_skipped(t, 1024, zero == 1 ? 1024 : 512);
        expect_skipped(t, zero == 1 ? 1024 : 512, zero == 1 ? 512 : 256);
        trine_trainer_destroy(&t);
    }
}

static void one_ranks_infinity_skips_the_step_everywhere(void **state) {
    (void)state;
    training_layouts(poison_layout);
}

/* Two scales that are powers of two: the update divides by the scale of its step. */
static void training_goes_on_with_half_the_scale(void **state) {
    (void)state;
    trine_config c = config_of(
                     (trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 0),
                 b = c;
    b.precision.loss_scale = 512;
    b.precision.initial_loss_scale = trine_config_default().precision.initial_loss_scale;
    b.precision.hysteresis = 2;
    training_result want = training_run(harness_world, &b, 2);
    trine_trainer *t = create(&c);
    trine_metrics m;
    fake.poisoned = is_last_rank();
    OK(trine_trainer_step(t, &m));
    assert_true(m.skipped);
    t->steps = 0, t->samples = 0; /* the same samples and learning rate again */
    for (int i = 0; i < 2; i++) {
        OK(trine_trainer_step(t, &m));
        assert_true(m.loss == want.loss[i] && m.grad_norm == want.norm[i]);
        assert_true(training_fingerprint(t) == want.params[i]);
    }
    trine_trainer_destroy(&t);
}

/* ---- First overflow ------------------------------------------------------------------------- */

/* The tensor that is named when the last rank's n-th matrix gradient is infinite. */
static trine_coord named(const trine_config *c, int n, const char *want) {
    trine_metrics m;
    trine_trainer *t = create(c);
    fake.poisoned = is_last_rank() ? n : 0;
    OK(trine_trainer_step(t, &m));
    assert_true(m.skipped);
    if (strncmp(t->overflow, want, strlen(want)) != 0) fail_msg("named: %s", t->overflow);
    int rank = atoi(t->overflow + strlen(want));
    trine_coord at = trine_layout_coord(c->parallel.layout, rank);
    char place[32];
    snprintf(place, sizeof place, "[pp%d dp%d tp%d]", at.pp, at.dp, at.tp);
    assert_non_null(strstr(t->overflow, place));
    trine_trainer_destroy(&t);
    return at;
}

/* Backward starts with the head's matrix, whose first number is in the first dp slice; of a tied
 * matrix the embedding, which has the sum, is not named. The last layer follows, from its end. */
static void name_layout(trine_layout l) {
    for (int zero = 0; zero <= 3; zero++) {
        trine_config c = config_of(l, zero);
        c.model.untied = zero % 2;
        trine_coord at = named(
            &c, 1, zero % 2 ? "lm_head.weight (head) on rank " : "wte.weight (head) on rank ");
        assert_int_equal(at.pp, l.pp - 1);
        assert_int_equal(at.dp, 0);
        assert_int_equal(at.tp, l.tp - 1);
        if (l.pp > 1) continue;
        at = named(&c, 4, "h.2.attn.c_proj.weight (layer 2) on rank ");
        assert_int_equal(at.tp, l.tp - 1);
    }
}

static void the_first_tensor_is_named(void **state) {
    (void)state;
    training_layouts(name_layout);
}

/* A scale that is too large overflows in the gradient of the logits, so the head's matrix is first. */
static void an_overflow_begins_at_the_logits(void **state) {
    (void)state;
    for (int untied = 0; untied < 2; untied++) {
        trine_config c =
            config_of((trine_layout){.dp = 1, .tp = 1, .pp = trine_world_size(harness_world)}, 0);
        trine_metrics m;
        c.model.untied = untied;
        c.precision.initial_loss_scale = 0x1p32;
        trine_trainer *t = create(&c);
        OK(trine_trainer_step(t, &m));
        assert_true(m.skipped);
        const char *want = untied ? "lm_head.weight (head)" : "wte.weight (head)";
        if (strncmp(t->overflow, want, strlen(want)) != 0) fail_msg("named: %s", t->overflow);
        trine_trainer_destroy(&t);
    }
}

/* ---- The minimum ----------------------------------------------------------------------------- */

static void stop_layout(trine_layout l) {
    trine_config c = config_of(l, l.tp % 2 ? 3 : 0);
    trine_metrics m;
    c.precision.initial_loss_scale = 512;
    c.precision.min_loss_scale = 256;
    trine_trainer *t = create(&c);
    for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
    fake.poisoned = is_last_rank();
    OK(trine_trainer_step(t, &m));
    assert_true(m.skipped && t->scale.scale == 256);
    fake.poisoned = is_last_rank();
    char text[128];
    snprintf(text, sizeof text, "the last finite gradient norm was %.6g at step 2", t->finite_norm);
    assert_int_equal(trine_trainer_step(t, &m), TRINE_EOVERFLOW);
    assert_non_null(
        strstr(status_message(), "step 4: gradients overflow at loss scale 256, the minimum"));
    assert_non_null(strstr(status_message(), "first in wte.weight (head) on rank "));
    REFUSED(TRINE_EOVERFLOW, TRINE_EOVERFLOW, text);
    trine_trainer_destroy(&t);
}

/* Every rank has the error with the same text. */
static void an_overflow_at_the_minimum_stops(void **state) {
    (void)state;
    training_layouts(stop_layout);
}

/* ---- Purpose --------------------------------------------------------------------------------- */

/* This weight gives each token the share that it has in a batch of 2^28 tokens: gradients of
 * some 1e-10, where fp16's smallest number is 6e-8. AdamW does not depend on the size of gradients
 * if eps is smaller. */
#define LIGHT 0x1p-24f

enum { LEARNT = 12 };

/* The decrease of the loss on the same tokens, and the largest norm. */
static double learn(trine_config c, double *norm) {
    trine_metrics m;
    double before, after;
    c.optimizer.lr = 2e-3;
    c.optimizer.lr_warmup_iters = 0;
    c.optimizer.adam_eps = 1e-16;
    c.optimizer.weight_decay = 0;
    c.data.val_data_path = training_tokens();
    c.eval_iters = 2;
    trine_trainer *t = create(&c);
    uint64_t start = training_fingerprint(t);
    fake.weight = LIGHT;
    *norm = 0;
    OK(trine_trainer_eval(t, &before));
    for (int i = 0; i < LEARNT; i++) {
        OK(trine_trainer_step(t, &m));
        assert_false(m.skipped);
        *norm = fmax(*norm, m.grad_norm);
    }
    OK(trine_trainer_eval(t, &after));
    assert_true((training_fingerprint(t) != start) == (*norm > 0));
    trine_trainer_destroy(&t);
    return before - after;
}

static void small_gradients_need_the_scale(void **state) {
    (void)state;
    trine_config scaled =
        config_of((trine_layout){.dp = trine_world_size(harness_world), .tp = 1, .pp = 1}, 1);
    trine_config off = scaled, plain = scaled;
    scaled.precision.initial_loss_scale = 0x1p28;
    off.precision = (trine_config_default()).precision;
    off.precision.fp16 = true;
    off.precision.loss_scale = 1;
    plain.precision = (trine_config_default()).precision;
    double norm[3];
    double with = learn(scaled, &norm[0]), without = learn(off, &norm[1]),
           fp32 = learn(plain, &norm[2]);
    if (trine_world_rank(harness_world) == 0)
        print_message("# the loss fell by %.3f with the scale, %.3f without, %.3f in fp32\n", with,
                      without, fp32);
    assert_true(norm[1] == 0 && without == 0);
    assert_true(fp32 > 0.1);
    /* The two runs round differently; a tenth of the decrease is far more than that. */
    assert_true(fabs(with / fp32 - 1) < 0.1);
    assert_true(fabs(norm[0] / norm[2] - 1) < 0.01);
}

/* A scale is resumed within the limits that the run has now. On one rank. */
static void a_resumed_scale_keeps_the_new_limits(void **state) {
    (void)state;
    char folder[] = "/dev/shm/trine-overflow-XXXXXX", command[64];
    if (trine_world_size(harness_world) > 1) return;
    assert_non_null(mkdtemp(folder));
    trine_config c = config_of((trine_layout){.dp = 1, .tp = 1, .pp = 1}, 0);
    const trine_checkpoint at = {.save = folder, .load = "auto"};
    trine_metrics m;
    c.precision.hysteresis = 3;
    trine_trainer *t = create(&c);
    for (int i = 0; i < 2; i++) OK(trine_trainer_step(t, &m));
    OK(trine_trainer_save(t, &at, NULL));
    trine_trainer_destroy(&t);
    c.precision.initial_loss_scale = c.precision.min_loss_scale = 4096;
    c.precision.loss_scale_window = 2;
    c.precision.hysteresis = 1;
    t = create(&c);
    OK(trine_trainer_load(t, &at, NULL, NULL));
    assert_int_equal(t->steps, 2);
    assert_true(t->scale.scale == 4096 && t->scale.good == 1 && t->scale.left == 1);
    trine_trainer_destroy(&t);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_ranks_infinity_skips_the_step_everywhere),
        cmocka_unit_test(training_goes_on_with_half_the_scale),
        cmocka_unit_test(the_first_tensor_is_named),
        cmocka_unit_test(an_overflow_begins_at_the_logits),
        cmocka_unit_test(an_overflow_at_the_minimum_stops),
        cmocka_unit_test(a_resumed_scale_keeps_the_new_limits),
        cmocka_unit_test(small_gradients_need_the_scale),
    };
    return HARNESS_RUN(argc, argv, tests);
}
