#include "data/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "data/format.h"

typedef struct {
    char *path;
    const unsigned char *map; /* the whole file */
    size_t bytes;
    uint64_t count;
    size_t width; /* bytes a token */
    uint32_t vocab;
} shard;

struct tokens {
    char *path; /* as the user gave it */
    shard *shards;
    size_t shard_count;
    uint64_t count;
};

/* ---- Opening ---- */

static trine_status check_header(shard *s) {
    int32_t header[FORMAT_HEADER];
    CHECK(s->bytes >= sizeof header, TRINE_EDATA,
          "%s: %zu bytes are too few for the header of %zu bytes of a token file", s->path,
          s->bytes, sizeof header);
    memcpy(header, s->map, sizeof header);
    const token_format *f = format_of(header[0]);
    CHECK(f, TRINE_EDATA, "%s: magic %d is not a token file's (%d: uint16, %d: uint32)", s->path,
          header[0], FORMAT_U16.magic, FORMAT_U32.magic);
    CHECK(header[1] == f->version, TRINE_EDATA, "%s: version %d; files of magic %d have version %d",
          s->path, header[1], f->magic, f->version);
    CHECK(header[2] > 0, TRINE_EDATA, "%s: the header names %d tokens", s->path, header[2]);
    CHECK(header[3] >= 0, TRINE_EDATA, "%s: the header names a vocabulary of %d", s->path,
          header[3]);
    s->width = f->width;
    s->count = (uint64_t)header[2];
    s->vocab = (uint32_t)header[3];
    uint64_t expected = sizeof header + s->count * s->width;
    CHECK(s->bytes >= expected, TRINE_EDATA,
          "%s: truncated: %zu bytes, but the header's %" PRIu64 " tokens need %" PRIu64, s->path,
          s->bytes, s->count, expected);
    CHECK(s->bytes == expected, TRINE_EDATA,
          "%s: %" PRIu64 " bytes behind the header's %" PRIu64 " tokens", s->path,
          (uint64_t)s->bytes - expected, s->count);
    return TRINE_OK;
}

static trine_status map_file(shard *s) {
    /* Without O_NONBLOCK a pipe would be waited for here, instead of being refused below. */
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    CHECK(fd >= 0, TRINE_EIO, "%s: %s", s->path, strerror(errno));
    struct stat info;
    bool regular = !fstat(fd, &info) && S_ISREG(info.st_mode);
    s->bytes = regular ? (size_t)info.st_size : 0;
    void *map = s->bytes ? mmap(NULL, s->bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    int error = errno;
    close(fd);
    CHECK(regular, TRINE_EIO, "%s: not a file", s->path);
    CHECK(s->bytes, TRINE_EDATA, "%s: the file is empty", s->path);
    CHECK(map != MAP_FAILED, TRINE_EIO, "%s: %s", s->path, strerror(error));
    s->map = map;
    return TRINE_OK;
}

static trine_status open_shard(shard *s, const char *path) {
    s->path = strdup(path);
    CHECK(s->path, TRINE_ENOMEM, "no memory for a file name");
    TRY(map_file(s));
    return check_header(s);
}

static trine_status open_shards(tokens *t, const char *path, const glob_t *files) {
    t->path = strdup(path);
    t->shards = calloc(files->gl_pathc, sizeof *t->shards);
    CHECK(t->path && t->shards, TRINE_ENOMEM, "no memory for %zu token files", files->gl_pathc);
    for (size_t i = 0; i < files->gl_pathc; i++) {
        t->shard_count++;
        TRY(open_shard(&t->shards[i], files->gl_pathv[i]));
        t->count += t->shards[i].count;
    }
    return TRINE_OK;
}

trine_status tokens_open(tokens **out, const char *path) {
    *out = NULL;
    glob_t files;
    int found = glob(path, 0, NULL, &files);
    CHECK(found != GLOB_NOMATCH, TRINE_EIO, "%s: no such file", path);
    CHECK(!found, TRINE_EIO, "%s: cannot be read", path);
    tokens *t = calloc(1, sizeof *t);
    trine_status status =
        t ? open_shards(t, path, &files) : RAISE(TRINE_ENOMEM, "no memory for a token source");
    globfree(&files);
    if (status != TRINE_OK) tokens_close(&t);
    *out = t;
    return status;
}

void tokens_close(tokens **t) {
    if (!*t) return;
    for (size_t i = 0; i < (*t)->shard_count; i++) {
        shard *s = &(*t)->shards[i];
        if (s->map) munmap((void *)s->map, s->bytes);
        free(s->path);
    }
    free((*t)->shards);
    free((*t)->path);
    free(*t);
    *t = NULL;
}

/* ---- Reading ---- */

uint64_t tokens_count(const tokens *t) {
    return t->count;
}

const char *tokens_path(const tokens *t) {
    return t->path;
}

bool tokens_has_file(const tokens *t, const char *path) {
    struct stat asked, own;
    if (stat(path, &asked)) return false;
    for (size_t i = 0; i < t->shard_count; i++)
        if (!stat(t->shards[i].path, &own) && own.st_dev == asked.st_dev &&
            own.st_ino == asked.st_ino)
            return true;
    return false;
}

static size_t offset_of(const shard *s, uint64_t i) {
    return FORMAT_HEADER * sizeof(int32_t) + (size_t)i * s->width;
}

static uint32_t token_at(const shard *s, uint64_t i) {
    uint16_t narrow;
    uint32_t wide;
    if (s->width == sizeof narrow) {
        memcpy(&narrow, s->map + offset_of(s, i), sizeof narrow);
        return narrow;
    }
    memcpy(&wide, s->map + offset_of(s, i), sizeof wide);
    return wide;
}

static trine_status read_shard(const shard *s, uint64_t first, size_t count, int32_t *out,
                               uint32_t vocab) {
    for (size_t i = 0; i < count; i++) {
        uint32_t id = token_at(s, first + i);
        CHECK(id < vocab, TRINE_EDATA,
              "%s: token %" PRIu64 " (byte %zu) is %" PRIu32 ", beyond the vocabulary of %" PRIu32,
              s->path, first + i, offset_of(s, first + i), id, vocab);
        out[i] = (int32_t)id;
    }
    return TRINE_OK;
}

trine_status tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out,
                         uint32_t vocab) {
    ASSERT(first + count <= t->count && vocab <= INT32_MAX);
    for (const shard *s = t->shards; count; first -= s->count, s++) {
        if (first >= s->count) continue;
        size_t here = s->count - first < count ? (size_t)(s->count - first) : count;
        TRY(read_shard(s, first, here, out, vocab));
        out += here;
        count -= here;
        first = s->count; /* the next shard from its start */
    }
    return TRINE_OK;
}

trine_status tokens_vocab(const tokens *t, int *vocab) {
    uint32_t largest = 0;
    for (size_t n = 0; n < t->shard_count; n++) {
        const shard *s = &t->shards[n];
        uint32_t own = s->vocab;
        for (uint64_t i = 0; !s->vocab && i < s->count; i++) {
            uint32_t id = token_at(s, i);
            CHECK(id < INT32_MAX, TRINE_EDATA, "%s: token %" PRIu64 " (byte %zu) is %" PRIu32,
                  s->path, i, offset_of(s, i), id);
            if (id >= own) own = id + 1;
        }
        if (own > largest) largest = own;
    }
    *vocab = (int)largest;
    return TRINE_OK;
}
