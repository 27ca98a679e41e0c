#include "train/decay_time.h"

#include <inttypes.h>

#include "base/c_locale.h"
#include "base/status.h"
#include "train/stop.h"

/* Without a decay that is under way or ahead by its iterations. */
static bool may_begin(const trine_trainer *t, double max_minutes) {
    const trine_optimizer *o = &t->config.optimizer;
    return o->lr_decay_style == TRINE_DECAY_WSD && max_minutes > 0 && !t->decay.step &&
           t->updates + o->lr_wsd_decay_iters < o->lr_decay_iters;
}

/* Seconds a step, since the end of the first one of this process, which warms up; 0: not known yet. */
static double pace(trainer_decay *d, double now) {
    if (!d->timed++) d->from = now;
    return d->timed > 1 ? (now - d->from) / (double)(d->timed - 1) : 0;
}

/* An end is never later than what was asked for. */
static void end_after(int *end, int64_t begin, int iters) {
    if (begin < *end - iters) *end = (int)begin + iters;
}

static void begin(trine_trainer *t, int64_t step, int64_t update) {
    trine_optimizer *o = &t->config.optimizer;
    t->decay.step = step;
    t->decay.update = update;
    end_after(&t->config.train_iters, step, o->lr_wsd_decay_iters);
    end_after(&o->lr_decay_iters, update, o->lr_wsd_decay_iters);
}

trine_status decay_time_step(trine_trainer *t, double max_minutes, FILE *out) {
    if (!may_begin(t, max_minutes)) return TRINE_OK;
    int iters = t->config.optimizer.lr_wsd_decay_iters;
    double now = stop_elapsed(), seconds = pace(&t->decay, now), left = 60 * max_minutes - now;
    int64_t due = seconds > 0 && left < (iters + 1.0) * seconds;
    trine_comm *world = trine_mesh_group(t->mesh, TRINE_WORLD);
    TRY(trine_all_reduce(world, &due, &due, 1, TRINE_I64, TRINE_MAX));
    if (!due) return TRINE_OK;
    begin(t, t->steps, t->updates);
    if (!out) return TRINE_OK;
    c_fprintf(out,
              "--max-minutes %g: the learning rate decays from step %" PRId64
              " to step %d, which is the last; %.4g s are left, a step takes %.4g s\n",
              max_minutes, t->steps + 1, t->config.train_iters, left, seconds);
    fflush(out);
    return TRINE_OK;
}

void decay_time_restore(trine_trainer *t, const ckpt_state *saved) {
    bool wsd = t->config.optimizer.lr_decay_style == TRINE_DECAY_WSD;
    if (wsd && saved->decay_step) begin(t, saved->decay_step, saved->decay_update);
}

bool decay_time_is_over(const trine_trainer *t) {
    return t->decay.step && t->steps >= t->config.train_iters;
}

trine_config decay_time_config(const trine_trainer *t) {
    trine_config c = t->config;
    const trine_config *a = &t->asked;
    if (!t->decay.step) return c;
    c.train_iters = a->train_iters;
    c.optimizer.lr_decay_iters =
        a->optimizer.lr_decay_iters ? a->optimizer.lr_decay_iters : a->train_iters;
    return c;
}
