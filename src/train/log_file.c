#include "train/log_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/json.h"
#include "base/terminal_line.h"

/* ---- Start ----------------------------------------------------------------------------------- */

/* Whether a line, including its newline, is a complete line of a completed step. */
static bool is_kept(log_file *f, const char *line, ssize_t length, int64_t steps) {
    if (length < 1 || line[length - 1] != '\n') return false; /* the writer was killed here */
    cJSON *o = json_parse(line);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(o, "step");
    bool kept = cJSON_IsNumber(step) && step->valuedouble <= (double)steps;
    if (kept && step->valuedouble == (double)steps && json_member(o, "val_loss")) f->has_val = true;
    cJSON_Delete(o);
    return kept;
}

/* The end of the lines of completed steps; -1: error in errno. */
static off_t find_end(log_file *f, int64_t steps) {
    int fd = dup(f->out->fd);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return -1;
    }
    char *line = NULL;
    size_t room = 0;
    off_t end = 0;
    for (ssize_t n; (n = getline(&line, &room, file)) >= 0 && is_kept(f, line, n, steps);) end += n;
    if (ferror(file)) end = -1;
    int error = errno;
    free(line);
    fclose(file);
    errno = error;
    return end;
}

trine_status log_file_begin(log_file *f, int64_t steps) {
    off_t end = steps && S_ISREG(f->out->is.st_mode) ? find_end(f, steps) : 0;
    CHECK(end >= 0, TRINE_EIO, "--log %s: %s", f->out->path, strerror(errno));
    return output_begin(f->out, end);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void report_lost(log_file *f, int64_t step) {
    f->lost++;
    f->last = step;
    if (f->gap++) return;
    f->first = step;
    terminal_line_erase();
    fprintf(stderr, "trine: %s; training continues, %s are missing from step %" PRId64 " on\n",
            status_message(), f->events ? "events" : "log lines", step);
}

static void report_resumed(log_file *f, int64_t step) {
    if (!f->gap) return;
    terminal_line_erase();
    fprintf(stderr,
            "trine: %s %s: written again from step %" PRId64 " on; missing %s: %" PRId64
            ", of steps %" PRId64 " to %" PRId64 "\n",
            f->out->option, f->out->path, step, f->events ? "events" : "lines", f->gap, f->first,
            f->last);
    f->gap = 0;
}

static trine_status handle(log_file *f, int64_t step, trine_status status, bool *written) {
    *written = status == TRINE_OK;
    if (status != TRINE_OK && status != TRINE_EIO) return status;
    if (status == TRINE_OK)
        report_resumed(f, step);
    else
        report_lost(f, step);
    status_clear();
    return TRINE_OK;
}

trine_status log_file_add(log_file *f, int64_t step, const char *line) {
    bool written;
    return handle(f, step, output_line(f->out, line), &written);
}

trine_status log_file_add_event(log_file *f, int64_t step, const char *bytes, size_t count,
                                bool *written) {
    return handle(f, step, output_bytes(f->out, bytes, count), written);
}

trine_status log_file_check(const log_file *f) {
    CHECK(!f->lost, TRINE_EIO, "%s %s: %s of this run that could not be written: %" PRId64,
          f->out->option, f->out->path, f->events ? "events" : "lines", f->lost);
    return TRINE_OK;
}
