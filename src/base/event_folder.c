#include "base/event_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/status.h"

#define PREFIX "events.out.tfevents."

double event_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What cannot be made is told by the attempt to make the folder itself. */
static void make_parents(const char *path) {
    char above[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        (void)mkdir(above, 0777);
    }
}

trine_status event_folder_make(const char *path) {
    struct stat is;
    CHECK(strlen(path) < PATH_MAX - 200, TRINE_EIO, EVENT_FOLDER " %s: the name is too long", path);
    if (*path) make_parents(path);
    int cause = mkdir(path, 0777) ? errno : 0;
    if (cause && stat(path, &is) == 0) cause = S_ISDIR(is.st_mode) ? 0 : ENOTDIR;
    CHECK(!cause, TRINE_EIO, EVENT_FOLDER " %s: cannot create the folder: %s", path,
          strerror(cause));
    return TRINE_OK;
}

trine_status event_folder_lock(int *lock, const char *path) {
    char who[LOCK_WHO];
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(*lock >= 0, TRINE_EIO, EVENT_FOLDER " %s: %s", path, strerror(errno));
    CHECK(lock_try(*lock) != LOCK_BUSY, TRINE_EBUSY,
          EVENT_FOLDER
          " %s: %s is writing to this folder; wait until it exits, or name another folder",
          path, lock_owner(*lock, who));
    return TRINE_OK;
}

/* The present time in seconds, or what is later than all files of the folder. */
static int64_t next_time(const char *path) {
    int64_t time = (int64_t)event_time();
    DIR *all = opendir(path);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
        int64_t other = strtoll(entry->d_name + strlen(PREFIX), NULL, 10);
        if (other >= time && other < INT64_C(9999999999)) time = other + 1;
    }
    if (all) closedir(all);
    return time;
}

trine_status event_folder_add(output **file, const char *path) {
    char host[65] = "", name[PATH_MAX];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s/" PREFIX "%010" PRId64 ".%s.%d", path, next_time(path), host,
             (int)getpid());
    TRY(output_open(file, EVENT_FOLDER, name));
    return output_begin(*file, 0);
}
