#include "ckpt/making.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ending.h"
#include "base/status.h"
#include "ckpt/file.h"

#define ENDING "writing"

/* ---- Names ---- */

/* `out` without trailing slashes, owned by the caller. */
static trine_status trim(char **name, making_kind kind, const char *out) {
    size_t length = strlen(out);
    while (length > 1 && out[length - 1] == '/') length--;
    CHECK(length && strcmp(out, "/"), TRINE_EINVAL, "\"%s\" is not a valid name for a new %s", out,
          kind == MAKING_FOLDER ? "folder" : "file");
    *name = strndup(out, length);
    CHECK(*name, TRINE_ENOMEM, "no memory for a path");
    return TRINE_OK;
}

static trine_status parent_of(char **parent, const char *path) {
    const char *slash = strrchr(path, '/');
    *parent = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    CHECK(*parent, TRINE_ENOMEM, "no memory for a path");
    return TRINE_OK;
}

static bool is_empty(const char *folder) {
    DIR *d = opendir(folder);
    int found = 0;
    while (d && readdir(d)) found++; /* includes "." and ".." */
    if (d) closedir(d);
    return d && found <= 2;
}

/* Only an empty folder of that name may be replaced by the rename. */
static trine_status expect_free(const making *m) {
    struct stat st;
    if (lstat(m->out, &st)) {
        CHECK(errno == ENOENT, TRINE_EIO, "%s: %s", m->out, strerror(errno));
        return TRINE_OK;
    }
    CHECK(m->kind == MAKING_FOLDER, TRINE_EIO, "%s already exists; name a new file", m->out);
    CHECK(S_ISDIR(st.st_mode) && is_empty(m->out), TRINE_EIO,
          "%s already exists; name a new or empty folder", m->out);
    return TRINE_OK;
}

trine_status making_begin(making *m, making_kind kind, const char *out) {
    char token[FILE_TOKEN];
    *m = (making){.kind = kind};
    TRY(trim(&m->out, kind, out));
    TRY(file_token(token));
    size_t size = strlen(m->out) + sizeof token + sizeof "." ENDING;
    m->now = malloc(size);
    CHECK(m->now, TRINE_ENOMEM, "no memory for a path");
    snprintf(m->now, size, "%s.%s." ENDING, m->out, token);
    return expect_free(m);
}

void making_free(making *m) {
    free(m->out);
    free(m->now);
    *m = (making){.kind = m->kind};
}

/* ---- Appearing ---- */

static trine_status sync_parent(const char *path) {
    char *parent;
    TRY(parent_of(&parent, path));
    trine_status status = file_sync_folder(parent);
    free(parent);
    return status;
}

trine_status making_publish(const making *m) {
    ending_hold();
    trine_status status = expect_free(m); /* another export may have been faster */
    if (status == TRINE_OK) status = file_rename(m->now, m->out);
    if (status == TRINE_OK) ending_done();
    ending_release();
    TRY(status);
    return sync_parent(m->out);
}

/* ---- Leftovers of other exports ---- */

typedef struct {
    const char *name; /* base name of OUT */
    FILE *to;
} leftovers;

static trine_status report_leftover(void *context, const char *folder, const char *name) {
    const leftovers *l = context;
    char token[FILE_TOKEN];
    size_t length = strlen(l->name);
    if (strncmp(name, l->name, length) != 0 || name[length] != '.') return TRINE_OK;
    bool ours = strcmp(file_token_in(name + length + 1, token), ENDING) == 0 && token[0];
    if (ours)
        fprintf(l->to,
                "%s/%s is left over from an interrupted export, or belongs to one in progress; "
                "remove it if none is running\n",
                folder, name);
    return TRINE_OK;
}

trine_status making_leftovers(const char *out, FILE *to) {
    char *name, *folder = NULL;
    TRY(trim(&name, MAKING_FOLDER, out));
    trine_status status = parent_of(&folder, name);
    const char *slash = strrchr(name, '/');
    leftovers l = {slash ? slash + 1 : name, to};
    if (status == TRINE_OK) status = file_each(folder, report_leftover, &l);
    free(folder);
    free(name);
    return status;
}
