#include "ckpt/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status.h"

/* ---- Files ---- */

trine_status file_create(const char *path, int *fd) {
    files_begin("creation", path);
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CHECK(*fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    return TRINE_OK;
}

trine_status file_write(int fd, const char *path, const void *data, size_t bytes, uint64_t place) {
    const char *from = data;
    while (bytes) {
        files_begin("writing", path);
        ssize_t n = pwrite(fd, from, bytes, (off_t)place);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n > 0, TRINE_EIO, "%s: cannot write %zu bytes at %llu: %s", path, bytes,
              (unsigned long long)place, n < 0 ? strerror(errno) : "nothing was written");
        from += n;
        place += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return TRINE_OK;
}

trine_status file_sync(int fd, const char *path) {
    files_begin("fsync", path);
    CHECK(fsync(fd) == 0, TRINE_EIO, "%s: cannot sync: %s", path, strerror(errno));
    return TRINE_OK;
}

trine_status file_close(int fd, const char *path, trine_status status) {
    files_begin("closing", path);
    int failed = close(fd);
    if (status != TRINE_OK) return status;
    CHECK(!failed, TRINE_EIO, "%s: %s", path, strerror(errno));
    return TRINE_OK;
}

trine_status file_put(const char *path, const void *data, size_t bytes) {
    int fd;
    TRY(file_create(path, &fd));
    trine_status status = file_write(fd, path, data, bytes, 0);
    if (status == TRINE_OK) status = file_sync(fd, path);
    return file_close(fd, path, status);
}

/* ---- Folders ---- */

trine_status file_sync_folder(const char *path) {
    files_begin("fsync", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    int failed = fsync(fd), cause = errno;
    close(fd);
    /* Some network file systems do not support fsync of a folder: their renames are synchronous. */
    CHECK(!failed || cause == EINVAL, TRINE_EIO, "%s: cannot sync the folder: %s", path,
          strerror(cause));
    return TRINE_OK;
}

trine_status file_make_folder(const char *path, bool *made) {
    struct stat is;
    files_begin("creation", path);
    *made = mkdir(path, 0777) == 0;
    if (*made) return TRINE_OK;
    int cause = errno;
    if (stat(path, &is) == 0) cause = S_ISDIR(is.st_mode) ? 0 : ENOTDIR;
    CHECK(!cause, TRINE_EIO, "%s: cannot create the folder: %s", path, strerror(cause));
    return TRINE_OK;
}

trine_status file_rename(const char *from, const char *to) {
    files_begin("renaming", from);
    CHECK(rename(from, to) == 0, TRINE_EIO, "%s: cannot rename it to %s: %s", from, to,
          strerror(errno));
    return TRINE_OK;
}

trine_status file_exchange(const char *a, const char *b, bool *done) {
    files_begin("renaming", a);
    *done = renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
    bool impossible = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
    CHECK(*done || impossible, TRINE_EIO, "%s: cannot exchange it with %s: %s", a, b,
          strerror(errno));
    return TRINE_OK;
}

static int remove_one(const char *path, const struct stat *is, int flag, struct FTW *at) {
    (void)is;
    (void)at;
    files_begin("removal", path);
    int failed = flag == FTW_DP ? rmdir(path) : unlink(path);
    return failed && errno != ENOENT;
}

bool file_discard(const char *path) {
    struct stat is;
    if (lstat(path, &is) != 0 && errno == ENOENT) return true;
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

trine_status file_remove(const char *path) {
    CHECK(file_discard(path), TRINE_EIO, "%s: cannot remove it: %s", path, strerror(errno));
    return TRINE_OK;
}

static trine_status visit_entries(DIR *folder, const char *path, file_visit visit, void *context) {
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder)) != NULL) TRY(visit(context, path, entry->d_name));
    CHECK(!errno, TRINE_EIO, "%s: %s", path, strerror(errno));
    return TRINE_OK;
}

trine_status file_each(const char *path, file_visit visit, void *context) {
    DIR *folder = opendir(path);
    if (!folder && errno == ENOENT) return TRINE_OK;
    CHECK(folder, TRINE_EIO, "%s: %s", path, strerror(errno));
    trine_status status = visit_entries(folder, path, visit, context);
    closedir(folder);
    return status;
}
