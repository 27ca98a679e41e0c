#include "train/trainer.h"

#include <math.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/live.h"
#include "base/status.h"
#include "comm/api/one_thread.h"
#include "dp/dp.h"
#include "profile/profile.h"
#include "train/joules.h"
#include "train/stop.h"
#include "train/trace_run.h"

bool trainer_has_file(const trine_trainer *t, const char *path) {
    return blend_has_file(t->train.samples, path) ||
           (t->val.samples && blend_has_file(t->val.samples, path));
}

const trine_config *trine_trainer_config(const trine_trainer *trainer) {
    return IS_LIVE(trainer, "trainer", LIVE_TRAINER) ? &trainer->config : NULL;
}

const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer) {
    return IS_LIVE(trainer, "trainer", LIVE_TRAINER) ? trainer->mesh : NULL;
}

/* ---- Steps ---- */

static uint64_t tokens_per_step(const trine_trainer *t) {
    return (uint64_t)t->config.global_batch_size * (uint64_t)t->config.model.seq_length;
}

trine_status trainer_check_documents(const trine_trainer *t) {
    const trine_data *d = &t->config.data;
    CHECK(!t->wants_end || d->end_token >= 0, TRINE_EINVAL,
          "--reset-%s: %s does not say where documents end, and there is no tokenizer with an end "
          "token; set --end-token-id or --tokenizer",
          d->reset_attention_mask == TRINE_RESET_YES ? "attention-mask" : "position-ids",
          blend_has_documents(t->train.samples) ? d->val_data_path : d->data_path);
    return TRINE_OK;
}

/* The supervised tokens of the global batch of which `first` is the first sample: every rank reads a number a sample,
 * and so all know the divisor of the loss without a message. */
static trine_status count_supervised(const trainer_data *data, uint64_t first, int samples,
                                     uint64_t *count) {
    *count = 0;
    for (int n = 0; n < samples; n++) {
        uint32_t own;
        TRY(status_user(blend_supervised(data->samples, first + (uint64_t)n, &own)));
        *count += own;
    }
    return TRINE_OK;
}

double trainer_learning_rate(const trine_trainer *t) {
    return t->sets_lr ? t->lr : resolve_learning_rate(&t->config.optimizer, t->updates + 1);
}

static step_io make_step(const trine_trainer *t, const trainer_data *data, uint64_t first,
                         uint64_t supervised) {
    const trine_optimizer *o = &t->config.optimizer;
    return (step_io){
        .samples = data->samples,
        .first_sample = first,
        .scale = 1.0 / (double)supervised,
        .loss_scale = t->scale.scale,
        .adamw = {.lr = (float)trainer_learning_rate(t),
                  .beta1 = (float)o->adam_beta1,
                  .beta2 = (float)o->adam_beta2,
                  .eps = (float)o->adam_eps,
                  .decay = (float)o->weight_decay,
                  .step = t->updates + 1},
        .clip = o->clip_grad,
        .decay_all = o->decay_all,
    };
}

/* One step, measured if a profile is active and does not skip it. */
static trine_status run_step(trine_trainer *t, step_io *step) {
    const program *p = &t->stages[trine_mesh_coord(t->mesh).pp];
    if (!t->profile || !profile_begin(t->profile)) return exec_run(&t->interpreter, p, step);
    exec_observer observer = {.context = t->profile,
                              .on = {[EXEC_PROGRESSED] = profile_progressed,
                                     [EXEC_WAITED] = profile_waited,
                                     [EXEC_EXECUTED] = profile_executed}};
    exec_use_device(&t->interpreter, &t->profile->ops.device);
    exec_attach(&t->interpreter, &observer);
    trine_status status = exec_run(&t->interpreter, p, step);
    profile_end(t->profile, t->steps + 1);
    exec_detach(&t->interpreter, &observer);
    exec_use_device(&t->interpreter, t->dev);
    return status;
}

static trine_status stuck(const trine_trainer *t) {
    char last[80] = "no step had a finite gradient norm";
    if (t->finite_step)
        c_snprintf(last, sizeof last, "the last finite gradient norm was %.6g at step %lld",
                   t->finite_norm, (long long)t->finite_step);
    return RAISE(TRINE_EOVERFLOW,
                 "step %lld: gradients overflow at loss scale %g, the minimum (--min-loss-scale); "
                 "first in %s; %s",
                 (long long)t->steps, t->scale.scale, t->overflow, last);
}

/* A step without a supervised token, of which no program runs, or one that the program skips. */
static void pass_over(trine_trainer *t, trainer_step *s) {
    if (!s->supervised) s->io.loss = s->io.norm = NAN;
    s->io.skipped = true;
    t->steps++;
    t->samples += (uint64_t)t->config.global_batch_size;
    t->overflow[0] = t->ring_file[0] = '\0';
}

/* Updates counters and loss scale from the step's norm, which is global, so all ranks do the same. */
static trine_status conclude(trine_trainer *t, const step_io *step) {
    t->steps++;
    t->samples += (uint64_t)t->config.global_batch_size;
    if (!step->skipped) {
        t->updates++;
        t->finite_step = t->steps;
        t->finite_norm = step->norm;
    } else {
        TRY(overflow_find(&t->held, t->dev, t->mesh, t->overflow));
        TRY(trace_run_skipped(t));
    }
    scaler_verdict verdict = scaler_update(&t->scale, step->skipped);
    return verdict == SCALER_STUCK ? status_user(stuck(t)) : TRINE_OK;
}

trine_status trainer_expect(const trine_trainer *t, const char *call, trainer_part first,
                            trainer_part last) {
    static const char *const texts[] = {[PART_NONE] = "between steps",
                                        [PART_GRADIENTS] = "after trine_trainer_forward_backward",
                                        [PART_NORM] = "after trine_trainer_norm"};
    trainer_part now = t->now.part;
    CHECK(now >= first && now <= last, TRINE_EINVAL, "%s is called %s; it must be called %s", call,
          texts[now], texts[first]);
    return TRINE_OK;
}

trine_status trainer_between_steps(const trine_trainer *t, const char *call) {
    return trainer_expect(t, call, PART_NONE, PART_NONE);
}

trine_status trainer_begin_step(trine_trainer *t, trainer_step *s) {
    uint64_t supervised;
    TRY(status_user(trainer_check_documents(t)));
    stop_training();
    uint64_t start = clock_ns();
    TRY(count_supervised(&t->train, t->samples, t->config.global_batch_size, &supervised));
    *s = (trainer_step){.io = make_step(t, &t->train, t->samples, supervised),
                        .supervised = supervised,
                        .start = start,
                        .lr = trainer_learning_rate(t)};
    joules_begin(t);
    return trace_run_before(t);
}

trine_status trainer_end_step(trine_trainer *t, trainer_step *s, bool asked,
                              trine_metrics *metrics) {
    double joules;
    if (!s->supervised || asked)
        pass_over(t, s);
    else
        TRY(conclude(t, &s->io));
    double seconds = 1e-9 * (double)(clock_ns() - s->start);
    TRY(joules_end(t, &joules));
    *metrics = (trine_metrics){.step = t->steps,
                               .loss = s->io.loss,
                               .grad_norm = s->io.norm,
                               .lr = s->lr,
                               .seconds = seconds,
                               .tokens = tokens_per_step(t),
                               .supervised = s->supervised,
                               .peak_bytes = t->peak_bytes,
                               .skipped = s->io.skipped,
                               .skips = t->steps - t->updates,
                               .loss_scale = s->io.loss_scale,
                               .joules = joules};
    return trace_run_after(t);
}

trine_status trine_trainer_step(trine_trainer *t, trine_metrics *metrics) {
    CHECK_GIVEN(metrics, "metrics");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    trainer_step step;
    TRY(trainer_between_steps(t, __func__));
    TRY(trainer_begin_step(t, &step));
    if (step.supervised) TRY(run_step(t, &step.io));
    return trainer_end_step(t, &step, false, metrics);
}

trine_status trainer_eval_batch(trine_trainer *t, int i, trainer_sum *sum) {
    CHECK(t->val.samples, TRINE_EINVAL, "no validation file; set --val-data-path");
    int samples = t->config.global_batch_size;
    uint64_t first = (uint64_t)i * (uint64_t)samples, supervised;
    TRY(status_user(trainer_check_documents(t)));
    TRY(count_supervised(&t->val, first, samples, &supervised));
    if (!supervised) return TRINE_OK;
    step_io step = make_step(t, &t->val, first, supervised);
    TRY(exec_run(&t->interpreter, &t->eval_stages[trine_mesh_coord(t->mesh).pp], &step));
    double weight = (double)supervised / (double)tokens_per_step(t);
    sum->loss += weight * step.loss;
    sum->weight += weight;
    return TRINE_OK;
}

trine_status trainer_eval_mean(const trine_trainer *t, const trainer_sum *sum, double *loss) {
    CHECK(sum->weight > 0, TRINE_EDATA,
          "--val-data-path %s: no token of the %d global batches is supervised",
          t->val.samples->text, t->config.eval_iters);
    *loss = sum->loss / sum->weight;
    return TRINE_OK;
}

trine_status trine_trainer_eval(trine_trainer *t, double *loss) {
    CHECK_GIVEN(loss, "loss");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    trainer_sum sum = {0, 0};
    TRY(trainer_between_steps(t, __func__));
    for (int i = 0; i < t->config.eval_iters; i++) TRY(trainer_eval_batch(t, i, &sum));
    return status_user(trainer_eval_mean(t, &sum, loss));
}
