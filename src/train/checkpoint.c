/* A trainer's checkpoints: which parts of its holding are written and filled (train/pieces.h), and
 * the few numbers beside them that say where a run stands. */
#include "base/c_locale.h"
#include "ckpt/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "ckpt/folder.h"
#include "ckpt/settings.h"
#include "train/pieces.h"
#include "train/stop.h"
#include "train/terminal.h"
#include "train/trainer.h"
#include "trine_checkpoint.h"

static trine_comm *world_of(const trine_trainer *t) {
    return trine_mesh_group(t->mesh, TRINE_WORLD);
}

/* Where to say something: rank 0 alone, if anybody listens, behind no progress bar. */
static FILE *voice(const trine_trainer *t, FILE *out) {
    if (!out || trine_world_rank(t->world) != 0) return NULL;
    terminal_clear(out);
    return out;
}

/* What the watchdog's report says of waits from here to done_with: outside of a program no
 * instruction does. `what` is kept. */
static void describe(const void *what, char *text, size_t size) {
    snprintf(text, size, "%s", (const char *)what);
}
static void busy_with(const trine_trainer *t, const char *what) {
    comm_activity(t->world, describe, what);
}
static trine_status done_with(const trine_trainer *t, trine_status status) {
    comm_activity(t->world, NULL, NULL);
    return status;
}

/* ---- The state ------------------------------------------------------------------------------- */

static ckpt_state state_of(const trine_trainer *t) {
    return (ckpt_state){.step = t->steps,
                        .updates = t->updates,
                        .samples = t->samples,
                        .seed = t->config.data.seed,
                        .loss_scale = t->scale.scale,
                        .good = t->scale.good,
                        .left = t->scale.left,
                        .finite_step = t->finite_step,
                        .finite_norm = t->finite_norm};
}

/* The scale of a run in which it moved goes on where that stood; else it begins as configured. */
static trine_status restore_scaler(scaler *s, const ckpt_source *source) {
    const ckpt_state *saved = ckpt_saved_state(source);
    bool moved;
    TRY(settings_scale_moves(ckpt_saved_config(source), &moved));
    if (!moved || s->min <= 0) return TRINE_OK;
    s->scale = fmax(saved->loss_scale, s->min);
    s->good = saved->good;
    s->left = saved->left < s->hysteresis ? saved->left : s->hysteresis;
    return TRINE_OK;
}

static trine_status restore_state(trine_trainer *t, const ckpt_source *source) {
    const ckpt_state *saved = ckpt_saved_state(source);
    t->steps = saved->step;
    t->updates = saved->updates;
    t->samples = saved->samples;
    t->finite_step = saved->finite_step;
    t->finite_norm = saved->finite_norm;
    return restore_scaler(&t->scale, source);
}

/* ---- Loading --------------------------------------------------------------------------------- */

static bool is_auto(const trine_checkpoint *c) {
    return c->load && strcmp(c->load, "auto") == 0;
}

/* Weights come without a state, or are all that was asked for. */
static bool weights_alone(const trine_checkpoint *c, const ckpt_source *source) {
    return c->load_weights_only || !ckpt_saved_state(source);
}

static trine_status fill_holding(trine_trainer *t, const ckpt_source *source, bool weights_only) {
    pieces p;
    trine_status status = pieces_to_load(&t->held, weights_only, &p);
    if (status == TRINE_OK) status = ckpt_read(source, t->dev, p.pieces, p.piece_count);
    pieces_free(&p);
    return status;
}

/* What each rank does by itself. */
static trine_status take_over(trine_trainer *t, const trine_checkpoint *c,
                              const ckpt_source *source) {
    bool weights_only = weights_alone(c, source);
    trine_model saved;
    TRY(ckpt_model(source, &saved));
    TRY(settings_same_model(&saved, &t->config.model, ckpt_path(source)));
    TRY(fill_holding(t, source, weights_only));
    return weights_only ? TRINE_OK : restore_state(t, source);
}

static trine_status say_beginning(const trine_trainer *t, const trine_checkpoint *c,
                                  const ckpt_source *source, FILE *out) {
    if (!(out = voice(t, out))) return TRINE_OK;
    if (weights_alone(c, source))
        fprintf(out, "begins with the weights of %s: step 0, a new optimizer\n", ckpt_path(source));
    else
        fprintf(out,
                "begins with %s: %" PRId64 " steps, %" PRId64 " updates, %" PRIu64
                " samples are done\n",
                ckpt_path(source), t->steps, t->updates, t->samples);
    const char *config = ckpt_saved_config(source);
    TRY(config ? settings_compare(config, &t->config, out) : TRINE_OK);
    if (t->steps >= t->config.train_iters)
        fprintf(out, "  --train-iters %d are done: no step is left, and nothing is saved\n",
                t->config.train_iters);
    fflush(out);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status begin_with(trine_trainer *t, const trine_checkpoint *c,
                               const ckpt_source *source, FILE *out) {
    TRY(trine_world_agree(t->world, status_user(take_over(t, c, source))));
    return trine_world_agree(t->world, say_beginning(t, c, source, out));
}

/* Collective over: world. */
static trine_status load(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    ckpt_source *source = NULL;
    trine_comm *world = world_of(t);
    TRY(is_auto(c) ? ckpt_open_newest(&source, world, c->save, out)
                   : ckpt_open(&source, world, c->load, out));
    if (!source) {
        FILE *own = voice(t, out);
        if (own) fprintf(own, "no checkpoint in %s: a fresh start\n", c->save);
        return TRINE_OK;
    }
    trine_status status = begin_with(t, c, source, out);
    if (is_auto(c) && ckpt_saved_state(source)) t->saved = t->steps;
    ckpt_close(&source);
    return status;
}

/* Checkpoints of a later step than the run begins with would be taken for its newest ones. */
static trine_status check_newest(const char *dir, int64_t begins) {
    int64_t *steps = NULL, newest = 0;
    size_t count = 0;
    TRY(folder_list(dir, &steps, &count));
    if (count) newest = steps[0];
    free(steps);
    CHECK(newest <= begins, TRINE_EINVAL,
          "--save %s has a step-%" PRId64 ", and this run begins at step %" PRId64
          ": --load auto goes on from there; else save elsewhere, or move it away",
          dir, newest, begins);
    return TRINE_OK;
}

/* A run would begin anew inside of the checkpoint that it was to go on from. */
static trine_status check_outside(const char *dir) {
    char *path = folder_join(dir, MANIFEST_FILE);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    bool checkpoint = access(path, F_OK) == 0;
    free(path);
    CHECK(!checkpoint, TRINE_EINVAL,
          "--save %s is itself a checkpoint: name the folder that checkpoints are in", dir);
    return TRINE_OK;
}

/* Rank 0's part: makes the folder that the others look for. */
static trine_status begin_folder(const trine_trainer *t, const trine_checkpoint *c) {
    if (trine_world_rank(t->world) != 0) return TRINE_OK;
    TRY(check_outside(c->save));
    if (!is_auto(c)) TRY(check_newest(c->save, t->steps));
    return folder_begin(c->save, t->steps, 0);
}

static trine_status see_folder(const trine_trainer *t, const trine_checkpoint *c) {
    char *path = folder_writing(c->save, t->steps);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    int cause = access(path, W_OK | X_OK) == 0 ? 0 : errno;
    trine_status status = TRINE_OK;
    if (cause)
        status = RAISE(TRINE_EIO,
                       "--save %s: rank 0 has made %s, and here: %s; it must be a folder that all "
                       "ranks see and may write in",
                       c->save, path, strerror(cause));
    free(path);
    return status;
}

/* What would fail at the first save is said before the first step. Collective over: world. */
static trine_status check_folder(const trine_trainer *t, const trine_checkpoint *c) {
    if (!c->save) return TRINE_OK;
    TRY(trine_world_agree(t->world, status_user(begin_folder(t, c))));
    trine_status status = trine_world_agree(t->world, status_user(see_folder(t, c)));
    if (trine_world_rank(t->world) == 0) folder_abandon(c->save, t->steps);
    return status;
}

static trine_status check_request(const trine_checkpoint *c) {
    CHECK(!is_auto(c) || c->save, TRINE_EINVAL,
          "--load auto is the newest checkpoint of --save, which is missing");
    CHECK(!is_auto(c) || !c->load_weights_only, TRINE_EINVAL,
          "--load auto goes on with a run, --load-weights-only begins one: name the checkpoint");
    return TRINE_OK;
}

trine_status trine_trainer_load(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                int64_t *step) {
    TRY(status_user(check_request(c)));
    busy_with(t, "loading a checkpoint");
    trine_status status = c->load ? status_user(load(t, c, out)) : TRINE_OK;
    if (status == TRINE_OK) status = check_folder(t, c);
    if (step && status == TRINE_OK) *step = t->steps;
    return done_with(t, status);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static trine_status prepare(const trine_trainer *t, pieces *p, char **config) {
    TRY(pieces_to_save(&t->held, p));
    return settings_print(&t->config, config);
}

trine_status trine_trainer_save(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    CHECK(c->save, TRINE_EINVAL, "there is no folder to save in (--save)");
    char *config = NULL;
    pieces p;
    busy_with(t, "saving a checkpoint");
    trine_status status = trine_world_agree(t->world, prepare(t, &p, &config));
    ckpt_image image = {.dev = t->dev,
                        .tensors = p.tensors,
                        .kinds = p.kinds,
                        .tensor_count = p.tensor_count,
                        .pieces = p.pieces,
                        .piece_count = p.piece_count,
                        .state = state_of(t),
                        .config = config,
                        .writer = &t->writer};
    if (status == TRINE_OK) status = ckpt_save(t->mesh, &image, c->save, c->keep, voice(t, out));
    if (status == TRINE_OK) t->saved = t->steps;
    free(config);
    pieces_free(&p);
    return done_with(t, status_user(status));
}

/* ---- After a step, and in a validation -------------------------------------------------------- */

static void say_stop(const trine_trainer *t, const trine_checkpoint *c, const stop_reason *why,
                     const char *where, FILE *out) {
    if (!(out = voice(t, out))) return;
    if (why->signal)
        fprintf(out, "SIG%s to rank %d: the run ends %s step %" PRId64 "\n",
                why->signal == SIGTERM ? "TERM" : "USR1", why->rank, where, t->steps);
    else
        c_fprintf(out, "--max-minutes %g are over: the run ends %s step %" PRId64 "\n",
                  c->max_minutes, where, t->steps);
    fflush(out);
}

/* `where` is said in front of the step's number. Collective over: world. */
static trine_status ask(trine_trainer *t, const trine_checkpoint *c, const char *where, FILE *out,
                        bool *stop) {
    stop_reason why;
    busy_with(t, "the question whether to stop");
    TRY(done_with(t, stop_asked(world_of(t), c->max_minutes, stop, &why)));
    if (*stop) say_stop(t, c, &why, where, out);
    return TRINE_OK;
}

trine_status trine_trainer_checkpoint(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                      bool *stop) {
    TRY(ask(t, c, "with", out, stop));
    bool due = *stop || t->steps == t->config.train_iters ||
               (c->save_interval > 0 && t->steps % c->save_interval == 0);
    return c->save && due ? trine_trainer_save(t, c, out) : TRINE_OK;
}

trine_status trine_trainer_validate(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                    double *loss, bool *stop) {
    double sum = 0;
    *stop = false;
    for (int i = 0; i < t->config.eval_iters && !*stop; i++) {
        TRY(trainer_eval_batch(t, i, &sum));
        if (i + 1 < t->config.eval_iters) TRY(ask(t, c, "in the validation of", out, stop));
    }
    if (!*stop) *loss = sum / t->config.eval_iters;
    bool due = *stop && t->saved != t->steps;
    return c->save && due ? trine_trainer_save(t, c, out) : TRINE_OK;
}
