/* A trainer's checkpoints: the shards of its state that are written and loaded (train/shards.h), and the
 * counters of a run's progress. */
#include "base/c_locale.h"
#include "ckpt/base.h"
#include "ckpt/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/live.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "ckpt/folder.h"
#include "ckpt/settings.h"
#include "comm/api/one_thread.h"
#include "config/check_run.h"
#include "config/token_marks.h"
#include "train/boundaries.h"
#include "train/decay_time.h"
#include "train/promise.h"
#include "train/ranks.h"
#include "train/load_request.h"
#include "train/options_text.h"
#include "train/shards.h"
#include "train/stop.h"
#include "train/trainer.h"
#include "train/way_on.h"

static trine_comm *world_of(const trine_trainer *t) {
    return trine_mesh_group(t->mesh, TRINE_WORLD);
}

/* The stream for messages: NULL except on rank 0; erases the progress bar. */
static FILE *report_stream(const trine_trainer *t, FILE *out) {
    if (!out || trine_world_rank(t->world) != 0) return NULL;
    terminal_line_erase();
    return out;
}

/* Ends what comm_doing said of the waits before, for the watchdog's report: there is no instruction outside
 * a program. */
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
                        .finite_norm = t->finite_norm,
                        .sets_lr = t->sets_lr,
                        .lr = t->lr,
                        .decay_step = t->decay.step,
                        .decay_update = t->decay.update};
}

static ckpt_data data_of(const trine_trainer *t) {
    const tokens_print *p = &t->train.print; /* without a hash: of a program that says none */
    return (ckpt_data){.files = p->hash ? p->files : 0, .tokens = p->tokens, .hash = p->hash};
}

/* Restores a dynamic loss scale from a run in which it was dynamic; else it starts as configured. */
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

/* What the steps of this process have left, apart from parameters and moments. */
static void forget_steps(trine_trainer *t) {
    t->config = decay_time_config(t);
    t->decay = (trainer_decay){.step = 0};
    t->scale = scaler_of(&t->config.precision);
    t->steps = t->updates = t->finite_step = 0;
    t->finite_norm = 0;
    t->samples = 0;
    t->saved = -1;
    t->overflow[0] = t->ring_file[0] = '\0';
}

static trine_status restore_state(trine_trainer *t, const ckpt_source *source) {
    const ckpt_state *saved = ckpt_saved_state(source);
    forget_steps(t);
    t->steps = saved->step;
    t->updates = saved->updates;
    t->samples = saved->samples;
    t->finite_step = saved->finite_step;
    t->finite_norm = saved->finite_norm;
    if (saved->sets_lr) t->sets_lr = true, t->lr = saved->lr;
    decay_time_restore(t, saved);
    return restore_scaler(&t->scale, source);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Whether only weights are loaded: there is no state, or only weights were requested. */
static bool weights_alone(const trine_checkpoint *c, const ckpt_source *source) {
    return c->load_weights_only || !ckpt_saved_state(source);
}

/* A new optimizer, and initial values where a file has none (adapters), in a trainer that has made steps. */
static trine_status begin_anew(trine_trainer *t) {
    if (!t->steps && !t->updates) return TRINE_OK;
    TRY(state_init(&t->held, t->dev, t->config.data.seed));
    shards_clear_moments(&t->held, t->dev);
    forget_steps(t);
    return TRINE_OK;
}

static trine_status fill_state(trine_trainer *t, const ckpt_source *source, bool weights_only) {
    shard_set p;
    if (weights_only) TRY(begin_anew(t));
    trine_status status = shards_to_load(&t->held, weights_only, &p);
    if (status == TRINE_OK)
        status = ckpt_read_answering(source, t->world, t->dev, p.shards, p.shard_count);
    shards_free(&p);
    return status;
}

/* The local part, without communication. */
static trine_status load_local(trine_trainer *t, const trine_checkpoint *c,
                               const ckpt_source *source) {
    bool weights_only = weights_alone(c, source);
    trine_model saved;
    const char *adapters = ckpt_adapters(source);
    CHECK(weights_only || !adapters, TRINE_EINVAL,
          "%s is a checkpoint of a run without the adapters of %s; --load-weights-only starts a "
          "new run with both",
          ckpt_path(source), adapters);
    TRY(ckpt_model(source, &saved));
    TRY(settings_same_model(&saved, &t->config.model, weights_only, ckpt_path(source)));
    if (!weights_only)
        TRY(settings_trained_there(ckpt_saved_config(source), &t->config.model, ckpt_path(source)));
    int length = t->config.model.seq_length, positions = gpt_positions(&saved);
    CHECK(ckpt_saved_state(source) || length <= positions, TRINE_EINVAL,
          "%s: --seq-length %d is more than the %d positions that its config.json allows "
          "(max_position_embeddings or sliding_window)",
          ckpt_path(source), length, positions);
    if (!t->config.model.max_positions) t->config.model.max_positions = saved.max_positions;
    TRY(fill_state(t, source, weights_only));
    return weights_only ? TRINE_OK : restore_state(t, source);
}

/* The context of the tokenizer's reading. */
typedef struct {
    trine_trainer *t;
    const ckpt_source *source;
    bool weights_only;
} reading;

/* On rank 0: the tokenizer of the folder, or that it is the run's. */
static trine_status read_tokenizer(void *context) {
    const reading *x = context;
    run_tokenizer_fit fit = trainer_tokenizer_fit(x->t);
    return run_tokenizer_load(&x->t->tokenizer, &fit, x->source, x->weights_only);
}

/* Collective over: world. */
static trine_status load_tokenizer(trine_trainer *t, const trine_checkpoint *c,
                                   const ckpt_source *source) {
    reading x = {t, source, weights_alone(c, source)};
    bool first = trine_world_rank(t->world) == 0;
    return trine_world_agree(
        t->world, first ? status_user(comm_with_files(t->world, read_tokenizer, &x)) : TRINE_OK);
}

/* A learning rate that is not the schedule's is not gone on with in silence. */
static void report_rate(const trine_trainer *t, const trine_checkpoint *c,
                        const ckpt_source *source, FILE *out) {
    const ckpt_state *saved = ckpt_saved_state(source);
    if (weights_alone(c, source) || !t->sets_lr) return;
    c_fprintf(out, "  learning rate: %g in all steps, as %s; not the schedule's\n", t->lr,
              saved->sets_lr ? "the checkpoint's program had set it" : "this program has set it");
}

/* The same for samples of the program's: whether the checkpoint's were is not known. */
static void report_program(ckpt_data saved, ckpt_data now, FILE *out) {
    if (!now.hash)
        fputs("  training data are not compared with the checkpoint's: the program's samples have "
              "no fingerprint\n",
              out);
    else if (saved.files && saved.hash != now.hash)
        fprintf(out,
                "  training data differ: %" PRIu64 " tokens (hash %016" PRIx64
                ") in the checkpoint, %" PRIu64 " (%016" PRIx64 ") in the program's samples now\n",
                saved.tokens, saved.hash, now.tokens, now.hash);
}

/* Reports that the data changed; the sample order continues where it was. */
static void report_data(const trine_trainer *t, const ckpt_source *source, FILE *out) {
    ckpt_data saved = ckpt_saved_data(source), now = data_of(t);
    if (blend_program(t->train.samples)) {
        report_program(saved, now, out);
        return;
    }
    if (!saved.files || (saved.tokens == now.tokens && saved.hash == now.hash)) return;
    fprintf(out,
            "  training data differ: %" PRIu64 " tokens in %" PRIu64 " file%s (hash %016" PRIx64
            ") in the checkpoint, %" PRIu64 " in %" PRIu64 " (%016" PRIx64 ") now\n",
            saved.tokens, saved.files, saved.files == 1 ? "" : "s", saved.hash, now.tokens,
            now.files, now.hash);
}

static trine_status report_start(const trine_trainer *t, const trine_checkpoint *c,
                                 const ckpt_source *source, FILE *out) {
    if (!(out = report_stream(t, out))) return TRINE_OK;
    const char *adapters = ckpt_adapters(source);
    if (weights_alone(c, source))
        fprintf(out, "loaded the weights of %s%s%s: step 0, new optimizer\n", ckpt_path(source),
                adapters ? " and the adapters of " : "", adapters ? adapters : "");
    else
        fprintf(out,
                "resumed from %s: %" PRId64 " steps, %" PRId64 " updates, %" PRIu64
                " samples done\n",
                ckpt_path(source), t->steps, t->updates, t->samples);
    if (!weights_alone(c, source) && t->lora_base)
        fprintf(out, "  the base of its adapters: %s\n", t->lora_base);
    report_rate(t, c, source, out);
    report_data(t, source, out);
    run_tokenizer_report(&t->tokenizer, source, out);
    const char *config = ckpt_saved_config(source);
    const trine_config asked = decay_time_config(t);
    TRY(config ? settings_compare(config, &asked, out) : TRINE_OK);
    if (config && !weights_alone(c, source)) promise_report(t, ckpt_saved_exact(source), out);
    if (t->decay.step)
        fprintf(out,
                "  the learning rate decays since step %" PRId64
                ", by --max-minutes; the last step is %d\n",
                t->decay.step, t->config.train_iters);
    if (t->steps >= t->config.train_iters)
        fprintf(out, "  --train-iters %d: all steps are done, nothing to train or save\n",
                t->config.train_iters);
    fflush(out);
    return TRINE_OK;
}

/* Collective over: world. */
static trine_status take_base(trine_trainer *t, const ckpt_source *source) {
    free(t->lora_base);
    t->lora_base = NULL;
    t->lora_base_hash = 0;
    if (!base_is_apart(&t->config.model)) return TRINE_OK;
    return base_of(source, world_of(t), &t->lora_base, &t->lora_base_hash);
}

/* Collective over: world. */
static trine_status load_source(trine_trainer *t, const trine_checkpoint *c,
                                const ckpt_source *source, FILE *out) {
    TRY(trine_world_agree(t->world, status_user(load_local(t, c, source))));
    TRY(load_tokenizer(t, c, source));
    TRY(status_user(take_base(t, source)));
    TRY(status_user(boundaries_end(t)));
    return trine_world_agree(t->world, report_start(t, c, source, out));
}

/* The same, with the adapters that were asked for. Collective over: world. */
static trine_status load_adapted(trine_trainer *t, const trine_checkpoint *c, ckpt_source *source,
                                 FILE *out) {
    if (c->adapter) TRY(status_user(ckpt_adapt(source, world_of(t), c->adapter)));
    return load_source(t, c, source, out);
}

/* What "auto" loads where no checkpoint was saved yet. Collective over: world. */
static trine_status load_first(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    trine_checkpoint first = {
        .load = c->pretrained, .load_weights_only = true, .adapter = c->adapter};
    FILE *own = report_stream(t, out);
    if (own) fprintf(own, "no checkpoint in %s; starting at step 0\n", c->save);
    if (!c->pretrained) return TRINE_OK;
    ckpt_source *source;
    TRY(ckpt_open(&source, world_of(t), c->pretrained, out));
    trine_status status = load_adapted(t, &first, source, out);
    ckpt_close(&source);
    return status;
}

/* Collective over: world. */
static trine_status load(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    ckpt_source *source = NULL;
    trine_comm *world = world_of(t);
    TRY(request_is_auto(c) ? ckpt_open_newest(&source, world, c->save, out)
                           : ckpt_open(&source, world, c->load, out));
    if (!source) return load_first(t, c, out);
    trine_status status =
        request_is_auto(c) ? load_source(t, c, source, out) : load_adapted(t, c, source, out);
    if (request_is_auto(c) && ckpt_saved_state(source)) t->saved = t->steps;
    ckpt_close(&source);
    return status;
}

/* Refuses a folder with checkpoints of later steps, which would be taken for the newest of this run. */
static trine_status check_newest(const char *dir, int64_t begins) {
    int64_t *steps = NULL, newest = 0;
    size_t count = 0;
    TRY(folder_list(dir, &steps, &count));
    if (count) newest = steps[0];
    free(steps);
    CHECK(newest <= begins, TRINE_EINVAL,
          "--save %s: already has step-%" PRId64 ", but this run starts at step %" PRId64
          "; resume with --load auto, save elsewhere, or move it away",
          dir, newest, begins);
    return TRINE_OK;
}

/* Refuses to start a new run inside the checkpoint that it should resume from. */
static trine_status check_outside(const char *dir) {
    char *path = folder_join(dir, MANIFEST_FILE);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    bool checkpoint = access(path, F_OK) == 0;
    free(path);
    CHECK(!checkpoint, TRINE_EINVAL,
          "--save %s: is itself a checkpoint; give the folder that contains checkpoints", dir);
    return TRINE_OK;
}

/* The context of the folder check. */
typedef struct {
    const trine_trainer *t;
    const trine_checkpoint *c;
    const char *token;
} trial;

/* On rank 0: creates the folder that the other ranks look for. */
static trine_status try_folder(void *context) {
    const trial *x = context;
    if (trine_world_rank(x->t->world) != 0) return TRINE_OK;
    TRY(folder_check(x->c->save));
    if (!request_is_auto(x->c)) TRY(check_newest(x->c->save, x->t->steps));
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
                       "--save %s: rank 0 created %s, but this rank cannot access it: %s; use a "
                       "shared folder that all ranks can write to",
                       c->save, path, strerror(cause));
    free(path);
    return status;
}

static trine_status leave_folder(void *context) {
    const trial *x = context;
    if (trine_world_rank(x->t->world) == 0) folder_abandon(x->t->lease, x->t->steps);
    return TRINE_OK;
}

/* Checks before the first step that saving will work. Collective over: world. */
static trine_status check_folder(const trine_trainer *t, const trine_checkpoint *c,
                                 const char *token) {
    trial x = {t, c, token};
    TRY(trine_world_agree(t->world, status_user(comm_with_files(t->world, try_folder, &x))));
    trine_status status =
        trine_world_agree(t->world, status_user(comm_with_files(t->world, see_folder, &x)));
    (void)comm_with_files(t->world, leave_folder, &x);
    return status;
}

/* Takes the lease before anything is read, so that no other job changes the folder. Collective over: world. */
static trine_status hold_folder(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                char token[FILE_TOKEN]) {
    bool first = trine_world_rank(t->world) == 0;
    TRY(trine_world_agree(t->world, first ? status_user(check_outside(c->save)) : TRINE_OK));
    return ckpt_hold(world_of(t), &t->lease, c->save, stop_heard, report_stream(t, out), token);
}

static trine_status check_request(const trine_checkpoint *c) {
    for (int i = 0; i < REQUEST_RULES; i++) {
        const char *fault = request_fault(c, i);
        CHECK(!fault, TRINE_EINVAL, "%s", fault);
    }
    return config_check_run(NULL, c);
}

trine_status trine_trainer_load(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                int64_t *step) {
    CHECK_GIVEN(c, "c");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    char token[FILE_TOKEN];
    TRY(trainer_between_steps(t, __func__));
    TRY(ranks_agree_checkpoint(t->world, c));
    TRY(status_user(check_request(c)));
    comm_doing("loading a checkpoint");
    trine_status status = c->save ? hold_folder(t, c, out, token) : TRINE_OK;
    if (status == TRINE_OK && c->load) status = status_user(load(t, c, out));
    if (status == TRINE_OK) status = status_user(trainer_check_documents(t));
    if (status == TRINE_OK && c->save) status = check_folder(t, c, token);
    if (status != TRINE_OK) lease_give_back(&t->lease);
    if (status == TRINE_OK) way_on_set(t, c);
    if (step && status == TRINE_OK) *step = t->steps;
    return done_with(status);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The count of c->save_at_tokens that the last step has reached; 0: none. */
static uint64_t reached_mark(const trine_trainer *t, const trine_checkpoint *c) {
    uint64_t length = (uint64_t)t->config.model.seq_length,
             step = (uint64_t)t->config.global_batch_size * length, now = t->samples * length;
    return now ? token_marks_between(c->save_at_tokens, now - step, now) : 0;
}

/* options: on rank 0. */
static trine_status prepare(const trine_trainer *t, const trine_checkpoint *c, shard_set *p,
                            char **config, char **options) {
    TRY(shards_to_save(&t->held, t->lora_base, p));
    const trine_config asked = decay_time_config(t);
    TRY(settings_print(&asked, config));
    return trine_world_rank(t->world) == 0 ? options_text_make(t, c, options) : TRINE_OK;
}

trine_status trine_trainer_save(trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    CHECK_GIVEN(c, "c");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    CHECK(c->save, TRINE_EINVAL, "no folder to save in; set --save");
    TRY(trainer_between_steps(t, __func__));
    TRY(status_user(config_check_run(NULL, c)));
    char *config = NULL, *options = NULL, exact[MANIFEST_EXACT];
    char keep[100];
    uint64_t mark = reached_mark(t, c);
    shard_set p;
    snprintf(keep, sizeof keep,
             "saved at %" PRIu64 " tokens (--save-at-tokens); --keep does not remove it\n", mark);
    promise_text(t, exact);
    comm_doing("saving a checkpoint");
    trine_status status = trine_world_agree(t->world, prepare(t, c, &p, &config, &options));
    ckpt_image image = {.dev = t->dev,
                        .tensors = p.tensors,
                        .kinds = p.kinds,
                        .tensor_count = p.tensor_count,
                        .shards = p.shards,
                        .shard_count = p.shard_count,
                        .state = state_of(t),
                        .data = data_of(t),
                        .config = config,
                        .options = options,
                        .keep = mark ? keep : NULL,
                        .exact = exact,
                        .model = &t->config.model,
                        .base = t->lora_base,
                        .base_hash = t->lora_base_hash,
                        .carried = &t->tokenizer.files,
                        .tokenizer = t->tokenizer.hash,
                        .tokens = t->tokenizer.has_ends ? &t->tokenizer.ends : NULL,
                        .writer = &t->writer,
                        .lease = &t->lease};
    if (status == TRINE_OK)
        status = ckpt_save(t->mesh, &image, c->save, c->keep, report_stream(t, out));
    if (status == TRINE_OK) t->saved = t->steps, way_on_set(t, c);
    free(config), free(options);
    shards_free(&p);
    return done_with(status_user(status));
}

/* ---- After a step, and in a validation -------------------------------------------------------- */

static void report_stop(const trine_trainer *t, const trine_checkpoint *c, const stop_reason *why,
                        const char *where, FILE *out) {
    if (!(out = report_stream(t, out))) return;
    if (why->signal)
        fprintf(out, "%s to rank %d: stopping %s step %" PRId64 "\n", signals_name(why->signal),
                why->rank, where, t->steps);
    else
        c_fprintf(out, "--max-minutes %g elapsed: stopping %s step %" PRId64 "\n", c->max_minutes,
                  where, t->steps);
    fflush(out);
}

/* At the end of a run that was asked to stop, and has saved. */
static void report_saved(const trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    if (!c->save || !(out = report_stream(t, out))) return;
    fprintf(out,
            "stopped at step %" PRId64 " of %d, which is saved in %s/step-%" PRId64
            "; to go on, start the same command with --load auto\n",
            t->steps, t->config.train_iters, c->save, t->steps);
    fflush(out);
}

/* Failures that leave the state in memory intact on every rank: a full or failing disk, files that do not
 * read back as written, no memory for the save itself. */
static bool is_survivable(trine_status status) {
    return status == TRINE_EIO || status == TRINE_EDATA || status == TRINE_ENOMEM;
}

/* The rank that failed prints why, and training continues. */
static void report_unsaved(const trine_trainer *t, const trine_checkpoint *c, FILE *out) {
    trine_error_print();
    status_clear();
    if (!(out = report_stream(t, out))) return;
    int64_t next = t->steps + c->save_interval, end = t->config.train_iters;
    fprintf(out,
            "step %" PRId64 " is NOT SAVED (see standard error): training continues, older "
            "checkpoints are kept, next save at step %" PRId64 "\n",
            t->steps, next < end ? next : end);
    fflush(out);
}

/* `where` is printed before the step number. Collective over: world. */
static trine_status check_stop(trine_trainer *t, const trine_checkpoint *c, const char *where,
                               FILE *out, bool *stop) {
    stop_reason why;
    double limit = decay_time_is_over(t) ? 0 : c->max_minutes;
    comm_doing("checking for a stop request");
    TRY(done_with(stop_asked(world_of(t), limit, stop, &why)));
    if (*stop) report_stop(t, c, &why, where, out);
    return TRINE_OK;
}

trine_status trine_trainer_checkpoint(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                      bool *stop) {
    CHECK_GIVEN(c, "c");
    CHECK_GIVEN(stop, "stop");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    TRY(trainer_between_steps(t, __func__));
    TRY(status_user(config_check_run(NULL, c)));
    TRY(check_stop(t, c, "after", out, stop));
    if (!*stop) TRY(decay_time_step(t, c->max_minutes, report_stream(t, out)));
    bool last = *stop || t->steps == t->config.train_iters;
    bool due =
        last || reached_mark(t, c) || (c->save_interval > 0 && t->steps % c->save_interval == 0);
    trine_status status = c->save && due ? trine_trainer_save(t, c, out) : TRINE_OK;
    if (last && status == TRINE_OK) stop_saved();
    if (*stop && status == TRINE_OK && t->steps < t->config.train_iters) report_saved(t, c, out);
    if (last || !is_survivable(status)) return status;
    report_unsaved(t, c, out);
    return TRINE_OK;
}

trine_status trine_trainer_validate(trine_trainer *t, const trine_checkpoint *c, FILE *out,
                                    double *loss, bool *stop) {
    CHECK_GIVEN(c, "c");
    CHECK_GIVEN(loss, "loss");
    CHECK_GIVEN(stop, "stop");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    ONE_THREAD(t->world, __func__);
    trainer_sum sum = {0, 0};
    TRY(trainer_between_steps(t, __func__));
    TRY(status_user(config_check_run(NULL, c)));
    *stop = false;
    stop_training();
    for (int i = 0; i < t->config.eval_iters && !*stop; i++) {
        TRY(trainer_eval_batch(t, i, &sum));
        if (i + 1 < t->config.eval_iters) TRY(check_stop(t, c, "in the validation of", out, stop));
    }
    if (!*stop) TRY(status_user(trainer_eval_mean(t, &sum, loss)));
    bool due = *stop && t->saved != t->steps;
    if (c->save && due) TRY(trine_trainer_save(t, c, out));
    if (*stop || t->steps >= t->config.train_iters) stop_saved();
    if (*stop) report_saved(t, c, out);
    return TRINE_OK;
}
