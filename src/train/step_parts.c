/* A step in parts (trine_loop.h): the same program, cut before and after NORM. */
#include <math.h>

#include "base/live.h"
#include "base/status.h"
#include "comm/api/one_thread.h"
#include "comm/api/alike.h"
#include "core/cut.h"
#include "train/trainer.h"
#include "trine_loop.h"

/* The three parts of a program. */
typedef enum { BEFORE_NORM, JUST_NORM, BEHIND_NORM } step_part;

/* Of a step without a supervised token no program runs. */
static trine_status run_part(trine_trainer *t, step_part part) {
    const program *p = &t->stages[trine_mesh_coord(t->mesh).pp];
    int norm;
    if (!t->now.supervised) return TRINE_OK;
    TRY(cut_program(p, &norm));
    const int edges[] = {0, norm, norm + 1, p->count};
    return exec_run_part(&t->interpreter, p, (exec_part){edges[part], edges[part + 1]}, &t->now.io);
}

trine_status trine_trainer_forward_backward(trine_trainer *t) {
    int at;
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    TRY(trainer_between_steps(t, __func__));
    for (int p = 0; p < t->spec.stages; p++) TRY(cut_program(&t->stages[p], &at));
    TRY(trainer_begin_step(t, &t->now));
    TRY(run_part(t, BEFORE_NORM));
    t->now.part = PART_GRADIENTS;
    return TRINE_OK;
}

/* NORM takes the loss, which is then zero: of gradients that were written later the first one stays. */
static trine_status find_norm(trine_trainer *t) {
    step_io *io = &t->now.io;
    const double loss = io->loss;
    TRY(run_part(t, JUST_NORM));
    if (t->now.has_loss) io->loss = loss;
    if (!t->now.supervised) io->loss = io->norm = NAN;
    t->now.has_loss = true;
    t->now.part = PART_NORM;
    return TRINE_OK;
}

trine_status trine_trainer_norm(trine_trainer *t, double *norm, double *loss) {
    CHECK_GIVEN(norm, "norm");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    TRY(trainer_expect(t, __func__, PART_GRADIENTS, PART_NORM));
    if (t->now.part == PART_GRADIENTS) TRY(find_norm(t));
    *norm = t->now.io.norm;
    if (loss) *loss = t->now.io.loss;
    return TRINE_OK;
}

/* In a skipped step UPDATE does nothing. The learning rate is that of now: it may have been set since the gradients. */
static trine_status end_step(trine_trainer *t, bool asked, trine_metrics *metrics) {
    bool finite = isfinite(t->now.io.norm);
    t->now.lr = trainer_learning_rate(t);
    t->now.io.adamw.lr = (float)t->now.lr;
    t->now.io.skipped |= asked;
    TRY(run_part(t, BEHIND_NORM));
    t->now.part = PART_NONE;
    return trainer_end_step(t, &t->now, asked && finite, metrics);
}

trine_status trine_trainer_update(trine_trainer *t, trine_metrics *metrics) {
    CHECK_GIVEN(metrics, "metrics");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    TRY(trainer_expect(t, __func__, PART_NORM, PART_NORM));
    return end_step(t, false, metrics);
}

trine_status trine_trainer_skip(trine_trainer *t, trine_metrics *metrics) {
    CHECK_GIVEN(metrics, "metrics");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    TRY(trainer_expect(t, __func__, PART_NORM, PART_NORM));
    return end_step(t, true, metrics);
}

/* ---- The learning rate ------------------------------------------------------------------------- */

trine_status trine_trainer_set_lr(trine_trainer *t, double lr) {
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    alike_list list = {0};
    trine_status status = trine_world_agree(t->world, alike_begin(&list, 1));
    if (status == TRINE_OK) {
        alike_number(&list, "lr", lr);
        status = alike_agree(t->world, &list, "ranks set different learning rates");
    }
    alike_end(&list);
    TRY(status_user(status));
    CHECK(lr >= 0 && isfinite(lr), TRINE_EINVAL,
          "trine_trainer_set_lr: lr %g is not a finite number from 0 on; trine_trainer_schedule_lr "
          "returns to the schedule",
          lr);
    t->sets_lr = true;
    t->lr = lr;
    return TRINE_OK;
}

trine_status trine_trainer_schedule_lr(trine_trainer *t) {
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    t->sets_lr = false;
    return TRINE_OK;
}
