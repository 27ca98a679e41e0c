#include "corpus/token_shards.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "data/shard_names.h"

#define MOST_FILES 1000000 /* six digits */

/* ---- Names ---- */

static bool is_single(const shards *s) {
    return s->files <= 1 && !s->numbered;
}

void shards_path(const shards *s, size_t file, char path[SHARD_PATH]) {
    if (is_single(s))
        snprintf(path, SHARD_PATH, "%s.bin", s->stem);
    else
        snprintf(path, SHARD_PATH, "%s_%06zu.bin", s->stem, file);
}

/* What the folder of a stem has of it. */
typedef struct {
    const char *base;        /* the stem without its folder */
    char folder[SHARD_PATH]; /* with a slash at its end */
    char found[SHARD_PATH];  /* the first of an earlier run's numbered files; "": none */
} stem_folder;

static trine_status each_of(stem_folder *f, void (*visit)(stem_folder *, const char *)) {
    DIR *all = opendir(f->folder);
    CHECK(all, TRINE_EIO, "%s: %s", f->folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(all));) visit(f, entry->d_name);
    closedir(all);
    return TRINE_OK;
}

static void find_shard(stem_folder *f, const char *name) {
    if (shard_name_is(name, f->base, strlen(f->base)) &&
        (!f->found[0] || strcmp(name, f->found) < 0))
        snprintf(f->found, sizeof f->found, "%s", name);
}

static void remove_left(stem_folder *f, const char *name) {
    char path[2 * SHARD_PATH];
    if (!shard_name_is_left(name, f->base, strlen(f->base), false)) return;
    snprintf(path, sizeof path, "%s%s", f->folder, name);
    unlink(path);
}

static trine_status look_at(stem_folder *f, const char *stem) {
    const char *slash = strrchr(stem, '/');
    int length = slash ? (int)(slash - stem + 1) : 0;
    f->base = stem + length;
    f->found[0] = '\0';
    snprintf(f->folder, sizeof f->folder, "%.*s", length ? length : 2, length ? stem : "./");
    return each_of(f, find_shard);
}

/* The shards of a killed program that gave some of them their names stay until these are removed: they show a reader
 * (data/tokens.h) that files are missing. */
static trine_status check_folder(const char *stem) {
    stem_folder f;
    TRY(look_at(&f, stem));
    CHECK(!f.found[0], TRINE_EINVAL,
          "%.*s%s is from an earlier run, and would be read together with the new files; remove "
          "%s_*.bin, or choose another --out",
          (int)(f.base - stem), stem, f.found, stem);
    return each_of(&f, remove_left);
}

/* Numbered files are not to meet STEM.bin. */
static trine_status check_unnumbered(const shards *s) {
    char path[SHARD_PATH];
    snprintf(path, sizeof path, "%s.bin", s->stem);
    CHECK(access(path, F_OK), TRINE_EINVAL,
          "%s is from an earlier run, and would be read together with the new files; remove it, or "
          "choose another --out",
          path);
    return TRINE_OK;
}

static trine_status make_stem(char *stem, size_t size, const char *prefix, const char *name) {
    CHECK(snprintf(stem, size, "%s_%s", prefix, name) < (int)size, TRINE_EINVAL,
          "the output name is too long; use a shorter --out");
    return TRINE_OK;
}

trine_status shards_expect_none(const char *prefix, const char *name, const char *why) {
    char stem[SHARD_PATH - 64], path[2 * SHARD_PATH];
    stem_folder f;
    TRY(make_stem(stem, sizeof stem, prefix, name));
    TRY(look_at(&f, stem));
    if (f.found[0])
        snprintf(path, sizeof path, "%.*s%s", (int)(f.base - stem), stem, f.found);
    else
        snprintf(path, sizeof path, "%s.bin", stem);
    CHECK(access(path, F_OK), TRINE_EINVAL,
          "%s is from an earlier run, and %s; remove %s*.bin, or choose another --out", path, why,
          stem);
    return each_of(&f, remove_left);
}

trine_status shards_open(shards *s, const char *prefix, const char *name) {
    TRY(make_stem(s->stem, sizeof s->stem, prefix, name));
    TRY(check_folder(s->stem));
    return s->numbered ? check_unnumbered(s) : TRINE_OK;
}

/* ---- Writing ---- */

static trine_status next_file(shards *s) {
    char path[SHARD_PATH];
    CHECK(s->files < MOST_FILES, TRINE_EINVAL,
          "%s: more than %d files; use a larger --shard-tokens", s->stem, MOST_FILES);
    if (s->files == 1) TRY(check_unnumbered(s));
    s->files++;
    shards_path(s, s->files - 1, path);
    TRY(s->window ? windows_writer_open_shard(&s->writer, path, s->window, s->vocab, s->hash)
                  : tokens_writer_open_shard(&s->writer, path, s->vocab, s->hash));
    s->in_file = 0;
    return TRINE_OK;
}

static trine_status reserve(shards *s) {
    if (s->complete_count < s->capacity) return TRINE_OK;
    size_t capacity = 2 * s->capacity + 1;
    whole_file **complete = realloc(s->complete, capacity * sizeof *complete);
    CHECK(complete, TRINE_ENOMEM, "no memory for %zu files", capacity);
    s->complete = complete;
    s->capacity = capacity;
    return TRINE_OK;
}

trine_status shards_complete(shards *s) {
    if (!s->writer) return TRINE_OK;
    TRY(reserve(s));
    TRY(tokens_writer_complete(&s->writer, &s->complete[s->complete_count]));
    s->complete_count++;
    return TRINE_OK;
}

trine_status shards_add(shards *s, const int32_t *ids, size_t count) {
    while (count) {
        if (s->writer && s->in_file == s->limit) TRY(shards_complete(s));
        if (!s->writer) TRY(next_file(s));
        uint64_t room = s->limit - s->in_file;
        size_t now = count < room ? count : (size_t)room;
        TRY(tokens_writer_add(s->writer, ids, now));
        s->in_file += now;
        s->tokens += now;
        ids += now;
        count -= now;
    }
    return TRINE_OK;
}

trine_status shards_add_window(shards *s, const int32_t *ids, const uint8_t *flags) {
    bool full = s->writer && s->in_file + s->window > s->limit;
    if (full) TRY(shards_complete(s));
    if (!s->writer) TRY(next_file(s));
    TRY(tokens_writer_add_window(s->writer, ids, flags));
    s->in_file += s->window;
    s->tokens += s->window;
    return TRINE_OK;
}

static trine_status publish(shards *s) {
    char path[SHARD_PATH];
    for (; s->published < s->complete_count; s->published++) {
        shards_path(s, s->published, path);
        TRY(whole_file_publish(&s->complete[s->published], path));
    }
    return s->published ? whole_file_sync_folder(s->stem) : TRINE_OK;
}

trine_status shards_publish(shards *s) {
    trine_status status = publish(s);
    if (status != TRINE_OK) shards_withdraw(s);
    return status;
}

void shards_withdraw(shards *s) {
    char path[SHARD_PATH];
    for (; s->published; s->published--) {
        shards_path(s, s->published - 1, path);
        unlink(path);
    }
}

void shards_discard(shards *s) {
    tokens_writer_discard(&s->writer);
    for (size_t i = 0; i < s->complete_count; i++) whole_file_abandon(&s->complete[i]);
    free(s->complete);
    s->complete = NULL;
    s->complete_count = s->capacity = 0;
}
