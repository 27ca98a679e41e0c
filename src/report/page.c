#include "report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "report/page_json.h"
#include "report/planned.h"
#include "trine.h"

/* ---- Steps ------------------------------------------------------------------------------------ */

/* The numbers that are drawn over the steps. */
static const struct {
    const char *name;
    log_number of;
} curves[] = {{"tokens", LOG_TOKENS},
              {"loss", LOG_LOSS},
              {"norm", LOG_GRAD_NORM},
              {"lr", LOG_LR},
              {"rate", LOG_TOKENS_PER_SECOND}};
#define CURVES (sizeof curves / sizeof *curves)

static bool is_skipped(const run_log *l, int64_t n) {
    double before = n ? l->steps[n - 1].of[LOG_SKIPS] : 0;
    return l->steps[n].of[LOG_SKIPS] > before;
}

/* Marks the steps of l->steps[from..to) with the least and the most of a number. */
static void mark_extremes(const run_log *l, int64_t from, int64_t to, log_number of, bool *shown) {
    int64_t least = -1, most = -1;
    for (int64_t n = from; n < to; n++) {
        double x = l->steps[n].of[of];
        if (isnan(x)) continue;
        if (least < 0 || x < l->steps[least].of[of]) least = n;
        if (most < 0 || x > l->steps[most].of[of]) most = n;
    }
    if (least >= 0) shown[least] = shown[most] = true;
}

/* shown [step_count], owned by the caller. */
static trine_status choose_steps(const run_log *l, bool **shown) {
    int64_t count = l->step_count;
    *shown = calloc((size_t)count + 1, 1);
    CHECK(*shown, TRINE_ENOMEM, "no memory for %" PRId64 " steps", count);
    for (int64_t n = 0; n < count; n++) (*shown)[n] = count <= PAGE_STEPS || is_skipped(l, n);
    for (int64_t b = 0; b < PAGE_BUCKETS && count > PAGE_STEPS; b++) {
        int64_t from = b * count / PAGE_BUCKETS, to = (b + 1) * count / PAGE_BUCKETS;
        (*shown)[from] = true;
        for (size_t c = 1; c < CURVES; c++) mark_extremes(l, from, to, curves[c].of, *shown);
    }
    if (count) (*shown)[count - 1] = true;
    return TRINE_OK;
}

static double step_of(const log_step *s, int of) {
    return of < 0 ? of == -1 ? (double)s->step : s->hours : s->of[of];
}

/* of: -1: the step, -2: hours. */
static void print_column(const run_log *l, const bool *shown, const char *name, int of, FILE *out) {
    bool any = false;
    fprintf(out, ",\"%s\":[", name);
    for (int64_t n = 0; n < l->step_count; n++) {
        if (!shown[n]) continue;
        if (any) fputc(',', out);
        any = true;
        double x = step_of(&l->steps[n], of);
        if (of == -1 || of == LOG_TOKENS)
            page_fixed(out, x, 0);
        else
            page_number(out, x);
    }
    fputc(']', out);
}

static trine_status print_steps(const run_log *l, FILE *out) {
    bool *shown, any = false;
    TRY(choose_steps(l, &shown));
    print_column(l, shown, "step", -1, out);
    print_column(l, shown, "hours", -2, out);
    for (size_t c = 0; c < CURVES; c++)
        print_column(l, shown, curves[c].name, (int)curves[c].of, out);
    fputs(",\"skipped\":[", out);
    for (int64_t n = 0; n < l->step_count; n++) {
        if (!is_skipped(l, n)) continue;
        fprintf(out, "%s%" PRId64, any ? "," : "", l->steps[n].step);
        any = true;
    }
    fputc(']', out);
    free(shown);
    return TRINE_OK;
}

/* ---- A run ------------------------------------------------------------------------------------ */

/* The last step that is not behind `step`; NULL: none. */
static const log_step *step_at(const run_log *l, int64_t step) {
    int64_t low = 0, high = l->step_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (l->steps[middle].step <= step)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &l->steps[low - 1] : NULL;
}

/* Lists of step, tokens, hours, loss. */
static void print_vals(const run_log *l, FILE *out) {
    fputs(",\"val\":[", out);
    for (int64_t n = 0; n < l->val_count; n++) {
        const log_step *s = step_at(l, l->vals[n].step);
        fprintf(out, "%s[%" PRId64 ",", n ? "," : "", l->vals[n].step);
        page_fixed(out, s ? s->of[LOG_TOKENS] : 0, 0);
        fputc(',', out);
        page_number(out, s ? s->hours : 0);
        fputc(',', out);
        page_number(out, l->vals[n].loss);
        fputc(']', out);
    }
    fputc(']', out);
}

/* The last value of a number behind `after` steps, up to `until`; NaN: none. */
static double last_of(const run_log *l, log_number of, int64_t after, int64_t until) {
    for (int64_t n = l->step_count; n-- > 0 && l->steps[n].step > after;)
        if (l->steps[n].step <= until && !isnan(l->steps[n].of[of])) return l->steps[n].of[of];
    return (double)NAN;
}

static void print_bytes(const run_log *l, int64_t after, int64_t until, FILE *out) {
    fputs(",\"resident\":", out);
    page_fixed(out, last_of(l, LOG_RESIDENT_BYTES, after, until), 0);
    fputs(",\"peak\":", out);
    page_fixed(out, last_of(l, LOG_PEAK_BYTES, after, until), 0);
}

/* What a page shows of a run's description. A member of another kind is not shown, and neither is a time that no
 * calendar has: browsers' ends 8.64e12 s after 1970. */
static const struct {
    const char *name;
    enum { DESCRIBES_TEXT, DESCRIBES_TEXTS, DESCRIBES_INTEGER } kind;
    uint64_t most;
} descriptions[] = {{"version", DESCRIBES_TEXT, 0},
                    {"layout", DESCRIBES_TEXT, 0},
                    {"time", DESCRIBES_INTEGER, 8640000000000},
                    {"ranks", DESCRIBES_INTEGER, INT32_MAX},
                    {"hosts", DESCRIBES_TEXTS, 0},
                    {"command", DESCRIBES_TEXTS, 0},
                    {"options", DESCRIBES_TEXTS, 0}};
#define DESCRIPTIONS (sizeof descriptions / sizeof *descriptions)

static void print_texts(const cJSON *list, FILE *out) {
    bool any = false;
    fputc('[', out);
    for (const cJSON *item = list->child; item; item = item->next) {
        if (!json_text(item)) continue;
        if (any) fputc(',', out);
        any = true;
        page_text(out, json_text(item));
    }
    fputc(']', out);
}

/* False: it is not there, or not shown. Prints its name and value. */
static bool print_description(const cJSON *run, size_t d, bool first, FILE *out) {
    const cJSON *item = json_member(run, descriptions[d].name);
    uint64_t integer = 0;
    bool texts = descriptions[d].kind == DESCRIBES_TEXTS && cJSON_IsArray(item),
         text = descriptions[d].kind == DESCRIBES_TEXT && json_text(item),
         number = descriptions[d].kind == DESCRIBES_INTEGER && json_integer(item, &integer) &&
                  integer <= descriptions[d].most;
    if (!texts && !text && !number) return false;
    fprintf(out, "%s\"%s\":", first ? "" : ",", descriptions[d].name);
    if (texts) print_texts(item, out);
    if (text) page_text(out, json_text(item));
    if (number) fprintf(out, "%" PRIu64, integer);
    return true;
}

static void print_run(const log_start *s, FILE *out) {
    bool any = false;
    fprintf(out, "{\"after\":%" PRId64 ",\"run\":{", s->after);
    for (size_t d = 0; d < DESCRIPTIONS; d++) any = print_description(s->run, d, !any, out) || any;
    fputc('}', out);
}

static bool same_options(const log_start *a, const log_start *b) {
    return cJSON_Compare(json_member(a->run, "options"), json_member(b->run, "options"), true) &&
           cJSON_Compare(json_member(a->run, "layout"), json_member(b->run, "layout"), true);
}

/* Each start has the memory of its own steps and, but for the newest, whose plan is the log's, the plan of its own
 * options if they are not those of the next. */
static trine_status print_starts(const run_log *l, const char *hardware, FILE *out) {
    fputs(",\"starts\":[", out);
    for (int64_t n = 0; n < l->start_count; n++) {
        const log_start *s = &l->starts[n], *next = n + 1 < l->start_count ? s + 1 : NULL;
        if (n) fputc(',', out);
        print_run(s, out);
        print_bytes(l, s->after, next ? next->after : INT64_MAX, out);
        if (next && !same_options(s, next)) {
            fputs(",\"planned\":", out);
            TRY(planned_print(s, hardware, out));
        }
        fputc('}', out);
    }
    fputc(']', out);
    return TRINE_OK;
}

static trine_status print_log(const run_log *l, const char *hardware, FILE *out) {
    const log_start *newest = run_log_start(l);
    fputs("{\"path\":", out);
    page_text(out, l->name);
    fprintf(out, ",\"steps\":%" PRId64 ",\"torn\":%s", l->step_count, l->torn ? "true" : "false");
    print_bytes(l, newest ? newest->after : -1, INT64_MAX, out);
    TRY(print_steps(l, out));
    print_vals(l, out);
    TRY(print_starts(l, hardware, out));
    fputs(",\"checkpoints\":[", out);
    for (int64_t n = 0; n < l->checkpoint_count; n++)
        fprintf(out, "%s%" PRId64, n ? "," : "", l->checkpoints[n]);
    fputc(']', out);
    if (newest) {
        fputs(",\"planned\":", out);
        TRY(planned_print(newest, hardware, out));
    }
    fputc('}', out);
    return TRINE_OK;
}

/* ---- The page --------------------------------------------------------------------------------- */

static void print_samples(const page_subject *p, FILE *out) {
    if (!p->sample_count) return;
    fputs(",\n\"samples\":[", out);
    for (size_t n = 0; n < p->sample_count; n++) {
        fputs(n ? ",{\"path\":" : "{\"path\":", out);
        page_text(out, p->samples[n].path);
        fputs(",\"text\":", out);
        page_text(out, p->samples[n].text);
        fprintf(out, ",\"cut\":%s}", p->samples[n].cut ? "true" : "false");
    }
    fputc(']', out);
}

static trine_status print_data(const page_subject *p, const page_files *files, FILE *out) {
    fputs("{\"version\":\"" TRINE_VERSION "\",\"made\":", out);
    fprintf(out, "%lld,\"watch\":%d,\"curves\":%s,\"hardware\":", (long long)time(NULL), p->watch,
            files->curves.bytes ? "true" : "false");
    if (p->hardware)
        page_text(out, p->hardware);
    else
        fputs("null", out);
    fputs(",\"kinds\":[", out);
    for (int k = 0; k < INSTR_KINDS; k++) {
        if (k) fputc(',', out);
        page_text(out, instr_text((instr_kind)k));
    }
    fputs("],\"runs\":[", out);
    for (int64_t n = 0; n < p->logs.count; n++) {
        if (n) fputs(",\n", out);
        TRY(print_log(&p->logs.at[n], p->hardware, out));
    }
    fputs("]", out);
    if (p->trace) TRY(page_trace(p->trace, p->delays, out));
    print_samples(p, out);
    fputs("}", out);
    return TRINE_OK;
}

/* Without the line that names a map of the source, which a browser's tools would ask for. */
static void print_script(const page_file *f, FILE *out) {
    static const char map[] = "//# sourceMappingURL";
    size_t bytes = f->bytes;
    for (size_t n = 0; n + sizeof map <= bytes; n++)
        if (!memcmp(f->text + n, map, sizeof map - 1)) bytes = n;
    fputs("<script>", out);
    fwrite(f->text, 1, bytes, out);
    fputs("</script>\n", out);
}

static void print_style(const page_file *f, FILE *out) {
    size_t bytes = f->bytes;
    for (size_t n = 0; n + 21 <= bytes; n++)
        if (!memcmp(f->text + n, "/*# sourceMappingURL", 20)) bytes = n;
    fputs("<style>", out);
    fwrite(f->text, 1, bytes, out);
    fputs("</style>\n", out);
}

static void print_licence(const page_file *f, FILE *out) {
    if (!f->bytes) return;
    fputs(
        "<details id=\"licence\"><summary>Curves are drawn by dygraphs: its licence</summary><pre>",
        out);
    for (size_t n = 0; n < f->bytes; n++)
        if (f->text[n] == '<')
            fputs("&lt;", out);
        else if (f->text[n] == '&')
            fputs("&amp;", out);
        else
            fputc(f->text[n], out);
    fputs("</pre></details>\n", out);
}

trine_status page_print(const page_subject *p, const page_files *files, FILE *out) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
          "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n" PAGE_TITLE "\n",
          out);
    print_style(&files->curves_style, out);
    print_style(&files->style, out);
    fputs(
        "</head>\n<body>\n<main id=\"report\"><noscript>This page draws with JavaScript.</noscript>"
        "</main>\n<footer>\n<p id=\"made\"></p>\n",
        out);
    print_licence(&files->curves_licence, out);
    fputs("</footer>\n<script type=\"application/json\" id=\"data\">", out);
    TRY(print_data(p, files, out));
    fputs("</script>\n", out);
    if (files->curves.bytes) print_script(&files->curves, out);
    print_script(&files->script, out);
    fputs("</body>\n</html>\n", out);
    return TRINE_OK;
}
