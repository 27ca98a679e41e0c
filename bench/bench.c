#include "bench.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "machine.h"

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Samples ---- */

static int kept(const bench_samples *s) {
    return s->count < BENCH_SAMPLES ? s->count : BENCH_SAMPLES;
}

void bench_add(bench_samples *s, double value) {
    s->value[s->count++ % BENCH_SAMPLES] = value;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two values that are next to it: of an even number, the median is the mean of the middle two. */
double bench_quantile(const bench_samples *s, double share) {
    double sorted[BENCH_SAMPLES];
    int n = kept(s);
    if (n == 0) return (double)NAN;
    memcpy(sorted, s->value, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    double at = share * (n - 1);
    int below = (int)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

double bench_median(const bench_samples *s) {
    return bench_quantile(s, 0.5);
}

double bench_min(const bench_samples *s) {
    double best = (double)NAN;
    for (int i = 0; i < kept(s); i++) best = fmin(best, s->value[i]);
    return best;
}

double bench_max(const bench_samples *s) {
    double worst = (double)NAN;
    for (int i = 0; i < kept(s); i++) worst = fmax(worst, s->value[i]);
    return worst;
}

/* ---- The report ---- */

struct bench_report {
    bench_voice voice;
    char *path; /* NULL: no file */
    whole_file *file;
    cJSON *root; /* owns the objects below */
    cJSON *tables, *figures, *skipped, *rows;
    bool failed; /* cJSON had no memory: reported when the report is closed */
    const bench_column *columns;
    int count;
};

static void add_number(bench_report *r, cJSON *object, const char *key, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    r->failed |= !cJSON_AddRawToObject(object, key, isfinite(value) ? text : "null");
}

static void add_text(bench_report *r, cJSON *object, const char *key, const char *text) {
    r->failed |= !cJSON_AddStringToObject(object, key, text);
}

static void add_machine(bench_report *r, int threads) {
    const machine *m = machine_of();
    cJSON *o = cJSON_AddObjectToObject(r->root, "machine");
    add_text(r, o, "cpu", m->cpu);
    add_number(r, o, "cores", m->cores);
    add_number(r, o, "node_cores", m->node_cores);
    add_number(r, o, "threads", threads);
    add_number(r, o, "last_level_cache", (double)m->cache);
    add_text(r, o, "compiler", m->compiler);
    add_text(r, o, "onednn", m->onednn);
    add_text(r, o, "mpi", m->mpi);
}

static void say_machine(bench_report *r, const char *name, int threads) {
    const machine *m = machine_of();
    char cache[HUMAN_SIZE];
    bench_note(r, "\n== %s, Trine %s", name, TRINE_VERSION);
    bench_note(r, "   %s, %d of %d cores, %d thread%s, last-level cache %s", m->cpu, m->cores,
               m->node_cores, threads, threads == 1 ? "" : "s", human_bytes(cache, m->cache));
    bench_note(r, "   %s, oneDNN %s, %s", m->compiler, m->onednn, m->mpi);
}

/* A path that cannot be written is reported before measuring, not after. */
static trine_status reserve_file(bench_report *r, const char *path) {
    r->path = strdup(path);
    CHECK(r->path, TRINE_ENOMEM, "no memory for a file name");
    return whole_file_begin(&r->file, "--json", path);
}

static trine_status fill(bench_report *r, const char *name, const char *json, int threads) {
    r->root = cJSON_CreateObject();
    CHECK(r->root, TRINE_ENOMEM, "no memory for a report");
    add_text(r, r->root, "bench", name);
    add_text(r, r->root, "trine", TRINE_VERSION);
    add_machine(r, threads);
    r->tables = cJSON_AddObjectToObject(r->root, "tables");
    r->figures = cJSON_AddObjectToObject(r->root, "figures");
    r->skipped = cJSON_AddArrayToObject(r->root, "skipped");
    say_machine(r, name, threads);
    return json && r->voice == BENCH_LOUD ? reserve_file(r, json) : TRINE_OK;
}

trine_status bench_report_open(bench_report **r, const char *name, const char *json, int threads,
                               bench_voice voice) {
    *r = calloc(1, sizeof **r);
    CHECK(*r, TRINE_ENOMEM, "no memory for a report");
    (*r)->voice = voice;
    trine_status status = fill(*r, name, json, threads);
    if (status != TRINE_OK) bench_report_drop(r);
    return status_user(status);
}

void bench_report_drop(bench_report **r) {
    if (!*r) return;
    cJSON_Delete((*r)->root);
    whole_file_abandon(&(*r)->file);
    free((*r)->path);
    free(*r);
    *r = NULL;
}

/* ---- Tables ---- */

static int width_of(const bench_column *c) {
    int title = (int)strlen(c->title);
    return title > c->width ? title : c->width;
}

/* Text is left-aligned, numbers are right-aligned. */
static void print_titles(const bench_report *r) {
    fputs("#", stdout);
    for (int i = 0; i < r->count; i++) {
        const bench_column *c = &r->columns[i];
        if (c->title) printf(" %*s", c->decimals < 0 ? -width_of(c) : width_of(c), c->title);
    }
    putchar('\n');
}

void bench_table(bench_report *r, const char *key, const char *title, const bench_column *columns,
                 int count) {
    r->columns = columns;
    r->count = count;
    r->rows = cJSON_AddArrayToObject(r->tables, key);
    if (!title || r->voice == BENCH_QUIET) return;
    printf("\n# %s\n", title);
    print_titles(r);
}

static void print_cell(const bench_column *c, const bench_cell *cell) {
    if (c->decimals < 0)
        printf(" %*s", -width_of(c), cell->text ? cell->text : "-");
    else if (isfinite(cell->number))
        printf(" %*.*f", width_of(c), c->decimals, cell->number);
    else
        printf(" %*s", width_of(c), "-");
}

static void print_row(const bench_report *r, const bench_cell *cells) {
    putchar(' ');
    for (int i = 0; i < r->count; i++)
        if (r->columns[i].title) print_cell(&r->columns[i], &cells[i]);
    putchar('\n');
    fflush(stdout);
}

void bench_row(bench_report *r, const bench_cell *cells) {
    cJSON *row = cJSON_CreateObject();
    for (int i = 0; i < r->count; i++) {
        const bench_column *c = &r->columns[i];
        if (c->decimals < 0)
            add_text(r, row, c->key, cells[i].text ? cells[i].text : "");
        else
            add_number(r, row, c->key, cells[i].number);
    }
    r->failed |= !cJSON_AddItemToArray(r->rows, row);
    if (r->voice == BENCH_LOUD) print_row(r, cells);
}

void bench_figure(bench_report *r, const char *key, double value) {
    add_number(r, r->figures, key, value);
}

void bench_fact(bench_report *r, const char *key, const char *text) {
    add_text(r, cJSON_GetObjectItem(r->root, "machine"), key, text);
}

void bench_note(bench_report *r, const char *format, ...) {
    if (r->voice == BENCH_QUIET) return;
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void bench_skip(bench_report *r, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->failed |= !cJSON_AddItemToArray(r->skipped, cJSON_CreateString(text));
    bench_note(r, "  skipped: %s", text);
}

/* ---- The file ---- */

static trine_status write_file(bench_report *r) {
    CHECK(!r->failed, TRINE_ENOMEM, "no memory for the report %s", r->path);
    char *text = cJSON_Print(r->root);
    CHECK(text, TRINE_ENOMEM, "no memory for the text of %s", r->path);
    fprintf(whole_file_stream(r->file), "%s\n", text); /* publishing reports a failure */
    cJSON_free(text);
    return whole_file_publish(&r->file, NULL);
}

trine_status bench_report_close(bench_report **r) {
    trine_status status = (*r)->path ? write_file(*r) : TRINE_OK;
    bench_report_drop(r);
    return status_user(status);
}

int bench_exit(trine_status status) {
    if (status == TRINE_OK) return 0;
    trine_error_print();
    return status == TRINE_EUNSUPPORTED ? 2 : 1;
}
