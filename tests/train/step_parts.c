/* TEST np=1,2,8 */
/* A step in parts has the bits of trine_trainer_step; gradients may change between them; a learning rate that the
 * program sets is the one of the schedule that has it; and what comes in the wrong order is refused. */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trine_checkpoint.h"
#include "trine_loop.h"

enum { STEPS = 2 };

static int ranks(void) {
    return trine_world_size(harness_world);
}

static int rank(void) {
    return trine_world_rank(harness_world);
}

static trine_config config_of(trine_layout layout, int zero) {
    trine_config c = training_config();
    c.parallel.layout = layout;
    c.parallel.zero = (trine_zero)zero;
    c.model.hidden_size = 24;
    c.model.num_attention_heads = 8;
    c.global_batch_size = 2 * layout.dp;
    return c;
}

static trine_trainer *create(const trine_config *c) {
    trine_trainer *t;
    OK(trine_trainer_create(&t, harness_world, c));
    return t;
}

/* ---- The bits of a step ------------------------------------------------------------------------ */

static void step_in_parts(trine_trainer *t, trine_metrics *m) {
    double norm, loss;
    OK(trine_trainer_forward_backward(t));
    OK(trine_trainer_norm(t, &norm, &loss));
    OK(trine_trainer_update(t, m));
    assert_memory_equal(&norm, &m->grad_norm, sizeof norm); /* also where it is not finite */
    assert_memory_equal(&loss, &m->loss, sizeof loss);
}

static void compare(const trine_config *c) {
    trine_trainer *whole = create(c), *parts = create(c);
    for (int i = 0; i < STEPS; i++) {
        trine_metrics a, b;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        OK(trine_trainer_step(whole, &a));
        step_in_parts(parts, &b);
        a.seconds = b.seconds = a.joules = b.joules = 0;
        assert_memory_equal(&a, &b, sizeof a);
        assert_true(training_fingerprint(whole) == training_fingerprint(parts));
        assert_true(training_moments(whole) == training_moments(parts));
    }
    trine_trainer_destroy(&whole);
    trine_trainer_destroy(&parts);
}

/* Every stage of ZeRO and every schedule, in turn with the layouts. */
static void parts_have_the_bits_of_a_step(void **state) {
    (void)state;
    const training_list layouts = training_layouts_up_to(4);
    for (int zero = 0; zero < 4; zero++)
        for (int n = 0; n < TRINE_SCHEDULES; n++) {
            trine_config c = config_of(layouts.list[(zero + n * 5) % layouts.count], zero);
            if (ranks() > 1 && n % 4 != zero) continue;
            if (!training_schedule(&c, (trine_schedule)n)) continue;
            c.precision.fp16 = n % 2;
            if (c.precision.fp16)
                c.precision.initial_loss_scale = 0x1p30; /* the first step overflows */
            c.parallel.split_backward = n % 3 == 0;
            c.parallel.one_queue = n % 4 == 1;
            c.parallel.audit = n % 4 == 2;
            c.model.untied = n % 3 == 1;
            compare(&c);
        }
}

/* ---- Gradients between parts ------------------------------------------------------------------- */

/* Reads the gradients, times `factor` writes them; returns the sum of their squares before. */
static double multiply(trine_trainer *t, float factor) {
    double squares = 0;
    for (size_t n = 0; n < trine_trainer_tensor_count(t); n++) {
        uint64_t shape[2] = {1, 1};
        int dims;
        const char *name = trine_trainer_tensor_name(t, n);
        OK(trine_trainer_tensor_shape(t, n, shape, &dims));
        size_t count = (size_t)shape[0] * (dims == 2 ? (size_t)shape[1] : 1);
        float *g = malloc(count * sizeof *g);
        assert_non_null(g);
        OK(trine_trainer_read(t, TRINE_GRADIENT, name, g, count));
        for (size_t i = 0; i < count; i++) squares += (double)g[i] * g[i], g[i] *= factor;
        OK(trine_trainer_write(t, TRINE_GRADIENT, name, g, count));
        free(g);
    }
    return squares;
}

static trine_layout last_layout(void) {
    return (trine_layout){
        .dp = ranks() > 2 ? 2 : 1, .tp = ranks() > 2 ? 2 : 1, .pp = ranks() > 1 ? 2 : 1};
}

static void gradients_are_read_and_written(void **state) {
    (void)state;
    for (int zero = 0; zero < 4; zero++) {
        trine_config c = config_of(last_layout(), zero);
        c.optimizer.clip_grad = 0;
        c.precision.fp16 = zero % 2;
        if (zero % 2) c.precision.initial_loss_scale = 0x1p10;
        c.parallel.exact = zero >= 2; /* with two lanes and two parts on a rank */
        if (zero >= 2) c.parallel.exact_dp = 2 * c.parallel.layout.dp;
        if (zero >= 2) c.parallel.exact_tp = 2 * c.parallel.layout.tp;
        trine_trainer *whole = create(&c), *t = create(&c);
        trine_metrics a, b;
        double norm, loss, again;
        OK(trine_trainer_step(whole, &a));
        OK(trine_trainer_forward_backward(t));
        double squares = multiply(t, 2); /* before anybody asked for the norm */
        OK(trine_trainer_norm(t, &norm, &loss));
        assert_true(norm == 2 * a.grad_norm && loss == a.loss);
        assert_true(fabs(sqrt(squares) / a.grad_norm - 1) < 1e-6);
        (void)multiply(t, 0.5f); /* and after: the loss is that of the samples */
        OK(trine_trainer_norm(t, &again, &loss));
        assert_true(again == a.grad_norm && loss == a.loss);
        OK(trine_trainer_update(t, &b));
        assert_true(b.loss == a.loss && b.grad_norm == a.grad_norm);
        assert_true(training_fingerprint(whole) == training_fingerprint(t));
        assert_true(training_moments(whole) == training_moments(t));
        OK(trine_trainer_step(whole, &a)); /* nothing of the first step is left */
        OK(trine_trainer_step(t, &b));
        assert_true(b.loss == a.loss && b.grad_norm == a.grad_norm);
        trine_trainer_destroy(&whole);
        trine_trainer_destroy(&t);
    }
}

/* A gradient that is not finite: no update, and the loss scale falls; one that is, mended: an update. */
static void written_gradients_decide(void **state) {
    (void)state;
    trine_config c = config_of(last_layout(), 1);
    trine_trainer *t = create(&c);
    trine_metrics m;
    float g[24], bad[24];
    double norm;
    OK(trine_trainer_forward_backward(t));
    OK(trine_trainer_read(t, TRINE_GRADIENT, "transformer.ln_f.bias", g, 24));
    memcpy(bad, g, sizeof g);
    bad[7] = NAN;
    OK(trine_trainer_write(t, TRINE_GRADIENT, "transformer.ln_f.bias", bad, 24));
    OK(trine_trainer_norm(t, &norm, NULL));
    assert_true(!isfinite(norm));
    OK(trine_trainer_write(t, TRINE_GRADIENT, "transformer.ln_f.bias", g, 24));
    OK(trine_trainer_norm(t, &norm, NULL));
    assert_true(isfinite(norm) != 0);
    OK(trine_trainer_write(t, TRINE_GRADIENT, "transformer.ln_f.bias", bad, 24));
    OK(trine_trainer_norm(t, &norm, NULL));
    OK(trine_trainer_update(t, &m));
    assert_true(m.skipped && m.skips == 1);
    assert_non_null(strstr(t->overflow, "ln_f.bias"));
    trine_trainer_destroy(&t);
}

static void a_skipped_step_is_counted(void **state) {
    (void)state;
    for (int fp16 = 0; fp16 < 2; fp16++) {
        trine_config c = config_of(last_layout(), 2);
        trine_metrics m, want;
        double norm;
        c.precision.fp16 = fp16;
        if (fp16) c.precision.initial_loss_scale = 0x1p10, c.precision.hysteresis = 1;
        trine_trainer *t = create(&c), *still = create(&c);
        uint64_t params = training_fingerprint(t), moments = training_moments(t);
        OK(trine_trainer_forward_backward(t));
        OK(trine_trainer_norm(t, &norm, NULL));
        OK(trine_trainer_skip(t, &m));
        assert_true(m.step == 1 && m.skipped && m.skips == 1 && isfinite(m.loss));
        assert_true(training_fingerprint(t) == params && training_moments(t) == moments);
        assert_string_equal(t->overflow, "");
        OK(trine_trainer_set_lr(still, 0)); /* keeps the parameters in another way */
        OK(trine_trainer_step(still, &want));
        OK(trine_trainer_step(still, &want));
        OK(trine_trainer_step(t, &m)); /* the second step's samples, at the first update's rate */
        assert_true(m.loss == want.loss && m.step == 2 && !m.skipped);
        assert_true(m.loss_scale == (fp16 ? 0x1p10 : 1)); /* a skip is neither good nor bad */
        assert_true(m.lr == c.optimizer.lr / c.optimizer.lr_warmup_iters);
        trine_trainer_destroy(&t);
        trine_trainer_destroy(&still);
    }
}

/* ---- The learning rate ------------------------------------------------------------------------- */

static void a_learning_rate_is_set(void **state) {
    (void)state;
    trine_config c = config_of(last_layout(), 1), constant = c;
    constant.optimizer.lr_warmup_iters = 0;
    constant.optimizer.lr = 1e-3;
    trine_trainer *set = create(&c), *want = create(&constant);
    trine_metrics a, b;
    OK(trine_trainer_set_lr(set, 1e-3));
    for (int i = 0; i < 2; i++) {
        OK(trine_trainer_step(set, &a));
        OK(trine_trainer_step(want, &b));
        assert_true(a.lr == 1e-3 && a.loss == b.loss && a.grad_norm == b.grad_norm);
        assert_true(training_fingerprint(set) == training_fingerprint(want));
    }
    REFUSED(trine_trainer_set_lr(set, -1e-3), TRINE_EINVAL, "lr -0.001 is not a finite number");
    REFUSED(trine_trainer_set_lr(set, NAN), TRINE_EINVAL, "nan is not a finite number");
    REFUSED(trine_trainer_set_lr(set, INFINITY), TRINE_EINVAL, "inf is not a finite number");
    if (ranks() > 1)
        harness_refused(trine_trainer_set_lr(set, 1e-3 * (1 + rank())), TRINE_EINVAL,
                        rank() ? "" : "ranks set different learning rates", "set_lr");
    status_clear();
    OK(trine_trainer_step(set, &a));
    assert_true(a.lr == 1e-3); /* the last one that was accepted */
    OK(trine_trainer_schedule_lr(set));
    OK(trine_trainer_step(set, &a));
    assert_true(a.lr == 4 * c.optimizer.lr / c.optimizer.lr_warmup_iters);
    trine_trainer_destroy(&set);
    trine_trainer_destroy(&want);
}

/* Loads the folder, and compares the learning rate of the next step, and what rank 0 says of it. */
static void resume(const trine_config *c, const char *folder, double lr, const char *says) {
    trine_trainer *t = create(c);
    char text[2000];
    trine_metrics m;
    FILE *out = tmpfile();
    assert_non_null(out);
    OK(trine_trainer_load(t, &(trine_checkpoint){.load = folder}, out, NULL));
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    OK(trine_trainer_step(t, &m));
    assert_true(m.lr == lr);
    if (!rank()) assert_int_equal(strstr(text, "learning rate") != NULL, says != NULL);
    if (!rank() && says) assert_non_null(strstr(text, says));
    trine_trainer_destroy(&t);
}

static void checkpoints_have_the_learning_rate(void **state) {
    (void)state;
    char folder[TRAINING_FOLDER], path[60], command[100];
    trine_config c = config_of(last_layout(), 1);
    trine_trainer *t = create(&c);
    trine_metrics m;
    assert_true(training_folder(folder));
    OK(trine_trainer_step(t, &m));
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = folder}, NULL));
    OK(trine_trainer_set_lr(t, 0.125e-2));
    OK(trine_trainer_step(t, &m));
    OK(trine_trainer_save(t, &(trine_checkpoint){.save = folder}, NULL));
    trine_trainer_destroy(&t);
    snprintf(path, sizeof path, "%s/step-1", folder);
    resume(&c, path, 2 * c.optimizer.lr / c.optimizer.lr_warmup_iters, NULL);
    snprintf(path, sizeof path, "%s/step-2", folder);
    resume(&c, path, 0.125e-2, "learning rate: 0.00125 in all steps, as the checkpoint's program");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    OK(trine_world_agree(harness_world, TRINE_OK));
    if (!rank()) assert_int_equal(system(command), 0);
}

/* ---- The order of calls ------------------------------------------------------------------------ */

/* tests/build/null.t holds the rows to the headers: a function that takes a trainer has one. SHUT: refused while a step
 * is under way; FREE: not. */
#define SHUT(function, ...)                                                                        \
    harness_refused(function(__VA_ARGS__), TRINE_EINVAL, #function " is called after ", #function)
#define FREE(function, condition) assert_true(condition)

static void check_under_way(trine_trainer *t) {
    const trine_checkpoint none = {.keep = 0};
    const trine_checkpoint saves = {.save = "/nowhere"};
    trine_metrics m;
    uint64_t shape[2];
    int dims;
    double x;
    bool stop;
    float g[24];
    SHUT(trine_trainer_step, t, &m);
    SHUT(trine_trainer_eval, t, &x);
    SHUT(trine_trainer_forward_backward, t);
    SHUT(trine_trainer_load, t, &none, NULL, NULL);
    SHUT(trine_trainer_save, t, &saves, NULL);
    SHUT(trine_trainer_checkpoint, t, &none, NULL, &stop);
    SHUT(trine_trainer_validate, t, &none, NULL, &x, &stop);
    FREE(trine_trainer_read,
         trine_trainer_read(t, TRINE_GRADIENT, "transformer.ln_f.bias", g, 24) == TRINE_OK);
    FREE(trine_trainer_config, trine_trainer_config(t) == &t->config);
    FREE(trine_trainer_mesh, trine_trainer_mesh(t) == t->mesh);
    FREE(trine_trainer_tensor_count, trine_trainer_tensor_count(t) > 0);
    FREE(trine_trainer_tensor_name, trine_trainer_tensor_name(t, 0) != NULL);
    FREE(trine_trainer_tensor_shape, trine_trainer_tensor_shape(t, 0, shape, &dims) == TRINE_OK);
    FREE(trine_trainer_set_lr, trine_trainer_set_lr(t, 1e-3) == TRINE_OK);
    FREE(trine_trainer_schedule_lr, trine_trainer_schedule_lr(t) == TRINE_OK);
}

/* Those that say something of the trainer, and no step. */
static void check_beside(trine_trainer *t) {
    const trine_run run = {.help = false};
    trine_log *log;
    FILE *out = tmpfile();
    char text[8];
    double rate;
    assert_non_null(out);
    harness_refused(trine_trainer_profile(t, out), TRINE_EINVAL, "", "trine_trainer_profile");
    FREE(trine_trainer_profile, true);
    FREE(trine_trainer_product_rate, trine_trainer_product_rate(t, &rate) == TRINE_OK);
    FREE(trine_trainer_profile_start, trine_trainer_profile_start(t, 0, NULL) == TRINE_OK);
    FREE(trine_trainer_plan, trine_trainer_plan(t, &run) == TRINE_OK);
    FREE(trine_trainer_banner, trine_trainer_banner(t, out) == TRINE_OK);
    FREE(trine_trainer_progress, trine_trainer_progress(t, out, TRINE_PROGRESS_LINE) == TRINE_OK);
    FREE(trine_trainer_trace, trine_trainer_trace(t, text, sizeof text) == TRINE_OK);
    FREE(trine_log_create, trine_log_create(&log, t, out, NULL, 0) == TRINE_OK);
    trine_log_destroy(&log);
    FREE(trine_trainer_tensorboard, true); /* tests/train/tensorboard.c; writes files only */
    fclose(out);
}

static void calls_in_another_order_are_refused(void **state) {
    (void)state;
    trine_config c = config_of(last_layout(), 3);
    c.data.val_data_path = c.data.data_path;
    c.eval_iters = 1;
    trine_trainer *t = create(&c), *calm = create(&c);
    trine_metrics m, want;
    double norm;
    float g[24] = {0};
    REFUSED(trine_trainer_norm(t, &norm, NULL), TRINE_EINVAL,
            "trine_trainer_norm is called between steps; it must be called after "
            "trine_trainer_forward_backward");
    REFUSED(
        trine_trainer_update(t, &m), TRINE_EINVAL,
        "trine_trainer_update is called between steps; it must be called after trine_trainer_norm");
    REFUSED(trine_trainer_skip(t, &m), TRINE_EINVAL, "trine_trainer_skip is called between steps");
    const char *none =
        rank() ? "" : "there are no gradients between steps"; /* one has the message */
    REFUSED(trine_trainer_read(t, TRINE_GRADIENT, "transformer.ln_f.bias", g, 24), TRINE_EINVAL,
            none);
    REFUSED(trine_trainer_write(t, TRINE_GRADIENT, "transformer.ln_f.bias", g, 24), TRINE_EINVAL,
            none);
    OK(trine_trainer_forward_backward(t));
    check_under_way(t);
    REFUSED(trine_trainer_update(t, &m), TRINE_EINVAL,
            "trine_trainer_update is called after trine_trainer_forward_backward; it must be "
            "called after trine_trainer_norm");
    REFUSED(trine_trainer_skip(t, &m), TRINE_EINVAL, "it must be called after trine_trainer_norm");
    OK(trine_trainer_norm(t, &norm, NULL));
    check_under_way(t);
    check_beside(t);
    OK(trine_trainer_update(t, &m));
    OK(trine_trainer_step(calm, &want));
    assert_true(m.loss == want.loss && m.grad_norm == want.grad_norm); /* nothing was changed */
    assert_true(training_fingerprint(t) == training_fingerprint(calm));
    OK(trine_trainer_forward_backward(t));
    FREE(trine_trainer_destroy, (trine_trainer_destroy(&t), t == NULL)); /* in a step */
    trine_trainer_destroy(&calm);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_bits_of_a_step),
        cmocka_unit_test(gradients_are_read_and_written),
        cmocka_unit_test(written_gradients_decide),
        cmocka_unit_test(a_skipped_step_is_counted),
        cmocka_unit_test(a_learning_rate_is_set),
        cmocka_unit_test(checkpoints_have_the_learning_rate),
        cmocka_unit_test(calls_in_another_order_are_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
