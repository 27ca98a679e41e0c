#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/environment.h"
#include "base/input.h"
#include "base/status.h"

#define ENDING ".trine-lock"

/* ---- Descriptors ----------------------------------------------------------------------------- */

lock_answer lock_try(int fd) {
    int failed;
    do failed = flock(fd, LOCK_EX | LOCK_NB);
    while (failed && errno == EINTR);
    if (!failed) return LOCK_TAKEN;
    return errno == EWOULDBLOCK ? LOCK_BUSY : LOCK_UNSUPPORTED;
}

static void host_name(char host[65]) {
    memset(host, 0, 65);
    if (gethostname(host, 64) || !host[0]) snprintf(host, 65, "an unknown host");
}

/* The process that /proc/locks names for the file; 0: none, or one of another pid namespace. */
static long pid_of(const struct stat *is) {
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    long pid = 0;
    while (locks && !pid && fgets(line, sizeof line, locks)) {
        unsigned from_major, from_minor;
        unsigned long inode;
        long found;
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &found, &from_major, &from_minor,
                   &inode) == 4 &&
            makedev(from_major, from_minor) == is->st_dev && inode == is->st_ino)
            pid = found;
    }
    if (locks) fclose(locks);
    return pid > 0 ? pid : 0;
}

const char *lock_owner(int fd, char who[LOCK_WHO]) {
    struct stat is;
    char host[65];
    long pid = fstat(fd, &is) ? 0 : pid_of(&is);
    host_name(host);
    if (pid)
        snprintf(who, LOCK_WHO, "process %ld on %s", pid, host);
    else
        snprintf(who, LOCK_WHO, "another process");
    return who;
}

/* ---- Names ----------------------------------------------------------------------------------- */

struct name_lock {
    char *path;
    int fd;
};

/* DIR/.NAME.trine-lock */
static char *path_of(const char *name) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    size_t size = strlen(name) + sizeof "." ENDING;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%.*s.%s" ENDING, (int)(base - name), name, base);
    return path;
}

/* *made: this call created the file. *gone: it was there, but its owner has removed it since. */
static trine_status open_file(name_lock *l, const char *label, bool *made, bool *gone) {
    struct stat is;
    l->fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = l->fd >= 0;
    *gone = false;
    if (!*made && errno == EEXIST) {
        l->fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        *gone = l->fd < 0 && errno == ENOENT;
        if (*gone) return TRINE_OK;
    }
    CHECK(l->fd >= 0, TRINE_EIO, "%s: %s (creating the lock %s)", label, strerror(errno), l->path);
    CHECK(fstat(l->fd, &is) == 0 && S_ISREG(is.st_mode), TRINE_EIO,
          "%s: the lock %s is not a regular file", label, l->path);
    return TRINE_OK;
}

/* What the owner wrote into the file, "another process" if nothing. */
static const char *read_owner(const name_lock *l, char who[LOCK_WHO]) {
    ssize_t n = pread(l->fd, who, LOCK_WHO - 1, 0);
    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    if (!who[0]) snprintf(who, LOCK_WHO, "another process");
    return who;
}

static trine_status write_owner(const name_lock *l, const char *label) {
    char who[LOCK_WHO], host[65];
    const char *job = environment_job();
    host_name(host);
    int n = snprintf(who, sizeof who, "%s%.64s%sprocess %ld on %s%s\n", *job ? "job " : "", job,
                     *job ? " (" : "", (long)getpid(), host, *job ? ")" : "");
    bool ok = ftruncate(l->fd, 0) == 0 && pwrite(l->fd, who, (size_t)n, 0) == n;
    CHECK(ok, TRINE_EIO, "%s: cannot write the lock %s: %s", label, l->path, strerror(errno));
    return TRINE_OK;
}

/* One try. *done is false if it is to be made again: the file was removed meanwhile. */
static trine_status take(name_lock *l, const char *label, bool *done) {
    char who[LOCK_WHO];
    bool made, gone;
    *done = false;
    TRY(open_file(l, label, &made, &gone));
    if (gone) return TRINE_OK;
    lock_answer answer = lock_try(l->fd);
    int cause = errno;
    CHECK(answer != LOCK_BUSY, TRINE_EBUSY,
          "%s: %s is writing there; wait until it exits, or choose another name", label,
          read_owner(l, who));
    CHECK(answer == LOCK_TAKEN || made, TRINE_EBUSY,
          "%s: %s is writing there, or was killed: the file system has no locks (%s) that would "
          "tell which; remove %s if it was killed",
          label, read_owner(l, who), strerror(cause), l->path);
    *done = input_is_named(l->fd, l->path);
    return *done ? write_owner(l, label) : TRINE_OK;
}

static void close_file(name_lock *l) {
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

static trine_status take_at_last(name_lock *l, const char *label) {
    for (bool done = false; !done;) {
        close_file(l);
        TRY(take(l, label, &done));
    }
    return TRINE_OK;
}

trine_status name_lock_take(name_lock **lock, const char *what, const char *name) {
    char label[4200];
    snprintf(label, sizeof label, "%s %s", what, name);
    name_lock *l = *lock = calloc(1, sizeof *l);
    CHECK(l, TRINE_ENOMEM, "no memory for a lock");
    l->fd = -1;
    l->path = path_of(name);
    ending_hold(); /* a signal that ends the program finds no lock, or one that is known */
    trine_status status = l->path ? take_at_last(l, label) : RAISE(TRINE_ENOMEM, "no memory");
    if (status == TRINE_OK) ending_add(l->path);
    ending_release();
    if (status == TRINE_OK) return TRINE_OK;
    close_file(l); /* the file is another's; if it could not be written, the next owner takes it */
    free(l->path);
    free(l);
    *lock = NULL;
    return status;
}

void name_lock_release(name_lock **lock) {
    name_lock *l = *lock;
    if (!l) return;
    ending_hold(); /* between the two a signal would remove the lock that another program has made since */
    if (input_is_named(l->fd, l->path)) unlink(l->path);
    ending_drop(l->path);
    ending_release();
    close_file(l);
    free(l->path);
    free(l);
    *lock = NULL;
}
