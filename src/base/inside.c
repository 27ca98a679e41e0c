#include "base/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/status.h"

#define BLOBS "../../blobs/"

/* ---- Folders ---- */

/* To look files up in, not to read; not through a link, unless `follow`. */
static int open_folder(int at, const char *name, bool follow) {
    return openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
}

static bool is_same(int a, int b) {
    struct stat x, y;
    return a >= 0 && b >= 0 && !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Closes *folder, and keeps errno. */
static void leave(int *folder) {
    int cause = errno;
    if (*folder >= 0) close(*folder);
    *folder = -1;
    errno = cause;
}

/* The folder blobs of a folder snapshots/X; -1 with errno EXDEV: it is none. */
static int open_blobs(int folder) {
    int above = open_folder(folder, "..", true);
    int named = above < 0 ? -1 : open_folder(above, "../snapshots", false);
    int blobs = is_same(above, named) ? open_folder(above, "../blobs", false) : -1;
    leave(&above);
    leave(&named);
    if (blobs < 0) errno = EXDEV;
    return blobs;
}

/* The folder of the last name of `path`, at or below `folder`; *last: that name. Changes `path`. -1 with errno, EXDEV: the
 * path leaves the folder. */
static int open_below(int folder, char *path, const char **last) {
    int at = *path == '/' ? -1 : open_folder(folder, ".", false);
    if (*path == '/') errno = EXDEV;
    for (char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        *slash = '\0';
        bool up = !strcmp(path, "..");
        int next = *path && !up ? open_folder(at, path, false) : -1;
        if (!*path) continue;
        if (up) errno = EXDEV;
        leave(&at);
        at = next;
    }
    *last = path;
    return at;
}

/* ---- Links ---- */

static bool is_plain(const char *name) {
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* As openat. */
static int open_target(int folder, char *target) {
    const char *last = target + strlen(BLOBS);
    bool blob = !strncmp(target, BLOBS, strlen(BLOBS)) && is_plain(last);
    int at = blob ? open_blobs(folder) : open_below(folder, target, &last);
    if (at < 0) return -1;
    int fd = is_plain(last) ? input_open_at(at, last) : -1;
    if (!is_plain(last)) errno = EXDEV;
    leave(&at);
    return fd;
}

static const char *reason(int cause) {
    if (cause == EXDEV)
        return "which is outside the folder; only links to files in the same folder, or to "
               "../../blobs in Hugging Face's cache, are followed; replace the link with the file";
    if (cause == ENOENT) return "which does not exist";
    if (cause == ELOOP) return "which is itself a link; replace the first link with the file";
    return strerror(cause);
}

static trine_status follow(int *fd, int folder, const char *name, const char *path) {
    char target[PATH_MAX], copy[PATH_MAX];
    ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    CHECK(n >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    target[n] = '\0';
    memcpy(copy, target, (size_t)n + 1);
    *fd = open_target(folder, copy);
    int cause = errno;
    CHECK(*fd >= 0 || cause == ENXIO, TRINE_EIO, "%s: a link to %.200s, %s", path,
          json_plain(target) ? target : "a name with control characters", reason(cause));
    return TRINE_OK;
}

/* ---- Opening ---- */

static trine_status open_in(int *fd, int folder, const char *name, const char *path) {
    *fd = input_open_at(folder, name);
    if (*fd < 0 && errno == ELOOP) return follow(fd, folder, name, path);
    return TRINE_OK;
}

trine_status inside_open(int *fd, uint64_t *bytes, const char *path) {
    char above[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    *fd = -1;
    *bytes = 0;
    CHECK(length < sizeof above, TRINE_EIO, "%.200s...: %s", path, strerror(ENAMETOOLONG));
    if (length) memcpy(above, path, length), above[length] = '\0';
    int folder = open_folder(AT_FDCWD, above, true);
    CHECK(folder >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    trine_status status = open_in(fd, folder, name, path);
    leave(&folder);
    TRY(status);
    return input_take(fd, bytes, path);
}

trine_status inside_text(char **text, size_t *bytes, unsigned *mode, uint64_t limit,
                         const char *path) {
    int fd;
    uint64_t size;
    struct stat info;
    *text = NULL;
    TRY(inside_open(&fd, &size, path));
    trine_status status = input_whole(fd, size, text, bytes, limit, path);
    if (mode) *mode = fstat(fd, &info) == 0 ? info.st_mode & 0777 : 0;
    close(fd);
    return status;
}

bool inside_has(const char *folder, const char *name) {
    struct stat info;
    int at = open_folder(AT_FDCWD, folder, true);
    bool has = at >= 0 && fstatat(at, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    leave(&at);
    return has;
}
