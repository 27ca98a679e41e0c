#include "report/run_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/input.h"
#include "base/status.h"
#include "config/logged.h"
#include "report/append.h"

#define LOG_BYTES ((uint64_t)1 << 34) /* of a file, at most */

static const char *const names[] = {
#define LOG_TEXT(name, text) text,
    LOG_LIST(LOG_TEXT)
#undef LOG_TEXT
};

const char *log_number_text(log_number n) {
    return names[n];
}

/* ---- A line ---------------------------------------------------------------------------------- */

static double number_of(const cJSON *object, const char *name) {
    const cJSON *item = json_member(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static trine_status add_step(run_log *l, const cJSON *o, int64_t step, const char *place) {
    log_step s = {.step = step};
    const log_step *before = l->step_count ? &l->steps[l->step_count - 1] : NULL;
    CHECK(!before || step > before->step, TRINE_EDATA,
          "%s: step %" PRId64 " comes after step %" PRId64, place, step, before ? before->step : 0);
    for (int n = 0; n < LOG_NUMBERS; n++) s.of[n] = number_of(o, names[n]);
    double seconds = s.of[LOG_SECONDS];
    s.hours = (before ? before->hours : 0) + (seconds > 0 ? seconds / 3600 : 0);
    APPEND(l->steps, l->step_count, "a log", s);
    return TRINE_OK;
}

static trine_status add_start(run_log *l, cJSON *o, int64_t step, const char *place) {
    uint64_t after;
    const cJSON *run = json_member(o, "run");
    if (!cJSON_IsObject(run)) return TRINE_OK;
    logged_say_unknown(run, place);
    if (!json_integer(json_member(run, "after"), &after)) after = (uint64_t)(step ? step - 1 : 0);
    log_start start = {(int64_t)after, cJSON_DetachItemFromObjectCaseSensitive(o, "run")};
    if (!append_room(&l->starts, l->start_count, sizeof start)) cJSON_Delete(start.run);
    APPEND(l->starts, l->start_count, "a log", start);
    return TRINE_OK;
}

static trine_status add_line(run_log *l, cJSON *o, const char *place) {
    uint64_t step, saved;
    CHECK(json_integer(json_member(o, "step"), &step), TRINE_EDATA,
          "%s: not a line of a log (--log): it has no \"step\"", place);
    TRY(add_start(l, o, (int64_t)step, place));
    if (json_integer(json_member(o, "checkpoint"), &saved))
        APPEND(l->checkpoints, l->checkpoint_count, "a log", (int64_t)saved);
    if (json_member(o, "loss")) TRY(add_step(l, o, (int64_t)step, place));
    if (json_member(o, "val_loss"))
        APPEND(l->vals, l->val_count, "a log", (log_val){(int64_t)step, number_of(o, "val_loss")});
    return TRINE_OK;
}

/* ---- A file ---------------------------------------------------------------------------------- */

static trine_status begin_run(run_logs *all) {
    APPEND(all->at, all->count, "a log", (run_log){0});
    return TRINE_OK;
}

/* Whether a line is the first of a process that continues none of the steps so far. */
static bool begins_run(const run_log *l, const cJSON *o) {
    uint64_t after;
    const cJSON *run = json_member(o, "run");
    return l->step_count && json_integer(json_member(run, "after"), &after) &&
           after < (uint64_t)l->steps[l->step_count - 1].step;
}

static trine_status read_lines(run_logs *all, const char *text, size_t bytes, const char *path) {
    char place[600];
    int64_t number = 0;
    TRY(begin_run(all));
    for (const char *end; bytes; bytes -= (size_t)(end + 1 - text), text = end + 1) {
        cJSON *o;
        end = memchr(text, '\n', bytes);
        all->at[all->count - 1].torn = !end;
        if (!end) return TRINE_OK;
        snprintf(place, sizeof place, "%s, line %" PRId64, path, ++number);
        TRY(json_read(&o, text, (size_t)(end - text), place));
        trine_status status = begins_run(&all->at[all->count - 1], o) ? begin_run(all) : TRINE_OK;
        if (status == TRINE_OK) status = add_line(&all->at[all->count - 1], o, place);
        cJSON_Delete(o);
        TRY(status);
    }
    return TRINE_OK;
}

/* The runs of a file, from number `first` on. */
static trine_status name_runs(run_logs *all, int64_t first, const char *path) {
    size_t size = strlen(path) + 32;
    for (int64_t n = first; n < all->count; n++) {
        char *name = all->at[n].name = malloc(size);
        CHECK(name, TRINE_ENOMEM, "no memory for a log");
        snprintf(name, size, "%s", path);
        if (all->count > first + 1)
            snprintf(name, size, "%s (run %" PRId64 ")", path, n - first + 1);
    }
    return TRINE_OK;
}

trine_status run_logs_read(run_logs *all, const char *path) {
    char *text;
    size_t bytes;
    int64_t first = all->count;
    TRY(input_text(&text, &bytes, LOG_BYTES, path));
    trine_status status = read_lines(all, text, bytes, path);
    free(text);
    TRY(status);
    const run_log *l = &all->at[first];
    CHECK(l->step_count || l->val_count, TRINE_EDATA, "%s: no lines of a log (--log)%s", path,
          bytes && l->torn ? "; its only line has no end" : "");
    return name_runs(all, first, path);
}

static void destroy(run_log *l) {
    for (int64_t n = 0; n < l->start_count; n++) cJSON_Delete(l->starts[n].run);
    free(l->name);
    free(l->steps);
    free(l->vals);
    free(l->starts);
    free(l->checkpoints);
}

void run_logs_destroy(run_logs *all) {
    for (int64_t n = 0; n < all->count; n++) destroy(&all->at[n]);
    free(all->at);
    *all = (run_logs){0};
}

const log_start *run_log_start(const run_log *l) {
    return l->start_count ? &l->starts[l->start_count - 1] : NULL;
}

/* ---- A table --------------------------------------------------------------------------------- */

static void print_number(double x, FILE *out) {
    char text[JSON_NUMBER];
    fprintf(out, ",%s", isnan(x) ? "" : json_number(text, x));
}

/* s: NULL: a row of a validation alone. */
static void print_row(const run_log *l, int64_t step, const log_step *s, double val, FILE *out) {
    csv_print(l->name, out);
    fprintf(out, ",%" PRId64, step);
    print_number(s ? s->hours : (double)NAN, out);
    print_number(val, out);
    for (int n = 0; n < LOG_NUMBERS; n++) print_number(s ? s->of[n] : (double)NAN, out);
    fputc('\n', out);
}

static void print_log(const run_log *l, FILE *out) {
    int64_t v = 0;
    for (int64_t n = 0; n <= l->step_count; n++) {
        const log_step *s = n < l->step_count ? &l->steps[n] : NULL;
        while (v < l->val_count && (!s || l->vals[v].step < s->step)) {
            print_row(l, l->vals[v].step, NULL, l->vals[v].loss, out);
            v++;
        }
        if (!s) return;
        bool has = v < l->val_count && l->vals[v].step == s->step;
        print_row(l, s->step, s, has ? l->vals[v++].loss : (double)NAN, out);
    }
}

void run_log_csv(const run_logs *logs, FILE *out) {
    fputs("run,step,hours,val_loss", out);
    for (int n = 0; n < LOG_NUMBERS; n++) fprintf(out, ",%s", names[n]);
    fputc('\n', out);
    for (int64_t n = 0; n < logs->count; n++) print_log(&logs->at[n], out);
}
