#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/status.h"
#include "base/terminal_line.h"

static bool is_regular(const output *o) {
    return S_ISREG(o->is.st_mode);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Opens what is no regular file without waiting; then it is written to as usual. */
static int open_now(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0) return fd;
    int cause = errno;
    if (fd >= 0) close(fd);
    errno = cause;
    return -1;
}

int output_open_special(const char *path) {
    const struct timespec pause = {.tv_nsec = 20000000};
    struct stat is;
    int fd = open_now(path);
    if (fd >= 0 || errno != ENXIO || stat(path, &is) != 0 || !S_ISFIFO(is.st_mode)) return fd;
    for (int n = 0; fd < 0 && errno == ENXIO && n < OUTPUT_READER_SECONDS * 50; n++) {
        nanosleep(&pause, NULL);
        fd = open_now(path);
    }
    if (fd < 0 && errno == ENXIO) errno = EPIPE;
    return fd;
}

const char *output_cause(int error) {
    return error == EPIPE ? "nobody reads this pipe; start its reader first" : strerror(error);
}

/* Only a regular file is opened for reading too: a pipe with itself as a reader never gets EPIPE. */
static int open_path(const char *path) {
    struct stat is;
    bool file = stat(path, &is) != 0 || S_ISREG(is.st_mode);
    return file ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : output_open_special(path);
}

trine_status output_open(output **out, const char *option, const char *path) {
    output *o = *out = calloc(1, sizeof *o);
    CHECK(o, TRINE_ENOMEM, "no memory for an output file");
    o->option = option;
    o->path = strdup(path);
    o->fd = open_path(path);
    trine_status status = TRINE_OK;
    if (o->fd < 0 || fstat(o->fd, &o->is) != 0)
        status = RAISE(TRINE_EIO, "%s %s: %s", option, path, output_cause(errno));
    else if (!o->path)
        status = RAISE(TRINE_ENOMEM, "no memory for a file name");
    if (status != TRINE_OK) output_close(out);
    return status;
}

void output_close(output **out) {
    output *o = *out;
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    free(o->path);
    free(o);
    *out = NULL;
}

trine_status output_lock(output *o) {
    char who[LOCK_WHO];
    lock_answer answer = is_regular(o) ? lock_try(o->fd) : LOCK_TAKEN;
    int cause = errno;
    CHECK(answer != LOCK_BUSY, TRINE_EBUSY,
          "%s %s: %s is writing to this file; wait until it exits, or name another file", o->option,
          o->path, lock_owner(o->fd, who));
    if (answer != LOCK_UNSUPPORTED) return TRINE_OK;
    terminal_line_erase();
    fprintf(stderr,
            "trine: %s %s: the file system has no locks (%s); a second program that writes to "
            "this file will not be noticed\n",
            o->option, o->path, strerror(cause));
    return TRINE_OK;
}

trine_status output_begin(output *o, off_t end) {
    o->begun = true;
    o->end = end;
    CHECK(!is_regular(o) || ftruncate(o->fd, end) == 0, TRINE_EIO, "%s %s: %s", o->option, o->path,
          strerror(errno));
    return TRINE_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* *done: bytes written. False: errno has the reason. */
static bool put(const output *o, const char *text, size_t bytes, size_t *done) {
    for (*done = 0; *done < bytes;) {
        size_t left = bytes - *done;
        ssize_t n = is_regular(o) ? pwrite(o->fd, text + *done, left, o->end + (off_t)*done)
                                  : write(o->fd, text + *done, left);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) *done += (size_t)n;
    }
    return true;
}

/* As put, but a SIGPIPE that this write raises is consumed, unless one was already pending. */
static bool put_quietly(const output *o, const char *text, size_t bytes, size_t *done) {
    sigset_t pipe, before, waiting;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    bool ok = put(o, text, bytes, done);
    int error = errno;
    if (!ok && error == EPIPE && !sigismember(&waiting, SIGPIPE))
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return ok;
}

/* Removes a partial line at once, so that none is left even if the process is killed. If the file cannot be
 * truncated, the next line overwrites this one. */
static void take_back(output *o, size_t done) {
    if (done && !is_regular(o)) o->torn = true;
    if (done && is_regular(o) && ftruncate(o->fd, o->end) != 0) errno = 0;
}

trine_status output_bytes(output *o, const char *bytes, size_t count) {
    size_t done;
    int error = put_quietly(o, bytes, count, &done) ? 0 : errno;
    if (error) take_back(o, done);
    CHECK(!error, TRINE_EIO, "%s %s: %s", o->option, o->path, strerror(error));
    o->end += (off_t)count;
    o->torn = false;
    return TRINE_OK;
}

trine_status output_line(output *o, const char *line) {
    size_t bytes = strlen(line) + 2;
    char *text = malloc(bytes + 1);
    CHECK(text, TRINE_ENOMEM, "no memory for a line");
    bytes = (size_t)snprintf(text, bytes + 1, "%s%s\n", o->torn ? "\n" : "", line);
    trine_status status = output_bytes(o, text, bytes);
    free(text);
    return status;
}

/* ---- The process's output ---------------------------------------------------------------------- */

static trine_status has_written(const FILE *out, bool ok) {
    CHECK(ok, TRINE_EIO, "%scannot write the output: %s", out == stdout ? "standard output: " : "",
          errno ? strerror(errno) : "an earlier write failed");
    return TRINE_OK;
}

trine_status output_flushed(FILE *out) {
    errno = 0;
    bool ok = fflush(out) == 0 && !ferror(out);
    return has_written(out, ok);
}

trine_status output_text(FILE *out, const char *text, size_t bytes) {
    errno = 0;
    bool ok = fwrite(text, 1, bytes, out) == bytes && fflush(out) == 0;
    return has_written(out, ok);
}

void output_limits_are_errors(void) {
    struct sigaction now;
    if (sigaction(SIGXFSZ, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        signal(SIGXFSZ, SIG_IGN);
}
