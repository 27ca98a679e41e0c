#include "plan/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/grow.h"
#include "base/input.h"
#include "base/status.h"

#define LOG_BYTES ((uint64_t)1 << 30)

/* ---- A log ----------------------------------------------------------------------------------- */

typedef struct {
    const char *path;
    int line;
    calibrate_run *run;
    double *seconds; /* owned: of the steps behind the last start */
    int count, room;
} reader;

static trine_status read_count(const reader *r, const cJSON *of, const char *name, int *count) {
    uint64_t number;
    bool known = json_integer(json_member(of, name), &number) && number >= 1 && number <= 1 << 30;
    CHECK(known, TRINE_EDATA, "%s, line %d: \"run\" does not say the number of %s", r->path,
          r->line, name);
    *count = (int)number;
    return TRINE_OK;
}

/* How the run was started; the steps so far are those of another start. `line` then belongs to the run. */
static trine_status read_run(reader *r, cJSON *line, const char *place) {
    calibrate_run *run = r->run;
    const cJSON *of = json_member(line, "run");
    cJSON_Delete(run->line);
    *run = (calibrate_run){.line = line};
    r->count = 0;
    TRY(read_count(r, of, "ranks", &run->ranks));
    TRY(read_count(r, of, "nodes", &run->nodes));
    logged_say_unknown(of, place);
    return logged_read(&run->started, of, place);
}

static trine_status add_step(reader *r, double seconds) {
    CHECK(seconds > 0 && isfinite(seconds), TRINE_EDATA,
          "%s, line %d: a step took %g s; the time must be positive", r->path, r->line, seconds);
    double *more = grow(r->seconds, r->count, &r->room, sizeof *more);
    CHECK(more, TRINE_ENOMEM, "no memory for %d steps", r->count);
    r->seconds = more;
    r->seconds[r->count++] = seconds;
    return TRINE_OK;
}

static trine_status read_line(reader *r, const char *text, size_t bytes) {
    char place[512];
    cJSON *line;
    c_snprintf(place, sizeof place, "%.400s, line %d", r->path, r->line);
    TRY(json_read(&line, text, bytes, place));
    const cJSON *seconds = json_member(line, "seconds");
    double took = cJSON_IsNumber(seconds) ? seconds->valuedouble : 0;
    bool starts = json_member(line, "run"), step = seconds != NULL;
    trine_status status = starts ? read_run(r, line, place) : TRINE_OK;
    if (!starts) cJSON_Delete(line);
    if (status == TRINE_OK && step && r->run->line) status = add_step(r, took);
    return status;
}

/* A last line without a newline is one that the writer had no time to end. */
static trine_status read_lines(reader *r, const char *text, size_t bytes) {
    const char *end = text + bytes;
    for (const char *at = text, *next; at < end; at = next + 1) {
        next = memchr(at, '\n', (size_t)(end - at));
        if (!next) break;
        r->line++;
        TRY(read_line(r, at, (size_t)(next - at)));
    }
    CHECK(r->run->line, TRINE_EDATA,
          "%s: no line says how its run was started (\"run\", docs/formats.md); "
          "logs of version 0.1.0 do not",
          r->path);
    return TRINE_OK;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static trine_status take_median(reader *r) {
    int left = r->count - CALIBRATE_LEFT_OUT;
    double *s = r->seconds + CALIBRATE_LEFT_OUT;
    CHECK(left >= CALIBRATE_STEPS, TRINE_EDATA,
          "%s: %d steps from its last \"run\" on, of which the first %d are left out; at least %d "
          "are needed",
          r->path, r->count, CALIBRATE_LEFT_OUT, CALIBRATE_LEFT_OUT + CALIBRATE_STEPS);
    qsort(s, (size_t)left, sizeof *s, by_size);
    r->run->steps = left;
    r->run->seconds = (s[(left - 1) / 2] + s[left / 2]) / 2;
    return TRINE_OK;
}

trine_status calibrate_read(calibrate_run *run, const char *path) {
    reader r = {.path = path, .run = run};
    char *text;
    size_t bytes;
    *run = (calibrate_run){0};
    TRY(input_text(&text, &bytes, LOG_BYTES, path));
    trine_status status = read_lines(&r, text, bytes);
    if (status == TRINE_OK) status = take_median(&r);
    free(text);
    free(r.seconds);
    return status;
}

void calibrate_run_end(calibrate_run *run) {
    cJSON_Delete(run->line);
    *run = (calibrate_run){0};
}

/* ---- The factor ------------------------------------------------------------------------------- */

trine_status calibrate_factor(const calibrate_run *run, const hardware *machine, const char *path,
                              double *predicted, double *factor) {
    const forecast_rules rules = {machine, implementation_of(IMPLEMENTATION_TRINE), 0};
    int nodes = (int)ceil(run->ranks / machine->node_ranks);
    rehearsal r;
    forecast f = {0};
    CHECK(run->nodes == nodes, TRINE_EDATA,
          "%s: %d ranks on %d nodes; with %.0f ranks a node, as --hardware says, they are on %d",
          path, run->ranks, run->nodes, machine->node_ranks, nodes);
    trine_status status = rehearse(&r, &run->started.config, run->ranks, REHEARSE_PLAN);
    if (status == TRINE_OK) status = forecast_step(&r, &rules, &f);
    rehearsal_end(&r);
    TRY(status);
    *predicted = f.step;
    *factor = f.step / run->seconds;
    forecast_destroy(&f);
    CHECK(*factor<CALIBRATE_MOST && * factor> 1.0 / CALIBRATE_MOST, TRINE_EDATA,
          "%s: its steps took %.4g s, but this machine is predicted to take %.4g s: the run was on "
          "another machine",
          path, run->seconds, *predicted);
    return TRINE_OK;
}
