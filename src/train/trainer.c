#include "train/trainer.h"

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/status.h"
#include "dp/dp.h"
#include "train/joules.h"
#include "train/stop.h"
#include "train/trace_run.h"

bool trainer_has_file(const trine_trainer *t, const char *path) {
    return blend_has_file(t->train.samples, path) ||
           (t->val.samples && blend_has_file(t->val.samples, path));
}

const trine_config *trine_trainer_config(const trine_trainer *trainer) {
    return trainer ? &trainer->config : NULL;
}

const trine_mesh *trine_trainer_mesh(const trine_trainer *trainer) {
    return trainer ? trainer->mesh : NULL;
}

/* ---- Steps ---- */

static uint64_t tokens_per_step(const trine_trainer *t) {
    return (uint64_t)t->config.global_batch_size * (uint64_t)t->config.model.seq_length;
}

static step_io make_step(const trine_trainer *t, const trainer_data *data, uint64_t first) {
    const trine_optimizer *o = &t->config.optimizer;
    return (step_io){
        .samples = data->samples,
        .first_sample = first,
        .scale = 1.0 / (double)tokens_per_step(t),
        .loss_scale = t->scale.scale,
        .adamw = {.lr = (float)resolve_learning_rate(o, t->updates + 1),
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

trine_status trine_trainer_step(trine_trainer *t, trine_metrics *metrics) {
    CHECK_GIVEN(t, "trainer");
    CHECK_GIVEN(metrics, "metrics");
    stop_training();
    uint64_t start = clock_ns();
    step_io step = make_step(t, &t->train, t->samples);
    double lr = resolve_learning_rate(&t->config.optimizer, t->updates + 1);
    double joules;
    joules_begin(t);
    TRY(trace_run_before(t));
    TRY(run_step(t, &step));
    TRY(conclude(t, &step));
    double seconds = 1e-9 * (double)(clock_ns() - start);
    TRY(joules_end(t, &joules));
    *metrics = (trine_metrics){.step = t->steps,
                               .loss = step.loss,
                               .grad_norm = step.norm,
                               .lr = lr,
                               .seconds = seconds,
                               .tokens = tokens_per_step(t),
                               .peak_bytes = t->peak_bytes,
                               .skipped = step.skipped,
                               .skips = t->steps - t->updates,
                               .loss_scale = step.loss_scale,
                               .joules = joules};
    return trace_run_after(t);
}

trine_status trainer_eval_batch(trine_trainer *t, int i, double *sum) {
    CHECK(t->val.samples, TRINE_EINVAL, "no validation file; set --val-data-path");
    step_io step = make_step(t, &t->val, (uint64_t)i * (uint64_t)t->config.global_batch_size);
    TRY(exec_run(&t->interpreter, &t->eval_stages[trine_mesh_coord(t->mesh).pp], &step));
    *sum += step.loss;
    return TRINE_OK;
}

trine_status trine_trainer_eval(trine_trainer *t, double *loss) {
    CHECK_GIVEN(t, "trainer");
    CHECK_GIVEN(loss, "loss");
    double sum = 0;
    for (int i = 0; i < t->config.eval_iters; i++) TRY(trainer_eval_batch(t, i, &sum));
    *loss = sum / t->config.eval_iters;
    return TRINE_OK;
}
