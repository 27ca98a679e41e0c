#include "train/tensorboard.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/event_file.h"
#include "base/event_folder.h"
#include "base/live.h"
#include "base/status.h"
#include "config/config.h"
#include "train/log_file.h"
#include "train/promise.h"

typedef struct {
    log_file file;
    bool begun; /* it has the events that all files begin with */
} events;

struct tensorboard {
    const trine_trainer *trainer;
    int lock;     /* the folder */
    int64_t from; /* the first step that earlier files have no part in */
    events train, val;
};

/* ---- Files ----------------------------------------------------------------------------------- */

static trine_status open_events(events *e, const char *folder) {
    e->file.events = true;
    return event_folder_add(&e->file.out, folder);
}

static void close_events(events *e) {
    if (e->file.out && !e->begun) unlink(e->file.out->path);
    output_close(&e->file.out);
}

static trine_status open_all(tensorboard *b, const char *folder) {
    char validation[PATH_MAX];
    TRY(event_folder_make(folder));
    TRY(event_folder_lock(&b->lock, folder));
    TRY(open_events(&b->train, folder));
    if (!b->trainer->val.samples) return TRINE_OK;
    snprintf(validation, sizeof validation, "%s/validation", folder);
    TRY(event_folder_make(validation));
    return open_events(&b->val, validation);
}

trine_status tensorboard_open(tensorboard **out, const trine_trainer *t, const char *folder) {
    tensorboard *b = *out = calloc(1, sizeof *b);
    CHECK(b, TRINE_ENOMEM, "no memory for the events");
    b->trainer = t;
    b->from = t->steps ? t->steps + 1 : 0;
    b->lock = -1;
    trine_status status = open_all(b, folder);
    if (status != TRINE_OK) tensorboard_close(out);
    return status;
}

void tensorboard_close(tensorboard **out) {
    tensorboard *b = *out;
    if (!b) return;
    close_events(&b->train);
    close_events(&b->val);
    if (b->lock >= 0) close(b->lock);
    free(b);
    *out = NULL;
}

/* ---- The configuration ----------------------------------------------------------------------- */

/* A row of a table in Markdown. */
static void print_row(FILE *out, const char *name, const char *value) {
    fprintf(out, "| %s | ", name);
    for (; *value; value++) fprintf(out, *value == '|' ? "\\%c" : "%c", *value);
    fputs(" |\n", out);
}

/* All options, whoever set them; what has its default counts, too, since defaults change with versions. Owned by the
 * caller; NULL without memory. */
static char *configuration(const trine_trainer *t) {
    const options o = config_options(&t->config, NULL, NULL);
    char *all = NULL, text[OPTION_TEXT], on[200];
    size_t bytes;
    FILE *out = open_memstream(&all, &bytes);
    if (!out) return NULL;
    promise_device(t, on, sizeof on);
    fputs("| option | value |\n|---|---|\n", out);
    print_row(out, "Trine", TRINE_VERSION);
    print_row(out, "computes on", on);
    for (size_t n = 0; n < o.count; n++) {
        const option *row = &o.rows[n];
        if (row->kind == OPTION_KIND_HEADING || !options_member(&o, row)) continue;
        print_row(out, row->name, options_text(&o, row, text));
    }
    return fclose(out) ? free(all), NULL : all;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* What all files begin with; `text`: NULL: without a configuration. */
static void begin(event_bytes *file, int64_t from, const char *text) {
    event_bytes values = {0};
    double now = event_time();
    event_version(file, now);
    event_session(file, now, from);
    if (!text) return;
    event_text(&values, "configuration", text);
    event_values(file, now, from, &values);
    event_bytes_free(&values);
}

static trine_status write_events(tensorboard *b, events *e, int64_t step,
                                 const event_bytes *values) {
    event_bytes file = {0};
    bool written = false;
    char *text = e->begun || e == &b->val ? NULL : configuration(b->trainer);
    bool complete = text || e->begun || e == &b->val;
    if (!e->begun) begin(&file, b->from, text);
    /* The validation of the step that the run goes on from, which may be there. */
    if (step < b->from) event_session(&file, event_time(), step);
    event_values(&file, event_time(), step, values);
    trine_status status = complete && !file.failed
                              ? log_file_add_event(&e->file, step, file.at, file.count, &written)
                              : RAISE(TRINE_ENOMEM, "no memory for an event");
    e->begun = e->begun || written;
    free(text);
    event_bytes_free(&file);
    return status;
}

static double value_of(const cJSON *item) {
    if (cJSON_IsNumber(item)) return item->valuedouble;
    char *end;
    double value = cJSON_IsRaw(item) ? c_strtod(item->valuestring, &end) : NAN;
    return cJSON_IsRaw(item) && end > item->valuestring ? value : NAN;
}

trine_status tensorboard_add(tensorboard *b, int64_t step, const cJSON *line) {
    event_bytes values = {0};
    bool val = false;
    for (const cJSON *item = line->child; item; item = item->next) {
        bool loss = !strcmp(item->string, "val_loss");
        val = val || loss;
        if (!strcmp(item->string, "step")) continue;
        if (!cJSON_IsNumber(item) && !cJSON_IsRaw(item)) continue;
        event_number(&values, loss ? "loss" : item->string, value_of(item));
    }
    events *e = val ? &b->val : &b->train;
    trine_status status = e->file.out ? write_events(b, e, step, &values) : TRINE_OK;
    event_bytes_free(&values);
    return status;
}

trine_status trine_trainer_tensorboard(trine_trainer *t, const char *folder) {
    CHECK_GIVEN(folder, "folder");
    CHECK_LIVE(t, "trainer", LIVE_TRAINER);
    bool first = trine_world_rank(t->world) == 0;
    tensorboard_close(&t->board);
    return trine_world_agree(t->world, first ? status_user(tensorboard_open(&t->board, t, folder))
                                             : TRINE_OK);
}

trine_status tensorboard_check(const tensorboard *b) {
    if (!b) return TRINE_OK;
    TRY(log_file_check(&b->train.file));
    return b->val.file.out ? log_file_check(&b->val.file) : TRINE_OK;
}
