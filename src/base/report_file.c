#include "base/report_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/whole_file.h"

struct report_file {
    const char *option;
    char *path;
    char *text; /* the lines so far; NULL: none */
    size_t bytes;
    output *out;      /* a pipe or a device; NULL: a file */
    whole_file *next; /* the file with the next line; NULL: not begun */
};

static trine_status open_it(report_file *r) {
    struct stat is;
    CHECK(r->path, TRINE_ENOMEM, "no memory for a file name");
    bool special = stat(r->path, &is) == 0 && !S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode);
    if (!special) return whole_file_begin(&r->next, r->option, r->path);
    TRY(output_open(&r->out, r->option, r->path));
    return output_begin(r->out, 0);
}

trine_status report_file_open(report_file **out, const char *option, const char *path) {
    report_file *r = *out = calloc(1, sizeof *r);
    CHECK(r, TRINE_ENOMEM, "no memory for a report");
    r->option = option;
    r->path = strdup(path);
    trine_status status = open_it(r);
    if (status != TRINE_OK) report_file_close(out);
    return status;
}

void report_file_close(report_file **out) {
    report_file *r = *out;
    if (!r) return;
    output_close(&r->out);
    whole_file_abandon(&r->next);
    free(r->text);
    free(r->path);
    free(r);
    *out = NULL;
}

bool report_file_is(const report_file *r, const output *log) {
    struct stat is;
    return r && log && S_ISREG(log->is.st_mode) && stat(r->path, &is) == 0 &&
           is.st_dev == log->is.st_dev && is.st_ino == log->is.st_ino;
}

/* The lines so far, and one more. */
static trine_status with_line(const report_file *r, const char *line, char **text, size_t *bytes) {
    size_t length = strlen(line);
    *bytes = r->bytes + length + 1;
    *text = malloc(*bytes);
    CHECK(*text, TRINE_ENOMEM, "no memory for a line");
    if (r->bytes) memcpy(*text, r->text, r->bytes);
    memcpy(*text + r->bytes, line, length);
    (*text)[*bytes - 1] = '\n';
    return TRINE_OK;
}

static trine_status replace(report_file *r, const char *text, size_t bytes) {
    if (!r->next) TRY(whole_file_begin(&r->next, r->option, r->path));
    errno = 0;
    bool ok = fwrite(text, 1, bytes, whole_file_stream(r->next)) == bytes;
    trine_status status = ok ? whole_file_publish(&r->next, NULL)
                             : RAISE(TRINE_EIO, "%s %s: %s", r->option, r->path, strerror(errno));
    whole_file_abandon(&r->next);
    return status;
}

trine_status report_file_line(report_file *r, const char *line) {
    char *text;
    size_t bytes;
    if (r->out) return output_line(r->out, line);
    TRY(with_line(r, line, &text, &bytes));
    trine_status status = replace(r, text, bytes);
    if (status != TRINE_OK) {
        free(text);
        return status;
    }
    free(r->text);
    r->text = text;
    r->bytes = bytes;
    return TRINE_OK;
}
