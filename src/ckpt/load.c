#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/input.h"
#include "base/status.h"
#include "ckpt/folder.h"
#include "ckpt/source.h"

#define REASON_BYTES  1024
#define REASONS_BYTES 3072 /* of all candidates together: what a message holds */
#define PRINT_BYTES   4096 /* looked at at each end of a tensor */
#define LISTS         50   /* a folder whose checkpoints vanish is listed again so often */

/* Of a manifest, at most: that of 50 TB has as many, some 20 for every 4 MiB. */
#define MANIFEST_BYTES ((uint64_t)256 << 20)
#define LATEST_BYTES   64

/* ---- What one rank finds is what all have found ---------------------------------------------- */

typedef struct {
    trine_comm *world;
    char reason[REASON_BYTES]; /* why the last one failed; the same on every rank */
} council;

static int rank_of(const council *c) {
    return trine_comm_rank(c->world);
}

/* A rank other than 0 is named, with its host: the lower ones did not see what it saw. */
static void keep_reason(council *c) {
    int rank = rank_of(c);
    int used = snprintf(c->reason, sizeof c->reason, "%s", status_message());
    if (rank && used >= 0 && (size_t)used < sizeof c->reason)
        snprintf(c->reason + used, sizeof c->reason - (size_t)used, " (rank %d, on %s)", rank,
                 comm_host_names(comm_world(c->world))[rank]);
    status_clear();
}

/* *all = the status of the lowest rank that failed, whose message is in c->reason; that is no trail
 * yet (raise_agreed). Errors: the collectives' own. Collective over: world. */
static trine_status agree(council *c, trine_status mine, trine_status *all) {
    int size = trine_comm_size(c->world);
    int64_t fault = mine == TRINE_OK ? 0 : (int64_t)(size - rank_of(c)) << 8 | (int64_t)mine;
    if (mine != TRINE_OK) keep_reason(c);
    TRY(trine_all_reduce(c->world, &fault, &fault, 1, TRINE_I64, TRINE_MAX));
    *all = (trine_status)(fault & 0xff);
    if (*all == TRINE_OK) return TRINE_OK;
    return trine_broadcast(c->world, c->reason, sizeof c->reason, TRINE_U8,
                           size - (int)(fault >> 8));
}

/* Makes what was agreed an error, on rank 0 with its message: all have it, one says it. */
static trine_status raise_agreed(const council *c, trine_status status) {
    if (rank_of(c)) return status;
    return status_user(RAISE(status, "%s", c->reason));
}

/* ---- One candidate --------------------------------------------------------------------------- */

/* What is looked at: the folder `path`, or (`inside`) checkpoint `step` in it. */
typedef struct {
    council *council;
    const char *path;
    bool inside;
    int64_t step; /* that its name says; -1: it has a name of its own */
    ckpt_source *source;
    char *text; /* the manifest's (bytes) */
    size_t bytes;
    uint64_t print; /* of what must be the same on all ranks */
} candidate;

/* "folder/name", owned by the caller. */
static trine_status join(char **path, const char *folder, const char *name) {
    *path = folder_join(folder, name);
    CHECK(*path, TRINE_ENOMEM, "no memory for the name of a file");
    return TRINE_OK;
}

static trine_status make_source(candidate *k) {
    ckpt_source *s = k->source = calloc(1, sizeof *s);
    CHECK(s, TRINE_ENOMEM, "no memory for a checkpoint");
    s->path = k->inside ? folder_path(k->path, k->step) : strdup(k->path);
    CHECK(s->path, TRINE_ENOMEM, "no memory for the name of a folder");
    return TRINE_OK;
}

static trine_status check_folder(const council *c, const char *path) {
    struct stat st;
    int cause = stat(path, &st) ? errno : 0;
    if (!cause && S_ISDIR(st.st_mode)) return TRINE_OK;
    CHECK(!rank_of(c), TRINE_EIO, "%s is not seen here: it must be a folder that all ranks see",
          path);
    CHECK(!cause, TRINE_EIO, "%s: %s", path, strerror(cause));
    return RAISE(TRINE_EIO, "%s is no folder", path);
}

static trine_status file_size(const char *path, uint64_t *bytes) {
    struct stat st;
    if (stat(path, &st) != 0) {
        CHECK(errno != ENOENT, TRINE_EIO, "%s is missing", path);
        return RAISE(TRINE_EIO, "%s: %s", path, strerror(errno));
    }
    CHECK(S_ISREG(st.st_mode), TRINE_EIO, "%s is no file", path);
    *bytes = (uint64_t)st.st_size;
    return TRINE_OK;
}

static trine_status take_text(candidate *k, const char *path) {
    uint64_t there;
    TRY(file_size(path, &there)); /* whose words are for a checkpoint's files */
    TRY(input_text(&k->text, &k->bytes, MANIFEST_BYTES, path));
    k->print = XXH3_64bits(k->text, k->bytes);
    return TRINE_OK;
}

/* The first stage; each ends with all ranks' agreement. */
static trine_status read_manifest(void *context) {
    candidate *k = context;
    char *path;
    TRY(make_source(k));
    TRY(check_folder(k->council, k->source->path));
    TRY(join(&path, k->source->path, MANIFEST_FILE));
    trine_status status = take_text(k, path);
    free(path);
    return status;
}

/* Ranks of nodes with a folder each, of the same name, must not take it for one. */
static trine_status compare_ranks(void *context) {
    candidate *k = context;
    uint64_t first = k->print;
    TRY(trine_broadcast(k->council->world, &first, 1, TRINE_I64, 0));
    CHECK(first == k->print, TRINE_EIO,
          "%s is another one than rank 0 sees: it must be a folder that all ranks see",
          k->source->path);
    return TRINE_OK;
}

static trine_status check_size(const char *path, const manifest_file *file) {
    uint64_t bytes = 0;
    TRY(file_size(path, &bytes));
    CHECK(bytes == file->bytes, TRINE_EDATA, "%s has %llu bytes instead of %llu", path,
          (unsigned long long)bytes, (unsigned long long)file->bytes);
    return TRINE_OK;
}

static trine_status parse(candidate *k) {
    ckpt_source *s = k->source;
    char *path;
    TRY(join(&path, s->path, MANIFEST_FILE));
    trine_status status = manifest_parse(&s->written, k->text, k->bytes, path);
    s->has_state = status == TRINE_OK;
    free(path);
    TRY(status);
    int64_t step = s->written.state.step;
    CHECK(k->step < 0 || step == k->step, TRINE_EDATA, "%s/%s is that of step %lld", s->path,
          MANIFEST_FILE, (long long)step);
    return TRINE_OK;
}

static trine_status check_sizes(void *context) {
    candidate *k = context;
    const manifest *m = &k->source->written;
    TRY(compare_ranks(k));
    TRY(parse(k));
    for (int i = 0; i < m->count; i++) {
        char *path;
        TRY(join(&path, k->source->path, m->files[i].name));
        trine_status status = check_size(path, &m->files[i]);
        free(path);
        TRY(status);
    }
    return TRINE_OK;
}

/* Blocks first, first + stride ... (`count` of them) against the manifest. */
static trine_status compare_blocks(const char *path, const manifest_file *file, size_t first,
                                   size_t stride, size_t count, uint64_t *hashes) {
    uint64_t unused = 0;
    TRY(manifest_hash(path, file->bytes, first, stride, count, hashes, 0, 0, &unused));
    for (size_t i = 0; i < count; i++) {
        size_t block = first + i * stride;
        uint64_t begin = block * CKPT_BLOCK, rest = file->bytes - begin;
        CHECK(hashes[i] == file->blocks[block], TRINE_EDATA,
              "%s: the checksum of bytes %llu to %llu (block %zu of %zu) is not the manifest's",
              path, (unsigned long long)begin,
              (unsigned long long)(begin + (rest < CKPT_BLOCK ? rest : CKPT_BLOCK) - 1), block,
              manifest_blocks(file->bytes));
    }
    return TRINE_OK;
}

/* This rank's share of a file of which `before` blocks stand in other files before it: every P-th
 * block of all. */
static trine_status verify_file(const candidate *k, const manifest_file *file, size_t before) {
    size_t P = (size_t)trine_comm_size(k->council->world), rank = (size_t)rank_of(k->council);
    size_t blocks = manifest_blocks(file->bytes), first = (rank + P - before % P) % P;
    if (first >= blocks) return TRINE_OK;
    size_t count = (blocks - 1 - first) / P + 1;
    uint64_t *hashes = malloc(count * sizeof *hashes);
    CHECK(hashes, TRINE_ENOMEM, "no memory for %zu checksums", count);
    char *path = NULL;
    trine_status status = join(&path, k->source->path, file->name);
    if (status == TRINE_OK) status = compare_blocks(path, file, first, P, count, hashes);
    free(path);
    free(hashes);
    return status;
}

static trine_status verify_share(void *context) {
    candidate *k = context;
    const manifest *m = &k->source->written;
    size_t before = 0;
    for (int i = 0; i < m->count; i++) {
        TRY(verify_file(k, &m->files[i], before));
        before += manifest_blocks(m->files[i].bytes);
    }
    return TRINE_OK;
}

static trine_status open_files(void *context) {
    candidate *k = context;
    ckpt_source *s = k->source;
    s->files = calloc((size_t)s->written.count + 1, sizeof *s->files);
    CHECK(s->files, TRINE_ENOMEM, "no memory for %d files", s->written.count);
    for (int i = 0; i < s->written.count; i++) {
        char *path;
        TRY(join(&path, s->path, s->written.files[i].name));
        trine_status status = st_open(&s->files[i], path);
        free(path);
        TRY(status);
        s->file_count++;
    }
    return TRINE_OK;
}

/* There is no manifest that says what the data are, and another training of the same model has files
 * of the same names and sizes. So the header and both ends of every tensor: a rank reads no more of
 * them than that, and a training leaves no tensor as it was. */
static trine_status print_file(const st_file *f, uint64_t *print) {
    char piece[PRINT_BYTES];
    *print = XXH3_64bits_withSeed(&f->print, sizeof f->print, *print);
    for (size_t i = 0; i < f->header.count; i++) {
        const st_entry *e = &f->header.entries[i];
        size_t bytes = e->end - e->begin < PRINT_BYTES ? (size_t)(e->end - e->begin) : PRINT_BYTES;
        TRY(st_read(f, piece, bytes, e->begin));
        *print = XXH3_64bits_withSeed(piece, bytes, *print);
        TRY(st_read(f, piece, bytes, e->end - bytes));
        *print = XXH3_64bits_withSeed(piece, bytes, *print);
    }
    return TRINE_OK;
}

static trine_status open_hugging_face(void *context) {
    candidate *k = context;
    TRY(make_source(k));
    TRY(check_folder(k->council, k->source->path));
    TRY(hf_open(k->source, k->source->path));
    k->print = k->source->print;
    for (int i = 0; i < k->source->file_count; i++)
        TRY(print_file(&k->source->files[i], &k->print));
    return TRINE_OK;
}

/* A part of opening. What only reads is done while the rank answers the others. */
typedef struct {
    trine_status (*work)(void *candidate);
    bool reads;
} stage;

static trine_status run_stage(candidate *k, const stage *s) {
    if (!s->reads) return s->work(k);
    return comm_with_files(comm_world(k->council->world), s->work, k);
}

/* Opens a candidate in stages (ended by NULL). *verdict, the same on every rank, says whether it is
 * whole; if so, *source is it. Collective over: world. */
static trine_status open_candidate(candidate *k, const stage *stages, ckpt_source **source,
                                   trine_status *verdict) {
    trine_status status = TRINE_OK;
    *verdict = TRINE_OK;
    for (int i = 0; stages[i].work && status == TRINE_OK && *verdict == TRINE_OK; i++)
        status = agree(k->council, run_stage(k, &stages[i]), verdict);
    free(k->text);
    if (status == TRINE_OK && *verdict == TRINE_OK)
        *source = k->source;
    else
        ckpt_close(&k->source);
    return status;
}

static const stage of_checkpoint[] = {{read_manifest, true},
                                      {check_sizes, false},
                                      {verify_share, true},
                                      {open_files, true},
                                      {NULL, false}};
static const stage of_hugging_face[] = {
    {open_hugging_face, true}, {compare_ranks, false}, {NULL, false}};

/* N where the last part of the path is step-N; else -1. */
static int64_t named_step(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    long long step;
    int length = 0;
    if (sscanf(name, "step-%18lld%n", &step, &length) != 1 || name[length] || step < 0) return -1;
    return step;
}

/* `path` and nothing else. */
static trine_status open_one(ckpt_source **source, council *c, const char *path,
                             const stage *stages) {
    candidate k = {.council = c, .path = path, .step = named_step(path)};
    trine_status verdict;
    TRY(open_candidate(&k, stages, source, &verdict));
    return verdict == TRINE_OK ? TRINE_OK : raise_agreed(c, verdict);
}

/* ---- The newest whole one -------------------------------------------------------------------- */

/* A fault of this checkpoint, where an older one may do. */
static bool passes_over(trine_status verdict) {
    return verdict == TRINE_EIO || verdict == TRINE_EDATA;
}

/* Adds to `reasons`, and says so. Messages begin with the file's path, which is said already. */
static void pass_over(const council *c, const char *dir, int64_t step, char *reasons, FILE *out) {
    char path[64];
    const char *reason = c->reason;
    size_t used = strlen(reasons), skip = strlen(dir);
    int length = snprintf(path, sizeof path, "/step-%lld/", (long long)step);
    if (!strncmp(reason, dir, skip) && !strncmp(reason + skip, path, (size_t)length))
        reason += skip + (size_t)length;
    snprintf(reasons + used, REASONS_BYTES - used, "\n    step-%lld: %s", (long long)step, reason);
    if (out) fprintf(out, "passed over %s/step-%lld: %s\n", dir, (long long)step, reason);
}

/* What this rank sees of a folder. */
typedef struct {
    char *name;
    int64_t *steps; /* newest first */
    size_t count;
} seen_folder;

/* The checkpoints that rank 0 tries. A job that saves in the folder removes old ones, at any moment: then
 * there is a newer one, and the folder is listed again. */
typedef struct {
    const char *dir;
    int64_t *steps; /* newest first; owned */
    size_t count, next;
    int64_t *passed; /* steps that are there and broken; owned */
    size_t passed_count;
    int lists;
    struct stat folder; /* of the one that is tried */
} trial;

static bool is_there(const char *dir, int64_t step) {
    struct stat is;
    char *path = folder_path(dir, step);
    bool there = path && lstat(path, &is) == 0; /* also a link to storage that is away */
    free(path);
    return there;
}

/* The folder as it is now, not as a client of a network file system remembers it. */
static bool find_folder(const trial *t, int64_t step, struct stat *is) {
    char *path = folder_path(t->dir, step);
    int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool there = fd >= 0 && fstat(fd, is) == 0;
    if (fd >= 0) close(fd);
    free(path);
    return there;
}

/* Whether the folder that was tried is there no more, or is another one by now. */
static bool has_gone(const trial *t, int64_t step) {
    struct stat now;
    if (!find_folder(t, step, &now)) return !is_there(t->dir, step);
    return now.st_ino != t->folder.st_ino || now.st_dev != t->folder.st_dev;
}

static bool was_passed(const trial *t, int64_t step) {
    for (size_t i = 0; i < t->passed_count; i++)
        if (t->passed[i] == step) return true;
    return false;
}

/* The next one to try; -1: there is none. */
static int64_t next_step(trial *t) {
    while (t->next < t->count && was_passed(t, t->steps[t->next])) t->next++;
    if (t->next == t->count) return -1;
    int64_t step = t->steps[t->next++];
    t->folder = (struct stat){0};
    find_folder(t, step, &t->folder);
    return step;
}

/* One has failed. Lists again where that is because it has gone; *broken: it was not. */
static trine_status look_again(trial *t, int64_t step, bool *broken) {
    *broken = !has_gone(t, step) || t->lists++ == LISTS;
    if (*broken) {
        int64_t *more = realloc(t->passed, (t->passed_count + 1) * sizeof *more);
        CHECK(more, TRINE_ENOMEM, "no memory for a list of checkpoints");
        t->passed = more;
        t->passed[t->passed_count++] = step;
        return TRINE_OK;
    }
    free(t->steps);
    t->next = 0;
    return folder_list(t->dir, &t->steps, &t->count);
}

/* Tries rank 0's candidates. Collective over: world. */
static trine_status try_all(ckpt_source **source, council *c, trial *t, FILE *out) {
    char reasons[REASONS_BYTES] = "";
    trine_status verdict = TRINE_EDATA;
    bool first = rank_of(c) == 0;
    while (verdict != TRINE_OK) {
        int64_t step = first ? next_step(t) : -1;
        TRY(trine_broadcast(c->world, &step, 1, TRINE_I64, 0));
        if (step < 0) break;
        candidate k = {.council = c, .path = t->dir, .inside = true, .step = step};
        TRY(open_candidate(&k, of_checkpoint, source, &verdict));
        if (verdict == TRINE_OK) return TRINE_OK;
        if (!passes_over(verdict)) return raise_agreed(c, verdict);
        bool broken = false;
        TRY(trine_world_agree(comm_world(c->world),
                              first ? look_again(t, step, &broken) : TRINE_OK));
        if (broken) pass_over(c, t->dir, step, reasons, out);
    }
    if (!first) return TRINE_EDATA;
    return status_user(RAISE(TRINE_EDATA, "%s has no whole checkpoint:%s", t->dir, reasons));
}

/* Takes the list in `f`. Collective over: world. */
static trine_status open_first_committed(ckpt_source **source, council *c, seen_folder *f,
                                         FILE *out) {
    trial t = {.dir = f->name, .steps = f->steps, .count = f->count};
    f->steps = NULL;
    trine_status status = try_all(source, c, &t, out);
    free(t.steps);
    free(t.passed);
    return status;
}

/* `latest` is for people and need not be believed; that it speaks of something that is gone is worth
 * a word. Rank 0's. */
static void check_latest(const char *dir, const int64_t *steps, size_t count, FILE *out) {
    char *path, *text = NULL, name[LATEST_BYTES + 1] = "";
    size_t bytes;
    long long step;
    if (!out || join(&path, dir, "latest") != TRINE_OK) return status_clear();
    bool named = input_text(&text, &bytes, LATEST_BYTES, path) == TRINE_OK;
    if (named) memcpy(name, text, bytes);
    named = named && sscanf(name, "step-%lld", &step) == 1;
    for (size_t i = 0; named && i < count; i++) named = steps[i] != step;
    named = named && !is_there(dir, step); /* it may be newer than the list */
    if (named) fprintf(out, "%s names step-%lld, which is not there\n", path, step);
    status_clear();
    free(text);
    free(path);
}

/* `path` without slashes at its end, owned by the caller. */
static trine_status trim(char **name, const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    *name = strndup(path, length);
    CHECK(*name, TRINE_ENOMEM, "no memory for the name of a folder");
    return TRINE_OK;
}

static trine_status look_into(seen_folder *f, const char *path) {
    TRY(trim(&f->name, path));
    return folder_list(f->name, &f->steps, &f->count);
}

/* Who sees checkpoints: nobody (*source stays NULL), rank 0, or others alone, whose run would be lost
 * by a fresh start. Collective over: world. */
static trine_status open_seen(ckpt_source **source, council *c, seen_folder *f, FILE *out) {
    int size = trine_comm_size(c->world), rank = rank_of(c);
    int64_t seen = f->count ? size - rank : 0; /* the largest is the lowest rank's that sees some */
    TRY(trine_all_reduce(c->world, &seen, &seen, 1, TRINE_I64, TRINE_MAX));
    if (!seen) return TRINE_OK;
    if (seen == size) {
        if (rank == 0) check_latest(f->name, f->steps, f->count, out);
        return open_first_committed(source, c, f, out);
    }
    if (rank) return TRINE_EIO;
    return status_user(
        RAISE(TRINE_EIO,
              "rank %d sees checkpoints in %s, rank 0 sees none: it must be a folder "
              "that all ranks see",
              size - (int)seen, f->name));
}

trine_status ckpt_open_newest(ckpt_source **source, trine_comm *world, const char *dir, FILE *out) {
    council c = {.world = world};
    seen_folder f = {0};
    trine_status verdict, status = agree(&c, look_into(&f, dir), &verdict);
    *source = NULL;
    if (status == TRINE_OK && verdict != TRINE_OK) status = raise_agreed(&c, verdict);
    if (status == TRINE_OK) status = open_seen(source, &c, &f, out);
    free(f.steps);
    free(f.name);
    return status;
}

/* ---- What a path names ----------------------------------------------------------------------- */

enum { A_CHECKPOINT, A_FOLDER_OF_THEM, HUGGING_FACE };

/* Rank 0's. */
static trine_status classify(seen_folder *f, int64_t *kind) {
    char *inside;
    struct stat st;
    CHECK(stat(f->name, &st) == 0, TRINE_EIO, "%s: %s", f->name, strerror(errno));
    CHECK(S_ISDIR(st.st_mode), TRINE_EIO, "%s is a file; what is loaded is a folder", f->name);
    TRY(join(&inside, f->name, MANIFEST_FILE));
    bool whole = stat(inside, &st) == 0;
    free(inside);
    *kind = whole || named_step(f->name) >= 0 ? A_CHECKPOINT : A_FOLDER_OF_THEM;
    if (whole) return TRINE_OK;
    TRY(folder_list(f->name, &f->steps, &f->count));
    if (f->count == 0 && hf_is(f->name)) *kind = HUGGING_FACE;
    CHECK(f->count || *kind != A_FOLDER_OF_THEM, TRINE_EIO,
          "%s has no checkpoint (step-N or manifest.json) and is no folder of Hugging Face "
          "(config.json)",
          f->name);
    return TRINE_OK;
}

static trine_status look_at(seen_folder *f, const char *path, bool first, int64_t *kind) {
    TRY(trim(&f->name, path));
    return first ? classify(f, kind) : TRINE_OK;
}

static trine_status open_kind(ckpt_source **source, council *c, seen_folder *f, int64_t kind,
                              FILE *out) {
    TRY(trine_broadcast(c->world, &kind, 1, TRINE_I64, 0));
    if (kind == A_CHECKPOINT) return open_one(source, c, f->name, of_checkpoint);
    if (kind == HUGGING_FACE) return open_one(source, c, f->name, of_hugging_face);
    if (rank_of(c) == 0) check_latest(f->name, f->steps, f->count, out);
    return open_first_committed(source, c, f, out);
}

trine_status ckpt_open(ckpt_source **source, trine_comm *world, const char *path, FILE *out) {
    council c = {.world = world};
    seen_folder f = {0};
    int64_t kind = 0;
    trine_status verdict, status = agree(&c, look_at(&f, path, rank_of(&c) == 0, &kind), &verdict);
    *source = NULL;
    if (status == TRINE_OK && verdict != TRINE_OK) status = raise_agreed(&c, verdict);
    if (status == TRINE_OK) status = open_kind(source, &c, &f, kind, out);
    free(f.steps);
    free(f.name);
    return status;
}
