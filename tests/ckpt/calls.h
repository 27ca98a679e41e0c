/* Intercepts system calls: every call that changes the contents of one folder is passed to a hook first,
 * which may let it happen, pretend that it happened, let it fail, or exit the process. For tests that kill
 * a job at the n-th such call, lose a write, or fill a disk. Beats of a lease, which are not deterministic,
 * are not passed. A program includes it once; its definitions replace libc's functions in the entire
 * program. */
#ifndef TRINE_TESTS_CKPT_CALLS_H
#define TRINE_TESTS_CKPT_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_REAL    0
#define CALL_PRETEND (-1)

/* `path` is the full path of what is changed or renamed. Returns CALL_REAL, CALL_PRETEND or an errno. */
typedef int (*call_hook)(const char *call, const char *path);

static call_hook calls_hook;
static const char *calls_under; /* the text that names of interest contain */

static int calls_ask(const char *call, const char *path) {
    if (!calls_hook || !strstr(path, calls_under)) return CALL_REAL;
    if (gettid() != getpid() && strstr(path, "/.lease-")) return CALL_REAL;
    int answer = calls_hook(call, path);
    if (answer > 0) errno = answer;
    return answer;
}

static int calls_ask_fd(const char *call, int fd) {
    char link[64], path[4096];
    if (!calls_hook) return CALL_REAL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return calls_ask(call, path);
}

/* Returns from the function around it with `value` or -1, unless the call is to be made. */
#define CALLS_ANSWER(answer, value)                                                                \
    do {                                                                                           \
        int answer_ = (answer);                                                                    \
        if (answer_ != CALL_REAL) return answer_ < 0 ? (value) : -1;                               \
    } while (0)

int mkdir(const char *path, mode_t mode) {
    CALLS_ANSWER(calls_ask("mkdir", path), 0);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rmdir(const char *path) {
    CALLS_ANSWER(calls_ask("rmdir", path), 0);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int unlink(const char *path) {
    CALLS_ANSWER(calls_ask("unlink", path), 0);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int link(const char *from, const char *to) {
    CALLS_ANSWER(calls_ask("link", to), 0);
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int rename(const char *from, const char *to) {
    CALLS_ANSWER(calls_ask("rename", from), 0);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_in, const char *from, int to_in, const char *to, unsigned flags) {
    CALLS_ANSWER(calls_ask("renameat2", from), 0);
    return (int)syscall(SYS_renameat2, from_in, from, to_in, to, flags);
}

int fsync(int fd) {
    CALLS_ANSWER(calls_ask_fd("fsync", fd), 0);
    return (int)syscall(SYS_fsync, fd);
}

int ftruncate(int fd, off_t bytes) {
    CALLS_ANSWER(calls_ask_fd("ftruncate", fd), 0);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

int fallocate(int fd, int mode, off_t at, off_t bytes) {
    CALLS_ANSWER(calls_ask_fd("fallocate", fd), 0);
    return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    CALLS_ANSWER(calls_ask_fd("pwrite", fd), (ssize_t)bytes);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    CALLS_ANSWER(calls_ask_fd("write", fd), (ssize_t)bytes);
    return syscall(SYS_write, fd, data, bytes);
}

#endif
