#include "ckpt/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/human.h"
#include "base/status.h"
#include "ckpt/file.h"

#define NAME_BYTES 64

/* Beside the files: the folder itself, `latest`, blocks of the file system that are not full. */
#define LITTLE ((uint64_t)1 << 20)

/* ---- Names ---- */

/* What a name in DIR says: a step of one of these kinds. */
typedef enum { WHOLE, WRITING, REMOVING, REPLACED, KINDS } name_kind;

static const struct {
    const char *before, *after;
} names[KINDS] = {
    {"step-", ""}, {".step-", ".writing"}, {".step-", ".removing"}, {".step-", ".replaced"}};

static void print_name(char name[NAME_BYTES], int64_t step, name_kind kind) {
    snprintf(name, NAME_BYTES, "%s%" PRId64 "%s", names[kind].before, step, names[kind].after);
}

/* A name is ours when it is the one that we would print. */
static bool read_name(const char *name, int64_t *step, name_kind kind) {
    char again[NAME_BYTES];
    size_t before = strlen(names[kind].before);
    if (strncmp(name, names[kind].before, before) != 0) return false;
    *step = strtoll(name + before, NULL, 10);
    print_name(again, *step, kind);
    return *step >= 0 && strcmp(name, again) == 0;
}

char *folder_join(const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *folder_path(const char *dir, int64_t step) {
    char name[NAME_BYTES];
    print_name(name, step, WHOLE);
    return folder_join(dir, name);
}

char *folder_writing(const char *dir, int64_t step) {
    char name[NAME_BYTES];
    print_name(name, step, WRITING);
    return folder_join(dir, name);
}

/* ---- Single steps ---- */

static trine_status sync_in(const char *dir, const char *name) {
    char *path = folder_join(dir, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = file_sync_folder(path);
    free(path);
    return status;
}

/* Makes a folder whose parent is there; *made = it was not there. */
static trine_status make_one(const char *path, bool *made) {
    struct stat is;
    *made = mkdir(path, 0777) == 0;
    if (*made) return TRINE_OK;
    int cause = errno;
    if (stat(path, &is) == 0) cause = S_ISDIR(is.st_mode) ? 0 : ENOTDIR;
    CHECK(!cause, TRINE_EIO, "%s: cannot make the folder: %s", path, strerror(cause));
    return TRINE_OK;
}

/* Makes the folder and those above it, and sees that what it made outlives a power cut. Cuts `path`
 * for a while. */
static trine_status make_all(char *path) {
    struct stat is;
    bool made;
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode)) return TRINE_OK;
    char *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] == '/') slash--;
    bool above = slash && slash > path;
    trine_status status = TRINE_OK;
    if (above) {
        *slash = '\0';
        status = make_all(path);
        *slash = '/';
    }
    if (status == TRINE_OK) status = make_one(path, &made);
    if (status != TRINE_OK || !made) return status;
    if (above) *slash = '\0';
    status = file_sync_folder(above ? path : slash ? "/" : ".");
    if (above) *slash = '/';
    return status;
}

static trine_status make_dir(const char *dir) {
    char *path = strdup(dir);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') path[--end] = '\0';
    trine_status status = make_all(path);
    free(path);
    return status;
}

/* All renames are within DIR, which is synced. */
static trine_status rename_in(const char *dir, const char *from, const char *to) {
    char *a = folder_join(dir, from), *b = folder_join(dir, to);
    trine_status status = TRINE_OK;
    if (!a || !b)
        status = RAISE(TRINE_ENOMEM, "no memory for a file name");
    else if (rename(a, b) != 0)
        status = RAISE(TRINE_EIO, "%s: cannot be renamed to %s: %s", a, to, strerror(errno));
    if (status == TRINE_OK) status = file_sync_folder(dir);
    free(a);
    free(b);
    return status;
}

static bool exists(const char *dir, const char *name) {
    struct stat is;
    char *path = folder_join(dir, name);
    bool there = path && lstat(path, &is) == 0;
    free(path);
    return there;
}

static int remove_one(const char *path, const struct stat *is, int flag, struct FTW *at) {
    (void)is;
    (void)at;
    return flag == FTW_DP ? rmdir(path) : unlink(path);
}

/* Removes DIR/name and what is in it; nothing there is as well. */
static trine_status remove_tree(const char *dir, const char *name) {
    char *path = folder_join(dir, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = TRINE_OK;
    if (exists(dir, name) && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        status = RAISE(TRINE_EIO, "%s: cannot be removed: %s", path, strerror(errno));
    free(path);
    return status;
}

/* ---- What is there ---- */

typedef trine_status (*name_visit)(void *context, const char *dir, const char *name);

static trine_status visit_entries(DIR *folder, const char *dir, name_visit visit, void *context) {
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder)) != NULL) TRY(visit(context, dir, entry->d_name));
    CHECK(!errno, TRINE_EIO, "%s: %s", dir, strerror(errno));
    return TRINE_OK;
}

static trine_status visit_names(const char *dir, name_visit visit, void *context) {
    DIR *folder = opendir(dir);
    if (!folder && errno == ENOENT) return TRINE_OK;
    CHECK(folder, TRINE_EIO, "%s: %s", dir, strerror(errno));
    trine_status status = visit_entries(folder, dir, visit, context);
    closedir(folder);
    return status;
}

/* A job was killed between the two renames of a file system that has no exchange. */
static trine_status give_back(void *context, const char *dir, const char *name) {
    char whole[NAME_BYTES];
    int64_t step;
    (void)context;
    if (!read_name(name, &step, REPLACED)) return TRINE_OK;
    print_name(whole, step, WHOLE);
    if (exists(dir, whole)) return TRINE_OK;
    trine_status status = rename_in(dir, name, whole);
    if (status != TRINE_OK && exists(dir, whole)) { /* another rank was faster */
        status_clear();
        return TRINE_OK;
    }
    CHECK(status == TRINE_OK, TRINE_EIO,
          "%s/%s is a whole checkpoint that was about to be replaced when its job was killed, and "
          "it cannot be renamed to %s here: do that first",
          dir, name, whole);
    return TRINE_OK;
}

typedef struct {
    int64_t *steps;
    size_t count, room;
} step_list;

/* What cannot be looked at, or is a link to storage that is away, counts: whoever opens it says why it
 * cannot be had. Left out, it would make a run begin anew. */
static bool is_other(const char *dir, const char *name) {
    struct stat is;
    char *path = folder_join(dir, name);
    bool other = path && stat(path, &is) == 0 && !S_ISDIR(is.st_mode);
    free(path);
    return other;
}

static trine_status add_step(void *context, const char *dir, const char *name) {
    step_list *list = context;
    int64_t step;
    if (!read_name(name, &step, WHOLE) || is_other(dir, name)) return TRINE_OK;
    if (list->count == list->room) {
        size_t room = 2 * list->room + 16;
        int64_t *more = realloc(list->steps, room * sizeof *more);
        CHECK(more, TRINE_ENOMEM, "no memory for a list of checkpoints");
        list->steps = more;
        list->room = room;
    }
    list->steps[list->count++] = step;
    return TRINE_OK;
}

static int newer_first(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

trine_status folder_list(const char *dir, int64_t **steps, size_t *count) {
    step_list list = {0};
    *steps = NULL;
    *count = 0;
    TRY(visit_names(dir, give_back, NULL));
    trine_status status = visit_names(dir, add_step, &list);
    if (status != TRINE_OK) {
        free(list.steps);
        return status;
    }
    if (list.count) qsort(list.steps, list.count, sizeof *list.steps, newer_first);
    *steps = list.steps;
    *count = list.count;
    return TRINE_OK;
}

/* ---- Beginning ---- */

static trine_status remove_leftover(void *context, const char *dir, const char *name) {
    int64_t step;
    (void)context;
    bool left = read_name(name, &step, WRITING) || read_name(name, &step, REMOVING) ||
                read_name(name, &step, REPLACED) || strcmp(name, ".latest.writing") == 0;
    /* What stays is in nobody's way but by its size, and that is looked at next. */
    if (left && remove_tree(dir, name) != TRINE_OK) status_clear();
    return TRINE_OK;
}

static trine_status check_space(const char *dir, uint64_t need) {
    struct statvfs at;
    char has[HUMAN_SIZE], wants[HUMAN_SIZE];
    CHECK(statvfs(dir, &at) == 0, TRINE_EIO, "%s: %s", dir, strerror(errno));
    uint64_t room = (uint64_t)at.f_bavail * at.f_frsize;
    CHECK(need + LITTLE <= room, TRINE_EIO,
          "%s: no room for a checkpoint: it takes %" PRIu64 " bytes (%s) and a little, and %" PRIu64
          " (%s) are free",
          dir, need, human_bytes(wants, need), room, human_bytes(has, room));
    return TRINE_OK;
}

trine_status folder_begin(const char *dir, int64_t step, uint64_t need) {
    char name[NAME_BYTES];
    bool made;
    print_name(name, step, WRITING);
    TRY(make_dir(dir));
    TRY(visit_names(dir, give_back, NULL));
    TRY(visit_names(dir, remove_leftover, NULL));
    TRY(remove_tree(dir, name));
    TRY(check_space(dir, need));
    char *path = folder_join(dir, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = make_one(path, &made);
    free(path);
    return status;
}

void folder_abandon(const char *dir, int64_t step) {
    char *path = folder_writing(dir, step);
    if (path) nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* ---- Publishing ---- */

/* Gives two names to each other's folders in one call; *done is false where that cannot be. */
static trine_status exchange(const char *dir, const char *a, const char *b, bool *done) {
    char *from = folder_join(dir, a), *to = folder_join(dir, b);
    trine_status status = TRINE_OK;
    *done = false;
    if (!from || !to)
        status = RAISE(TRINE_ENOMEM, "no memory for a file name");
    else
        *done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0;
    bool impossible = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
    if (status == TRINE_OK && !*done && !impossible)
        status = RAISE(TRINE_EIO, "%s: cannot take the place of %s: %s", from, b, strerror(errno));
    free(from);
    free(to);
    return status;
}

/* The same by two renames. Between them a reader may give `old` its name back (give_back): again. */
static trine_status rename_twice(const char *dir, const char *writing, const char *whole,
                                 const char *old) {
    trine_status status;
    int tries = 0;
    do {
        TRY(rename_in(dir, whole, old));
        status = rename_in(dir, writing, whole);
    } while (status != TRINE_OK && exists(dir, whole) && exists(dir, writing) && ++tries < 10);
    return status;
}

/* `writing` becomes `whole`, which is there. What was there is removed; where it cannot be, the next
 * folder_begin tries again. Where this fails, what was there has its name still, or again: under that
 * of `writing` it would be removed. */
static trine_status replace(const char *dir, int64_t step, const char *writing, const char *whole) {
    char replaced[NAME_BYTES];
    const char *old = writing;
    bool done, back;
    TRY(exchange(dir, writing, whole, &done));
    if (done) {
        trine_status status = file_sync_folder(dir);
        if (status != TRINE_OK) TRY(exchange(dir, writing, whole, &back));
        TRY(status);
    } else {
        print_name(replaced, step, REPLACED);
        old = replaced;
        TRY(rename_twice(dir, writing, whole, old));
    }
    if (remove_tree(dir, old) != TRINE_OK) status_clear();
    return TRINE_OK;
}

static trine_status write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    size_t bytes = strlen(text);
    errno = ENOSPC; /* what a short write means */
    bool written = write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    int cause = errno;
    written = close(fd) == 0 && written;
    CHECK(written, TRINE_EIO, "%s: %s", path, strerror(cause));
    return TRINE_OK;
}

/* Readers of `latest` see the old text or the new one. */
static trine_status write_latest(const char *dir, const char *whole) {
    char text[NAME_BYTES + 1];
    char *path = folder_join(dir, ".latest.writing");
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    snprintf(text, sizeof text, "%s\n", whole);
    trine_status status = write_text(path, text);
    free(path);
    TRY(status);
    return rename_in(dir, ".latest.writing", "latest");
}

trine_status folder_publish(const char *dir, int64_t step) {
    char writing[NAME_BYTES], whole[NAME_BYTES];
    print_name(writing, step, WRITING);
    print_name(whole, step, WHOLE);
    TRY(sync_in(dir, writing));
    if (exists(dir, whole))
        TRY(replace(dir, step, writing, whole));
    else
        TRY(rename_in(dir, writing, whole));
    return write_latest(dir, whole);
}

/* ---- Cleaning ---- */

static trine_status remove_whole(const char *dir, int64_t step) {
    char whole[NAME_BYTES], removing[NAME_BYTES];
    print_name(whole, step, WHOLE);
    print_name(removing, step, REMOVING);
    TRY(remove_tree(dir, removing));
    TRY(rename_in(dir, whole, removing));
    return remove_tree(dir, removing);
}

/* The oldest first: whenever this ends, what is left is the newest. */
static trine_status remove_old(const char *dir, const int64_t *steps, size_t count, size_t keep) {
    for (size_t i = count; i-- > keep;) TRY(remove_whole(dir, steps[i]));
    return TRINE_OK;
}

trine_status folder_clean(const char *dir, int keep, int64_t step) {
    int64_t *steps;
    size_t count;
    if (keep <= 0) return TRINE_OK;
    TRY(folder_list(dir, &steps, &count));
    size_t later = 0;
    while (later < count && steps[later] > step) later++;
    trine_status status = remove_old(dir, steps + later, count - later, (size_t)keep);
    free(steps);
    return status;
}
