#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/c_locale.h"
#include "base/human.h"
#include "base/status.h"
#include "base/json.h"
#include "train/log_file.h"
#include "train/log_run.h"
#include "train/terminal.h"
#include "train/trainer.h"

#define BAR_WIDTH 40

struct trine_log {
    trine_trainer *trainer;
    bool writes; /* world rank 0 */
    bool terminal, bar_shown;
    FILE *out;
    log_file file;
    double peak_flops; /* of one rank; 0: unknown */
    double recent;     /* seconds per step, smoothed, for the ETA */
    uint64_t tokens;
    uint64_t samples; /* up to which completed epochs have been printed */
    bool described;   /* trine_log_run was called */
    cJSON *run;       /* for the next line of the file; NULL: none */
    int64_t saved;    /* the newest checkpoint that a line has */
};

/* Refuses a path that is a token file or the profile, which the log would overwrite. */
static trine_status open_file(trine_log *l, trine_trainer *t, const char *path) {
    CHECK(!trainer_has_file(t, path), TRINE_EINVAL, "--log %s: is one of the token files", path);
    TRY(output_open(&l->file.out, "--log", path));
    CHECK(!t->profile || !report_file_is(t->profile->json, l->file.out), TRINE_EINVAL,
          "--log %s: is also the file of --profile-json", path);
    TRY(output_lock(l->file.out));
    t->log = l->file.out;
    return log_file_begin(&l->file, t->steps);
}

trine_status trine_log_create(trine_log **log, trine_trainer *trainer, FILE *out, const char *path,
                              double peak_tflops) {
    CHECK_GIVEN(log, "log");
    CHECK_GIVEN(trainer, "trainer");
    CHECK_GIVEN(out, "out");
    trine_log *l = *log = calloc(1, sizeof *l);
    CHECK(l, TRINE_ENOMEM, "no memory for a log");
    l->trainer = trainer;
    l->writes = trine_world_rank(trainer->world) == 0;
    l->out = out;
    l->peak_flops = 1e12 * peak_tflops;
    l->tokens = trainer->samples * (uint64_t)trainer->config.model.seq_length;
    l->samples = trainer->samples;
    l->terminal = l->writes && terminal_is(out);
    l->saved = trainer->saved;
    if (!path || !l->writes) return TRINE_OK;
    trine_status status = open_file(l, trainer, path);
    if (status != TRINE_OK) trine_log_destroy(log);
    return status_user(status);
}

static void clear_bar(trine_log *l) {
    if (l->bar_shown) fputs("\r\033[K", l->out);
    l->bar_shown = false;
}

void trine_log_destroy(trine_log **log) {
    trine_log *l = log ? *log : NULL;
    if (!l) return;
    clear_bar(l);
    if (l->trainer->log == l->file.out) l->trainer->log = NULL;
    output_close(&l->file.out);
    cJSON_Delete(l->run);
    free(l);
    *log = NULL;
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
static bool add_news(trine_log *l, cJSON *object) {
    int64_t saved = l->trainer->saved;
    if (saved >= 0 && saved != l->saved && !add_count(object, "checkpoint", (uint64_t)saved))
        return false;
    l->saved = saved;
    if (l->run && !cJSON_AddItemToObject(object, "run", l->run)) return false;
    l->run = NULL;
    return true;
}

/* The most memory that this process has had so far; 0: unknown. */
static uint64_t resident_bytes(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) ? 0 : (uint64_t)used.ru_maxrss * 1024;
}

/* Writes and deletes the object. */
static trine_status write_line(trine_log *l, int64_t step, cJSON *object, bool complete) {
    complete = complete && add_news(l, object);
    char *text = complete ? json_print(object, false) : NULL;
    cJSON_Delete(object);
    CHECK(text, TRINE_ENOMEM, "no memory for a line of the log");
    trine_status status = log_file_add(&l->file, step, text);
    cJSON_free(text);
    return status;
}

trine_status trine_log_has_val(const trine_log *l, bool *has) {
    CHECK_GIVEN(l, "log");
    CHECK_GIVEN(has, "has");
    int64_t found = l->file.has_val;
    TRY(trine_all_reduce(trine_mesh_group(l->trainer->mesh, TRINE_WORLD), &found, &found, 1,
                         TRINE_I64, TRINE_MAX));
    *has = found;
    return TRINE_OK;
}

trine_status trine_log_check(const trine_log *l) {
    CHECK_GIVEN(l, "log");
    return status_user(log_file_check(&l->file));
}

trine_status trine_log_run(trine_log *l, int argc, char *const argv[]) {
    CHECK_GIVEN(l, "log");
    CHECK_GIVEN(argv, "argv");
    if (!l->writes || !l->file.out) return TRINE_OK;
    cJSON_Delete(l->run);
    l->described = true;
    l->run = log_run_object(l->trainer, argc, argv);
    CHECK(l->run, TRINE_ENOMEM, "no memory for the log's description of the run");
    return TRINE_OK;
}

static trine_status write_step(trine_log *l, const trine_metrics *m) {
    cJSON *o = cJSON_CreateObject();
    bool ok = o && add_count(o, "step", (uint64_t)m->step) && add_number(o, "loss", m->loss) &&
              add_number(o, "grad_norm", m->grad_norm) && add_number(o, "lr", m->lr) &&
              add_count(o, "tokens", l->tokens) && add_number(o, "seconds", m->seconds) &&
              add_number(o, "tokens_per_second", (double)m->tokens / m->seconds) &&
              add_count(o, "peak_bytes", m->peak_bytes) &&
              (!l->described || add_count(o, "resident_bytes", resident_bytes())) &&
              add_number(o, "loss_scale", m->loss_scale) &&
              add_count(o, "skips", (uint64_t)m->skips);
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
    fprintf(l->out, "step %" PRId64 ": gradient norm is not finite, update skipped", m->step);
    if (t->overflow[0]) fprintf(l->out, "; first in %s", t->overflow);
    if (t->scale.scale < m->loss_scale) c_fprintf(l->out, "; loss scale now %g", t->scale.scale);
    fputc('\n', l->out);
}

static void print_step(trine_log *l, const trine_metrics *m) {
    const trine_config *c = &l->trainer->config;
    char took[HUMAN_SIZE], bytes[HUMAN_SIZE], left[HUMAN_SIZE];
    c_fprintf(
        l->out, "step %*" PRId64 "/%d | loss %.6f | grad norm %.4f | lr %.3e | %s | %.0f tokens/s",
        c->train_iters > 9999 ? 6 : 4, m->step, c->train_iters, shown(m->loss), shown(m->grad_norm),
        m->lr, human_duration(took, m->seconds), (double)m->tokens / m->seconds);
    double flops = gpt_flops_per_token(&c->model) * (double)m->tokens / m->seconds;
    double peak = l->peak_flops * trine_world_size(l->trainer->world);
    if (peak > 0)
        c_fprintf(l->out, " | util %.1f%%", 100 * flops / peak);
    else
        fputs(" | util -", l->out);
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

static void print_bar(trine_log *l, int64_t step) {
    int total = l->trainer->config.train_iters;
    if (!l->terminal || total < 1 || step >= total) return;
    int done = (int)(BAR_WIDTH * step / total);
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)done);
    bar[BAR_WIDTH] = '\0';
    char left[HUMAN_SIZE];
    fprintf(l->out, "[%s] %3d%%", bar, (int)(100 * step / total));
    /* Before the first step of this process no step's time is known. */
    if (l->recent > 0) fprintf(l->out, "  %s left", time_left(left, l, step));
    l->bar_shown = true;
}

trine_status trine_log_step(trine_log *l, const trine_metrics *m, int interval) {
    CHECK_GIVEN(l, "log");
    CHECK_GIVEN(m, "metrics");
    l->tokens += m->tokens;
    l->recent = l->recent > 0 ? 0.9 * l->recent + 0.1 * m->seconds : m->seconds;
    if (!l->writes) return TRINE_OK;
    clear_bar(l);
    bool last = m->step == l->trainer->config.train_iters;
    bool due = interval > 0 && (m->step % interval == 0 || m->step == 1 || last);
    if (due || m->skipped) print_step(l, m);
    if (due) print_epochs(l, m->step);
    print_bar(l, m->step);
    fflush(l->out);
    return l->file.out ? write_step(l, m) : TRINE_OK;
}

trine_status trine_log_val(trine_log *l, int64_t step, double loss) {
    CHECK_GIVEN(l, "log");
    if (!l->writes) return TRINE_OK;
    clear_bar(l);
    c_fprintf(l->out, "step %*" PRId64 "/%d | validation loss %.6f\n",
              l->trainer->config.train_iters > 9999 ? 6 : 4, step, l->trainer->config.train_iters,
              shown(loss));
    print_bar(l, step);
    fflush(l->out);
    if (!l->file.out) return TRINE_OK;
    cJSON *o = cJSON_CreateObject();
    bool ok = o && add_count(o, "step", (uint64_t)step) && add_number(o, "val_loss", loss);
    return write_line(l, step, o, ok);
}
