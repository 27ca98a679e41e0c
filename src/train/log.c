#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/c_locale.h"
#include "base/human.h"
#include "base/live.h"
#include "base/options.h"
#include "base/status.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/terminal_line.h"
#include "comm/api/comm.h"
#include "train/log_file.h"
#include "train/log_run.h"
#include "train/tensorboard.h"
#include "train/trainer.h"
#include "profile/profile.h"

struct trine_log {
    trine_trainer *trainer;
    bool writes; /* world rank 0 */
    FILE *out;
    log_file file;
    double peak_flops;  /* of one rank; 0: unknown */
    double token_flops; /* of a step */
    double recent;      /* seconds per step, smoothed, for the ETA */
    uint64_t tokens;
    uint64_t samples; /* up to which completed epochs have been printed */
    cJSON *run;       /* owned: how this process was started; NULL: a line of the file says it */
    int64_t saved;    /* the newest checkpoint that a line has */
};

/* Refuses a path that is a token file or the profile, which the log would overwrite. */
static trine_status open_file(trine_log *l, trine_trainer *t, const char *path) {
    CHECK(!trainer_has_file(t, path), TRINE_EINVAL, "--log %s: is one of the token files", path);
    CHECK(!t->config.trace.file || strcmp(path, t->config.trace.file) != 0, TRINE_EINVAL,
          "--log %s: is also the file of --trace", path);
    TRY(output_open(&l->file.out, "--log", path));
    CHECK(!t->profile || !report_file_is(t->profile->json, l->file.out), TRINE_EINVAL,
          "--log %s: is also the file of --profile-json", path);
    TRY(output_lock(l->file.out));
    t->log = l->file.out;
    return log_file_begin(&l->file, t->steps);
}

static trine_status describe(trine_log *l, int argc, char *const argv[]) {
    cJSON_Delete(l->run);
    l->run = log_run_object(l->trainer, argc, argv);
    CHECK(l->run, TRINE_ENOMEM, "no memory for the log's description of the run");
    return TRINE_OK;
}

trine_status trine_log_create(trine_log **log, trine_trainer *trainer, FILE *out, const char *path,
                              double peak_tflops) {
    CHECK_GIVEN(log, "log");
    CHECK_GIVEN(out, "out");
    CHECK_LIVE(trainer, "trainer", LIVE_TRAINER);
    CHECK(peak_tflops >= 0 && isfinite(peak_tflops), TRINE_EINVAL,
          "%s: peak_tflops is %g; it must be a finite number from 0 on (0: unknown)", __func__,
          peak_tflops);
    trine_log *l = *log = calloc(1, sizeof *l);
    CHECK(l, TRINE_ENOMEM, "no memory for a log");
    trine_status known = live_add(l, LIVE_LOG, trainer);
    if (known != TRINE_OK) free(l), *log = NULL;
    TRY(known);
    l->trainer = trainer;
    l->writes = trine_world_rank(trainer->world) == 0;
    l->out = out;
    l->peak_flops = 1e12 * peak_tflops;
    l->token_flops = gpt_flops_per_token(&trainer->config.model);
    l->tokens = trainer->samples * (uint64_t)trainer->config.model.seq_length;
    l->samples = trainer->samples;
    if (!trainer->shows) progress_begin(out, TRINE_PROGRESS_AUTO, l->writes);
    trace_set_folder(trainer->trace, path);
    l->saved = trainer->saved;
    if (!path || !l->writes) return TRINE_OK;
    trine_status status = open_file(l, trainer, path);
    if (status == TRINE_OK) status = describe(l, 0, NULL);
    if (status != TRINE_OK) trine_log_destroy(log);
    return status_user(status);
}

void trine_log_destroy(trine_log **log) {
    trine_log *l = log ? *log : NULL;
    if (!live_ends(l, LIVE_LOG, __func__, "log")) return;
    terminal_line_erase();
    if (!live_is_orphan(l) && l->trainer->log == l->file.out) l->trainer->log = NULL;
    output_close(&l->file.out);
    cJSON_Delete(l->run);
    live_remove(l);
    free(l);
    *log = NULL;
}

trine_status trine_trainer_progress(trine_trainer *t, FILE *out, trine_progress how) {
    CHECK_GIVEN(out, "out");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    CHECK((unsigned)how <= TRINE_PROGRESS_BAR, TRINE_EINVAL,
          "%s: how is %d; it must be TRINE_PROGRESS_AUTO, _LINE or _BAR", __func__, (int)how);
    progress_begin(out, how, trine_world_rank(t->world) == 0);
    t->shows = true;
    return TRINE_OK;
}

/* ---- The file ---- */

static bool add_number(cJSON *object, const char *name, double value) {
    char text[40];
    c_snprintf(text, sizeof text, "%.17g", value);
    return cJSON_AddRawToObject(object, name, isfinite(value) ? text : "null") != NULL;
}

static bool add_count(cJSON *object, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, name, text) != NULL;
}

/* What the first line after the start, or after a checkpoint, has besides. */
static bool add_news(const trine_log *l, cJSON *object) {
    int64_t saved = l->trainer->saved;
    if (saved >= 0 && saved != l->saved && !add_count(object, "checkpoint", (uint64_t)saved))
        return false;
    return !l->run || cJSON_AddItemReferenceToObject(object, "run", l->run);
}

/* The most memory that this process has had so far; 0: unknown. */
static uint64_t resident_bytes(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) ? 0 : (uint64_t)used.ru_maxrss * 1024;
}

/* What a line that is lost was to say, the next one says. */
static trine_status add_line(trine_log *l, int64_t step, cJSON *object) {
    char *text = add_news(l, object) ? json_print(object, false) : NULL;
    CHECK(text, TRINE_ENOMEM, "no memory for a line of the log");
    int64_t lost = l->file.lost;
    trine_status status = log_file_add(&l->file, step, text);
    cJSON_free(text);
    if (status != TRINE_OK || l->file.lost != lost) return status;
    l->saved = l->trainer->saved;
    cJSON_DeleteItemFromObject(object, "run");
    cJSON_Delete(l->run);
    l->run = NULL;
    return TRINE_OK;
}

/* Writes and deletes the object. */
static trine_status write_line(trine_log *l, int64_t step, cJSON *object, bool complete) {
    tensorboard *board = l->trainer->board;
    trine_status status =
        complete ? TRINE_OK : RAISE(TRINE_ENOMEM, "no memory for a line of the log");
    if (status == TRINE_OK && board) status = tensorboard_add(board, step, object);
    if (status == TRINE_OK && l->file.out) status = add_line(l, step, object);
    cJSON_Delete(object);
    return status;
}

/* Whether anything but the terminal has the numbers. */
static bool writes_lines(const trine_log *l) {
    return l->file.out || l->trainer->board;
}

trine_status trine_log_has_val(const trine_log *l, bool *has) {
    CHECK_GIVEN(has, "has");
    CHECK_LIVE(l, "log", LIVE_LOG);
    int64_t found = l->file.has_val;
    TRY(trine_all_reduce(trine_mesh_group(l->trainer->mesh, TRINE_WORLD), &found, &found, 1,
                         TRINE_I64, TRINE_MAX));
    *has = found;
    return TRINE_OK;
}

trine_status trine_log_check(const trine_log *l) {
    CHECK_LIVE(l, "log", LIVE_LOG);
    TRY(status_user(log_file_check(&l->file)));
    return status_user(tensorboard_check(l->trainer->board));
}

static bool add_energy(cJSON *object, const trine_metrics *m) {
    return m->joules <= 0 ||
           (add_number(object, "joules_per_token", m->joules / (double)m->tokens) &&
            add_number(object, "watts", m->joules / m->seconds));
}

trine_status trine_log_run(trine_log *l, int argc, char *const *argv) {
    CHECK_GIVEN(argv, "argv");
    CHECK_LIVE(l, "log", LIVE_LOG);
    TRY(options_check_argv(__func__, argc, argv, 0));
    return l->run ? describe(l, argc, argv) : TRINE_OK;
}

static trine_status write_step(trine_log *l, const trine_metrics *m) {
    double planned = l->trainer->planned.seconds;
    cJSON *o = cJSON_CreateObject();
    bool ok = o && add_count(o, "step", (uint64_t)m->step) && add_number(o, "loss", m->loss) &&
              add_number(o, "grad_norm", m->grad_norm) && add_number(o, "lr", m->lr) &&
              add_count(o, "tokens", l->tokens) && add_count(o, "supervised", m->supervised) &&
              add_number(o, "seconds", m->seconds) &&
              add_number(o, "tokens_per_second", (double)m->tokens / m->seconds) &&
              add_count(o, "peak_bytes", m->peak_bytes) &&
              add_count(o, "resident_bytes", resident_bytes()) &&
              add_number(o, "loss_scale", m->loss_scale) &&
              add_count(o, "skips", (uint64_t)m->skips) &&
              (planned <= 0 || add_number(o, "planned_seconds", planned)) && add_energy(o, m);
    return write_line(l, m->step, o, ok);
}

/* ---- The terminal ---- */

static char *time_left(char text[HUMAN_SIZE], const trine_log *l, int64_t step) {
    return human_duration(text, (double)(l->trainer->config.train_iters - step) * l->recent);
}

/* Removes the sign of a NaN, which printf would print. */
static double shown(double x) {
    return isnan(x) ? (double)NAN : x;
}

/* The trainer already has the new loss scale. */
static void print_skip(const trine_log *l, const trine_metrics *m) {
    const trine_trainer *t = l->trainer;
    fprintf(l->out, "step %" PRId64 ": %s, update skipped", m->step,
            !m->supervised           ? "no token of the global batch is supervised"
            : isfinite(m->grad_norm) ? "the program wants none"
                                     : "gradient norm is not finite");
    if (t->overflow[0]) fprintf(l->out, "; first in %s", t->overflow);
    if (t->ring_file[0]) fprintf(l->out, "; the last two steps: %s", t->ring_file);
    if (t->scale.scale < m->loss_scale) c_fprintf(l->out, "; loss scale now %g", t->scale.scale);
    fputc('\n', l->out);
}

static void print_step(trine_log *l, const trine_metrics *m) {
    const trine_config *c = &l->trainer->config;
    double plan = l->trainer->planned.seconds;
    char took[HUMAN_SIZE], planned[HUMAN_SIZE], bytes[HUMAN_SIZE], left[HUMAN_SIZE];
    c_fprintf(l->out, "step %*" PRId64 "/%d | loss %.6f | grad norm %.4f | lr %.3e | %s",
              c->train_iters > 9999 ? 6 : 4, m->step, c->train_iters, shown(m->loss),
              shown(m->grad_norm), m->lr, human_duration(took, m->seconds));
    if (plan > 0) fprintf(l->out, " (planned %s)", human_duration(planned, plan));
    c_fprintf(l->out, " | %.0f tokens/s", (double)m->tokens / m->seconds);
    double flops = l->token_flops * (double)m->tokens / m->seconds;
    double peak = l->peak_flops * trine_world_size(l->trainer->world);
    if (peak > 0)
        c_fprintf(l->out, " | util %.1f%%", 100 * flops / peak);
    else
        fputs(" | util -", l->out);
    if (m->joules > 0)
        c_fprintf(l->out, " | %.3g J/token, %.0f W", m->joules / (double)m->tokens,
                  m->joules / m->seconds);
    if (c->precision.fp16) c_fprintf(l->out, " | loss scale %g", m->loss_scale);
    if (m->skips) fprintf(l->out, " | skips %" PRId64, m->skips);
    bool more = m->step < c->train_iters;
    fprintf(l->out, " | %s | ETA %s\n", human_bytes(bytes, m->peak_bytes),
            more ? time_left(left, l, m->step) : "-");
    if (m->skipped) print_skip(l, m);
}

/* A line for each source that completed an epoch since the last one. */
static void print_epochs(trine_log *l, int64_t step) {
    const trine_trainer *t = l->trainer;
    const blend *b = t->train.samples;
    char name[300];
    for (int i = 0; i < b->count; i++) {
        double before = floor(blend_epochs(b, i, l->samples)),
               now = floor(blend_epochs(b, i, t->samples));
        if (now > before)
            c_fprintf(l->out, "step %*" PRId64 "/%d | %s: %.0f epoch%s done\n",
                      t->config.train_iters > 9999 ? 6 : 4, step, t->config.train_iters,
                      blend_name(b, i, name, sizeof name), now, now > 1 ? "s" : "");
    }
    l->samples = t->samples;
}

/* Once, after the last traced step. */
static void print_trace(trine_log *l) {
    trine_trainer *t = l->trainer;
    if (t->traced[0]) fprintf(l->out, "trace    %s: %s\n", t->config.trace.file, t->traced);
    t->traced[0] = '\0';
}

/* m: of the step; NULL: before the first one of this process, of which no time is known. */
static void show_bar(const trine_log *l, int64_t step, const trine_metrics *m) {
    int total = l->trainer->config.train_iters;
    char label[40], left[HUMAN_SIZE + 8], time[HUMAN_SIZE], loss[40], rate[40];
    const char *parts[] = {left, loss, rate};
    if (total < 1 || step >= total) return;
    snprintf(label, sizeof label, "step %" PRId64 "/%d", step, total);
    snprintf(left, sizeof left, "%s left", time_left(time, l, step));
    if (m) c_snprintf(loss, sizeof loss, "loss %.4f", shown(m->loss));
    if (m) c_snprintf(rate, sizeof rate, "%.0f tokens/s", (double)m->tokens / m->seconds);
    progress_show(label, (double)step / total, parts, m ? 3 : l->recent > 0);
}

trine_status trine_log_step(trine_log *l, const trine_metrics *m, int interval) {
    CHECK_GIVEN(m, "metrics");
    CHECK_LIVE(l, "log", LIVE_LOG);
    CHECK(m->step >= 1, TRINE_EINVAL,
          "%s: metrics->step is %" PRId64
          "; steps are counted from 1, and trine_trainer_step sets it",
          __func__, m->step);
    CHECK(interval >= 0, TRINE_EINVAL, "%s: interval is %d; it must not be negative (0: no lines)",
          __func__, interval);
    l->tokens += m->tokens;
    l->recent = l->recent > 0 ? 0.9 * l->recent + 0.1 * m->seconds : m->seconds;
    if (!l->writes) return TRINE_OK;
    bool last = m->step == l->trainer->config.train_iters;
    bool due = interval > 0 && (m->step % interval == 0 || m->step == 1 || last);
    if (due || m->skipped) terminal_line_erase(), print_step(l, m);
    if (due) print_epochs(l, m->step);
    print_trace(l);
    fflush(l->out);
    show_bar(l, m->step, m);
    return writes_lines(l) ? write_step(l, m) : TRINE_OK;
}

trine_status trine_log_val(trine_log *l, int64_t step, double loss) {
    CHECK_LIVE(l, "log", LIVE_LOG);
    CHECK(step >= 0, TRINE_EINVAL, "%s: step is %" PRId64 "; it must not be negative", __func__,
          step);
    if (!l->writes) return TRINE_OK;
    terminal_line_erase();
    c_fprintf(l->out, "step %*" PRId64 "/%d | validation loss %.6f\n",
              l->trainer->config.train_iters > 9999 ? 6 : 4, step, l->trainer->config.train_iters,
              shown(loss));
    fflush(l->out);
    show_bar(l, step, NULL);
    if (!writes_lines(l)) return TRINE_OK;
    cJSON *o = cJSON_CreateObject();
    bool ok = o && add_count(o, "step", (uint64_t)step) && add_number(o, "val_loss", loss);
    return write_line(l, step, o, ok);
}
