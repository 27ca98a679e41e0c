#include "ckpt/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/human.h"
#include "base/inside.h"
#include "base/status.h"
#include "ckpt/file.h"
#include "ckpt/manifest.h"

#define NAME_BYTES 96
#define LATEST     ".latest."
#define WRITTEN    "writing"

/* Margin for the folder itself, `latest`, and partly used blocks of the file system. */
#define LITTLE ((uint64_t)1 << 20)

/* ---- Names ---- */

/* A parsed name in DIR: step, kind and token. */
typedef enum { COMMITTED, WRITING, REMOVING, REPLACED, KINDS } name_kind;

typedef struct {
    int64_t step;
    name_kind kind;
    char token[FILE_TOKEN]; /* a committed one, or one of a version without leases */
} step_name;

static const char *const endings[KINDS] = {"", WRITTEN, "removing", "replaced"};

static step_name name_of(int64_t step, name_kind kind, const char *token) {
    step_name n = {.step = step, .kind = kind};
    snprintf(n.token, sizeof n.token, "%s", token);
    return n;
}

static void print_name(char name[NAME_BYTES], step_name n) {
    if (n.kind == COMMITTED)
        snprintf(name, NAME_BYTES, "step-%" PRId64, n.step);
    else
        snprintf(name, NAME_BYTES, ".step-%" PRId64 ".%s%s%s", n.step, n.token,
                 n.token[0] ? "." : "", endings[n.kind]);
}

/* A name is ours if printing it again gives the same name. */
static bool read_name(const char *name, step_name *n) {
    char again[NAME_BYTES], *end;
    bool hidden = name[0] == '.';
    if (strncmp(name + hidden, "step-", 5) != 0) return false;
    *n = (step_name){.step = strtoll(name + hidden + 5, &end, 10)};
    const char *ending = hidden ? file_token_in(end + (*end == '.'), n->token) : "";
    while (n->kind < KINDS && strcmp(ending, endings[n->kind]) != 0) n->kind++;
    if (n->kind == KINDS) return false;
    print_name(again, *n);
    return n->step >= 0 && strcmp(name, again) == 0;
}

int64_t folder_step(const char *name) {
    step_name n;
    return read_name(name, &n) && n.kind == COMMITTED ? n.step : -1;
}

/* Name of this owner's new text of `latest`; is_latest: any owner's. */
static void print_latest(char name[NAME_BYTES], const lease *l) {
    snprintf(name, NAME_BYTES, LATEST "%s." WRITTEN, lease_token(l));
}
static bool is_latest(const char *name) {
    char token[FILE_TOKEN];
    size_t before = strlen(LATEST);
    return strncmp(name, LATEST, before) == 0 &&
           !strcmp(file_token_in(name + before, token), WRITTEN);
}

char *folder_join(const char *folder, const char *name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *folder_path(const char *dir, int64_t step) {
    char name[NAME_BYTES];
    print_name(name, name_of(step, COMMITTED, ""));
    return folder_join(dir, name);
}

char *folder_writing(const char *dir, const char *token, int64_t step) {
    char name[NAME_BYTES];
    print_name(name, name_of(step, WRITING, token));
    return folder_join(dir, name);
}

/* ---- The newest, for people ---- */

static trine_status parse_latest(char *text, size_t bytes, const char *path, int64_t *step) {
    text[bytes] = '\0';
    if (bytes && text[bytes - 1] == '\n') text[bytes - 1] = '\0';
    *step = strlen(text) + 1 >= bytes ? folder_step(text) : -1;
    CHECK(*step >= 0, TRINE_EDATA, "%s does not name a checkpoint, step-N", path);
    return TRINE_OK;
}

trine_status folder_latest(const char *dir, int64_t *step) {
    char *text = NULL, *path = folder_join(dir, "latest");
    size_t bytes = 0;
    *step = -1;
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = TRINE_OK;
    if (inside_has(dir, "latest")) {
        status = inside_text(&text, &bytes, NULL, NAME_BYTES, path);
        if (status == TRINE_OK) status = parse_latest(text, bytes, path, step);
    }
    free(text);
    free(path);
    return status;
}

/* ---- Single steps ---- */

/* Calls a function of file.h with DIR/name. */
static trine_status call_in(const char *dir, const char *name, trine_status (*what)(const char *)) {
    char *path = folder_join(dir, name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = what(path);
    free(path);
    return status;
}

/* Creates the folder and its parents, synced. Modifies `path` temporarily. */
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
    if (status == TRINE_OK) status = file_make_folder(path, &made);
    if (status != TRINE_OK || !made) return status;
    if (above) *slash = '\0';
    status = file_sync_folder(above ? path : slash ? "/" : ".");
    if (above) *slash = '/';
    return status;
}

trine_status folder_make(const char *dir) {
    char *path = strdup(dir);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') path[--end] = '\0';
    trine_status status = make_all(path);
    free(path);
    return status;
}

/* Renames within DIR, and syncs it. */
static trine_status rename_in(const char *dir, const char *from, const char *to) {
    char *a = folder_join(dir, from), *b = folder_join(dir, to);
    trine_status status =
        a && b ? file_rename(a, b) : RAISE(TRINE_ENOMEM, "no memory for a file name");
    if (status == TRINE_OK) status = file_sync_folder(dir);
    free(a);
    free(b);
    return status;
}

trine_status folder_remove(const char *dir, const char *name) {
    return call_in(dir, name, file_remove);
}

static bool look_in(const char *dir, const char *name, struct stat *is) {
    char *path = folder_join(dir, name);
    bool there = path && lstat(path, is) == 0;
    free(path);
    return there;
}

static bool exists(const char *dir, const char *name) {
    struct stat is;
    return look_in(dir, name, &is);
}

/* ---- Listing ---- */

/* Undoes the first of two renames after whose first the job was killed (file systems without
 * exchange). */
static trine_status restore_replaced(void *context, const char *dir, const char *name) {
    char committed[NAME_BYTES];
    step_name n;
    (void)context;
    if (!read_name(name, &n) || n.kind != REPLACED) return TRINE_OK;
    print_name(committed, name_of(n.step, COMMITTED, ""));
    if (exists(dir, committed)) return TRINE_OK;
    trine_status status = rename_in(dir, name, committed);
    if (status != TRINE_OK && exists(dir, committed)) { /* another rank did it */
        status_clear();
        return TRINE_OK;
    }
    CHECK(status == TRINE_OK, TRINE_EIO,
          "%s/%s is a complete checkpoint whose replacement was interrupted, and it cannot be "
          "renamed to %s here; rename it first",
          dir, name, committed);
    return TRINE_OK;
}

typedef struct {
    int64_t *steps;
    size_t count, capacity;
} step_list;

/* A name that cannot be accessed, or is a link to offline storage, counts as a checkpoint: opening
 * it reports the reason. If it were left out, a run would start from scratch. */
static bool is_not_folder(const char *dir, const char *name) {
    struct stat is;
    char *path = folder_join(dir, name);
    bool other = path && stat(path, &is) == 0 && !S_ISDIR(is.st_mode);
    free(path);
    return other;
}

static trine_status add_step(void *context, const char *dir, const char *name) {
    step_list *list = context;
    step_name n;
    if (!read_name(name, &n) || n.kind != COMMITTED || is_not_folder(dir, name)) return TRINE_OK;
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 16;
        int64_t *more = realloc(list->steps, capacity * sizeof *more);
        CHECK(more, TRINE_ENOMEM, "no memory for a list of checkpoints");
        list->steps = more;
        list->capacity = capacity;
    }
    list->steps[list->count++] = n.step;
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
    TRY(file_each(dir, restore_replaced, NULL));
    trine_status status = file_each(dir, add_step, &list);
    if (status != TRINE_OK) {
        free(list.steps);
        return status;
    }
    if (list.count) qsort(list.steps, list.count, sizeof *list.steps, newer_first);
    *steps = list.steps;
    *count = list.count;
    return TRINE_OK;
}

/* ---- Names that a save needs ---- */

static trine_status check_name(void *context, const char *dir, const char *name) {
    struct stat is;
    (void)context;
    bool latest = !strcmp(name, "latest"), step = folder_step(name) >= 0;
    CHECK(!latest || !look_in(dir, name, &is) || !S_ISDIR(is.st_mode), TRINE_EINVAL,
          "%s/latest: is a folder, and a save writes a file of this name; rename or remove it",
          dir);
    CHECK(!step || !is_not_folder(dir, name), TRINE_EINVAL,
          "%s/%s: is not a folder, and a save makes folders of such names; rename or remove it",
          dir, name);
    return TRINE_OK;
}

trine_status folder_check(const char *dir) {
    return file_each(dir, check_name, NULL);
}

/* ---- Leftovers of earlier owners ---- */

typedef struct {
    char (*names)[NAME_BYTES];
    size_t count, capacity;
} name_list;

static trine_status add_leftover(void *context, const char *dir, const char *name) {
    name_list *list = context;
    step_name n;
    (void)dir;
    if (!is_latest(name) && (!read_name(name, &n) || n.kind == COMMITTED)) return TRINE_OK;
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 16;
        void *more = realloc(list->names, capacity * sizeof *list->names);
        CHECK(more, TRINE_ENOMEM, "no memory for a list of files");
        list->names = more;
        list->capacity = capacity;
    }
    snprintf(list->names[list->count++], NAME_BYTES, "%s", name);
    return TRINE_OK;
}

/* What was listed while the lease is held belongs to this owner or an earlier one. */
static trine_status list_leftovers(lease *l, name_list *list) {
    *list = (name_list){0};
    TRY(file_each(lease_dir(l), add_leftover, list));
    return lease_check(l);
}

/* Renames an entry so that its owner can no longer publish it and no process takes it for complete: its
 * name says that it is being removed. Updates the entry to the name to remove. */
static trine_status unpublish(const char *dir, char name[NAME_BYTES]) {
    step_name n;
    if (!read_name(name, &n) || n.kind == REMOVING) return TRINE_OK;
    char removing[NAME_BYTES];
    print_name(removing, name_of(n.step, REMOVING, n.token));
    TRY(folder_remove(dir, removing));
    TRY(rename_in(dir, name, removing));
    snprintf(name, NAME_BYTES, "%s", removing);
    return TRINE_OK;
}

static trine_status take_all(lease *l, name_list *list) {
    TRY(list_leftovers(l, list));
    for (size_t i = 0; i < list->count; i++) {
        step_name n;
        if (!read_name(list->names[i], &n) || n.kind != WRITING || !n.token[0]) continue;
        trine_status status = unpublish(lease_dir(l), list->names[i]);
        if (status == TRINE_OK) continue;
        if (exists(lease_dir(l), list->names[i])) return status;
        status_clear(); /* its owner has published or abandoned it */
    }
    return TRINE_OK;
}

trine_status folder_take(lease *l) {
    name_list list;
    trine_status status = take_all(l, &list);
    free(list.names);
    return status;
}

static trine_status remove_leftovers(lease *l) {
    name_list list;
    trine_status status = list_leftovers(l, &list);
    for (size_t i = 0; i < list.count && status == TRINE_OK; i++) {
        /* What cannot be removed only takes space, which is checked next. */
        if (unpublish(lease_dir(l), list.names[i]) != TRINE_OK ||
            folder_remove(lease_dir(l), list.names[i]) != TRINE_OK)
            status_clear();
    }
    free(list.names);
    return status;
}

/* ---- Beginning ---- */

static trine_status check_space(const char *dir, uint64_t need) {
    struct statvfs at;
    char has[HUMAN_SIZE], wants[HUMAN_SIZE], beside[HUMAN_SIZE];
    CHECK(statvfs(dir, &at) == 0, TRINE_EIO, "%s: %s", dir, strerror(errno));
    uint64_t available = (uint64_t)at.f_bavail * at.f_frsize;
    CHECK(need + LITTLE <= available, TRINE_EIO,
          "%s: not enough space for a checkpoint: it needs %" PRIu64
          " bytes (%s) plus a margin of %s, %" PRIu64 " (%s) are free",
          dir, need, human_bytes(wants, need), human_bytes(beside, LITTLE), available,
          human_bytes(has, available));
    return TRINE_OK;
}

trine_status folder_try(lease *l, int64_t step, uint64_t need) {
    bool made;
    TRY(lease_check(l));
    TRY(check_space(lease_dir(l), need));
    char *path = folder_writing(lease_dir(l), lease_token(l), step);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    trine_status status = file_make_folder(path, &made);
    free(path);
    return status;
}

trine_status folder_begin(lease *l, int64_t step, uint64_t need) {
    TRY(lease_check(l));
    TRY(file_each(lease_dir(l), restore_replaced, NULL));
    TRY(remove_leftovers(l));
    return folder_try(l, step, need);
}

void folder_abandon(const lease *l, int64_t step) {
    char *path = folder_writing(lease_dir(l), lease_token(l), step);
    if (path) file_discard(path);
    free(path);
}

/* ---- Publishing ---- */

/* Exchanges two names in one call; *done is false if that is not supported. */
static trine_status exchange(const char *dir, const char *a, const char *b, bool *done) {
    char *from = folder_join(dir, a), *to = folder_join(dir, b);
    *done = false;
    trine_status status = from && to ? file_exchange(from, to, done)
                                     : RAISE(TRINE_ENOMEM, "no memory for a file name");
    free(from);
    free(to);
    return status;
}

/* The same by two renames. Between them a reader may restore `old` (restore_replaced): retry. */
static trine_status rename_twice(const char *dir, const char *writing, const char *committed,
                                 const char *old) {
    trine_status status;
    int tries = 0;
    do {
        TRY(rename_in(dir, committed, old));
        status = rename_in(dir, writing, committed);
    } while (status != TRINE_OK && exists(dir, committed) && exists(dir, writing) && ++tries < 10);
    return status;
}

/* Replaces the existing `committed` with `writing` and removes the old one; if that fails the next
 * folder_begin retries. On error the old one keeps its name, or gets it back: under the name of
 * `writing` it would be removed. */
static trine_status replace(const char *dir, const char *writing, const char *committed,
                            const char *replaced) {
    const char *old = writing;
    bool done, back;
    TRY(exchange(dir, writing, committed, &done));
    if (done) {
        trine_status status = file_sync_folder(dir);
        if (status != TRINE_OK) TRY(exchange(dir, writing, committed, &back));
        TRY(status);
    } else {
        old = replaced;
        TRY(rename_twice(dir, writing, committed, old));
    }
    if (folder_remove(dir, old) != TRINE_OK) status_clear();
    return TRINE_OK;
}

static trine_status write_text(const char *path, const char *text) {
    TRY(file_remove(path));
    return file_put(path, text, strlen(text));
}

/* Atomic: readers of `latest` see the old text or the new one. */
static trine_status write_latest(const lease *l, const char *committed) {
    char text[NAME_BYTES + 1], name[NAME_BYTES];
    print_latest(name, l);
    char *path = folder_join(lease_dir(l), name);
    CHECK(path, TRINE_ENOMEM, "no memory for a file name");
    snprintf(text, sizeof text, "%s\n", committed);
    trine_status status = write_text(path, text);
    free(path);
    TRY(status);
    return rename_in(lease_dir(l), name, "latest");
}

/* Checks that the folder is the one that was published. Another one belongs to another owner, which
 * the check of the lease finds, or to a process that does not use leases. */
static trine_status check_published(const char *dir, const char *committed,
                                    const struct stat *made) {
    struct stat is = {0};
    bool there = look_in(dir, committed, &is);
    CHECK(there && is.st_dev == made->st_dev && is.st_ino == made->st_ino, TRINE_EIO,
          "%s/%s is not the checkpoint that was just saved; another process writes to the folder "
          "without holding its lease",
          dir, committed);
    return TRINE_OK;
}

/* What is no folder is no checkpoint, and not replaced by one. */
static trine_status check_replaced(const char *path) {
    struct stat is;
    CHECK(stat(path, &is) || S_ISDIR(is.st_mode), TRINE_EIO,
          "%s: is not a folder, and so not replaced by a checkpoint; rename or remove it", path);
    return TRINE_OK;
}

static trine_status publish(lease *l, const char *writing, const char *committed,
                            const char *replaced) {
    const char *dir = lease_dir(l);
    struct stat made;
    TRY(call_in(dir, writing, file_sync_folder));
    CHECK(look_in(dir, writing, &made), TRINE_EIO, "%s/%s: %s", dir, writing, strerror(errno));
    TRY(lease_check(l));
    TRY(call_in(dir, committed, check_replaced));
    if (exists(dir, committed))
        TRY(replace(dir, writing, committed, replaced));
    else
        TRY(rename_in(dir, writing, committed));
    TRY(lease_check(l));
    TRY(write_latest(l, committed));
    TRY(check_published(dir, committed, &made));
    return lease_check(l);
}

/* Reports a failure that a new owner of the folder has caused as TRINE_EBUSY. */
static trine_status report_new_owner(lease *l, trine_status status) {
    char cause[2048];
    if (status == TRINE_OK || status == TRINE_EBUSY) return status;
    snprintf(cause, sizeof cause, "%s", status_message());
    if (lease_check(l) == TRINE_EBUSY) return TRINE_EBUSY;
    return RAISE(status, "%s", cause);
}

trine_status folder_publish(lease *l, int64_t step) {
    char writing[NAME_BYTES], committed[NAME_BYTES], replaced[NAME_BYTES];
    print_name(writing, name_of(step, WRITING, lease_token(l)));
    print_name(committed, name_of(step, COMMITTED, ""));
    print_name(replaced, name_of(step, REPLACED, lease_token(l)));
    return report_new_owner(l, publish(l, writing, committed, replaced));
}

/* ---- Cleaning ---- */

static trine_status remove_committed(lease *l, int64_t step) {
    char committed[NAME_BYTES], removing[NAME_BYTES];
    print_name(committed, name_of(step, COMMITTED, ""));
    print_name(removing, name_of(step, REMOVING, lease_token(l)));
    TRY(folder_remove(lease_dir(l), removing));
    TRY(lease_check(l));
    TRY(rename_in(lease_dir(l), committed, removing));
    return folder_remove(lease_dir(l), removing);
}

/* Oldest first: an interruption at any time leaves the newest. */
static trine_status remove_old(lease *l, const int64_t *steps, size_t count, size_t keep) {
    for (size_t i = count; i-- > keep;) TRY(remove_committed(l, steps[i]));
    return TRINE_OK;
}

/* Keeps in the list the steps without CKPT_KEEP_FILE; what cannot be seen is taken to have one. */
static trine_status drop_marked(const char *dir, int64_t *steps, size_t *count) {
    size_t all = *count;
    *count = 0;
    for (size_t i = 0; i < all; i++) {
        char committed[NAME_BYTES], inside[NAME_BYTES + sizeof "/" CKPT_KEEP_FILE];
        print_name(committed, name_of(steps[i], COMMITTED, ""));
        snprintf(inside, sizeof inside, "%s/" CKPT_KEEP_FILE, committed);
        char *path = folder_join(dir, inside);
        CHECK(path, TRINE_ENOMEM, "no memory for a file name");
        bool marked = access(path, F_OK) == 0 || errno != ENOENT;
        free(path);
        if (!marked) steps[(*count)++] = steps[i];
    }
    return TRINE_OK;
}

trine_status folder_clean(lease *l, int keep, int64_t step) {
    int64_t *steps;
    size_t count;
    if (keep <= 0) return TRINE_OK;
    TRY(folder_list(lease_dir(l), &steps, &count));
    size_t later = 0;
    while (later < count && steps[later] > step) later++;
    count -= later;
    trine_status status = drop_marked(lease_dir(l), steps + later, &count);
    if (status == TRINE_OK) status = remove_old(l, steps + later, count, (size_t)keep);
    free(steps);
    return report_new_owner(l, status);
}
