#include "corpus/token_shards.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ending.h"
#include "base/status.h"

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

static void complete_path(const shards *s, size_t file, char path[SHARD_PATH]) {
    snprintf(path, SHARD_PATH, "%s_%06zu.bin.shard", s->stem, file);
}

/* Whether `name` is BASE_NNNNNN.bin. */
static bool is_shard(const char *name, const char *base) {
    size_t length = strlen(base);
    if (strncmp(name, base, length) || name[length] != '_') return false;
    name += length + 1;
    return strspn(name, "0123456789") == 6 && !strcmp(name + 6, ".bin");
}

/* The first of an earlier run's numbered files; "" if there is none. */
static trine_status find_shard(const char *folder, const char *base, char found[SHARD_PATH]) {
    DIR *all = opendir(folder);
    CHECK(all, TRINE_EIO, "%s: %s", folder, strerror(errno));
    found[0] = '\0';
    for (struct dirent *entry; (entry = readdir(all));)
        if (is_shard(entry->d_name, base) && (!found[0] || strcmp(entry->d_name, found) < 0))
            snprintf(found, SHARD_PATH, "%s", entry->d_name);
    closedir(all);
    return TRINE_OK;
}

static trine_status check_folder(const char *stem) {
    char folder[SHARD_PATH], found[SHARD_PATH];
    const char *slash = strrchr(stem, '/'), *base = slash ? slash + 1 : stem;
    int length = slash ? (int)(slash - stem + 1) : 0;
    snprintf(folder, sizeof folder, "%.*s", length ? length : 1, length ? stem : ".");
    TRY(find_shard(folder, base, found));
    CHECK(!found[0], TRINE_EINVAL,
          "%.*s%s is from an earlier run, and would be read together with the new files; remove "
          "%s_*.bin, or choose another --out",
          length, stem, found, stem);
    return TRINE_OK;
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

trine_status shards_open(shards *s, const char *prefix, const char *name) {
    int length = snprintf(s->stem, sizeof s->stem, "%s_%s", prefix, name);
    CHECK(length < (int)sizeof s->stem, TRINE_EINVAL,
          "the output name is too long; use a shorter --out");
    TRY(check_folder(s->stem));
    return s->numbered ? check_unnumbered(s) : TRINE_OK;
}

/* ---- Writing ---- */

static trine_status next_file(shards *s) {
    char path[SHARD_PATH];
    CHECK(s->files < MOST_FILES, TRINE_EINVAL,
          "%s: more than %d files; use a larger --shard-tokens", s->stem, MOST_FILES);
    if (s->files == 1) TRY(check_unnumbered(s));
    complete_path(s, s->files, path);
    ending_add(path);
    TRY(tokens_writer_open(&s->writer, path, s->vocab, s->hash));
    s->files++;
    s->in_file = 0;
    return TRINE_OK;
}

trine_status shards_complete(shards *s) {
    if (!s->writer) return TRINE_OK;
    TRY(tokens_writer_close(&s->writer));
    s->complete++;
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

trine_status shards_publish(shards *s) {
    for (; s->published < s->complete; s->published++) {
        char from[SHARD_PATH], to[SHARD_PATH];
        complete_path(s, s->published, from);
        shards_path(s, s->published, to);
        CHECK(!rename(from, to), TRINE_EIO, "%s: %s", to, strerror(errno));
        ending_drop(from);
    }
    return TRINE_OK;
}

void shards_discard(shards *s) {
    tokens_writer_discard(&s->writer);
    for (; s->published < s->complete; s->published++) {
        char path[SHARD_PATH];
        complete_path(s, s->published, path);
        unlink(path);
        ending_drop(path);
    }
}
