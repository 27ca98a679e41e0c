#include "base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/output.h"
#include "base/status.h"
#include "base/terminal_line.h"
#include "base/unique_name.h"

#define UNFINISHED "unfinished"
#define SHARD      "shard"

struct whole_file {
    char *label;      /* "--option PATH", for messages */
    char *path;       /* the target, without links */
    char *unfinished; /* NULL: written in place */
    FILE *stream;     /* NULL: complete */
    bool shard;       /* the caller syncs the folder, once for all */
};

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool whole_file_is_left(const char *entry, const char *path, const char *suffix) {
    const char *base = base_of(path);
    size_t length = strlen(base);
    char token[FILE_TOKEN];
    if (entry[0] != '.' || strncmp(entry + 1, base, length) || entry[length + 1] != '.')
        return false;
    return !strcmp(file_token_in(entry + length + 2, token), suffix) && token[0];
}

/* The folder of `path`, with a slash at its end unless it is "."; owned by the caller, NULL: no memory. */
static char *folder_of(const char *path) {
    const char *base = base_of(path);
    return base == path ? strdup("./") : strndup(path, (size_t)(base - path));
}

static trine_status name_it(whole_file *f, const char *suffix) {
    char token[FILE_TOKEN];
    const char *base = base_of(f->path);
    size_t size = strlen(f->path) + FILE_TOKEN + strlen(suffix) + 4;
    TRY(file_token(token));
    free(f->unfinished);
    f->unfinished = malloc(size);
    CHECK(f->unfinished, TRINE_ENOMEM, "no memory for a file name");
    snprintf(f->unfinished, size, "%.*s.%s.%s.%s", (int)(base - f->path), f->path, base, token,
             suffix);
    return TRINE_OK;
}

/* ---- What killed programs left ---------------------------------------------------------------- */

/* Removes an unfinished file that nobody writes; false: it cannot be told, or not be removed. */
static bool remove_left(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT;
    lock_answer answer = lock_try(fd);
    bool clear = answer == LOCK_BUSY || (answer == LOCK_TAKEN && !unlink(path));
    close(fd);
    return clear;
}

static trine_status remove_all_left(const whole_file *f) {
    char *folder = folder_of(f->path), path[PATH_MAX];
    CHECK(folder, TRINE_ENOMEM, "no memory for a file name");
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (!whole_file_is_left(entry->d_name, f->path, UNFINISHED)) continue;
        int n = snprintf(path, sizeof path, "%s%s", folder, entry->d_name);
        if (n >= (int)sizeof path || remove_left(path)) continue;
        terminal_line_erase();
        fprintf(stderr,
                "trine: %s is being written by another program, or was left by one that was "
                "killed; remove it if none is running\n",
                path);
    }
    if (all) closedir(all); /* one that cannot be listed may still be written to */
    free(folder);
    return TRINE_OK;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Whether the descriptor is this process's and is open on the file. */
static bool is_open_on(int fd, const struct stat *is) {
    struct stat own;
    return !fstat(fd, &own) && own.st_dev == is->st_dev && own.st_ino == is->st_ino;
}

/* Descriptors 1 and 2 share their place in the file with what the process prints there. */
static trine_status open_in_place(whole_file *f, const struct stat *is) {
    int own = is_open_on(STDOUT_FILENO, is)   ? STDOUT_FILENO
              : is_open_on(STDERR_FILENO, is) ? STDERR_FILENO
                                              : -1;
    if (own == STDOUT_FILENO) fflush(stdout);
    int fd = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : output_open_special(f->path);
    f->stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    int cause = errno;
    if (!f->stream && fd >= 0) close(fd);
    CHECK(f->stream, TRINE_EIO, "%s: %s", f->label, output_cause(cause));
    return TRINE_OK;
}

/* Creates a file of a new name and takes its lock; *done is false if another program, which took the file for a left
 * one, was faster. */
static trine_status create(whole_file *f, const char *suffix, bool locked, bool *done) {
    struct stat is;
    TRY(name_it(f, suffix));
    ending_add(f->unfinished);
    files_begin("creation", f->unfinished);
    int fd = open(f->unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *done = fd >= 0 && (!locked || lock_try(fd) != LOCK_BUSY) && !fstat(fd, &is) && is.st_nlink;
    f->stream = *done ? fdopen(fd, "w") : NULL;
    int cause = errno;
    if (fd >= 0 && !f->stream) close(fd);
    if (fd >= 0 && *done && !f->stream) unlink(f->unfinished);
    if (!f->stream) ending_drop(f->unfinished);
    CHECK(fd >= 0 && (f->stream || !*done), TRINE_EIO, "%s: %s (creating %s)", f->label,
          strerror(cause), f->unfinished);
    return TRINE_OK;
}

static trine_status create_new(whole_file *f, const char *suffix, bool locked) {
    trine_status status = TRINE_OK;
    for (bool done = false; status == TRINE_OK && !done;) status = create(f, suffix, locked, &done);
    if (status == TRINE_OK) return TRINE_OK;
    free(f->unfinished); /* there is none */
    f->unfinished = NULL;
    return status;
}

static trine_status name_target(whole_file *f, const char *option, const char *path) {
    size_t size = strlen(path) + (option ? strlen(option) : 0) + 2;
    f->label = malloc(size);
    f->path = realpath(path, NULL);
    if (!f->path) f->path = strdup(path);
    CHECK(f->label && f->path, TRINE_ENOMEM, "no memory for a file name");
    snprintf(f->label, size, "%s%s%s", option ? option : "", option ? " " : "", path);
    return TRINE_OK;
}

static trine_status begin(whole_file *f, const char *option, const char *path) {
    struct stat is;
    TRY(name_target(f, option, path));
    bool there = stat(path, &is) == 0;
    CHECK(!there || !S_ISDIR(is.st_mode), TRINE_EIO, "%s: %s", f->label, strerror(EISDIR));
    bool own = there && (is_open_on(STDOUT_FILENO, &is) || is_open_on(STDERR_FILENO, &is));
    if (there && (own || !S_ISREG(is.st_mode))) return open_in_place(f, &is);
    TRY(remove_all_left(f));
    return create_new(f, UNFINISHED, true);
}

trine_status whole_file_begin(whole_file **f, const char *option, const char *path) {
    *f = calloc(1, sizeof **f);
    CHECK(*f, TRINE_ENOMEM, "no memory for a file");
    trine_status status = begin(*f, option, path);
    if (status != TRINE_OK) whole_file_abandon(f);
    return status;
}

trine_status whole_file_begin_shard(whole_file **f, const char *path) {
    *f = calloc(1, sizeof **f);
    CHECK(*f, TRINE_ENOMEM, "no memory for a file");
    (*f)->shard = true;
    trine_status status = name_target(*f, NULL, path);
    if (status == TRINE_OK) status = create_new(*f, SHARD, false);
    if (status != TRINE_OK) whole_file_abandon(f);
    return status;
}

FILE *whole_file_stream(const whole_file *f) {
    return f->stream;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

static trine_status sync_stream(const whole_file *f) {
    CHECK(!ferror(f->stream), TRINE_EIO, "%s: an earlier write failed", f->label);
    CHECK(!fflush(f->stream), TRINE_EIO, "%s: %s", f->label, strerror(errno));
    if (!f->unfinished) return TRINE_OK;
    files_begin("fsync", f->unfinished);
    CHECK(!fsync(fileno(f->stream)), TRINE_EIO, "%s: cannot sync: %s", f->label, strerror(errno));
    return TRINE_OK;
}

static trine_status close_stream(whole_file *f) {
    FILE *stream = f->stream;
    f->stream = NULL;
    CHECK(!fclose(stream), TRINE_EIO, "%s: %s", f->label, strerror(errno));
    return TRINE_OK;
}

trine_status whole_file_complete(whole_file *f) {
    TRY(sync_stream(f));
    return close_stream(f);
}

trine_status whole_file_sync_folder(const char *path) {
    char *folder = folder_of(path);
    CHECK(folder, TRINE_ENOMEM, "no memory for a file name");
    files_begin("fsync", path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    /* A folder that may not be read cannot be opened; some network file systems sync none. */
    int cause = fd < 0 || !fsync(fd) ? 0 : errno;
    if (fd >= 0) close(fd);
    CHECK(!cause || cause == EINVAL, TRINE_EIO, "%s: cannot sync its folder: %s", path,
          strerror(cause));
    return TRINE_OK;
}

/* The stream, and with it the lock, is closed after the rename. */
static trine_status publish(whole_file *f, const char *path) {
    if (f->stream) TRY(sync_stream(f));
    if (!f->unfinished) return close_stream(f);
    files_begin("renaming", f->unfinished);
    CHECK(!rename(f->unfinished, path), TRINE_EIO, "%s: %s", f->label, strerror(errno));
    ending_drop(f->unfinished);
    free(f->unfinished);
    f->unfinished = NULL;
    if (f->stream) TRY(close_stream(f));
    return f->shard ? TRINE_OK : whole_file_sync_folder(path);
}

trine_status whole_file_publish(whole_file **f, const char *path) {
    trine_status status = publish(*f, path ? path : (*f)->path);
    whole_file_abandon(f);
    return status;
}

void whole_file_abandon(whole_file **file) {
    whole_file *f = *file;
    if (!f) return;
    if (f->unfinished) unlink(f->unfinished);
    if (f->unfinished) ending_drop(f->unfinished);
    if (f->stream) fclose(f->stream);
    free(f->unfinished);
    free(f->label);
    free(f->path);
    free(f);
    *file = NULL;
}
