/* A trainer's checkpoints: which parts of its state are written and filled (train/shards.h), and
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
#include "train/shards.h"
#include "train/ranks.h"
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
 * instruction does. */
static void busy_with(const char *what) {
    comm_doing(what);
}
static trine_status done_with(trine_status status) {
    comm_doing(NULL);
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

static ckpt_data data_of(const trine_trainer *t) {
    const tokens_print *p = &t->train.print;
    return (ckpt_data){.files = p->files, .tokens = p->tokens, .hash = p->hash};
}

/* The scale of a run in which it moved goes on where that stood; else it begins as configured. */
static trine_status restore_scaler(scaler *s, const ckpt_source *source) {
    const ckpt_state *saved = ckpt_saved_state(source);
    bool moved;
    TRY(settings_scale_moves(ckpt_saved_config(source), &moved));
    if (!moved || s->min <= 0) return TRINE_OK;
    s->scale = fmax(saved->loss_scale, s->min);
    s->good = saved->good < s->window ? saved->good : s->window - 1;
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

static trine_status fill_state(trine_trainer *t, const ckpt_source *source, bool weights_only) {
    pieces p;
    trine_status status = shards_to_load(&t->held, weights_only, &p);
    if (status == TRINE_OK)
        status = ckpt_read_answering(source, t->world, t->dev, p.pieces, p.piece_count);
    shards_free(&p);
    return status;
}

/* What each rank does by itself. */
static trine_status take_over(trine_trainer *t, const trine_checkpoint *c,
                              const ckpt_source *source) {
    bool weights_only = weights_alone(c, source);
    trine_model saved;
    TRY(ckpt_model(source, &saved));
    TRY(settings_same_model(&saved, &t->config.model, ckpt_path(source)));
    TRY(fill_state(t, source, weights_only));
    return weights_only ? TRINE_OK : restore_state(t, source);
}

/* The order of samples goes on where it was, in other data. */
static void say_data(const trine_trainer *t, const ckpt_source *source, FILE *out) {
    ckpt_data saved = ckpt_saved_data(source), now = data_of(t);
    if (!saved.files || (saved.tokens == now.tokens && saved.hash == now.hash)) return;
    fprintf(out,
            "  the training data differ: %" PRIu64 " tokens in %" PRIu64 " file%s (hash %016" PRIx64
            ") in the checkpoint, %" PRIu64 " in %" PRIu64 " (%016" PRIx64 ") now\n",
            saved.tokens, saved.files, saved.files == 1 ? "" : "s", saved.hash, now.tokens,
            now.files, now.hash);
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
    say_data(t, source, out);
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

/* The folder's trial, a part of it each. */
typedef struct {
    const trine_trainer *t;
    const trine_checkpoint *c;
    const char *token;
} trial;

/* Rank 0's part: makes the folder that the others look for. */
static trine_status try_folder(void *context) {
    const trial *x = context;
    if (trine_world_rank(x->t->world) != 0) return TRINE_OK;
    if (!is_auto(x->c)) TRY(check_newest(x->c->save, x->t->steps));
    return folder_try(x->t->lease, x->t->steps, 0);
}

static trine_status see_folder(void *context) {
    const trial *x = context;
    const trine_trainer *t = x->t;
    const trine_checkpoint *c = x->c;
    char *path = folder_writing(c->save, x->token, t->steps);
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

static trine_status leave_folder(void *context) {
    const trial *x = context;
    if (trine_world_rank(x->t->world) == 0) folder_abandon(x->t->lease, x->t->steps);
    return TRINE_OK;
}

/* What would fail at the first save is said before the first step. Collective over: world. */
static trine_status check_folder(const trine_trainer *t, const trine_checkpoint *c,
                                 const char *token) {
    trial x = {t, c, token};
    TRY(trine_world_agree(t->world, status_user(comm_with_files(t->world, try_folder, &x))));
    trine_status status =
        trine_world_agree(t->world, status_user(comm_with_files(t->world, see_folder, &x)));
    (void)comm_with_files(t->world, leave_folder, &x);
    return status;
}

/* Before anything is read there: nobody changes it from here on. Collective over: world. */
static trine_status hold_folder(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                char token[FILE_TOKEN]) {
    bool first = trine_world_rank(t->world) == 0;
    TRY(trine_world_agree(t->world, first ? status_user(check_outside(c->save)) : TRINE_OK));
    return ckpt_hold(world_of(t), &t->lease, c->save, voice(t, out), token);
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
    char token[FILE_TOKEN];
    TRY(ranks_agree_checkpoint(t->world, c));
    TRY(status_user(check_request(c)));
    busy_with("loading a checkpoint");
    trine_status status = c->save ? hold_folder(t, c, out, token) : TRINE_OK;
    if (status == TRINE_OK && c->load) status = status_user(load(t, c, out));
    if (status == TRINE_OK && c->save) status = check_folder(t, c, token);
    if (status != TRINE_OK) lease_give_back(&t->lease);
    if (step && status == TRINE_OK) *step = t->steps;
    return done_with(status);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static trine_status prepare(const trine_trainer *t, pieces *p, char **config) {
    TRY(shards_to_save(&t->held, p));
    return settings_print(&t->config, config);
}

trine_status trine_trainer_save(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    CHECK(c->save, TRINE_EINVAL, "there is no folder to save in (--save)");
    char *config = NULL;
    pieces p;
    busy_with("saving a checkpoint");
    trine_status status = trine_world_agree(t->world, prepare(t, &p, &config));
    ckpt_image image = {.dev = t->dev,
                        .tensors = p.tensors,
                        .kinds = p.kinds,
                        .tensor_count = p.tensor_count,
                        .pieces = p.pieces,
                        .piece_count = p.piece_count,
                        .state = state_of(t),
                        .data = data_of(t),
                        .config = config,
                        .writer = &t->writer,
                        .lease = &t->lease};
    if (status == TRINE_OK) status = ckpt_save(t->mesh, &image, c->save, c->keep, voice(t, out));
    if (status == TRINE_OK) t->saved = t->steps;
    free(config);
    shards_free(&p);
    return done_with(status_user(status));
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

/* What leaves the state in memory whole, on every rank: a disk that is full or fails, files that are not
 * as they were written, want of memory for the save itself. */
static bool is_survivable(trine_status status) {
    return status == TRINE_EIO || status == TRINE_EDATA || status == TRINE_ENOMEM;
}

/* The rank that knows why says so, and the run goes on. */
static void say_unsaved(const trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    trine_error_print();
    status_clear();
    if (!(out = voice(t, out))) return;
    int64_t next = t->steps + c->save_interval, end = t->config.train_iters;
    fprintf(out,
            "step %" PRId64 " is NOT SAVED (standard error says why): the run goes on, older "
            "checkpoints stay, and step %" PRId64 " is to be saved next\n",
            t->steps, next < end ? next : end);
    fflush(out);
}

/* `where` is said in front of the step's number. Collective over: world. */
static trine_status ask(trine_trainer *t, const trine_checkpoint *c, const char *where, FILE *out,
                        bool *stop) {
    stop_reason why;
    busy_with("the question whether to stop");
    TRY(done_with(stop_asked(world_of(t), c->max_minutes, stop, &why)));
    if (*stop) say_stop(t, c, &why, where, out);
    return TRINE_OK;
}

trine_status trine_trainer_checkpoint(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                      bool *stop) {
    TRY(ask(t, c, "with", out, stop));
    bool last = *stop || t->steps == t->config.train_iters;
    bool due = last || (c->save_interval > 0 && t->steps % c->save_interval == 0);
    trine_status status = c->save && due ? trine_trainer_save(t, c, out) : TRINE_OK;
    if (last || !is_survivable(status)) return status;
    say_unsaved(t, c, out);
    return TRINE_OK;
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
