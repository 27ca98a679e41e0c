#include "ckpt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

trine_status file_write(int fd, const char *path, const void *data, size_t bytes, uint64_t place) {
    const char *from = data;
    while (bytes) {
        ssize_t n = pwrite(fd, from, bytes, (off_t)place);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n > 0, TRINE_EIO, "%s: cannot write %zu bytes at %llu: %s", path, bytes,
              (unsigned long long)place, n < 0 ? strerror(errno) : "nothing was taken");
        from += n;
        place += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return TRINE_OK;
}

trine_status file_sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    int failed = fsync(fd), cause = errno;
    close(fd);
    /* Some network file systems have no fsync of a folder: their renames are on the server at once. */
    CHECK(!failed || cause == EINVAL, TRINE_EIO, "%s: cannot sync the folder: %s", path,
          strerror(cause));
    return TRINE_OK;
}
