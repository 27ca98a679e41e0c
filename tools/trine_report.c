/* trine-report: one HTML file that shows runs and a trace, or their numbers as a table.
 *
 *     trine-report run.jsonl                 writes run.html
 *     trine-report a.jsonl b.jsonl --trace trace.json --hardware h100 --out both.html
 *
 * docs/seeing.md says what is in it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/input.h"
#include "base/options.h"
#include "base/output.h"
#include "base/paths_apart.h"
#include "base/status.h"
#include "base/whole_file.h"
#include "cost/hardware.h"
#include "report/page.h"

#define WATCH_SECONDS 5

/* report/embed.S */
extern const char report_script[], report_script_end[], report_style[], report_style_end[],
    report_curves[], report_curves_end[], report_curves_style[], report_curves_style_end[],
    report_curves_licence[], report_curves_licence_end[];

typedef struct {
    option_list traces, samples;
    const char *hardware, *out;
    char beside[PATH_MAX]; /* the page's path, where no --out gives one */
    bool csv, watch, help;
    const char **files; /* logs, then traces */
    int file_count, log_count;
} settings;

static const option rows[] = {
    {OPTION_HEADING("What is shown")},
    {OPTION_READS,
     OPTION_LIST("trace", settings, traces, "FILE",
                 "a file of --trace, or trine-trace-JOB-NODE.json; of several nodes may be given "
                 "several times, and further files may follow")},
    {OPTION_READS,
     OPTION_LIST("sample", settings, samples, "FILE",
                 "a text to show at the end of the page, such as trine-generate writes; may be "
                 "given several times; only the first 8 KiB are shown")},
    {OPTION_READS, OPTION_STRING("hardware", settings, hardware, "NAME", NULL,
                                 "also plan the step's time on this machine: a100-selene, "
                                 "a100-vtrain, h100, zen5-cores, or "
                                 "the path of a file")},
    {OPTION_HEADING("What is written")},
    {OPTION_WRITES,
     OPTION_STRING(
         "out", settings, out, "FILE", NULL,
         "the page, which needs no other file: beside the first file if this is not given, "
         "run.html for run.jsonl; with --csv the table")},
    {OPTION_FLAG("csv", settings, csv,
                 "a table of all lines of the logs instead, on standard output unless --out is "
                 "given")},
    {OPTION_FLAG("watch", settings, watch,
                 "write the page again whenever a file has changed, until a signal ends this "
                 "program; the page loads itself again")},
    {OPTION_FLAG("help", settings, help, "print this help and exit"), .alias = "h"},
};

static trine_status check(const settings *s) {
    CHECK(s->file_count || s->traces.count, TRINE_EINVAL, "no log is given (see --help)");
    CHECK(s->csv || s->out, TRINE_EINVAL,
          "--out is missing: the first file's name is too long for a page beside it");
    CHECK(!s->csv || !s->watch, TRINE_EINVAL, "--csv and --watch exclude each other");
    CHECK(!s->csv || !s->hardware, TRINE_EINVAL, "--csv and --hardware exclude each other");
    CHECK(!s->csv || !s->traces.count, TRINE_EINVAL, "--csv and --trace exclude each other");
    CHECK(!s->csv || !s->samples.count, TRINE_EINVAL, "--csv and --sample exclude each other");
    return TRINE_OK;
}

/* Files of traces behind those of logs, wherever they stand: a shell's pattern behind --trace gives several. */
static void sort_files(settings *s) {
    int given = s->file_count;
    const char **traces = s->files + given;
    int count = 0;
    for (int n = 0; n < given; n++)
        if (timeline_is_trace(s->files[n]))
            traces[count++] = s->files[n];
        else
            s->files[s->log_count++] = s->files[n];
    for (size_t n = 0; n < s->traces.count; n++) traces[count++] = s->traces.texts[n];
    memmove(s->files + s->log_count, traces, (size_t)count * sizeof *traces);
    s->file_count = s->log_count + count;
}

/* Without --out the page of run.jsonl is run.html, beside it. */
static void name_page(settings *s) {
    const char *first = s->file_count ? s->files[0] : s->traces.count ? s->traces.texts[0] : NULL;
    if (s->csv || s->out || !first) return;
    const char *name = strrchr(first, '/'), *end = strrchr(name ? name : first, '.');
    bool ends = end && strcmp(end, ".html") != 0 && end > (name ? name + 1 : first);
    int used = snprintf(s->beside, sizeof s->beside, "%.*s.html",
                        ends ? (int)(end - first) : (int)strlen(first), first);
    if (used < (int)sizeof s->beside) s->out = s->beside;
}

/* What stands there under a name that nobody gave is replaced only if it is such a page. */
static trine_status check_page(const settings *s) {
    char begin[1024] = "";
    int fd = -1;
    if (s->out != s->beside) return TRINE_OK;
    TRY(input_find(&fd, s->beside));
    if (fd < 0) return TRINE_OK;
    const bool page = read(fd, begin, sizeof begin - 1) > 0 && strstr(begin, PAGE_TITLE);
    close(fd);
    CHECK(page, TRINE_EINVAL, "%s exists and is not a page of trine-report; give --out FILE.html",
          s->beside);
    return TRINE_OK;
}

static void add_paths(const options *o, paths_apart *p) {
    settings *s = o->at[0];
    char path[HARDWARE_PATH] = "";
    name_page(s);
    if (s->out == s->beside) paths_apart_add(p, "the page", s->out, OPTION_PATH_OUTPUT);
    if (s->hardware) hardware_file(s->hardware, path);
    paths_apart_add(p, "--hardware", path, OPTION_PATH_INPUT);
}

static trine_status parse(settings *s, int argc, char **argv) {
    s->files = calloc(2 * (size_t)argc + OPTION_LIST_MOST, sizeof *s->files);
    CHECK(s->files, TRINE_ENOMEM, "no memory for a command line");
    const options o = {
        .program = "trine-report",
        .usage = "LOG... [--trace FILE...] [--sample FILE] [--hardware NAME] [--out FILE.html]",
        .about = "Write one HTML file that shows runs: curves of their logs over each other, the "
                 "pipeline as measured and as planned, where the time and the memory went, which "
                 "rank is late. It needs no other file and no network.",
        .rows = rows,
        .count = sizeof rows / sizeof *rows,
        .at = {s},
        .arguments = s->files,
        .argument_count = &s->file_count,
        .argument_paths = {OPTION_PATH_INPUT, OPTION_PATH_INPUT},
        .paths = add_paths};
    TRY(options_read(&o, argc, argv));
    if (s->help) return TRINE_OK;
    TRY(check(s));
    TRY(check_page(s));
    if (!s->csv)
        sort_files(s);
    else
        s->log_count = s->file_count;
    return TRINE_OK;
}

/* ---- The page --------------------------------------------------------------------------------- */

static page_files embedded(void) {
#define EMBEDDED(name)                                                                             \
    { name, (size_t)(name##_end - name) }
    return (page_files){EMBEDDED(report_script), EMBEDDED(report_style), EMBEDDED(report_curves),
                        EMBEDDED(report_curves_style), EMBEDDED(report_curves_licence)};
#undef EMBEDDED
}

static trine_status write_to(const settings *s, const page_subject *p, FILE *out) {
    const page_files files = embedded();
    if (!s->csv) return page_print(p, &files, out);
    run_log_csv(&p->logs, out);
    return TRINE_OK;
}

static trine_status write_file(const settings *s, const page_subject *p) {
    whole_file *file;
    if (!s->out) return write_to(s, p, stdout);
    TRY(whole_file_begin(&file, "--out", s->out));
    trine_status status = write_to(s, p, whole_file_stream(file));
    if (status == TRINE_OK) status = whole_file_publish(&file, NULL);
    whole_file_abandon(&file);
    return status;
}

static trine_status show_trace(const settings *s, page_subject *p) {
    timeline t;
    delays d = {0};
    int count = s->file_count - s->log_count;
    if (!count) return write_file(s, p);
    trine_status status = timeline_read(&t, s->files + s->log_count, count);
    if (status == TRINE_OK) status = delays_of(&t, &d);
    p->trace = &t;
    p->delays = &d;
    if (status == TRINE_OK) status = write_file(s, p);
    delays_destroy(&d);
    timeline_destroy(&t);
    return status;
}

static trine_status show(const settings *s) {
    page_sample samples[OPTION_LIST_MOST] = {0};
    page_subject p = {.samples = samples,
                      .sample_count = s->samples.count,
                      .hardware = s->hardware,
                      .watch = s->watch ? WATCH_SECONDS : 0};
    trine_status status = TRINE_OK;
    for (size_t n = 0; status == TRINE_OK && n < s->samples.count; n++)
        status = page_sample_read(&samples[n], s->samples.texts[n]);
    for (int n = 0; status == TRINE_OK && n < s->log_count; n++)
        status = run_logs_read(&p.logs, s->files[n]);
    if (status == TRINE_OK) status = show_trace(s, &p);
    run_logs_destroy(&p.logs);
    for (size_t n = 0; n < s->samples.count; n++) page_sample_destroy(&samples[n]);
    return status;
}

/* ---- Again and again -------------------------------------------------------------------------- */

static void add_state(uint64_t *sum, const char *path) {
    struct stat is;
    if (stat(path, &is)) return;
    *sum = *sum * 1099511628211u + (uint64_t)is.st_size;
    *sum = *sum * 1099511628211u + (uint64_t)is.st_mtim.tv_sec * 1000000000u +
           (uint64_t)is.st_mtim.tv_nsec;
}

/* Changes when a file changes, or appears again. */
static uint64_t state_of(const settings *s) {
    uint64_t sum = 0;
    for (int n = 0; n < s->file_count; n++) add_state(&sum, s->files[n]);
    for (size_t n = 0; n < s->samples.count; n++) add_state(&sum, s->samples.texts[n]);
    return sum;
}

static trine_status watch(const settings *s) {
    for (uint64_t before = state_of(s), now;; before = now) {
        while ((now = state_of(s)) == before) sleep(1);
        TRY(show(s));
    }
}

static trine_status run(const settings *s) {
    TRY(show(s));
    if (!s->csv && !embedded().curves.bytes)
        fputs("trine-report: built without dygraphs: the page has no curves (make DYGRAPHS=FILE)\n",
              stderr);
    if (s->out && !s->csv) printf("%s\n", s->out);
    TRY(output_flushed(stdout));
    return s->watch ? watch(s) : TRINE_OK;
}

int main(int argc, char **argv) {
    settings s = {0};
    output_limits_are_errors();
    trine_status status = ending_catch(&(ending){.word = "the page is not written"});
    if (status == TRINE_OK) status = parse(&s, argc, argv);
    if (status == TRINE_OK) status = s.help ? output_flushed(stdout) : run(&s);
    ending_done();
    (void)status_user(status);
    trine_error_print();
    free(s.files);
    return status != TRINE_OK;
}
