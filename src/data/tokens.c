#include "data/tokens.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/input.h"
#include "base/status.h"
#include "data/format.h"
#include "data/shard_names.h"

#define HELD_OPEN 128         /* files; any further file is opened for each read */
#define BUFFER    (32u << 10) /* bytes; the largest single read */

typedef struct {
    char *path;
    int fd; /* -1: not held open */
    dev_t device;
    ino_t inode;
    uint64_t bytes, count;
    const token_format *format;
    format_ids ids;
} shard;

struct tokens {
    char *path; /* as the user gave it */
    shard *shards;
    size_t shard_count;
    uint64_t count;
};

/* ---- Opening ---- */

/* `stated`: the format that the path's prefix names; NULL: the file tells. */
static trine_status find_ids(shard *s, const token_format *stated) {
    format_file file = {s->path, s->fd, s->bytes};
    s->format = stated;
    if (!stated) TRY(format_of_file(&file, &s->format));
    TRY(s->format->find(&file, &s->ids));
    s->count = s->ids.count;
    return TRINE_OK;
}

/* Opens the shard by name and checks that it is still the same file. */
static trine_status open_again(const shard *s, int *fd) {
    struct stat info;
    uint64_t bytes;
    TRY(input_open(fd, &bytes, s->path));
    bool same = !fstat(*fd, &info) && info.st_dev == s->device && info.st_ino == s->inode;
    if (same) return TRINE_OK;
    close(*fd);
    return RAISE(TRINE_EIO, "%s: the file was replaced while in use", s->path);
}

static void close_shard(shard *s) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

static trine_status open_shard(shard *s, const char *path, const token_format *stated, bool hold) {
    struct stat info;
    s->fd = -1;
    s->path = strdup(path);
    CHECK(s->path, TRINE_ENOMEM, "no memory for a file name");
    TRY(input_open(&s->fd, &s->bytes, path));
    CHECK(fstat(s->fd, &info) == 0, TRINE_EIO, "%s: %s", path, strerror(errno));
    s->device = info.st_dev;
    s->inode = info.st_ino;
    TRY(find_ids(s, stated));
    if (!hold) close_shard(s);
    return TRINE_OK;
}

static trine_status open_shards(tokens *t, const token_format *stated, const glob_t *files) {
    t->shards = calloc(files->gl_pathc, sizeof *t->shards);
    CHECK(t->shards, TRINE_ENOMEM, "no memory for %zu token files", files->gl_pathc);
    for (size_t i = 0; i < files->gl_pathc; i++) {
        const shard *first = t->shards, *s = &t->shards[i];
        t->shard_count++;
        TRY(open_shard(&t->shards[i], files->gl_pathv[i], stated, i < HELD_OPEN));
        CHECK(s->format == first->format, TRINE_EDATA,
              "%s is %s, but %s is %s; the files of a pattern must have one format", first->path,
              first->format->name, s->path, s->format->name);
        CHECK(s->ids.window == first->ids.window, TRINE_EDATA,
              "%s has windows of %" PRIu32 " tokens, but %s of %" PRIu32, first->path,
              first->ids.window, s->path, s->ids.window);
        t->count += s->count;
    }
    return TRINE_OK;
}

/* Appends the files of the pattern. Megatron-LM names its datasets without the .bin: X stands for X.bin. */
static trine_status list_files(const char *pattern, glob_t *files) {
    int flags = files->gl_pathc ? GLOB_APPEND : 0;
    size_t size = strlen(pattern) + sizeof ".bin";
    char *with = malloc(size);
    CHECK(with, TRINE_ENOMEM, "no memory for a file name");
    snprintf(with, size, "%s.bin", pattern);
    int found = glob(pattern, flags, NULL, files);
    if (found == GLOB_NOMATCH) found = glob(with, flags, NULL, files);
    free(with);
    CHECK(found != GLOB_NOMATCH, TRINE_EIO, "%s: no such file", pattern);
    CHECK(!found, TRINE_EIO, "%s: cannot list the files", pattern);
    return TRINE_OK;
}

static trine_status keep_path(tokens *t, char *const *paths, size_t count) {
    size_t size = strlen(paths[0]) + strlen(paths[count - 1]) + 8;
    t->path = malloc(size);
    CHECK(t->path, TRINE_ENOMEM, "no memory for a file name");
    snprintf(t->path, size, count > 1 ? "%s ... %s" : "%s", paths[0], paths[count - 1]);
    return TRINE_OK;
}

/* All paths name the format of the first one, or none does. */
static trine_status list_all(char *const *paths, size_t count, const token_format **stated,
                             glob_t *files) {
    for (size_t i = 0; i < count; i++) {
        const token_format *own;
        const char *pattern = format_of_path(paths[i], &own);
        if (!i) *stated = own;
        CHECK(own == *stated, TRINE_EDATA, "%s and %s name different formats", paths[0], paths[i]);
        TRY(list_files(pattern, files));
    }
    return TRINE_OK;
}

/* Refuses files of a stream of which others have no names yet: their number would be taken for the whole. */
static trine_status check_names(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t base = shard_name_base(name);
    if (!base) return TRINE_OK;
    int length = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(name - path) : 2,
                          slash ? path : "./");
    DIR *all = length < (int)sizeof folder ? opendir(folder) : NULL;
    char left[256] = "";
    for (struct dirent *entry; all && !left[0] && (entry = readdir(all));)
        if (shard_name_is_left(entry->d_name, name, base, true))
            snprintf(left, sizeof left, "%s", entry->d_name);
    if (all) closedir(all);
    CHECK(!left[0], TRINE_EDATA,
          "%s: this corpus is incomplete: %s%s does not have its final name yet; trine-tokens is "
          "still writing it, or was killed: then remove these files and make them again",
          path, folder, left);
    return TRINE_OK;
}

/* Once for neighbours of one stream. */
static trine_status check_all_names(const glob_t *files) {
    for (size_t i = 0; i < files->gl_pathc; i++) {
        const char *path = files->gl_pathv[i], *before = i ? files->gl_pathv[i - 1] : "";
        size_t base = shard_name_base(path);
        if (base && !shard_name_is(before, path, base)) TRY(check_names(path));
    }
    return TRINE_OK;
}

static trine_status open_patterns(tokens *t, char *const *paths, size_t count) {
    const token_format *stated = NULL;
    glob_t files = {.gl_pathc = 0};
    TRY(keep_path(t, paths, count));
    trine_status status = list_all(paths, count, &stated, &files);
    if (status == TRINE_OK) status = check_all_names(&files);
    if (status == TRINE_OK) status = open_shards(t, stated, &files);
    globfree(&files);
    return status;
}

trine_status tokens_open_all(tokens **out, char *const *paths, size_t count) {
    *out = NULL;
    ASSERT(count);
    tokens *t = calloc(1, sizeof *t);
    CHECK(t, TRINE_ENOMEM, "no memory for a token source");
    trine_status status = open_patterns(t, paths, count);
    if (status != TRINE_OK) tokens_close(&t);
    *out = t;
    return status;
}

trine_status tokens_open(tokens **out, const char *path) {
    return tokens_open_all(out, (char *const[]){(char *)(uintptr_t)path}, 1);
}

trine_status tokens_open_none(tokens **out, const char *name) {
    tokens *t = *out = calloc(1, sizeof *t);
    CHECK(t, TRINE_ENOMEM, "no memory for a token source");
    trine_status status = keep_path(t, (char *const[]){(char *)(uintptr_t)name}, 1);
    if (status != TRINE_OK) tokens_close(out);
    return status;
}

void tokens_close(tokens **t) {
    if (!*t) return;
    for (size_t i = 0; i < (*t)->shard_count; i++) {
        close_shard(&(*t)->shards[i]);
        free((*t)->shards[i].path);
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

size_t tokens_files(const tokens *t) {
    return t->shard_count;
}

const char *tokens_file(const tokens *t, size_t i) {
    return t->shards[i].path;
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

static window_layout layout_of(const shard *s) {
    return (window_layout){s->ids.window, s->ids.width};
}

static uint64_t offset_of(const shard *s, uint64_t i) {
    uint32_t T = s->ids.window;
    if (!T) return s->ids.offset + i * s->ids.width;
    return s->ids.offset + i / T * window_bytes(layout_of(s)) + i % T * s->ids.width;
}

/* Id i of a buffer, which is little-endian, as this machine is. */
static int64_t token_at(const shard *s, const unsigned char *bytes, size_t i) {
    uint64_t id = 0;
    size_t width = s->ids.width;
    memcpy(&id, bytes + i * width, width);
    if (!s->ids.is_signed || width == sizeof id) return (int64_t)id;
    uint64_t sign = (uint64_t)1 << (8 * width - 1);
    return (int64_t)((id ^ sign) - sign);
}

/* Processes `count` tokens of a shard from token `first` on. */
typedef trine_status (*token_visit)(void *context, const shard *s, const unsigned char *bytes,
                                    uint64_t first, size_t count);

static trine_status visit_open(const shard *s, int fd, uint64_t first, uint64_t count,
                               token_visit visit, void *context) {
    unsigned char buffer[BUFFER];
    uint32_t T = s->ids.window;
    for (size_t n; count; first += n, count -= n) {
        n = count < BUFFER / s->ids.width ? (size_t)count : BUFFER / s->ids.width;
        if (T && n > T - first % T) n = T - (size_t)(first % T);
        TRY(input_read(fd, s->path, buffer, n * s->ids.width, offset_of(s, first)));
        TRY(visit(context, s, buffer, first, n));
    }
    return TRINE_OK;
}

static trine_status visit_shard(const shard *s, uint64_t first, uint64_t count, token_visit visit,
                                void *context) {
    int fd = s->fd;
    if (fd < 0) TRY(open_again(s, &fd));
    trine_status status = visit_open(s, fd, first, count, visit, context);
    if (s->fd < 0) close(fd);
    return status;
}

static trine_status visit_tokens(const tokens *t, uint64_t first, uint64_t count, token_visit visit,
                                 void *context) {
    for (const shard *s = t->shards; count; first -= s->count, s++) {
        if (first >= s->count) continue;
        uint64_t here = s->count - first < count ? s->count - first : count;
        TRY(visit_shard(s, first, here, visit, context));
        count -= here;
        first = s->count; /* becomes 0: the next shard is read from its start */
    }
    return TRINE_OK;
}

/* The destination of a sample's tokens: all but the last are inputs, all but the first targets. */
typedef struct {
    int32_t *inputs, *targets; /* targets NULL: inputs only */
    size_t count, done;        /* number of inputs; tokens processed so far */
    uint32_t vocab;
} pieces;

static trine_status take_tokens(void *context, const shard *s, const unsigned char *bytes,
                                uint64_t first, size_t count) {
    pieces *w = context;
    for (size_t i = 0; i < count; i++, w->done++) {
        int64_t id = token_at(s, bytes, i);
        CHECK(id >= 0 && id < w->vocab, TRINE_EDATA,
              "%s: token %" PRIu64 " (byte %" PRIu64 "): id %" PRId64
              " is outside the vocabulary of %" PRIu32,
              s->path, first + i, offset_of(s, first + i), id, w->vocab);
        if (w->done < w->count) w->inputs[w->done] = (int32_t)id;
        if (w->targets && w->done) w->targets[w->done - 1] = (int32_t)id;
    }
    return TRINE_OK;
}

trine_status tokens_read(const tokens *t, uint64_t first, size_t count, int32_t *out,
                         uint32_t vocab) {
    ASSERT(first + count <= t->count && vocab <= INT32_MAX);
    pieces w = {.inputs = out, .count = count, .vocab = vocab};
    return visit_tokens(t, first, count, take_tokens, &w);
}

trine_status tokens_sample(const tokens *t, uint64_t first, size_t T, int32_t *inputs,
                           int32_t *targets, uint32_t vocab) {
    ASSERT(first + T < t->count && vocab <= INT32_MAX);
    pieces w = {.inputs = inputs, .targets = targets, .count = T, .vocab = vocab};
    return visit_tokens(t, first, T + 1, take_tokens, &w);
}

/* ---- Windows ---- */

uint32_t tokens_window(const tokens *t) {
    return t->shard_count ? t->shards->ids.window : 0;
}

uint64_t tokens_supervised(const tokens *t) {
    uint64_t supervised = 0;
    for (size_t i = 0; i < t->shard_count; i++) supervised += t->shards[i].ids.supervised;
    return supervised;
}

/* The file that has the window; *place says where it is there. */
static const shard *shard_of(const tokens *t, uint64_t number, window_place *place) {
    const shard *s = t->shards;
    uint32_t T = s->ids.window;
    ASSERT(T && number < t->count / T);
    for (; number >= s->count / T; s++) number -= s->count / T;
    *place = (window_place){s->path, number, offset_of(s, number * T) - WINDOW_IDS};
    return s;
}

static trine_status read_shard(const shard *s, void *to, size_t bytes, uint64_t at) {
    int fd = s->fd;
    if (fd < 0) TRY(open_again(s, &fd));
    trine_status status = input_read(fd, s->path, to, bytes, at);
    if (s->fd < 0) close(fd);
    return status;
}

trine_status tokens_read_window(const tokens *t, uint64_t number, int32_t *inputs, int32_t *targets,
                                int32_t *starts, uint32_t vocab) {
    window_place place;
    const shard *s = shard_of(t, number, &place);
    size_t bytes = window_bytes(layout_of(s));
    unsigned char *record = malloc(bytes);
    CHECK(record, TRINE_ENOMEM, "no memory for a window of %zu bytes", bytes);
    trine_status status = read_shard(s, record, bytes, place.byte);
    if (status == TRINE_OK)
        status = window_get(layout_of(s), record, vocab, place, inputs, targets, starts);
    free(record);
    return status;
}

trine_status tokens_window_supervised(const tokens *t, uint64_t number, uint32_t *count) {
    unsigned char head[WINDOW_IDS];
    window_place place;
    const shard *s = shard_of(t, number, &place);
    TRY(read_shard(s, head, sizeof head, place.byte));
    return window_supervised(layout_of(s), head, place, count);
}

/* ---- Vocabulary and tokenizer ---- */

static trine_status find_largest(void *context, const shard *s, const unsigned char *bytes,
                                 uint64_t first, size_t count) {
    uint32_t *vocab = context;
    for (size_t i = 0; i < count; i++) {
        int64_t id = token_at(s, bytes, i);
        CHECK(id >= 0, TRINE_EDATA,
              "%s: token %" PRIu64 " (byte %" PRIu64 "): negative id %" PRId64, s->path, first + i,
              offset_of(s, first + i), id);
        CHECK(id < INT32_MAX, TRINE_EDATA,
              "%s: token %" PRIu64 " (byte %" PRIu64 "): id %" PRId64
              " is above the largest valid id %d",
              s->path, first + i, offset_of(s, first + i), id, INT32_MAX - 1);
        if (id >= *vocab) *vocab = (uint32_t)id + 1;
    }
    return TRINE_OK;
}

trine_status tokens_vocab(const tokens *t, int *vocab) {
    uint32_t largest = 0;
    for (size_t n = 0; n < t->shard_count; n++) {
        const shard *s = &t->shards[n];
        uint32_t own = s->ids.vocab;
        if (!own) TRY(visit_shard(s, 0, s->count, find_largest, &own));
        if (own > largest) largest = own;
    }
    *vocab = (int)largest;
    return TRINE_OK;
}

uint32_t tokens_stated_vocab(const tokens *t) {
    uint32_t largest = 0;
    for (size_t n = 0; n < t->shard_count; n++)
        if (t->shards[n].ids.vocab > largest) largest = t->shards[n].ids.vocab;
    return largest;
}

trine_status tokens_tokenizer(const tokens *t, uint64_t *hash) {
    const shard *first = NULL;
    for (size_t i = 0; i < t->shard_count; i++) {
        const shard *s = &t->shards[i];
        if (!s->ids.tokenizer) continue;
        if (!first) first = s;
        CHECK(s->ids.tokenizer == first->ids.tokenizer, TRINE_EDATA,
              "%s and %s were made by different tokenizers (%016" PRIx64 ", %016" PRIx64 ")",
              first->path, s->path, first->ids.tokenizer, s->ids.tokenizer);
    }
    *hash = first ? first->ids.tokenizer : 0;
    return TRINE_OK;
}

/* ---- Fingerprints ---- */

#define PLACES 64 /* places of a file that are hashed */
#define PLACE  ((uint64_t)4096)

/* The offset of the i-th hashed place and its number of bytes; 0: no more places. */
static uint64_t place_of(uint64_t bytes, uint64_t i, size_t *count) {
    uint64_t at = i * PLACE;
    if (bytes > PLACES * PLACE) at = i * (bytes - PLACE) / (PLACES - 1);
    *count = i >= PLACES || at >= bytes ? 0 : (size_t)(bytes - at < PLACE ? bytes - at : PLACE);
    return at;
}

static trine_status hash_places(const shard *s, int fd, uint64_t *hash) {
    char buffer[PLACE];
    size_t n;
    uint64_t at;
    for (uint64_t i = 0; at = place_of(s->bytes, i, &n), n; i++)
        posix_fadvise(fd, (off_t)at, (off_t)n,
                      POSIX_FADV_WILLNEED); /* request all at once, not one by one */
    *hash = s->bytes;
    for (uint64_t i = 0; at = place_of(s->bytes, i, &n), n; i++) {
        TRY(input_read(fd, s->path, buffer, n, at));
        *hash = XXH3_64bits_withSeed(buffer, n, *hash);
    }
    return TRINE_OK;
}

static trine_status print_shard(const shard *s, tokens_print *print) {
    int fd = s->fd;
    if (fd < 0) TRY(open_again(s, &fd));
    *print = (tokens_print){.files = 1, .tokens = s->count, .bytes = s->bytes};
    trine_status status = hash_places(s, fd, &print->hash);
    if (s->fd < 0) close(fd);
    return status;
}

trine_status tokens_fingerprint(const tokens *t, tokens_print *all, tokens_print *each) {
    *all = (tokens_print){0};
    for (size_t i = 0; i < t->shard_count; i++) {
        tokens_print one;
        TRY(print_shard(&t->shards[i], &one));
        all->files++;
        all->tokens += one.tokens;
        all->bytes += one.bytes;
        all->hash = XXH3_64bits_withSeed(&one, sizeof one, all->hash);
        if (each) each[i] = one;
    }
    return TRINE_OK;
}
