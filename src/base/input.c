#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

trine_status input_take(int *fd, uint64_t *bytes, const char *path) {
    struct stat info;
    *bytes = 0;
    CHECK(*fd >= 0 || errno != ENXIO, TRINE_EIO, "%s: not a regular file", path); /* a socket */
    CHECK(*fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    int cause = fstat(*fd, &info) == 0 ? 0 : errno;
    bool regular = !cause && S_ISREG(info.st_mode);
    if (!regular) {
        close(*fd);
        *fd = -1;
    }
    CHECK(!cause, TRINE_EIO, "%s: %s", path, strerror(cause));
    CHECK(regular, TRINE_EIO, "%s: not a regular file", path);
    *bytes = (uint64_t)info.st_size;
    return TRINE_OK;
}

int input_open_at(int folder, const char *name) {
    return openat(folder, name, OPEN_FLAGS | O_NOFOLLOW);
}

trine_status input_open(int *fd, uint64_t *bytes, const char *path) {
    *fd = open(path, OPEN_FLAGS);
    return input_take(fd, bytes, path);
}

trine_status input_find(int *fd, const char *path) {
    uint64_t bytes;
    *fd = input_open_at(AT_FDCWD, path);
    if (*fd < 0 && (errno == ENOENT || errno == ESTALE)) return TRINE_OK;
    CHECK(*fd >= 0 || errno != ELOOP, TRINE_EIO, "%s: a link, not a regular file", path);
    return input_take(fd, &bytes, path);
}

trine_status input_stream(int *fd, bool *waits, const char *path) {
    struct stat info;
    *fd = open(path, OPEN_FLAGS);
    CHECK(*fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    int cause = fstat(*fd, &info) ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (cause) {
        close(*fd);
        *fd = -1;
    }
    CHECK(!cause, TRINE_EIO, "%s: %s", path, strerror(cause));
    *waits = !S_ISREG(info.st_mode);
    return TRINE_OK;
}

/* The error of a file that ends before byte `place`. */
static trine_status ends_early(int fd, const char *path, uint64_t place) {
    struct stat info;
    uint64_t end = fstat(fd, &info) == 0 ? (uint64_t)info.st_size : place;
    return RAISE(TRINE_EIO,
                 "%s: unexpected end of file at byte %" PRIu64
                 "; the file was truncated while in use",
                 path, end < place ? end : place);
}

trine_status input_read(int fd, const char *path, void *to, size_t bytes, uint64_t place) {
    char *at = to;
    while (bytes) {
        files_begin("reading", path);
        ssize_t n = pread(fd, at, bytes, (off_t)place);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n >= 0, TRINE_EIO, "%s: cannot read byte %" PRIu64 ": %s", path, place,
              strerror(errno));
        if (n == 0) return ends_early(fd, path, place);
        at += n;
        place += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return TRINE_OK;
}

trine_status input_whole(int fd, uint64_t size, char **text, size_t *bytes, uint64_t limit,
                         const char *path) {
    *text = NULL;
    CHECK(size <= limit, TRINE_EDATA,
          "%s: %" PRIu64 " bytes exceed the limit of %" PRIu64 " bytes for this kind of file", path,
          size, limit);
    *bytes = (size_t)size;
    *text = malloc(*bytes + 1);
    CHECK(*text, TRINE_ENOMEM, "%s: no memory for %" PRIu64 " bytes", path, size);
    trine_status status = input_read(fd, path, *text, *bytes, 0);
    if (status != TRINE_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

trine_status input_text(char **text, size_t *bytes, uint64_t limit, const char *path) {
    int fd;
    uint64_t size;
    *text = NULL;
    TRY(input_open(&fd, &size, path));
    trine_status status = input_whole(fd, size, text, bytes, limit, path);
    close(fd);
    return status;
}

bool input_is_named(int fd, const char *path) {
    struct stat own, named;
    return !fstat(fd, &own) && !lstat(path, &named) && own.st_dev == named.st_dev &&
           own.st_ino == named.st_ino;
}
