#include "corpus/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* ---- Names ---- */

static bool drop_suffix(const char *name, size_t *length, const char *suffix) {
    size_t n = strlen(suffix);
    if (*length <= n || memcmp(name + *length - n, suffix, n)) return false;
    *length -= n;
    return true;
}

static bool names_lines(const char *path) {
    size_t length = strlen(path);
    if (!drop_suffix(path, &length, ".gz")) (void)drop_suffix(path, &length, ".zst");
    return drop_suffix(path, &length, ".jsonl") || drop_suffix(path, &length, ".ndjson");
}

/* ---- The list ---- */

/* Takes `path` over, also after an error. */
static trine_status add_file(inputs *in, char *path, bool lines) {
    if (in->count == in->capacity) {
        size_t capacity = 2 * in->capacity + 16;
        input_file *files = realloc(in->files, capacity * sizeof *files);
        if (!files) free(path);
        CHECK(files, TRINE_ENOMEM, "no memory for a list of files");
        in->files = files;
        in->capacity = capacity;
    }
    in->files[in->count++] = (input_file){path, lines || names_lines(path)};
    return TRINE_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static trine_status add_folder(inputs *in, const char *path, bool lines);

static trine_status add_entry(inputs *in, const char *folder, const char *name, bool lines) {
    size_t length = strlen(folder);
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";
    char *path;
    CHECK(asprintf(&path, "%s%s%s", folder, slash, name) >= 0, TRINE_ENOMEM,
          "no memory for a file name");
    struct stat link, is;
    bool there = !lstat(path, &link) && !stat(path, &is);
    trine_status status = TRINE_OK;
    if (there && S_ISREG(is.st_mode) && !access(path, R_OK)) {
        in->bytes += (uint64_t)is.st_size;
        return add_file(in, path, lines);
    }
    if (there && S_ISDIR(link.st_mode))
        status = add_folder(in, path, lines);
    else if (!there || S_ISREG(is.st_mode))
        status = RAISE(TRINE_EIO, "%s: %s", path, strerror(errno));
    free(path);
    return status;
}

static trine_status add_folder(inputs *in, const char *path, bool lines) {
    struct dirent **entries;
    int count = scandir(path, &entries, shown, by_name);
    CHECK(count >= 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    trine_status status = TRINE_OK;
    for (int i = 0; i < count; i++) {
        if (status == TRINE_OK) status = add_entry(in, path, entries[i]->d_name, lines);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static trine_status add_path(inputs *in, const char *path, bool lines) {
    struct stat is;
    size_t before = in->count;
    bool standard = !strcmp(path, "-");
    CHECK(standard || !stat(path, &is), TRINE_EIO, "%s: %s", path, strerror(errno));
    if (!standard && S_ISDIR(is.st_mode)) {
        TRY(add_folder(in, path, lines));
        CHECK(in->count > before, TRINE_EDATA, "%s: a folder without files", path);
        return TRINE_OK;
    }
    CHECK(standard || !access(path, R_OK), TRINE_EIO, "%s: %s", path, strerror(errno));
    if (standard || !S_ISREG(is.st_mode))
        in->sized = false;
    else
        in->bytes += (uint64_t)is.st_size;
    char *copy = strdup(path);
    CHECK(copy, TRINE_ENOMEM, "no memory for a file name");
    return add_file(in, copy, lines);
}

trine_status inputs_list(inputs *in, const char *const *paths, size_t count, bool lines) {
    *in = (inputs){.sized = true};
    for (size_t i = 0; i < count; i++) TRY(add_path(in, paths[i], lines));
    return TRINE_OK;
}

void inputs_free(inputs *in) {
    for (size_t i = 0; i < in->count; i++) free(in->files[i].path);
    free(in->files);
    *in = (inputs){0};
}

const char *inputs_find(const inputs *in, const struct stat *is) {
    for (size_t i = 0; i < in->count; i++) {
        struct stat file;
        const char *path = in->files[i].path;
        if (strcmp(path, "-") && !stat(path, &file) && file.st_dev == is->st_dev &&
            file.st_ino == is->st_ino)
            return path;
    }
    return NULL;
}
